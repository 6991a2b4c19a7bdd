# SPDX-License-Identifier: Apache-2.0
"""A small DLRM that predicts clicks, trained by each process as its task in TF_CONFIG.

The evaluator, or a single process, prints the AUC on examples that aren't trained.
"""

from __future__ import annotations

import random

import numpy as np
import tensorflow as tf

import estimator_spec as es
import tpu_columns

tf1 = tf.compat.v1

TABLES = {"site": 60, "app": 90, "device": 12, "banner": 7}
NUMBERS = 4
WIDTH = 8
BATCH_SIZE = 128


def clicks(count, seed):
    """Returns examples whose clicks depend on the numbers and on a hidden weight of each id."""
    hidden, chosen = np.random.RandomState(0), np.random.RandomState(seed)
    features = {"numbers": chosen.uniform(size=(count, NUMBERS)).astype(np.float32)}
    score = features["numbers"].sum(1) - NUMBERS / 2
    for name, rows in TABLES.items():
        features[name] = chosen.randint(0, rows, [count, 1])
        score += hidden.normal(size=rows)[features[name][:, 0]]
    score += chosen.logistic(scale=0.5, size=count)
    return features, (score > 0).astype(np.float32)


def train_input_fn(params, config):
    """Returns shuffled batches, in an order of each process' own."""
    examples = tf.data.Dataset.from_tensor_slices(clicks(8192, 1))
    shuffled = examples.shuffle(8192, seed=config.global_id_in_cluster).repeat()
    return shuffled.batch(params["batch_size"], drop_remainder=True)


def test_input_fn(params):
    """Returns batches of other examples."""
    return tf.data.Dataset.from_tensor_slices(clicks(4096, 2)).batch(params["batch_size"])


def model_fn(features, labels, mode, params):
    """Products of all pairs of embeddings and a bottom layer; then a top layer."""
    vectors = [tf1.layers.dense(features["numbers"], WIDTH, tf.nn.relu, name="bottom")]
    vectors += [tf1.feature_column.input_layer(features, [column]) for column in params["columns"]]
    stacked = tf.stack(vectors, 1)
    first, second = np.triu_indices(len(vectors), k=1)
    pairs = tf.reshape(tf.matmul(stacked, stacked, transpose_b=True), [-1, len(vectors) ** 2])
    products = tf.gather(pairs, first * len(vectors) + second, axis=1)
    hidden = tf1.layers.dense(tf.concat([products, *vectors], 1), 16, tf.nn.relu, name="top")
    logits = tf1.layers.dense(hidden, 1, name="logits")[:, 0]
    loss = tf1.losses.sigmoid_cross_entropy(labels, logits)
    train_op = None
    if mode == "train":
        train_op = tf1.train.AdagradOptimizer(0.1).minimize(loss, tf1.train.get_global_step())
    metrics = (lambda labels, p: {"auc": tf1.metrics.auc(labels, p)}, [labels, tf.sigmoid(logits)])
    return es.TPUEstimatorSpec(mode, loss=loss, train_op=train_op, eval_metrics=metrics)


def main(model_dir, options):
    """Runs this process' task.

    Args:
        model_dir: the directory that all processes share.
        options: 'max_steps', and perhaps 'core'.
    """
    tf1.logging.set_verbosity(tf1.logging.INFO)
    random.seed(1)  # from which tf1.layers takes the seeds of initial values
    columns = [
        tpu_columns.embedding_column(
            tf1.feature_column.categorical_column_with_identity(name, rows), WIDTH
        )
        for name, rows in TABLES.items()
    ]
    estimator = es.TPUEstimator(
        model_fn,
        model_dir=model_dir,
        config=es.RunConfig(
            tf_random_seed=1,
            save_checkpoints_steps=options["max_steps"],
            experimental_max_worker_delay_secs=0,
        ),
        params={"columns": columns},
        use_tpu=False,
        train_batch_size=BATCH_SIZE,
        embedding_core=options.get("core"),
        eval_batch_size=BATCH_SIZE,
        embedding_config_spec=es.EmbeddingConfigSpec(
            feature_columns=columns, optimization_parameters=es.AdagradParameters(0.1)
        ),
    )
    result = es.train_and_evaluate(
        estimator,
        es.TrainSpec(lambda params: train_input_fn(params, estimator.config), options["max_steps"]),
        es.EvalSpec(test_input_fn, steps=None, start_delay_secs=0, throttle_secs=0),
    )
    if result is not None:
        print(f"AUC {result[0]['auc']:.4f}", flush=True)
