# SPDX-License-Identifier: Apache-2.0
"""The host core against TF1's own optimizers, where the formulas are equal."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import test_host as shared
from tpu_columns import lookup

tf1 = tf.compat.v1
RATE = shared.RATE
train = tf1.train


def adam_rate(step):
    """Returns Adam's learning rate with TF1's bias correction, which the embedding core lacks."""
    t = tf.cast(step, tf.float32) + 1.0
    return RATE * tf.sqrt(1 - tf.pow(0.999, t)) / (1 - tf.pow(0.9, t))


# Each pair: the core's optimizer and TF1's; and what TF1's slots are called, with first values
# where they differ.
PAIRS = {
    "gradient descent": (
        es.StochasticGradientDescentParameters(RATE),
        lambda: train.GradientDescentOptimizer(RATE),
        {},
    ),
    "adagrad": (
        es.AdagradParameters(RATE, initial_accumulator=0.3),
        lambda: train.AdagradOptimizer(RATE, initial_accumulator_value=0.3),
        {"table/Adagrad": "table/Adagrad"},
    ),
    "momentum": (
        es.MomentumParameters(RATE, 0.8),
        lambda: train.MomentumOptimizer(RATE, 0.8),
        {"table/Momentum": "table/Momentum"},
    ),
    "nesterov": (
        es.MomentumParameters(RATE, 0.8, use_nesterov=True),
        lambda: train.MomentumOptimizer(RATE, 0.8, use_nesterov=True),
        {"table/Momentum": "table/Momentum"},
    ),
    "ftrl": (
        es.FtrlParameters(
            RATE, l1_regularization_strength=0.05, l2_regularization_strength=0.1, beta=0.2
        ),
        lambda: train.FtrlOptimizer(
            RATE, l1_regularization_strength=0.05, l2_regularization_strength=0.1, beta=0.2
        ),
        {"table/Ftrl": "table/Ftrl", "table/Ftrl_1": "table/Ftrl_1"},
    ),
    "rms prop": (
        es.RMSPropParameters(RATE, rho=0.9, momentum=0.5, epsilon=1e-3),
        lambda: train.RMSPropOptimizer(RATE, decay=0.9, momentum=0.5, epsilon=1e-3),
        {"table/RMSProp/ms": "table/RMSProp", "table/RMSProp/mom": "table/RMSProp_1"},
    ),
    "proximal adagrad": (
        es.ProximalAdagradParameters(
            RATE, l1_regularization_strength=0.2, l2_regularization_strength=0.3
        ),
        lambda: train.ProximalAdagradOptimizer(
            RATE, l1_regularization_strength=0.2, l2_regularization_strength=0.3
        ),
        {"table/ProximalAdagrad": "table/ProximalAdagrad"},
    ),
    "adam": (
        es.AdamParameters(RATE, epsilon=1e-3, lazy_adam=False, sum_inside_sqrt=False),
        lambda: train.AdamOptimizer(RATE, epsilon=1e-3),
        {"table/Adam/m": "table/Adam", "table/Adam/v": "table/Adam_1"},
    ),
}


def train_tf1(make_optimizer, data):
    """Trains a plain variable by TF1's optimizer; returns variables by name."""
    with tf.Graph().as_default(), tf1.Session() as session:
        inputs = shared.placeholders()
        table = tf1.get_variable("table", initializer=shared.VALUES, use_resource=True)
        found = {
            "plain": lookup.pooled_lookup(table, inputs["plain"], None, "mean", safe=False),
            "weighted": lookup.pooled_lookup(
                table, inputs["weighted"], inputs["weights"], "mean", safe=False
            ),
            "steps": lookup.sequence_lookup(table, inputs["steps"], None, "sum", shared.LENGTH)[0],
        }
        loss = sum(tf.reduce_sum(0.5 * (found[k] - v) ** 2) for k, v in shared.TARGETS.items())
        optimizer = make_optimizer()
        op = optimizer.minimize(loss)
        session.run(tf1.global_variables_initializer())
        if isinstance(optimizer, train.RMSPropOptimizer):
            ms = optimizer.get_slot(table, "rms")  # a TPU's starts at 0, TF1's at 1
            session.run(ms.assign(tf.zeros_like(ms)))
        for batch in data:
            # A sequence's padding looks up no row in the core; the plain lookup fills empty steps
            # with row 0 and multiplies by 0, which moves it under some rules.
            session.run(op, shared.fed(inputs, batch))
        return {v.op.name: session.run(v) for v in tf1.global_variables()}


@pytest.mark.parametrize("name", PAIRS)
def test_twenty_steps_equal_tf1s_optimizer(name):
    """Table and slots equal TF1's after 20 steps with repeated ids, weights and sequences."""
    parameters, make_optimizer, slots = PAIRS[name]
    data = shared.batches(seed=13)
    for batch in data:  # full sequences, and no empty rows: see train_tf1
        batch["steps"] = [
            (row * 3 + [(1, 1.0)] * shared.LENGTH)[: shared.LENGTH] for row in batch["steps"]
        ]
    spec = shared.make_spec(parameters)
    if name == "adam":
        table = spec.table_to_config_dict["table"]._replace(learning_rate_fn=adam_rate)
        spec = spec._replace(table_to_config_dict={"table": table})
    found, _ = shared.train_core(spec, data)
    wanted = train_tf1(make_optimizer, data)
    for ours, theirs in {"table": "table", **slots}.items():
        np.testing.assert_allclose(found[ours], wanted[theirs], rtol=1e-5, atol=1e-5, err_msg=ours)
    assert set(found) == {"table", "global_step", *slots}
