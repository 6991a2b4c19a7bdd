# SPDX-License-Identifier: Apache-2.0
"""Digits on a Cloud TPU, as written for TensorFlow 1.12.

tf_upgrade_v2 has put its `tf.compat.v1.` everywhere; what it can't upgrade, `tf.contrib`, stands as
it stood.
"""
from __future__ import absolute_import
from __future__ import division
from __future__ import print_function

import glob
import json
import os

import numpy as np
import tensorflow as tf
from tensorflow.contrib import cluster_resolver as contrib_cluster_resolver
from tensorflow.contrib import summary as contrib_summary
from tensorflow.contrib import tpu as contrib_tpu

# Cloud TPU Cluster Resolver flags
tf.compat.v1.flags.DEFINE_string("tpu", None, "The Cloud TPU to use: its name, or its grpc:// url.")
tf.compat.v1.flags.DEFINE_string("tpu_zone", None, "GCE zone where the Cloud TPU is.")
tf.compat.v1.flags.DEFINE_string("gcp_project", None, "Project of the Cloud TPU-enabled project.")

# Model specific parameters
tf.compat.v1.flags.DEFINE_string("model_dir", None, "Estimator model_dir")
tf.compat.v1.flags.DEFINE_integer("batch_size", 32, "Mini-batch size of all cores together.")
tf.compat.v1.flags.DEFINE_integer("train_steps", 60, "Total number of training steps.")
tf.compat.v1.flags.DEFINE_integer("eval_steps", 4, "Number of evaluation steps.")
tf.compat.v1.flags.DEFINE_float("learning_rate", 0.05, "Learning rate.")
tf.compat.v1.flags.DEFINE_bool("use_tpu", True, "Use TPUs rather than plain CPUs")
tf.compat.v1.flags.DEFINE_integer("iterations", 20, "Steps in a loop on the TPU.")
tf.compat.v1.flags.DEFINE_integer("num_shards", 8, "Number of shards (TPU cores).")

FLAGS = tf.compat.v1.flags.FLAGS

IMAGE_SIZE = 8
NUM_CLASSES = 4


def make_digits(count, seed):
  """Images of bars: the class says where the bar is, and noise hides it."""
  random = np.random.RandomState(seed)
  labels = random.randint(NUM_CLASSES, size=count)
  images = random.normal(scale=0.3, size=(count, IMAGE_SIZE, IMAGE_SIZE))
  for image, label in zip(images, labels):
    image[:, 2 * label:2 * label + 2] += 1.0
  return images.astype(np.float32), labels.astype(np.int32)


def metric_fn(labels, logits):
  accuracy = tf.compat.v1.metrics.accuracy(
      labels=labels, predictions=tf.argmax(input=logits, axis=1))
  return {"accuracy": accuracy}


def host_call_fn(global_step, loss, learning_rate):
  """Writes the training loss, from the host's CPU."""
  step = global_step[0]
  with contrib_summary.create_file_writer(FLAGS.model_dir).as_default():
    with contrib_summary.always_record_summaries():
      contrib_summary.scalar("training_loss", loss[0], step=step)
      contrib_summary.scalar("learning_rate", learning_rate[0], step=step)
      return contrib_summary.all_summary_ops()


def network(image):
  """A convolution, a pool, two dense layers."""
  net = tf.reshape(image, [-1, IMAGE_SIZE, IMAGE_SIZE, 1])
  net = tf.compat.v1.layers.conv2d(
      net, 8, 3, padding="same", activation=tf.nn.relu, name="conv1",
      kernel_initializer=tf.compat.v1.glorot_uniform_initializer(seed=11))
  net = tf.compat.v1.layers.max_pooling2d(net, 2, 2)
  net = tf.compat.v1.layers.flatten(net)
  net = tf.compat.v1.layers.dense(
      net, 16, activation=tf.nn.relu, name="fc1",
      kernel_initializer=tf.compat.v1.glorot_uniform_initializer(seed=12))
  return tf.compat.v1.layers.dense(
      net, NUM_CLASSES, name="fc2",
      kernel_initializer=tf.compat.v1.glorot_uniform_initializer(seed=13))


def model_fn(features, labels, mode, params):
  """model_fn constructs the ML model used to predict handwritten digits."""
  del params
  image = features
  if isinstance(image, dict):
    image = features["image"]
  logits = network(image)

  if mode == tf.estimator.ModeKeys.PREDICT:
    predictions = {
        "class_ids": tf.argmax(input=logits, axis=1),
        "probabilities": tf.nn.softmax(logits),
    }
    return tf.contrib.tpu.TPUEstimatorSpec(
        mode, predictions=predictions,
        export_outputs={"classify": tf.estimator.export.PredictOutput(predictions)})

  loss = tf.compat.v1.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)

  if mode == tf.estimator.ModeKeys.TRAIN:
    global_step = tf.compat.v1.train.get_global_step()
    learning_rate = tf.compat.v1.train.exponential_decay(
        FLAGS.learning_rate, global_step, decay_steps=20, decay_rate=0.96)
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(learning_rate=learning_rate)
    if FLAGS.use_tpu:
      optimizer = tf.contrib.tpu.CrossShardOptimizer(optimizer)
    host_call = (host_call_fn, [
        tf.reshape(global_step, [1]), tf.reshape(loss, [1]), tf.reshape(learning_rate, [1])])
    return tf.contrib.tpu.TPUEstimatorSpec(
        mode=mode, loss=loss, host_call=host_call,
        train_op=optimizer.minimize(loss, tf.compat.v1.train.get_global_step()))

  return contrib_tpu.TPUEstimatorSpec(
      mode=mode, loss=loss, eval_metrics=(metric_fn, [labels, logits]))


def train_input_fn(params):
  """train_input_fn defines the input pipeline used for training."""
  dataset = tf.data.Dataset.from_tensor_slices(make_digits(320, seed=1))
  dataset = dataset.cache().repeat().batch(params["batch_size"], drop_remainder=True)
  return dataset.prefetch(2)


def eval_input_fn(params):
  dataset = tf.data.Dataset.from_tensor_slices(make_digits(128, seed=2))
  return dataset.batch(params["batch_size"], drop_remainder=True)


def predict_input_fn(params):
  images, _ = make_digits(10, seed=3)
  return tf.data.Dataset.from_tensor_slices({"image": images}).batch(params["batch_size"])


def serving_input_fn():
  image = tf.compat.v1.placeholder(tf.float32, [None, IMAGE_SIZE, IMAGE_SIZE], name="image")
  return tf.estimator.export.ServingInputReceiver({"image": image}, {"image": image})


def written_scalars(model_dir, tag):
  """Reads back what the host call wrote."""
  values = {}
  for path in glob.glob(os.path.join(model_dir, "*tfevents*")):
    for event in tf.compat.v1.train.summary_iterator(path):
      for value in event.summary.value:
        if value.tag == tag:
          values[event.step] = value.simple_value
  return [values[step] for step in sorted(values)]


def main(argv):
  del argv  # Unused.
  tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.INFO)

  tpu_cluster_resolver = contrib_cluster_resolver.TPUClusterResolver(
      FLAGS.tpu, zone=FLAGS.tpu_zone, project=FLAGS.gcp_project)

  run_config = tf.contrib.tpu.RunConfig(
      cluster=tpu_cluster_resolver,
      model_dir=FLAGS.model_dir,
      session_config=tf.compat.v1.ConfigProto(
          allow_soft_placement=True, log_device_placement=False),
      tpu_config=tf.contrib.tpu.TPUConfig(FLAGS.iterations, FLAGS.num_shards),
  )

  estimator = tf.contrib.tpu.TPUEstimator(
      model_fn=model_fn,
      use_tpu=FLAGS.use_tpu,
      train_batch_size=FLAGS.batch_size,
      eval_batch_size=FLAGS.batch_size,
      predict_batch_size=FLAGS.batch_size,
      params={"data_dir": None},
      config=run_config)
  # TPUEstimator.train *requires* a max_steps argument.
  estimator.train(input_fn=train_input_fn, max_steps=FLAGS.train_steps)
  # TPUEstimator.evaluate *requires* a steps argument.
  metrics = estimator.evaluate(input_fn=eval_input_fn, steps=FLAGS.eval_steps)
  predictions = list(estimator.predict(input_fn=predict_input_fn))
  estimator.export_savedmodel(os.path.join(FLAGS.model_dir, "export"), serving_input_fn)

  report = {
      "losses": written_scalars(FLAGS.model_dir, "training_loss"),
      "learning_rates": written_scalars(FLAGS.model_dir, "learning_rate"),
      "metrics": {key: float(value) for key, value in metrics.items()},
      "class_ids": [int(p["class_ids"]) for p in predictions],
      "probabilities": [p["probabilities"].tolist() for p in predictions],
      "variables": sorted(estimator.get_variable_names()),
  }
  with open(os.path.join(FLAGS.model_dir, "results.json"), "w") as f:
    json.dump(report, f, indent=2)


if __name__ == "__main__":
  tf.compat.v1.app.run()
