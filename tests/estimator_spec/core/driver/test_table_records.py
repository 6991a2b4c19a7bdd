# SPDX-License-Identifier: Apache-2.0
"""Records beside checkpoints say what trained, and the log that something else goes on."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import host_runs
import tpu_columns
from estimator_spec.core.checkpoints import records

tf1 = tf.compat.v1


def train(model_dir, core, steps, scope="model"):
    """Trains a table for some steps, and returns the record of the last checkpoint."""
    word = tf.feature_column.categorical_column_with_identity("word", num_buckets=9)
    column = tpu_columns.embedding_column(word, dimension=2)

    def input_fn(params):
        words = np.arange(8).reshape([8, 1])
        return tf.data.Dataset.from_tensors(({"word": words}, words % 2)).repeat()

    def model_fn(features, labels, mode, params):
        with tf1.variable_scope(scope):
            vectors = tpu_columns.input_layer(features, [column])
        logits = tf.reduce_sum(vectors, 1, keepdims=True)
        loss = tf1.losses.sigmoid_cross_entropy(labels, logits)
        # The host core's optimizer is the spec's.
        variables = [tf1.get_variable("bias", [])] if core else None
        loss += tf.reduce_sum(variables) if variables else 0.0
        optimizer = tf1.train.AdagradOptimizer(0.5)
        train_op = optimizer.minimize(loss, tf1.train.get_global_step(), variables)
        return es.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

    host_runs.make_estimator(
        model_fn,
        model_dir,
        8,
        embedding_core=core,
        embedding_config_spec=es.EmbeddingConfigSpec(
            feature_columns=[column], optimization_parameters=es.AdagradParameters(0.5)
        ),
    ).train(input_fn, steps=steps)
    return records.read(tf.train.latest_checkpoint(str(model_dir)))


@pytest.mark.usefixtures("built_kernels")
@pytest.mark.parametrize("core", [None, "host"])
def test_the_record_says_what_trained(tmp_path, monkeypatch, caplog, core):
    """A change of the engine is in the record and in the log, and goes on with the same step."""
    tf.get_logger().setLevel("INFO")
    assert train(tmp_path, core, 1).engine == "kernels"
    assert train(tmp_path, core, 1).engine == "kernels"
    assert "training goes on by" not in caplog.text
    monkeypatch.setenv("TPU_COLUMNS_NATIVE_KERNELS", "0")
    assert train(tmp_path, core, 1).engine == "TensorFlow"
    line = "model.ckpt-2 was trained by kernels, and training goes on by TensorFlow"
    assert caplog.text.count(line) == 1
    monkeypatch.delenv("TPU_COLUMNS_NATIVE_KERNELS")
    assert train(tmp_path, core, 1).engine == "kernels"
    line = "model.ckpt-3 was trained by TensorFlow, and training goes on by kernels"
    assert caplog.text.count(line) == 1


def test_a_scope_may_be_called_as_a_shard(tmp_path):
    """A table in a scope `part_1` isn't taken for a shard's slot variable: its record has it."""
    (name,) = train(tmp_path, None, 1, scope="tower/part_1").tables
    assert name == "tower/part_1/input_layer/word_embedding/embedding_weights"
