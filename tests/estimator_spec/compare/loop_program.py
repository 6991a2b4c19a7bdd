# SPDX-License-Identifier: Apache-2.0
"""Trains a linear model by an Estimator, or by a loop of its own with `--loop`.

python loop_program.py [--loop [--rate 0.1]] [--model_dir DIR]
"""

from __future__ import annotations

import argparse

import numpy as np
import tensorflow as tf

import estimator_spec
from estimator_spec import compare

tf1 = tf.compat.v1

ROWS = np.random.RandomState(0).normal(size=(40, 8, 3)).astype(np.float32)
START = np.array([[0.5], [-0.5], [0.25]], np.float32)


def by_estimator(model_dir):
    """Trains by gradient descent in a graph."""

    def model_fn(features, labels, mode):
        initial = tf1.constant_initializer(START)
        outputs = tf1.layers.dense(features, 1, None, False, initial, name="output")
        loss = tf1.losses.mean_squared_error(labels, outputs)
        step = tf1.train.get_global_step()
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
        return estimator_spec.EstimatorSpec(mode, loss=loss, train_op=train)

    def input_fn():
        rows = tf.data.Dataset.from_tensor_slices(ROWS)
        return rows.map(lambda x: (x, tf.reduce_sum(x, 1, keepdims=True)))

    estimator = estimator_spec.Estimator(model_fn, model_dir)
    estimator.train(input_fn)
    estimator.evaluate(input_fn)


def by_loop(rate):
    """Trains by the same rule in NumPy."""
    kernel = START.copy()
    step = 0
    with compare.record_loop(
        lambda: {"output/kernel": kernel, "global_step": np.int64(step)}
    ) as steps:
        for rows in ROWS:
            errors = rows @ kernel - rows.sum(1, keepdims=True)
            kernel = kernel - rate * 2 / len(rows) * rows.T @ errors
            step += 1
            if steps.add(np.mean(errors**2)):
                break
    print(f"{step} steps")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--loop", action="store_true")
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--model_dir")
    options = parser.parse_args()
    if options.loop:
        by_loop(options.rate)
    else:
        by_estimator(options.model_dir)
