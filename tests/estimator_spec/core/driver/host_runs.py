# SPDX-License-Identifier: Apache-2.0
"""Estimators on the host, the losses of their steps, and comparisons of their checkpoints."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import estimator_spec as es

tf1 = tf.compat.v1


def make_estimator(model_fn, model_dir, batch_size, config=None, **kwargs):
    """Returns a TPUEstimator that uses no TPU, with the same batch size in all modes.

    Args:
        model_fn: the model.
        model_dir: where it writes.
        batch_size: of training, evaluation and prediction.
        config: other arguments of its RunConfig.
        **kwargs: other arguments of the estimator.
    """
    sizes = dict.fromkeys(("train_batch_size", "eval_batch_size", "predict_batch_size"), batch_size)
    config = es.RunConfig(model_dir=str(model_dir), **(config or {}))
    return es.TPUEstimator(model_fn, config=config, **{"use_tpu": False, **sizes, **kwargs})


def regression(output, labels, mode, optimizer, rate):
    """Returns the spec of a model with one output, trained by its mean squared error.

    Args:
        output: the predictions, `[B, 1]`.
        labels: what they should be.
        mode: of the graph.
        optimizer: class of the optimizer.
        rate: its learning rate.
    """
    loss = train_op = None
    if mode != es.ModeKeys.PREDICT:
        loss = tf1.losses.mean_squared_error(labels, output)
    if mode == es.ModeKeys.TRAIN:
        step = tf1.train.get_global_step()
        # A model whose tables are all an embedding core's has nothing to minimize.
        has_variables = bool(tf1.trainable_variables())
        train_op = (
            optimizer(rate).minimize(loss, step) if has_variables else tf1.assign_add(step, 1).op
        )
    return es.TPUEstimatorSpec(mode, loss=loss, train_op=train_op, predictions={"output": output})


def values_of(estimator):
    """Returns the variables of the latest checkpoint by name."""
    return {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}


def assert_same_values(found, wanted, rtol=1e-5, atol=1e-6):
    """Asserts that estimators, or dictionaries of arrays, have the same names and close values."""
    found, wanted = (
        made if isinstance(made, dict) else values_of(made) for made in (found, wanted)
    )
    assert set(found) == set(wanted)
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol, atol, err_msg=name)


class Losses(tf1.train.SessionRunHook):
    """Hook that keeps the loss of each step."""

    def __init__(self):
        self.found = []

    def before_run(self, run_context):
        return tf1.train.SessionRunArgs(tf1.get_collection(tf1.GraphKeys.LOSSES)[-1])

    def after_run(self, run_context, run_values):
        self.found.append(float(run_values.results))
