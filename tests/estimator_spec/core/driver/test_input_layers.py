# SPDX-License-Identifier: Apache-2.0
"""Training with input layers of few ops: tables and slots, and errors of bad ids."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import host_runs
import tpu_columns
from tpu_columns.optimizations import Optimization

tf1 = tf.compat.v1

ROWS, BATCH = 50, 16
OPTIMIZERS = {
    "Adagrad": (tf1.train.AdagradOptimizer, 0.1),
    "Adam": (tf1.train.AdamOptimizer, 0.1),
    "Momentum": (lambda rate: tf1.train.MomentumOptimizer(rate, 0.9), 0.01),
}


def train(directory, optimizer, highest=ROWS):
    """Trains tables of several widths, one of them shared; returns all variables by name."""
    rng = np.random.default_rng(0)
    ids = {key: rng.integers(-1, highest, (64, 1)) for key in "abcd"}
    labels = rng.normal(size=(64, 1)).astype(np.float32)
    identity = tf.feature_column.categorical_column_with_identity
    columns = [
        tpu_columns.embedding_column(
            identity(key, ROWS), width, initializer=tf1.random_normal_initializer(seed=width)
        )
        for key, width in (("a", 8), ("b", 40))
    ]
    columns += tpu_columns.shared_embedding_columns(
        [identity(key, ROWS) for key in "cd"], 4, initializer=tf1.random_normal_initializer(seed=3)
    )

    def input_fn(params):
        data = tf.data.Dataset.from_tensor_slices((ids, labels))
        return data.repeat().batch(params["batch_size"], drop_remainder=True)

    def model_fn(features, labels, mode, params):
        layer = tpu_columns.input_layer(features, columns)
        ones = tf1.ones_initializer()
        output = tf.matmul(layer, tf1.get_variable("weights", [layer.shape[1], 1], None, ones))
        return host_runs.regression(output, labels, mode, *optimizer)

    estimator = host_runs.make_estimator(
        model_fn,
        directory,
        BATCH,
        config={"tf_random_seed": 1},
        embedding_config_spec=es.EmbeddingConfigSpec(
            feature_columns=columns, optimization_parameters=es.AdagradParameters(0.1)
        ),
    )
    estimator.train(input_fn, steps=10)
    return host_runs.values_of(estimator)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_tables_and_slots_are_equal(tmp_path, monkeypatch, optimizer):
    """A layer that one op writes trains tables and slots as TensorFlow's layer does."""
    few = train(tmp_path / "few", OPTIMIZERS[optimizer])
    monkeypatch.setenv(Optimization.NATIVE_KERNELS.value, "0")
    many = train(tmp_path / "many", OPTIMIZERS[optimizer])
    host_runs.assert_same_values(few, many)


def test_an_id_out_of_range_is_explained(tmp_path):
    """The error of an id beyond the vocabulary names the column and the id."""
    with pytest.raises(ValueError, match=r"Column '._(shared_)?embedding': id \d+ of feature '.'"):
        train(tmp_path, OPTIMIZERS["Adagrad"], highest=ROWS * 10)
