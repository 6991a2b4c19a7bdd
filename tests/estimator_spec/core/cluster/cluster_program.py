# SPDX-License-Identifier: Apache-2.0
"""A program whose processes train one model with a table, each as its task in TF_CONFIG.

    python cluster_program.py MODEL_DIR '{"max_steps": 20}'

SIDE=reference in the environment runs it with TensorFlow 2.15.1's own TPUEstimator. It prints a
line for each training step, and the line 'done' at the end.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1

if os.environ.get("SIDE") == "reference":
    tpu = tf1.estimator.tpu
    estimator_names = tf1.estimator
    columns = tf1.tpu.experimental
    EmbeddingConfigSpec = tpu.experimental.EmbeddingConfigSpec
    AdagradParameters = tf1.tpu.experimental.AdagradParameters
else:
    import estimator_spec as tpu
    import tpu_columns as columns
    from estimator_spec import AdagradParameters, EmbeddingConfigSpec

    estimator_names = tpu

BATCH_SIZE = 8
WORDS = 50
DEFAULTS = {
    "max_steps": 20,
    "save_steps": 10,
    "strategy": "div",
    "shards": None,  # of one machine
    "call": "train_and_evaluate",
    "optimizer": "adagrad",
    "pause_at": None,  # global step at which the chief waits for the file `go` in MODEL_DIR
    "pause_in": "chief",
    "plain": False,
    "core": None,
    "limit": 7200,  # seconds of a standstill
    "full": None,  # job whose disk is full; needs the library of tests/hostile
}


def data():
    """Returns 64 examples: three words each, a number, and whether a word is below 20."""
    random = np.random.RandomState(3)
    words = random.randint(0, WORDS, (64, 3))
    labels = (words.min(1) < 10).astype(np.float32)[:, np.newaxis]
    numbers = random.uniform(-1, 1, (64, 1)).astype(np.float32)
    return {"word": words.astype(np.int64), "number": numbers}, labels


def input_fn(mode, params):
    """Returns the examples in one order, forever in training."""
    examples = tf.data.Dataset.from_tensor_slices(data())
    if mode == "train":
        examples = examples.repeat()
    return examples.batch(params["batch_size"], drop_remainder=True)


def word_column():
    """Returns the embedding column of the words."""
    words = tf1.feature_column.categorical_column_with_identity("word", WORDS)
    start = tf1.constant_initializer(0.05)
    return columns.embedding_column(words, 4, combiner="sum", initializer=start)


def minimize(loss, params, is_chief):
    """Returns the train_op, and the hooks that it needs."""
    step = tf1.train.get_global_step()
    optimizer = tf1.train.AdagradOptimizer(0.1)
    if params["optimizer"] != "sync":
        return optimizer.minimize(loss, step), []
    optimizer = tf1.train.SyncReplicasOptimizer(optimizer, params["replicas"])
    train_op = optimizer.minimize(loss, step)
    return train_op, [optimizer.make_session_run_hook(is_chief)]


def model_fn(features, labels, mode, params, config):
    """A logistic regression on the sum of the words' embeddings and on the number."""
    table = params["column"]
    wide = tf1.feature_column.input_layer(features, [table])
    inputs = tf.concat([wide, features["number"]], 1)
    with tf1.variable_scope("dense"):
        kernel = tf1.get_variable("kernel", [5, 1], initializer=tf1.constant_initializer(0.1))
        bias = tf1.get_variable("bias", [1], initializer=tf1.zeros_initializer())
    logits = tf.matmul(inputs, kernel) + bias
    if mode == "infer":
        return tpu.TPUEstimatorSpec(mode, predictions={"p": tf.sigmoid(logits)})
    loss = tf1.losses.sigmoid_cross_entropy(labels, logits)
    train_op, hooks = None, []
    if mode == "train":
        train_op, hooks = minimize(loss, params, config.is_chief)
    metrics = (lambda labels, p: {"auc": tf1.metrics.auc(labels, p)}, [labels, tf.sigmoid(logits)])
    return tpu.TPUEstimatorSpec(
        mode, loss=loss, train_op=train_op, eval_metrics=metrics, training_hooks=hooks
    )


class PrintSteps(tf1.train.SessionRunHook):
    """Prints the global step after each step, and its loss."""

    def before_run(self, run_context):
        """Fetches the loss of the graph."""
        graph = run_context.session.graph
        return tf1.train.SessionRunArgs(graph.get_collection(tf1.GraphKeys.LOSSES)[-1])

    def after_run(self, run_context, run_values):
        """Prints the fetched loss."""
        session = run_context.session
        step = session.run(tf1.train.get_global_step(session.graph))
        print(f"step {step} loss {run_values.results:.8f}", flush=True)


class Pause(tf1.train.SessionRunHook):
    """Waits at a global step until a file exists."""

    def __init__(self, step, path):
        self._step = step
        self._path = path

    def after_run(self, run_context, run_values):
        """Waits, if the step is reached; a lost session may go back behind it."""
        step = run_context.session.run(tf1.train.get_global_step(run_context.session.graph))
        if step >= self._step and not os.path.exists(self._path):
            print("paused at", step, flush=True)
            while not os.path.exists(self._path):
                time.sleep(0.05)


def make_estimator(model_dir, options, config):
    """Returns the estimator."""
    column = word_column()
    spec = EmbeddingConfigSpec(
        feature_columns=[column],
        optimization_parameters=AdagradParameters(0.1),
        partition_strategy=options["strategy"],
    )
    more = {}
    if os.environ.get("SIDE") != "reference":
        more = {"embedding_shards": options["shards"], "plain": options["plain"]}
        more["embedding_core"] = options["core"]
    params = {
        "column": column,
        "optimizer": options["optimizer"],
        "replicas": max(config.num_worker_replicas, 1),
    }
    return tpu.TPUEstimator(
        model_fn,
        model_dir=model_dir,
        config=config,
        params=params,
        use_tpu=False,
        train_batch_size=BATCH_SIZE,
        eval_batch_size=BATCH_SIZE,
        predict_batch_size=BATCH_SIZE,
        embedding_config_spec=spec,
        **more,
    )


def main(model_dir, options):
    """Runs this process' task."""
    options = DEFAULTS | options
    tf1.logging.set_verbosity(tf1.logging.INFO)
    config = tpu.RunConfig(
        tf_random_seed=1,
        save_checkpoints_steps=options["save_steps"],
        save_summary_steps=options["save_steps"],
        log_step_count_steps=10,
        experimental_max_worker_delay_secs=0,
        session_creation_timeout_secs=options["limit"],
    )
    if options["full"] == config.task_type:
        ctypes.CDLL(None).full_at(os.fsencode(model_dir), ctypes.c_long(1))
    estimator = make_estimator(model_dir, options, config)
    hooks = [PrintSteps()]
    if options["pause_at"] is not None and config.task_type == options["pause_in"]:
        hooks.append(Pause(options["pause_at"], os.path.join(model_dir, "go")))
    if options["call"] == "train":
        estimator.train(input_fn, hooks=hooks, max_steps=options["max_steps"])
    else:
        estimator_names.train_and_evaluate(
            estimator,
            estimator_names.TrainSpec(input_fn, options["max_steps"], hooks=hooks),
            estimator_names.EvalSpec(input_fn, steps=None, start_delay_secs=0, throttle_secs=0),
        )
    print("done", config.task_type, config.task_id, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]) if len(sys.argv) > 2 else {})
