# SPDX-License-Identifier: Apache-2.0
"""The field's own classes, where the running TensorFlow still has them."""

from __future__ import annotations

import inspect
import re

import pytest
import tensorflow as tf


@pytest.fixture(scope="session")
def old_estimator():
    """`tf.compat.v1.estimator` of TensorFlow 2.15."""
    if not hasattr(tf.compat.v1, "estimator"):
        pytest.skip(f"TensorFlow {tf.__version__} has no tf.estimator to compare with (2.15 has)")
    return tf.compat.v1.estimator


@pytest.fixture
def no_tf_config(monkeypatch):
    """No cluster in the environment."""
    monkeypatch.delenv("TF_CONFIG", raising=False)


class Comparison:
    """Comparisons of our functions with the old ones."""

    @staticmethod
    def parameters(function):
        """(name, kind, default) of each argument; a default that is only a sign is `...`."""
        found = []
        for parameter in inspect.signature(function).parameters.values():
            default = parameter.default
            if not isinstance(default, (type(None), bool, int, float, str, type)):
                default = ...
            found.append((parameter.name, parameter.kind, default))
        return found

    @staticmethod
    def outcome(function, *args, **kwargs):
        """What a call gives: (value, None), or (None, the error)."""
        try:
            return function(*args, **kwargs), None
        except Exception as error:  # the kind of error is what is compared
            return None, error

    def refuse_alike(self, ours, theirs, key_words, *args, **kwargs):
        """Both refuse, with the same kind of error and the same key words."""
        for function in (ours, theirs):
            value, error = self.outcome(function, *args, **kwargs)
            assert error is not None, f"{function} accepted {args} {kwargs} as {value}"
            assert re.search(key_words, str(error)), f"{function} said: {error}"
        assert type(self.outcome(ours, *args, **kwargs)[1]) is type(error)


@pytest.fixture(scope="session")
def compare():
    """The comparisons."""
    return Comparison()
