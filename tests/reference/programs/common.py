# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the programs: synthetic rows, input functions, a head and its spec.

Every initializer has a seed of its own. Without one, initial values depend on how many ops were
made before, and two implementations needn't make as many. Runs on Python 3.7 too.
"""

from __future__ import annotations

import numpy as np
import side
import tensorflow as tf

tf1 = tf.compat.v1

ROWS = 320
BATCH_SIZE = 16  # 20 batches: a run continued at step 100 sees the batches of an uninterrupted run
TEST_ROWS = 50  # three full batches of 16 and a short one
WORDS = ("ant", "bee", "cat", "dog", "elk", "fox")
PLACES = ("Athens", "Berne", "Cairo", "Delhi", "Essen", "Fargo", "Gaza", "Hanoi")


def normal(seed, stddev=0.5):
    """Returns an initializer that doesn't depend on the ops built before it."""
    return tf1.truncated_normal_initializer(stddev=stddev, seed=seed)


def random(seed):
    """Returns a random stream that is the same in every NumPy."""
    return np.random.RandomState(seed)


def sparse(random_state, rows, longest, draw, shortest=0):
    """Returns a SparseTensorValue `[rows, longest]` with `shortest` to `longest` values a row."""
    indices, values = [], []
    for row in range(rows):
        for place in range(random_state.randint(shortest, longest + 1)):
            indices.append((row, place))
            values.append(draw(random_state))
    return tf1.SparseTensorValue(
        np.array(indices, np.int64).reshape(-1, 2), np.array(values), (rows, longest)
    )


def labels(seed, rows):
    """Returns zeros and ones, `[rows, 1]`."""
    return random(seed).randint(0, 2, (rows, 1)).astype(np.float32)


def dataset(make_rows, seed, rows, batch_size, repeat):
    """Returns batches of (features, labels); `make_rows(random_state, rows)` makes the features."""
    features = {
        key: tf.SparseTensor(*value) if isinstance(value, tf1.SparseTensorValue) else value
        for key, value in make_rows(random(seed), rows).items()
    }
    data = tf1.data.Dataset.from_tensor_slices((features, labels(seed + 1, rows)))
    data = data.repeat() if repeat else data
    return data.batch(batch_size, drop_remainder=repeat)


def input_fns(make_rows, seed):
    """Returns the input functions of training and of other modes."""

    def train_input_fn(params):
        return dataset(make_rows, seed, ROWS, params["batch_size"], repeat=True)

    def test_input_fn(params):
        return dataset(make_rows, seed + 100, TEST_ROWS, params["batch_size"], repeat=False)

    return train_input_fn, test_input_fn


def head(hidden, seed):
    """Applies a linear layer, `[B, n]` to logits `[B, 1]`."""
    width = hidden.shape[-1]
    kernel = tf1.get_variable("head/kernel", [width, 1], initializer=normal(seed))
    bias = tf1.get_variable("head/bias", [1], initializer=tf1.zeros_initializer())
    return tf.matmul(hidden, kernel) + bias


def cross_entropy(logits, targets):
    """Returns the loss under the name that the recording hook reads."""
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits)
    return tf.identity(tf.reduce_mean(losses), name="recorded_loss")


class RecordLosses(tf1.train.SessionRunHook):
    """Hook that records the loss of every step."""

    def __init__(self):
        self.losses = []

    def begin(self):
        """Finds the loss tensor."""
        self._loss = tf1.get_default_graph().get_tensor_by_name("recorded_loss:0")

    def before_run(self, run_context):
        """Requests the loss."""
        del run_context
        return tf1.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        """Records the loss."""
        del run_context
        self.losses.append(run_values.results)


def metric_fn(targets, probabilities):
    """Returns streaming metrics."""
    return {
        "auc": tf1.metrics.auc(targets, probabilities),
        "mean": tf1.metrics.mean(probabilities),
    }


def spec(mode, logits, targets, train_op_fn, **extra):
    """Returns the TPUEstimatorSpec of any mode; `train_op_fn(loss)` builds the train op."""
    probabilities = tf.sigmoid(logits)
    predictions = {"probability": probabilities, "logit": logits}
    if mode == side.estimator.ModeKeys.PREDICT:
        return side.tpu.TPUEstimatorSpec(mode, predictions=predictions)
    loss = cross_entropy(logits, targets)
    if mode == side.estimator.ModeKeys.EVAL:
        metrics = (metric_fn, [targets, probabilities])
        return side.tpu.TPUEstimatorSpec(mode, loss=loss, eval_metrics=metrics)
    return side.tpu.TPUEstimatorSpec(mode, loss=loss, train_op=train_op_fn(loss), **extra)


def make_estimator(model_fn, model_dir, columns, **extra):
    """Returns a TPUEstimator on a CPU that keeps a checkpoint every 100 steps."""
    return side.tpu.TPUEstimator(
        model_fn=model_fn,
        config=side.tpu.RunConfig(
            model_dir=model_dir,
            tf_random_seed=11,
            save_checkpoints_steps=extra.pop("save_checkpoints_steps", 100),
            keep_checkpoint_max=0,
        ),
        use_tpu=False,
        train_batch_size=BATCH_SIZE,
        eval_batch_size=BATCH_SIZE,
        predict_batch_size=BATCH_SIZE,
        export_to_tpu=False,
        embedding_config_spec=side.EmbeddingConfigSpec(
            feature_columns=columns,
            optimization_parameters=side.AdagradParameters(learning_rate=0.1),
        ),
        **extra,
    )


def write_vocabulary(model_dir, words):
    """Writes a vocabulary file beside the model directory."""
    path = model_dir.rstrip("/") + ".vocabulary.txt"
    with open(path, "w") as file:
        file.write("".join(word + "\n" for word in words))
    return path
