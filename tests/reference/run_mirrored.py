# SPDX-License-Identifier: Apache-2.0
"""Trains and evaluates models under a MirroredStrategy of two logical CPUs on one side.

    SIDE=reference python run_mirrored.py OUT mirrored

Records the variables of the checkpoint, the metrics and the summaries; the metrics of evaluations
whose last step lacks batches; and a training that has a batch too few for its first step.
"""

from __future__ import annotations

import functools
import glob
import os
import sys
import tempfile

import numpy as np
import side
import tensorflow as tf

tf1 = tf.compat.v1

REPLICAS = 2
BATCHES = 5  # the last one lacks a second batch for its step

# In the reference the error of the missing batch races with the metrics of the others: of 12 rows
# in batches of 4 it counts 12 or 8. The most complete of these evaluations is recorded.
TRIES = 12 if side.SIDE == "reference" else 1


def input_fn(input_context=None):
    """Batches of four examples with dense and sparse features."""
    if input_context is not None:
        assert input_context.num_replicas_in_sync == REPLICAS
    random = np.random.RandomState(0)
    x = random.rand(4 * BATCHES, 2).astype(np.float32)
    ids = random.randint(0, 7, [4 * BATCHES, 3])
    labels = random.rand(4 * BATCHES, 1).astype(np.float32)
    dataset = tf.data.Dataset.from_tensor_slices(({"x": x, "ids": ids}, labels)).batch(4)
    return dataset.map(
        lambda features, labels: (
            {"x": features["x"], "ids": tf.sparse.from_dense(features["ids"])},
            labels,
        )
    )


def model_fn(features, labels, mode):
    """A linear model with a table; nothing depends on the ops built before."""
    fc = tf.feature_column
    column = fc.embedding_column(
        fc.categorical_column_with_identity("ids", 7), 3, initializer=tf1.ones_initializer()
    )
    inputs = tf1.feature_column.input_layer(features, [column, fc.numeric_column("x", [2])])
    kernel = tf1.get_variable("kernel", [5, 1], initializer=tf1.constant_initializer(0.1))
    logits = inputs @ kernel
    loss = tf.reduce_mean((logits - labels) ** 2)
    tf1.summary.scalar("model_loss", loss)
    train_op = None
    if mode == "train":
        step = tf1.train.get_global_step()
        train_op = tf1.train.AdagradOptimizer(0.1).minimize(loss, step)
    metrics = {"mean": tf1.metrics.mean(logits)}
    return side.estimator.EstimatorSpec(
        mode, loss=loss, train_op=train_op, eval_metric_ops=metrics, scaffold=tf1.train.Scaffold()
    )


def canned_model(**arguments):
    """Returns a wide and deep model, whose parts have optimizers of their own."""
    fc = tf.feature_column
    ids = fc.categorical_column_with_identity("ids", 7)
    table = fc.embedding_column(ids, 3, initializer=tf1.ones_initializer())
    canned = tf.estimator if side.SIDE == "reference" else side.estimator
    return canned.DNNLinearCombinedRegressor(
        linear_feature_columns=[ids],
        dnn_feature_columns=[table, fc.numeric_column("x", [2])],
        dnn_hidden_units=[4],
        dnn_activation_fn=tf.identity,
        loss_reduction=tf.losses.Reduction.SUM_OVER_BATCH_SIZE,
        **arguments,
    )


def summaries(directory):
    """Returns the scalars of the event files, without speeds."""
    found = {}
    for path in glob.glob(os.path.join(directory, "**", "*tfevents*"), recursive=True):
        folder = os.path.relpath(os.path.dirname(path), directory)
        for event in tf1.train.summary_iterator(path):
            for value in event.summary.value:
                if "sec" not in value.tag and value.HasField("simple_value"):
                    found[f"summary:{folder}:{event.step}:{value.tag}"] = value.simple_value
    return found


def identity_model(features, labels, mode):
    """Has the mean and the number of the rows for metrics; a step adds 1 to the weight."""
    del labels
    weight = tf1.get_variable("weight", [], initializer=tf1.zeros_initializer())
    loss = tf.reduce_mean(features - weight)
    step = tf1.train.get_global_step()
    train_op = tf1.train.GradientDescentOptimizer(1.0).minimize(loss, step)
    ones = tf.ones_like(features)
    metrics = {"mean": tf1.metrics.mean(features), "rows": tf1.metrics.true_positives(ones, ones)}
    return side.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def last_steps():
    """Returns the metrics and the variables of runs whose last step lacks batches."""
    record = {}
    devices = [f"/cpu:{i}" for i in range(REPLICAS)]
    strategy = tf.distribute.MirroredStrategy(devices)
    session = tf1.ConfigProto(allow_soft_placement=True, device_count={"CPU": REPLICAS})
    for rows, size in ((12, 4), (12, 5), (12, 12), (1, 1), (7, 2), (3, 8)):

        def numbers(input_context=None, rows=rows, size=size):
            del input_context
            x = np.arange(rows, dtype=np.float32)
            return tf.data.Dataset.from_tensor_slices((x, x)).batch(size)

        with tempfile.TemporaryDirectory() as model_dir:
            config = side.estimator.RunConfig(
                model_dir, train_distribute=strategy, session_config=session
            )
            estimator = side.estimator.Estimator(identity_model, config=config)
            estimator.train(numbers)
            for name in ("weight", "global_step"):
                record[f"train:{rows}:{size}:{name}"] = estimator.get_variable_value(name)
            config = side.estimator.RunConfig(
                model_dir, eval_distribute=strategy, session_config=session
            )
            estimator = side.estimator.Estimator(identity_model, config=config)
            found = [estimator.evaluate(numbers) for _ in range(TRIES)]
            best = max(found, key=lambda metrics: metrics["rows"])
            record.update({f"evaluate:{rows}:{size}:{key}": best[key] for key in best})
    return record


def main(out, program):
    """Writes the record, OUT/mirrored.npz."""
    record = last_steps()
    v2, v1 = tf.distribute.MirroredStrategy, tf1.distribute.MirroredStrategy
    own = functools.partial(side.estimator.Estimator, model_fn)
    for name, kind, make in (
        ("MirroredStrategy", v2, own),
        ("MirroredStrategyV1", v1, own),
        ("canned", v2, canned_model),
    ):
        strategy = kind([f"/cpu:{i}" for i in range(REPLICAS)])
        with tempfile.TemporaryDirectory() as model_dir:
            config = side.estimator.RunConfig(
                model_dir=model_dir,
                tf_random_seed=1,
                train_distribute=strategy,
                eval_distribute=strategy,
                log_step_count_steps=1,
                session_config=tf1.ConfigProto(
                    allow_soft_placement=True, device_count={"CPU": REPLICAS}
                ),
            )
            estimator = make(config=config)
            estimator.train(input_fn)
            estimator.train(input_fn, max_steps=3)
            metrics = estimator.evaluate(input_fn, steps=2)
            for variable in estimator.get_variable_names():
                record[f"{name}:{variable}"] = estimator.get_variable_value(variable)
            record.update({f"{name}:{key}": value for key, value in metrics.items()})
            record.update({f"{name}:{k}": value for k, value in summaries(model_dir).items()})
    np.savez(os.path.join(out, program + ".npz"), **record)


if __name__ == "__main__":
    main(*sys.argv[1:])
