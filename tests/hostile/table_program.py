# SPDX-License-Identifier: Apache-2.0
"""A small model with one table, whose training is the same however often it is interrupted."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import estimator_spec as es
import tpu_columns

tf1 = tf.compat.v1

ROWS = 7
TABLE = "input_layer/word_embedding/embedding_weights"


def column():
    """Returns the column of the table."""
    word = tf.feature_column.categorical_column_with_identity("word", ROWS)
    value = tf1.constant_initializer(0.25)  # the same in each shard
    return tpu_columns.embedding_column(word, 2, combiner="sum", initializer=value)


def input_fn(params):
    """The same batch in each step, so that it doesn't matter where a run begins.

    Each row has a label of its own, so that no two have the same values after a step.
    """
    word = np.arange(ROWS)[:, np.newaxis]
    return tf.data.Dataset.from_tensors(({"word": word}, word.astype(np.float32))).repeat(64)


def model_fn(features, labels, mode, params):
    """A linear model, trained by Adagrad."""
    layer = tf1.feature_column.input_layer(features, [column()])
    kernel = tf1.get_variable("kernel", [2, 1], initializer=tf1.constant_initializer(0.5))
    output = tf.matmul(layer, kernel)
    loss = train_op = None
    if mode != es.ModeKeys.PREDICT:
        loss = tf1.losses.mean_squared_error(labels, output)
    if mode == es.ModeKeys.TRAIN:
        train_op = tf1.train.AdagradOptimizer(0.3).minimize(loss, tf1.train.get_global_step())
    return es.TPUEstimatorSpec(mode, loss=loss, train_op=train_op, predictions={"output": output})


def make(model_dir, strategy="div", shards=1):
    """Returns an estimator that saves after each step."""
    spec = es.EmbeddingConfigSpec(
        [column()], es.AdagradParameters(0.3), partition_strategy=strategy
    )
    config = es.RunConfig(
        model_dir=str(model_dir),
        tf_random_seed=1,
        save_checkpoints_steps=1,
        save_summary_steps=0,
        log_step_count_steps=None,
        keep_checkpoint_max=2,
    )
    return es.TPUEstimator(
        model_fn,
        config=config,
        params={},
        use_tpu=False,
        train_batch_size=ROWS,
        eval_batch_size=ROWS,
        predict_batch_size=ROWS,
        embedding_config_spec=spec,
        embedding_shards=shards,
    )


def receiver_fn():
    """A placeholder of the ids."""
    words = {"word": tf1.placeholder(tf.int64, [None, 1])}
    return es.ServingInputReceiver(words, words)
