# SPDX-License-Identifier: Apache-2.0
"""A stack of Transformer layers of BERT-base's size, as a `model_fn`."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

import estimator_spec as tpu_estimator
from training_time.program import LOG_FACTOR, LOOP
from training_time.workloads import Workload

tf1 = tf.compat.v1
WIDTH, HEADS, INNER, WORDS = 768, 12, 3072, 30_522
LAYERS, LENGTH = 12, 128


def dense(x: Any, width: int, name: str) -> Any:
    """Returns a layer's output before its activation."""
    kernel = tf1.get_variable(
        f"{name}/kernel",
        [x.shape[-1], width],
        initializer=tf1.truncated_normal_initializer(0, 0.02),
    )
    bias = tf1.get_variable(f"{name}/bias", [width], initializer=tf1.zeros_initializer())
    return tf.tensordot(x, kernel, 1) + bias


def normalize(x: Any, name: str) -> Any:
    """Returns a normalized layer."""
    gamma = tf1.get_variable(f"{name}/gamma", [WIDTH], initializer=tf1.ones_initializer())
    beta = tf1.get_variable(f"{name}/beta", [WIDTH], initializer=tf1.zeros_initializer())
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-12)


def attend(x: Any, length: int) -> Any:
    """Returns the output of self-attention."""
    parts = []
    for name in ("query", "key", "value"):
        part = tf.reshape(dense(x, WIDTH, name), [-1, length, HEADS, WIDTH // HEADS])
        parts.append(tf.transpose(part, [0, 2, 1, 3]))
    query, key, value = parts
    scores = tf.matmul(query, key, transpose_b=True) * (WIDTH // HEADS) ** -0.5
    mixed = tf.transpose(tf.matmul(tf.nn.softmax(scores), value), [0, 2, 1, 3])
    return dense(tf.reshape(mixed, [-1, length, WIDTH]), WIDTH, "output")


def model_fn(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any:
    """Builds the model: word embeddings, layers, and a classifier on the first word."""
    length = params["length"]
    words = tf1.get_variable(
        "words", [WORDS, WIDTH], initializer=tf1.truncated_normal_initializer(0, 0.02)
    )
    x = tf.nn.embedding_lookup(words, features["words"])
    for layer in range(params["layers"]):
        with tf1.variable_scope(f"layer_{layer}"):
            x = normalize(x + attend(x, length), "attention_norm")
            inner = tf.nn.gelu(dense(x, INNER, "inner"))
            x = normalize(x + dense(inner, WIDTH, "outer"), "output_norm")
    logits = dense(x[:, 0], 2, "classifier")
    loss = tf1.losses.sparse_softmax_cross_entropy(labels, logits)
    train_op = tf1.train.AdamOptimizer(1e-4).minimize(loss, tf1.train.get_global_step())
    return tpu_estimator.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn_of(batch: int, length: int) -> Any:
    """Returns an endless input_fn of four batches of words [batch, length]."""

    def input_fn(params: dict[str, Any]) -> Any:
        random = np.random.RandomState(0)
        words = random.randint(WORDS, size=[4 * batch, length])
        data = tf.data.Dataset.from_tensor_slices(({"words": words}, words[:, 0] % 2))
        return data.batch(params["batch_size"], drop_remainder=True).repeat().prefetch(2)

    return input_fn


def make(workload: Workload, model_dir: str, core: dict[str, Any]) -> tuple[Any, Any]:
    """Returns the estimator and its input_fn, as `program.make` does."""
    estimator = tpu_estimator.TPUEstimator(
        model_fn,
        config=tpu_estimator.RunConfig(
            model_dir=model_dir,
            tf_random_seed=1,
            save_checkpoints_steps=None,
            save_checkpoints_secs=None,
            log_step_count_steps=workload.interval * LOG_FACTOR,
            tpu_config=tpu_estimator.TPUConfig(iterations_per_loop=LOOP),
        ),
        use_tpu=False,
        train_batch_size=workload.batch_size,
        params={"layers": LAYERS, "length": LENGTH},
        **core,
    )
    return estimator, input_fn_of(workload.batch_size, LENGTH)
