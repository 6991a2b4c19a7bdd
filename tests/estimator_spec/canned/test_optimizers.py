# SPDX-License-Identifier: Apache-2.0
"""Optimizers of canned models, from the arguments of their constructors."""

from __future__ import annotations

import pytest
import tensorflow as tf

from estimator_spec.canned.optimizers import tf1_optimizer

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
