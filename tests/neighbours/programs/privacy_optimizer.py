# SPDX-License-Identifier: Apache-2.0
"""Logistic regression with TensorFlow Privacy's optimizer in a model_fn."""

import sys

import numpy as np
import tensorflow as tf
import tensorflow_privacy.v1


def input_fn():
    x = np.random.RandomState(1).randn(64, 3).astype(np.float32)
    labels = (x[:, 0] > 0).astype(np.int32)
    return tf.data.Dataset.from_tensor_slices(({"x": x}, labels)).repeat(20).batch(16)


def model_fn(features, labels, mode):
    logits = tf.compat.v1.layers.dense(features["x"], 2)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf.reduce_mean(losses)
    train_op = None
    if mode == tf.estimator.ModeKeys.TRAIN:
        optimizer = tensorflow_privacy.v1.DPGradientDescentGaussianOptimizer(
            l2_norm_clip=1.0, noise_multiplier=0.1, num_microbatches=16, learning_rate=0.5
        )
        step = tf.compat.v1.train.get_global_step()
        train_op = optimizer.minimize(loss=losses, global_step=step)
    classes = tf.argmax(logits, 1)
    metrics = {"accuracy": tf.compat.v1.metrics.accuracy(labels, classes)}
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


estimator = tf.estimator.Estimator(model_fn, sys.argv[1])
estimator.train(input_fn)
metrics = estimator.evaluate(input_fn)
assert metrics["accuracy"] > 0.8, metrics
