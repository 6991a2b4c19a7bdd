# SPDX-License-Identifier: Apache-2.0
"""Update rules as functions of rows."""

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
from estimator_spec.core.cores import update_rules
from estimator_spec.core.embedding import optimizers

RATE = 0.05
KEEPING = [
    es.StochasticGradientDescentParameters(RATE),
    es.AdagradParameters(RATE),
    es.AdagradParameters(RATE, initial_accumulator=1e-20),
]
MOVING = [
    es.AdamParameters(RATE),
    es.FtrlParameters(RATE),
    es.MomentumParameters(RATE, 0.8),
    es.AdagradMomentumParameters(RATE, momentum=0.6),
    es.ProximalAdagradParameters(RATE, l1_regularization_strength=0.1),
    es.RMSPropParameters(RATE, rho=0.9, momentum=0.5, epsilon=1e-3),
    es.StochasticGradientDescentParameters(RATE, clip_weight_max=0.1),
    es.StochasticGradientDescentParameters(RATE, clip_gradient_min=0.1),
    es.AdagradParameters(RATE, weight_decay_factor=0.1),
]


def after_a_gradient_of_zero(parameters):
    """Returns rows and slots before and after an update, by name."""
    rng = np.random.default_rng(1)
    before = {"": rng.normal(size=(5, 4)).astype(np.float32)}
    for slot, value in optimizers.slot_initial_values(parameters).items():
        before[slot] = np.full((5, 4), value, np.float32)
        before[slot][1:] += rng.uniform(0.1, 2, (4, 4)).astype(np.float32)
    slots = {name: tf.constant(rows) for name, rows in before.items() if name}
    rows, new_slots = update_rules.apply(
        parameters, tf.constant(before[""]), slots, tf.zeros([5, 4]), RATE, tf.constant(3)
    )
    rows = update_rules.decay(parameters, rows, before[""], RATE)
    rows = update_rules.clip_weights(parameters, rows)
    return before, {"": rows.numpy(), **{name: new.numpy() for name, new in new_slots.items()}}


@pytest.mark.parametrize("parameters", KEEPING, ids=lambda p: type(p).__name__)
def test_a_gradient_of_zero_keeps_rows(parameters):
    """Optimizers for which `keeps_rows_of_gradient_zero` is true keep rows and slots bitwise."""
    assert update_rules.keeps_rows_of_gradient_zero(parameters)
    before, after = after_a_gradient_of_zero(parameters)
    assert before.keys() == after.keys()
    for name, rows in before.items():
        np.testing.assert_array_equal(after[name], rows)


@pytest.mark.parametrize("parameters", MOVING, ids=lambda p: type(p).__name__)
def test_a_gradient_of_zero_moves_rows(parameters):
    """Other optimizers change rows or slots for a gradient of zero."""
    assert not update_rules.keeps_rows_of_gradient_zero(parameters)
    before, after = after_a_gradient_of_zero(parameters)
    assert any(not np.array_equal(after[name], rows) for name, rows in before.items())
