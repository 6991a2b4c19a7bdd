# SPDX-License-Identifier: Apache-2.0
"""A program whose processes train a model under a strategy of several processes.

    python strategy_program.py MODEL_DIR '{"max_steps": 6}'

SIDE=reference in the environment runs it with TensorFlow 2.15.1's own Estimator. It prints a line
for each training step, and the line 'done' at the end.
"""

from __future__ import annotations

import os
import time

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1

if os.environ.get("SIDE") == "reference":
    estimators = tf.estimator
else:
    import estimator_spec as estimators

GLOBAL_BATCH = 12
EXAMPLES = 5 * GLOBAL_BATCH
DEFAULTS = {
    "strategy": "v2",
    "max_steps": 6,
    "save_steps": 2,
    "save_secs": None,
    "normalize": False,  # batches, whose moments are averaged over the processes
    "repeat": False,
    "seconds_of_a_step": 0,
    "call": "train_and_evaluate",
    "warm_start_from": None,
    "eager": False,
    "tpu_columns": False,  # the table is looked up by native ops, if there are kernels
}


def make_strategy(kind):
    """Returns a strategy of the cluster in TF_CONFIG, or None."""
    makers = {
        "v1": tf1.distribute.experimental.MultiWorkerMirroredStrategy,
        "v2": tf.distribute.MultiWorkerMirroredStrategy,
        "servers": tf1.distribute.experimental.ParameterServerStrategy,
        "mirrored": lambda: tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]),
    }
    return makers[kind]() if kind else None


def input_fn(params, input_context=None):
    """Returns this process' part of each global batch."""
    random = np.random.RandomState(0)
    x = random.rand(EXAMPLES, 2).astype(np.float32)
    ids = random.randint(0, 7, [EXAMPLES, 3])
    labels = random.rand(EXAMPLES, 1).astype(np.float32)
    count, index = 1, 0
    if input_context is not None:
        count, index = input_context.num_input_pipelines, input_context.input_pipeline_id
    dataset = tf.data.Dataset.from_tensor_slices(({"x": x, "ids": ids}, labels))
    dataset = dataset.shard(count, index).batch(GLOBAL_BATCH // count)
    return dataset.repeat() if params["repeat"] else dataset


def model_fn(features, labels, mode, params):
    """A linear model with a table; the first values are random, the chief's for all."""
    fc = tf.feature_column
    embedding_column = fc.embedding_column
    if params["tpu_columns"]:
        from tpu_columns import embedding_column
    table = embedding_column(fc.categorical_column_with_identity("ids", 7), 3)
    wide = tf1.feature_column.input_layer(features, [table, fc.numeric_column("x", [2])])
    if params["normalize"]:
        wide = tf1.layers.batch_normalization(wide, training=mode == "train", momentum=0.5)
    logits = wide @ tf1.get_variable("kernel", [5, 1])
    loss = tf.reduce_mean((logits - labels) ** 2)
    train_op = None
    if mode == "train":
        with tf.control_dependencies(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)):
            optimizer = tf1.train.AdagradOptimizer(0.1)
            train_op = optimizer.minimize(loss, tf1.train.get_global_step())
    metrics = {"mean": tf1.metrics.mean(logits)}
    return estimators.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


class PrintSteps(tf1.train.SessionRunHook):
    """Prints the loss of each step, over all processes."""

    def __init__(self, seconds):
        self._seconds = seconds

    def before_run(self, run_context):
        """Fetches the loss and the global step before the step."""
        losses = run_context.session.graph.get_collection(tf1.GraphKeys.LOSSES)
        return tf1.train.SessionRunArgs([losses[-1], tf1.train.get_global_step()])

    def after_run(self, run_context, run_values):
        """Prints them."""
        loss, step = run_values.results
        print(f"step {step + 1} loss {loss}", flush=True)
        time.sleep(self._seconds)


def main(model_dir, options):
    """Runs the task of TF_CONFIG."""
    options = DEFAULTS | options
    if not options["eager"]:
        tf1.disable_eager_execution()
    tf1.logging.set_verbosity(tf1.logging.INFO)
    config = estimators.RunConfig(
        model_dir=model_dir,
        tf_random_seed=1,
        train_distribute=make_strategy(options["strategy"]),
        save_checkpoints_steps=options["save_steps"],
        save_checkpoints_secs=options["save_secs"],
        save_summary_steps=2,
        log_step_count_steps=None,
        experimental_max_worker_delay_secs=0,
    )
    warm = options["warm_start_from"]
    estimator = estimators.Estimator(model_fn, config=config, params=options, warm_start_from=warm)
    hooks = [PrintSteps(options["seconds_of_a_step"])]
    if options["call"] == "train":
        estimator.train(input_fn, hooks, max_steps=options["max_steps"])
        return
    estimators.train_and_evaluate(
        estimator,
        estimators.TrainSpec(input_fn, options["max_steps"], hooks),
        estimators.EvalSpec(input_fn, steps=2, start_delay_secs=0, throttle_secs=0),
    )
    print("done", flush=True)
