# SPDX-License-Identifier: Apache-2.0
"""A model_fn with a module of TensorFlow Hub."""

import os
import sys

import numpy as np
import tensorflow as tf
import tensorflow_hub as hub

MODULE = os.path.join(sys.argv[1], "module")


def make_module():
    """Saves the double of a vector as a module."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [None, 2])
        tf.compat.v1.saved_model.simple_save(session, MODULE, {"x": x}, {"default": x * 2})


def input_fn():
    x = np.random.RandomState(1).rand(32, 2).astype(np.float32)
    return (
        tf.data.Dataset.from_tensor_slices(({"x": x}, x.sum(1, keepdims=True))).repeat(20).batch(8)
    )


def model_fn(features, labels, mode):
    module = hub.load(MODULE, tags=["serve"])
    doubled = module.signatures["serving_default"](features["x"])["default"]
    predictions = tf.compat.v1.layers.dense(doubled, 1)
    loss = tf.reduce_mean((predictions - labels) ** 2)
    optimizer = tf.compat.v1.train.AdagradOptimizer(0.3)
    train_op = optimizer.minimize(loss, tf.compat.v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


make_module()
estimator = tf.estimator.Estimator(model_fn, os.path.join(sys.argv[1], "model"))
estimator.train(input_fn)
metrics = estimator.evaluate(input_fn)
assert metrics["loss"] < 0.1, metrics
