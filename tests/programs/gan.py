# SPDX-License-Identifier: Apache-2.0
"""A small GAN: two networks, two optimizers, one global step.

The style of GAN research code on TPUs: both players are trained in one train_op.
"""
from __future__ import absolute_import
from __future__ import division
from __future__ import print_function

import functools
import json
import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.flags.DEFINE_string("model_dir", None, "Where to save files.")
tf.flags.DEFINE_bool("use_tpu", False, "Whether running on TPU or not.")
tf.flags.DEFINE_integer("disc_iters", 2, "Steps of the discriminator for one of the generator.")
tf.flags.DEFINE_integer("train_steps", 40, "Training steps of the generator.")
tf.flags.DEFINE_integer("batch_size", 16, "Real samples in a step of the discriminator.")
FLAGS = tf.flags.FLAGS

Z_DIM = 4
DATA_DIM = 6

tpu = tf.estimator.tpu


def real_samples(seed, count):
  """A ring in the first two dimensions, and a constant in the others."""
  random = np.random.RandomState(seed)
  angle = random.uniform(0, 2 * np.pi, size=count)
  rest = 0.05 * random.normal(size=(count, DATA_DIM - 2)) + 0.5
  return np.column_stack([np.cos(angle), np.sin(angle), rest]).astype(np.float32)


def input_fn(params, seed, is_training):
  """Real samples and noise, enough for all sub-steps of a step."""
  batch_size = params["batch_size"]
  sub_steps = FLAGS.disc_iters + 1 if is_training else 1
  data = tf.data.Dataset.from_tensor_slices(real_samples(seed, 320))
  noise = np.random.RandomState(seed + 1).normal(size=(640, Z_DIM)).astype(np.float32)
  noise = tf.data.Dataset.from_tensor_slices(noise)
  if is_training:
    data, noise = data.repeat(), noise.repeat()
  dataset = tf.data.Dataset.zip(({"images": data, "z": noise}, data.map(lambda _: 0)))
  # The labels aren't used; some models of this code base are conditional.
  return dataset.batch(batch_size * sub_steps, drop_remainder=True)


def linear(x, units, name, stddev=0.3):
  with tf.variable_scope(name):
    seed = units + len(tf.get_variable_scope().name)
    kernel = tf.get_variable(
        "kernel", [x.shape[-1], units],
        initializer=tf.random_normal_initializer(stddev=stddev, seed=seed))
    bias = tf.get_variable("bias", [units], initializer=tf.constant_initializer(0.0))
    return tf.matmul(x, kernel) + bias


def generator(z):
  with tf.variable_scope("generator", reuse=tf.AUTO_REUSE):
    net = tf.nn.relu(linear(z, 12, "fc1"))
    return linear(net, DATA_DIM, "fc2")


def discriminator(x):
  with tf.variable_scope("discriminator", reuse=tf.AUTO_REUSE):
    net = tf.nn.leaky_relu(linear(x, 12, "fc1"))
    return linear(net, 1, "fc_final")


def losses(images, z):
  """Non-saturating losses of the discriminator and of the generator."""
  fake = generator(z)
  d_real, d_fake = discriminator(images), discriminator(fake)
  cross_entropy = tf.nn.sigmoid_cross_entropy_with_logits
  d_loss = tf.reduce_mean(cross_entropy(logits=d_real, labels=tf.ones_like(d_real)))
  d_loss += tf.reduce_mean(cross_entropy(logits=d_fake, labels=tf.zeros_like(d_fake)))
  g_loss = tf.reduce_mean(cross_entropy(logits=d_fake, labels=tf.ones_like(d_fake)))
  return d_loss, g_loss


def make_optimizer(learning_rate, name):
  optimizer = tf.train.AdamOptimizer(learning_rate, beta1=0.5, beta2=0.9, name=name)
  if FLAGS.use_tpu:
    optimizer = tpu_cross_shard(optimizer)
  return optimizer


def tpu_cross_shard(optimizer):
  return tf.tpu.CrossShardOptimizer(optimizer)


def create_train_op(features):
  """disc_iters steps of the discriminator, then one of the generator."""
  images = tf.split(features["images"], FLAGS.disc_iters + 1)
  z = tf.split(features["z"], FLAGS.disc_iters + 1)
  d_optimizer = make_optimizer(0.02, "d_adam")
  g_optimizer = make_optimizer(0.01, "g_adam")
  # The number of the discriminator's steps is a variable of its own.
  d_step = tf.get_variable(
      "discriminator_step", [], tf.int32, initializer=tf.zeros_initializer(), trainable=False)

  d_losses = []
  deps = []
  for i in range(FLAGS.disc_iters):
    with tf.control_dependencies(deps):
      d_loss, _ = losses(images[i], z[i])
      d_vars = tf.trainable_variables("discriminator")
      deps.append(d_optimizer.minimize(d_loss, var_list=d_vars, global_step=d_step))
      d_losses.append(d_loss)
  with tf.control_dependencies(deps):
    _, g_loss = losses(images[-1], z[-1])
    g_vars = tf.trainable_variables("generator")
    g_grads = g_optimizer.compute_gradients(g_loss, var_list=g_vars)
    g_train = g_optimizer.apply_gradients(g_grads, global_step=tf.train.get_global_step())
  return tf.identity(tf.add_n(d_losses) / len(d_losses), "d_loss"), tf.identity(
      g_loss, "g_loss"), g_train


def model_fn(features, labels, params, mode):
  """Constructs the model for the given features and mode."""
  del labels, params
  if mode == tf.estimator.ModeKeys.PREDICT:
    images = generator(features["z"])
    outputs = {"generated": images, "score": discriminator(images)}
    return tpu.TPUEstimatorSpec(
        mode, predictions=outputs,
        export_outputs={
            "serving_default": tf.estimator.export.PredictOutput({"generated": images}),
            "discriminator": tf.estimator.export.PredictOutput({"score": outputs["score"]}),
        })
  if mode == tf.estimator.ModeKeys.EVAL:
    d_loss, g_loss = losses(features["images"], features["z"])
    # The summary ops of a TPU program run on the host.
    metric_fn = lambda d, g, generated: {
        "d_loss": tf.metrics.mean(d),
        "g_loss": tf.metrics.mean(g),
        "constant": tf.metrics.mean(generated[:, 2:]),
    }
    expanded = [tf.reshape(d_loss, [1]), tf.reshape(g_loss, [1]), generator(features["z"])]
    return tpu.TPUEstimatorSpec(mode, loss=d_loss, eval_metrics=(metric_fn, expanded))

  d_loss, g_loss, train_op = create_train_op(features)
  hooks = [tf.train.LoggingTensorHook(["d_loss", "g_loss"], every_n_iter=10)]
  return tpu.TPUEstimatorSpec(mode, loss=g_loss, train_op=train_op, training_hooks=hooks)


class PlayersHook(tf.train.SessionRunHook):
  """Notes the losses of both players."""

  def __init__(self):
    self.d_losses = []
    self.g_losses = []

  def before_run(self, run_context):
    return tf.train.SessionRunArgs({"d": "d_loss:0", "g": "g_loss:0"})

  def after_run(self, run_context, run_values):
    self.d_losses.append(float(run_values.results["d"]))
    self.g_losses.append(float(run_values.results["g"]))


def main(_):
  run_config = tpu.RunConfig(
      model_dir=FLAGS.model_dir,
      tf_random_seed=8,
      save_checkpoints_steps=20,
      keep_checkpoint_max=None,
      tpu_config=tpu.TPUConfig(iterations_per_loop=5))
  estimator = tpu.TPUEstimator(
      config=run_config,
      use_tpu=FLAGS.use_tpu,
      model_fn=model_fn,
      train_batch_size=FLAGS.batch_size,
      eval_batch_size=64,
      predict_batch_size=64)
  hook = PlayersHook()
  estimator.train(
      functools.partial(input_fn, seed=1, is_training=True),
      max_steps=FLAGS.train_steps, hooks=[hook])

  results = {"losses": hook.d_losses, "generator_losses": hook.g_losses, "metrics": {}}
  for path in sorted(tf.gfile.Glob(os.path.join(FLAGS.model_dir, "model.ckpt-*.index"))):
    path = path[:-len(".index")]
    scores = estimator.evaluate(
        functools.partial(input_fn, seed=2, is_training=False), steps=5, checkpoint_path=path)
    results["metrics"][os.path.basename(path)] = {k: float(v) for k, v in scores.items()}

  def noise_fn(params):
    z = np.random.RandomState(5).normal(size=(9, Z_DIM)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices({"z": z}).batch(params["batch_size"])

  results["generated"] = [p["generated"].tolist() for p in estimator.predict(noise_fn)]
  z = {"z": tf.placeholder(tf.float32, [None, Z_DIM])}
  estimator.export_saved_model(
      os.path.join(FLAGS.model_dir, "export"),
      tf.estimator.export.build_raw_serving_input_receiver_fn(z))
  results["variables"] = estimator.get_variable_names()
  results["steps"] = {
      name: int(estimator.get_variable_value(name)) for name in ("global_step", "discriminator_step")}
  with tf.gfile.Open(os.path.join(FLAGS.model_dir, "results.json"), "w") as f:
    json.dump(results, f, sort_keys=True, indent=1)


if __name__ == "__main__":
  tf.disable_eager_execution()
  tf.app.run(main)
