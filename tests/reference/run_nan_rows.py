# SPDX-License-Identifier: Apache-2.0
"""Trains, evaluates, predicts and exports tables with rows and gradients of NaN and infinity.

SIDE=ours python run_nan_rows.py OUT OPTIMIZER... No variable mixes examples, so what one example
spoils can be told from the others. The record is OUT/<optimizer>.npz.
"""

from __future__ import annotations

import os
import sys

import numpy as np
import run_side
import side
import tensorflow as tf
from programs import common

tf1 = tf.compat.v1
ROWS, WIDTH, EXAMPLES, STEPS = 12, 3, 48, 3
OPTIMIZERS = {
    "adagrad": lambda: tf1.train.AdagradOptimizer(0.1),
    "adam": lambda: tf1.train.AdamOptimizer(0.1),
    "ftrl": lambda: tf1.train.FtrlOptimizer(0.1),
    "momentum": lambda: tf1.train.MomentumOptimizer(0.1, 0.9),
}


def rows(random, count):
    """Returns the features of `count` rows; -1 is a missing id."""
    sparse = common.sparse(random, count, 4, lambda r: r.randint(-1, ROWS))
    weighted = common.sparse(random, count, 4, lambda r: r.randint(0, ROWS))
    weights = random.choice([-1.0, 0.0, 0.5, 2.0], len(weighted.values)).astype(np.float32)
    factors = random.normal(size=(count, 6 * WIDTH)).astype(np.float32)
    factors[::16] = np.nan
    factors[5::16] = np.inf
    return {
        "one": random.randint(-1, ROWS, (count, 1)),
        "three": random.randint(-1, ROWS, (count, 3)),
        "sparse": sparse,
        "weighted": weighted,
        "weights": tf1.SparseTensorValue(weighted.indices, weights, weighted.dense_shape),
        "left": random.randint(-1, ROWS, (count, 2)),
        "right": random.randint(-1, ROWS, (count, 2)),
        "factors": factors,
    }


def table(seed):
    """Returns an initializer of rows 0 and 7 with NaN and infinity; padding must read neither."""
    values = common.random(seed).normal(size=(ROWS, WIDTH)).astype(np.float32)
    values[0], values[7, 1], values[ROWS - 1, 2] = np.nan, np.inf, np.nan
    return tf1.constant_initializer(values)


def columns():
    """Returns the TPU embedding columns, and the shared ones."""
    embedding, fc = side.tpu_columns.embedding_column, tf.feature_column
    identity = fc.categorical_column_with_identity
    weighted = fc.weighted_categorical_column(identity("weighted", ROWS), "weights")
    pair = [identity(key, ROWS) for key in ("left", "right")]
    return [
        embedding(identity("one", ROWS), WIDTH, combiner="mean", initializer=table(1)),
        embedding(identity("three", ROWS), WIDTH, combiner="sqrtn", initializer=table(2)),
        embedding(identity("sparse", ROWS), WIDTH, combiner="mean", initializer=table(3)),
        embedding(weighted, WIDTH, combiner="mean", initializer=table(4)),
    ], side.tpu_columns.shared_embedding_columns(pair, WIDTH, combiner="sum", initializer=table(5))


def run(model_dir, optimizer):
    """Runs all modes and saves the record."""
    embeddings, shared = columns()

    def model_fn(features, labels, mode, params):
        del labels, params
        x = tf1.feature_column.input_layer(features, embeddings)
        x = tf.concat([x, tf.keras.layers.DenseFeatures(shared)(features)], 1)
        if mode == side.estimator.ModeKeys.PREDICT:
            return side.tpu.TPUEstimatorSpec(mode, predictions={"x": x})
        finite = tf.math.is_finite(x)
        loss = tf.reduce_mean(tf.where(finite, x, tf.zeros_like(x)))
        if mode == side.estimator.ModeKeys.EVAL:
            shares = tf.cast(finite, tf.float32)
            metrics = (lambda shares: {"finite": tf1.metrics.mean(shares)}, [shares])
            return side.tpu.TPUEstimatorSpec(mode, loss=loss, eval_metrics=metrics)
        # The spec's loss must be finite, the one whose gradients train the tables isn't.
        spoiled = tf.reduce_sum(x * features["factors"])
        step = tf1.train.get_or_create_global_step()
        train_op = OPTIMIZERS[optimizer]().minimize(spoiled, step)
        return side.tpu.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

    def input_fn(params):
        return common.dataset(rows, 1, EXAMPLES, params["batch_size"], repeat=False)

    def receiver():
        kinds = dict.fromkeys(("one", "three", "sparse", "weighted", "left", "right"), tf.int64)
        kinds["weights"] = tf.float32
        given = {key: tf1.placeholder(kind, [None, None], key) for key, kind in kinds.items()}
        return side.ServingInputReceiver(dict(given), given)

    estimator = common.make_estimator(model_fn, model_dir, embeddings + shared)
    estimator.train(input_fn, max_steps=STEPS)
    export = estimator.export_saved_model(model_dir + "_export", receiver)
    request = {key: np.array([[3, -1], [5, 6]]) for key in ("three", "sparse", "left", "right")}
    request["one"] = np.array([[-1], [4]])
    request["weighted"] = np.array([[3, 0], [7, 6]])
    request["weights"] = np.array([[1, -1], [2, 3]], np.float32)
    groups = {
        "predictions": run_side.stacked(estimator.predict(input_fn)),
        "metrics": estimator.evaluate(input_fn),
        "variables": run_side.variables(estimator.latest_checkpoint()),
        "served": run_side.served(tf.compat.as_str_any(export), request),
    }
    found = {f"{key}:{name}": value for key in groups for name, value in groups[key].items()}
    np.savez(model_dir + ".npz", **found)


if __name__ == "__main__":
    out, *names = sys.argv[1:]
    for name in names:
        run(os.path.join(out, name), name)
