# SPDX-License-Identifier: Apache-2.0
"""Trains a small model with one table, as one task of a cluster: TF_CONFIG says which.

    python examples/engines/clicks.py --model_dir=/tmp/clicks --train_steps=200

runs one process. `ray_cluster.py` and `spark_barrier.py` start the tasks of a cluster on their
engines, `kubernetes_jobs.yaml` and `examples/cluster/tfjob.yaml` on Kubernetes. Nothing here is of
an engine.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import tensorflow as tf
from absl import app, flags

import estimator_spec as tpu_estimator
import tpu_columns

tf1 = tf.compat.v1
FLAGS = flags.FLAGS
flags.DEFINE_string("model_dir", None, "A directory that all tasks reach.", required=True)
flags.DEFINE_integer("train_steps", 200, "Train up to this step.", lower_bound=1)

ITEMS, BATCH_SIZE = 1000, 64


def input_fn(params: Any) -> tf.data.Dataset:
    """Returns random items; every third one is clicked."""

    def example(number: Any) -> Any:
        seeds = tf.stack([number, tf.constant(7, tf.int64)])
        items = tf.random.stateless_uniform([1], seeds, 0, ITEMS, tf.int64)
        return {"item": items}, tf.cast(tf.equal(items % 3, 0), tf.float32)

    return tf.data.Dataset.range(10**9).map(example).batch(params["batch_size"], True)


def train(model_dir: str, train_steps: int) -> dict[str, float] | None:
    """Does the task of this process; returns the chief's last evaluation.

    Args:
        model_dir: directory of checkpoints, which all tasks reach.
        train_steps: trains up to this global step.
    """
    item = tf1.feature_column.categorical_column_with_identity("item", ITEMS)
    column = tpu_columns.embedding_column(item, 8)

    def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
        del params
        wide = tf1.feature_column.input_layer(features, [column])
        logits = tf1.layers.dense(wide, 1)
        loss = tf1.losses.sigmoid_cross_entropy(labels, logits)
        step = tf1.train.get_or_create_global_step()
        train_op = tf1.train.AdamOptimizer(0.01).minimize(loss, step)

        def metrics(labels: Any, logits: Any) -> Any:
            return {"auc": tf1.metrics.auc(labels, tf.sigmoid(logits))}

        return tpu_estimator.TPUEstimatorSpec(
            mode, loss=loss, train_op=train_op, eval_metrics=(metrics, [labels, logits])
        )

    config = tpu_estimator.RunConfig(
        model_dir=model_dir,
        save_checkpoints_steps=100,
        experimental_max_worker_delay_secs=0,
    )
    estimator = tpu_estimator.TPUEstimator(
        model_fn,
        config=config,
        use_tpu=False,
        train_batch_size=BATCH_SIZE,
        eval_batch_size=BATCH_SIZE,
        embedding_config_spec=tpu_estimator.EmbeddingConfigSpec(
            feature_columns=[column],
            optimization_parameters=tpu_estimator.AdamParameters(0.01),
        ),
    )
    tpu_estimator.train_and_evaluate(
        estimator,
        tpu_estimator.TrainSpec(input_fn, train_steps),
        tpu_estimator.EvalSpec(input_fn, steps=10),
    )
    if not config.is_chief:
        return None
    return {name: float(value) for name, value in estimator.evaluate(input_fn, 10).items()}


def main(argv: list[str]) -> None:
    """Prints the chief's last evaluation as JSON."""
    del argv
    tf1.logging.set_verbosity(tf1.logging.INFO)
    result = train(FLAGS.model_dir, FLAGS.train_steps)
    if result is not None:
        json.dump(result, sys.stdout)
        print(flush=True)


if __name__ == "__main__":
    app.run(main)
