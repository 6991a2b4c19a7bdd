# SPDX-License-Identifier: Apache-2.0
"""Equality of the census model on the host core and on the default core."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "census"
tf1 = tf.compat.v1


@pytest.fixture
def census(monkeypatch):
    """Returns the example's modules.

    Its activation is replaced by a smooth one: with ReLU, rounding decides whether a unit's
    gradient is zero.
    """
    monkeypatch.syspath_prepend(str(EXAMPLE))
    data = importlib.import_module("census_data")
    model = importlib.import_module("census_model")
    monkeypatch.setattr(tf.nn, "relu", tf.nn.softplus)
    monkeypatch.setattr(tf1.train, "AdamOptimizer", tf1.train.GradientDescentOptimizer)
    return data, model


def estimator(census, model_dir, core):
    """Returns the example's estimator with gradient descent for all variables.

    It is without dropout, whose seed depends on the graph.
    """
    data, model = census
    columns = model.embedding_columns(data.DATA_DIR)
    made = es.TPUEstimator(
        model.model_fn_builder(columns, str(model_dir), 0.1, 100, use_tpu=False, dropout=0.0),
        config=es.RunConfig(model_dir=str(model_dir), tf_random_seed=1, log_step_count_steps=None),
        use_tpu=False,
        train_batch_size=128,
        eval_batch_size=1024,
        predict_batch_size=128,
        embedding_config_spec=es.EmbeddingConfigSpec(
            feature_columns=columns,
            # The model's learning rate has cosine decay, so the core's has, too.
            optimization_parameters=es.StochasticGradientDescentParameters(0.1),
            experimental_gradient_multiplier_fn=lambda step: tf1.train.cosine_decay(1.0, step, 100),
        ),
        embedding_core=core,
    )

    def input_fn(file_name, is_training):
        return data.input_fn_builder(
            data.DATA_DIR, file_name, is_training, False, columns if core else None
        )

    return made, input_fn


def test_gradient_descent_equals_the_plain_run(census, tmp_path):
    """20 steps from one checkpoint on either core give equal variables to 1e-5."""
    data, _ = census
    start, input_fn = estimator(census, tmp_path / "plain", None)
    start.train(input_fn(data.TRAIN_FILE, True), steps=1)
    shutil.copytree(tmp_path / "plain", tmp_path / "core")
    found, metrics = {}, {}
    for name, core in (("plain", None), ("core", "host")):
        made, input_fn = estimator(census, tmp_path / name, core)
        made.train(input_fn(data.TRAIN_FILE, True), steps=20)
        found[name] = {v: made.get_variable_value(v) for v in made.get_variable_names()}
        metrics[name] = made.evaluate(input_fn(data.TEST_FILE, False), steps=2)
    assert set(found["core"]) == set(found["plain"])
    for variable, value in found["plain"].items():
        np.testing.assert_allclose(
            found["core"][variable], value, rtol=1e-5, atol=1e-6, err_msg=variable
        )
    assert metrics["core"] == pytest.approx(metrics["plain"], rel=1e-5)
