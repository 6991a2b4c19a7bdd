# SPDX-License-Identifier: Apache-2.0
"""Optimizers of canned models, from the arguments of their constructors."""

from __future__ import annotations

import pytest
import tensorflow as tf

from estimator_spec.canned.optimizers import keras_optimizer, tf1_optimizer
from estimator_spec.core.common import legacy_keras

tf1 = tf.compat.v1


@pytest.mark.parametrize("given", [lambda made: made, lambda made: lambda: made])
def test_an_optimizer_needs_no_learning_rate(given):
    """An object, or a function that returns one, is taken as it is."""
    made = tf1.train.AdamOptimizer(1.0)
    assert tf1_optimizer(given(made)) is made


@pytest.mark.parametrize("rate", [None, 0.0])
def test_a_name_needs_a_learning_rate(rate):
    """Without one the error says so, in words that old programs' tests match."""
    assert isinstance(tf1_optimizer("Adagrad", 0.1), tf1.train.AdagradOptimizer)
    with pytest.raises(ValueError, match="learning_rate must be specified when opt is string"):
        tf1_optimizer("Adagrad", rate)


def test_a_new_keras_optimizer_becomes_a_legacy_one_outside_of_graphs():
    """As in TensorFlow; a graph, and options that the legacy class lacks, are refused."""
    optimizers = legacy_keras.keras_2().optimizers
    made = keras_optimizer(optimizers.Adam(0.25, beta_1=0.5, clipnorm=2.0))
    assert isinstance(made, optimizers.legacy.Adam)
    found = (made.get_config()[name] for name in ("learning_rate", "beta_1", "clipnorm"))
    assert (*found,) == (0.25, 0.5, 2.0)
    for options in ({"weight_decay": 0.1}, {"use_ema": True}):
        with pytest.raises(ValueError, match=r"Please set your .*legacy\.Adam"):
            keras_optimizer(optimizers.Adam(**options))
    made = optimizers.Adam()
    with tf.Graph().as_default(), pytest.raises(ValueError, match=r"Please set .*legacy\.Adam"):
        keras_optimizer(made)
