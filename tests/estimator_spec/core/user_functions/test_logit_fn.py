# SPDX-License-Identifier: Apache-2.0
"""Arguments and results of call_logit_fn; also run on TensorFlow 2.15's function."""

from __future__ import annotations

import functools

import pytest
import tensorflow as tf


def call(api, logit_fn):
    """Calls `call_logit_fn` with a value for each argument."""
    return api.call_logit_fn(logit_fn, "features", "train", {"a": 1}, "config")


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda seen: lambda features: seen(features), ("features",)),
        (lambda seen: lambda features, mode: seen(features, mode), ("features", "train")),
        (
            lambda seen: lambda config, params, features: seen(features, params, config),
            ("features", {"a": 1}, "config"),
        ),
        (
            lambda seen: functools.partial(lambda units, features: seen(units, features), 3),
            (3, "features"),
        ),
    ],
)
def test_arguments(api, make, expected):
    """The function gets the arguments that it accepts."""
    found = []

    def seen(*arguments):
        found.append(arguments)
        return tf.constant(1.0)

    call(api, make(seen))
    assert found == [expected]


def test_results(api):
    """A tensor, or tensors by name, are returned unchanged."""
    logits = tf.constant([1.0])
    assert call(api, lambda features: logits) is logits
    heads = {"a": logits, "b": logits}
    assert call(api, lambda features: heads) is heads


@pytest.mark.parametrize("result", [None, 1.0, "logits", {"a": 1.0}, {1: tf.constant(1.0)}, []])
def test_other_results(api, result):
    """Other results are refused."""
    with pytest.raises(ValueError, match="logit_fn should return a Tensor or a dictionary"):
        call(api, lambda features: result)
