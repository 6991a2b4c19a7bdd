# SPDX-License-Identifier: Apache-2.0
"""Fixtures of a line to fit, y = 3x + 1, the model of most driver tests."""

from __future__ import annotations

import functools
import shutil
import types

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es

tf1 = tf.compat.v1

X = np.linspace(-1, 1, 32, dtype=np.float32)[:, np.newaxis]
Y = 3 * X + 1


def input_fn(mode, params):
    """Returns 32 points, repeated in training."""
    size = params.get("batch_size", 8)
    data = tf.data.Dataset.from_tensor_slices(({"x": X}, Y))
    if mode == es.ModeKeys.TRAIN:
        data = data.repeat()
    return data.batch(size)


def forward(features):
    """Returns the predictions of the model, with initial weight 0.5 and bias 0."""
    weight = tf1.get_variable("weight", [1, 1], initializer=tf1.constant_initializer(0.5))
    bias = tf1.get_variable("bias", [1], initializer=tf1.zeros_initializer())
    return tf.matmul(features["x"], weight) + bias


def mean_absolute_error(labels, predictions):
    """Returns the mean absolute error as a metric."""
    return {"mae": tf1.metrics.mean_absolute_error(labels, predictions)}


def model_fn(features, labels, mode, params):
    """A model_fn of a TPU program; `params['spec']` replaces fields of its result."""
    predictions = forward(features)
    spec = {"mode": mode, "predictions": {"y": predictions}}
    if mode != es.ModeKeys.PREDICT:
        spec["loss"] = tf1.losses.mean_squared_error(labels, predictions)
        spec["eval_metrics"] = (mean_absolute_error, [labels, predictions])
    if mode == es.ModeKeys.TRAIN:
        optimizer = tf1.train.MomentumOptimizer(0.05, 0.5)
        spec["train_op"] = optimizer.minimize(spec["loss"], global_step=tf1.train.get_global_step())
    change = params.get("spec")
    if change:
        spec.update(change(mode))
    return es.TPUEstimatorSpec(**spec)


@pytest.fixture(scope="session")
def line():
    """Returns the functions of the example, for tests that replace some."""
    return types.SimpleNamespace(x=X, y=Y, input_fn=input_fn, model_fn=model_fn, forward=forward)


def make_estimator(model=model_fn, config=None, kind=es.TPUEstimator, *, model_dir, **kwargs):
    """Makes a TPUEstimator of the line in a directory."""
    options = {
        "model_dir": model_dir and str(model_dir),
        "train_batch_size": 8,
        "eval_batch_size": 8,
        "predict_batch_size": 8,
        "use_tpu": False,
    }
    options.update(kwargs)
    config = es.RunConfig(**{"tf_random_seed": 1, **(config or {})})
    return kind(model, config=config, **options)


@pytest.fixture(scope="session")
def make_in():
    """Returns a function that makes a TPUEstimator of the line in the named directory."""
    return make_estimator


@pytest.fixture
def make(tmp_path):
    """Returns a function that makes a TPUEstimator of the line in a new directory."""
    return functools.partial(make_estimator, model_dir=tmp_path / "model")


@pytest.fixture(scope="session")
def trained_once(tmp_path_factory):
    """Returns a directory with checkpoints of the line at steps 2 and 4."""
    model_dir = tmp_path_factory.mktemp("trained") / "model"
    for _ in range(2):
        make_estimator(model_dir=model_dir).train(input_fn, steps=2)
    return model_dir


@pytest.fixture
def trained(make, trained_once, tmp_path):
    """Returns an estimator with checkpoints of the line at steps 2 and 4."""
    shutil.copytree(trained_once, tmp_path / "model")
    return make()
