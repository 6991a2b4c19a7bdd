# SPDX-License-Identifier: Apache-2.0
"""`tensorflow.contrib.slim` and its neighbours lead to tf_slim, if that is installed."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

import forking_python

ROOT = Path(__file__).resolve().parents[3]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("tf_slim") is None, reason="needs the extra contrib: tf_slim"
    ),
]

PROGRAM = """
import tensorflow as tf
import tensorflow.contrib.layers as contrib_layers
import tensorflow.contrib.slim as slim
from tensorflow.contrib import framework, metrics
from tensorflow.contrib.framework import add_arg_scope
from tensorflow.contrib.framework.python.ops import arg_scope, variables
from tensorflow.contrib.framework.python.ops.arg_scope import arg_scope as same_scope
from tensorflow.contrib.layers.python.layers import layers, utils
from tensorflow.contrib.layers.python.layers.layers import conv2d
from tensorflow.contrib.slim.nets import resnet_v1, vgg
from tensorflow.contrib.slim.python.slim.data import dataset
from tensorflow.contrib.slim.python.slim.nets import inception_v3
from tensorflow.contrib.tensorboard.plugins import projector
from tensorflow.contrib.training.python.training import training
import tf_slim
import tf_slim.nets

assert slim.conv2d is tf_slim.conv2d is contrib_layers.conv2d is layers.conv2d is conv2d
assert slim.arg_scope is arg_scope is same_scope is framework.arg_scope
assert vgg is tf_slim.nets.vgg and inception_v3 is tf_slim.nets.inception_v3
assert slim.dataset.Dataset is dataset.Dataset is tf_slim.dataset.Dataset
assert tf.contrib.slim.parallel_reader.get_data_files and slim.tfexample_decoder.TFExampleDecoder
assert variables.model_variable is slim.model_variable
assert slim.losses.log_loss and metrics.f1_score and utils.collect_named_outputs
assert training.create_train_op and projector.ProjectorConfig and slim.learning.train
assert hasattr(tf.contrib, "slim") and not hasattr(tf.contrib.slim, "nonsense")
scope = {}
exec("from tensorflow.contrib.slim import *", scope)
assert scope["fully_connected"] is slim.fully_connected


@add_arg_scope
def block(x, units=1):
    return slim.fully_connected(x, units)


images = tf.placeholder(tf.float32, [2, 8, 8, 3])
with slim.arg_scope([slim.conv2d], normalizer_fn=slim.batch_norm), arg_scope([block], units=5):
    x = block(slim.flatten(slim.conv2d(images, 4, 3)))
assert x.shape == [2, 5]
loss = tf.reduce_mean(tf.square(x))
step = tf.train.get_or_create_global_step()
train = contrib_layers.optimize_loss(loss, step, 0.1, "SGD")
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    losses = [session.run(train, {images: [[[[1.0, 2.0, 3.0]] * 8] * 8] * 2}) for _ in range(3)]
print(sorted(v.op.name for v in tf.trainable_variables()))
"""


def test_a_program_with_slim(tmp_path):
    """A TensorFlow 1 program builds and trains layers of slim, under each spelling."""
    (tmp_path / "program.py").write_text(PROGRAM)
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path}
    command = ["-m", "estimator_spec", "run", "program.py"]
    done = forking_python.run(command, env=env, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr[-5000:]
    names = ["Conv/BatchNorm/beta", "Conv/weights", "fully_connected/biases"]
    assert done.stdout.strip() == str([*names, "fully_connected/weights"])
