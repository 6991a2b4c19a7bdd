# SPDX-License-Identifier: Apache-2.0
"""The host core against TF1's own optimizers, where the formulas are equal."""

from __future__ import annotations

import numpy as np
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


# Each pair: the core's optimizer and TF1's; and what the core's slots and TF1's are called.
PAIRS = {
    "gradient descent": (
        es.StochasticGradientDescentParameters(RATE),
        lambda: train.GradientDescentOptimizer(RATE),
        {},
    ),
    "adagrad": (
        es.AdagradParameters(RATE, initial_accumulator=0.3),
        lambda: train.AdagradOptimizer(RATE, initial_accumulator_value=0.3),
        {"Adagrad": "Adagrad"},
    ),
    "momentum": (
        es.MomentumParameters(RATE, 0.8),
        lambda: train.MomentumOptimizer(RATE, 0.8),
        {"Momentum": "Momentum"},
    ),
    "nesterov": (
        es.MomentumParameters(RATE, 0.8, use_nesterov=True),
        lambda: train.MomentumOptimizer(RATE, 0.8, use_nesterov=True),
        {"Momentum": "Momentum"},
    ),
    "ftrl": (
        es.FtrlParameters(
            RATE, l1_regularization_strength=0.05, l2_regularization_strength=0.1, beta=0.2
        ),
        lambda: train.FtrlOptimizer(
            RATE, l1_regularization_strength=0.05, l2_regularization_strength=0.1, beta=0.2
        ),
        {"Ftrl": "Ftrl", "Ftrl_1": "Ftrl_1"},
    ),
    "rms prop": (
        es.RMSPropParameters(RATE, rho=0.9, momentum=0.5, epsilon=1e-3),
        lambda: train.RMSPropOptimizer(RATE, decay=0.9, momentum=0.5, epsilon=1e-3),
        {"RMSProp/ms": "RMSProp", "RMSProp/mom": "RMSProp_1"},
    ),
    "proximal adagrad": (
        es.ProximalAdagradParameters(
            RATE, l1_regularization_strength=0.2, l2_regularization_strength=0.3
        ),
        lambda: train.ProximalAdagradOptimizer(
            RATE, l1_regularization_strength=0.2, l2_regularization_strength=0.3
        ),
        {"ProximalAdagrad": "ProximalAdagrad"},
    ),
    "adam": (
        es.AdamParameters(RATE, epsilon=1e-3, lazy_adam=False, sum_inside_sqrt=False),
        lambda: train.AdamOptimizer(RATE, epsilon=1e-3),
        {"Adam/m": "Adam", "Adam/v": "Adam_1"},
    ),
}


def train_tf1(data):
    """Trains a plain variable by each of TF1's optimizers; returns variables by name."""
    with tf.Graph().as_default(), tf1.Session() as session:
        inputs = shared.placeholders()
        ops, moments = [], []
        for number, (_, make_optimizer, _) in enumerate(PAIRS.values()):
            name = f"table_{number}"
            table = tf1.get_variable(name, initializer=shared.VALUES, use_resource=True)
            found = {
                "plain": lookup.pooled_lookup(table, inputs["plain"], None, "mean", safe=False),
                "weighted": lookup.pooled_lookup(
                    table, inputs["weighted"], inputs["weights"], "mean", safe=False
                ),
                "steps": lookup.sequence_lookup(table, inputs["steps"], None, "sum", shared.LENGTH)[
                    0
                ],
            }
            loss = sum(tf.reduce_sum(0.5 * (found[k] - v) ** 2) for k, v in shared.TARGETS.items())
            optimizer = make_optimizer()
            ops.append(optimizer.minimize(loss, var_list=[table]))
            if isinstance(optimizer, train.RMSPropOptimizer):
                moments.append(optimizer.get_slot(table, "rms"))
        session.run(tf1.global_variables_initializer())
        for ms in moments:
            session.run(ms.assign(tf.zeros_like(ms)))  # a TPU's starts at 0, TF1's at 1
        for batch in data:
            # A sequence's padding looks up no row in the core; the plain lookup fills empty steps
            # with row 0 and multiplies by 0, which moves it under some rules.
            session.run(ops, shared.fed(inputs, batch))
        return {v.op.name: session.run(v) for v in tf1.global_variables()}


def test_training_equals_tf1s_optimizers(subtests):
    """Tables and slots equal TF1's after steps with repeated ids, weights and sequences."""
    data = shared.batches(seed=13)
    for batch in data:  # full sequences, and no empty rows: see train_tf1
        batch["steps"] = [
            (row * 3 + [(1, 1.0)] * shared.LENGTH)[: shared.LENGTH] for row in batch["steps"]
        ]
    spec = shared.make_spec(
        [parameters for parameters, _, _ in PAIRS.values()],
        rates=[adam_rate if name == "adam" else None for name in PAIRS],
    )
    found, _, _ = shared.train_core(spec, data)
    wanted = train_tf1(data)
    for number, (name, (_, _, slots)) in enumerate(PAIRS.items()):
        with subtests.test(name):
            table = f"table_{number}"
            names = {table: table} | {f"{table}/{k}": f"{table}/{v}" for k, v in slots.items()}
            for ours, theirs in names.items():
                np.testing.assert_allclose(
                    found[ours], wanted[theirs], rtol=1e-5, atol=1e-5, err_msg=ours
                )
            assert {each for each in found if each.split("/")[0] == table} == set(names)
