# SPDX-License-Identifier: Apache-2.0
"""Train a ResNet on (made-up) images: batch norm, moving averages, evaluation of all checkpoints.

The style of the official TPU models of 2020: the Estimator comes from `tensorflow_estimator`.
"""
from __future__ import absolute_import
from __future__ import division
from __future__ import print_function

import json
import os
import time

from absl import app
from absl import flags
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow_estimator.python.estimator import model_fn as model_fn_lib
from tensorflow_estimator.python.estimator.tpu import tpu_config
from tensorflow_estimator.python.estimator.tpu import tpu_estimator

FLAGS = flags.FLAGS

flags.DEFINE_bool("use_tpu", default=True, help="Use TPU to execute the model.")
flags.DEFINE_string("tpu", default=None, help="The Cloud TPU to use for training.")
flags.DEFINE_string("model_dir", default=None, help="Where checkpoints and summaries are.")
flags.DEFINE_string("mode", default="train_and_eval", help="train, eval or train_and_eval.")
flags.DEFINE_integer("train_steps", default=48, help="Number of training steps.")
flags.DEFINE_integer("train_batch_size", default=16, help="Batch size for training.")
flags.DEFINE_integer("eval_batch_size", default=16, help="Batch size for evaluation.")
flags.DEFINE_integer("num_eval_images", default=60, help="Size of evaluation data set.")
flags.DEFINE_integer("steps_per_eval", default=24, help="Steps between evaluations.")
flags.DEFINE_integer("iterations_per_loop", default=12, help="Steps on the TPU between syncs.")
flags.DEFINE_integer("num_cores", default=8, help="Number of TPU cores.")
flags.DEFINE_float("base_learning_rate", default=0.1, help="Base learning rate.")
flags.DEFINE_float("momentum", default=0.9, help="Momentum parameter.")
flags.DEFINE_float("moving_average_decay", default=0.95, help="0 for no moving average.")
flags.DEFINE_float("weight_decay", default=1e-4, help="Weight decay coefficient.")
flags.DEFINE_float("label_smoothing", default=0.1, help="Label smoothing parameter.")
flags.DEFINE_string("export_dir", default=None, help="Where the SavedModel goes.")

IMAGE_SIZE = 8
NUM_CLASSES = 6
# Multiplier of the learning rate, and the step it holds from.
LR_SCHEDULE = [(1.0, 8), (0.3, 24), (0.1, 40)]


class Images(object):
  """Stripes in six directions and widths, in noise."""

  def __init__(self, is_training, count, seed):
    self.is_training = is_training
    random = np.random.RandomState(seed)
    self.labels = random.randint(NUM_CLASSES, size=count).astype(np.int32)
    rows, columns = np.mgrid[:IMAGE_SIZE, :IMAGE_SIZE]
    patterns = [np.sin(rows), np.sin(columns), np.sin(rows + columns), np.sin(rows - columns),
                np.sin(2 * rows), np.sin(2 * columns)]
    noise = random.normal(scale=0.5, size=(count, IMAGE_SIZE, IMAGE_SIZE, 3))
    self.images = (np.stack(patterns)[self.labels][..., np.newaxis] + noise).astype(np.float32)

  def input_fn(self, params):
    batch_size = params["batch_size"]
    dataset = tf.data.Dataset.from_tensor_slices((self.images, self.labels))
    if self.is_training:
      dataset = dataset.repeat()
    dataset = dataset.batch(batch_size, drop_remainder=self.is_training)
    return dataset.prefetch(2)


def variance_scaling(seed):
  return tf.variance_scaling_initializer(seed=seed)


def batch_norm_relu(inputs, is_training, relu=True, init_zero=False):
  """Batch normalization, then ReLU."""
  gamma = tf.zeros_initializer() if init_zero else tf.ones_initializer()
  inputs = tf.layers.batch_normalization(
      inputs=inputs, axis=3, momentum=0.9, epsilon=1e-5, center=True, scale=True,
      training=is_training, fused=True, gamma_initializer=gamma)
  return tf.nn.relu(inputs) if relu else inputs


def conv2d(inputs, filters, strides, seed):
  return tf.layers.conv2d(
      inputs=inputs, filters=filters, kernel_size=3, strides=strides, padding="SAME",
      use_bias=False, kernel_initializer=variance_scaling(seed))


def residual_block(inputs, filters, is_training, strides, seed):
  """Two convolutions, and a shortcut around them."""
  shortcut = tf.layers.conv2d(
      inputs, filters, 1, strides, padding="SAME", use_bias=False,
      kernel_initializer=variance_scaling(seed))
  shortcut = batch_norm_relu(shortcut, is_training, relu=False)
  inputs = batch_norm_relu(conv2d(inputs, filters, strides, seed + 1), is_training)
  inputs = batch_norm_relu(
      conv2d(inputs, filters, 1, seed + 2), is_training, relu=False, init_zero=True)
  return tf.nn.relu(inputs + shortcut)


def resnet(images, is_training):
  """The network, up to its logits."""
  with tf.variable_scope("resnet"):
    net = batch_norm_relu(conv2d(images, 8, 1, seed=1), is_training)
    net = residual_block(net, 8, is_training, strides=1, seed=10)
    net = residual_block(net, 16, is_training, strides=2, seed=20)
    net = tf.reduce_mean(net, [1, 2], name="final_pool")
    return tf.layers.dense(
        net, NUM_CLASSES, kernel_initializer=tf.random_normal_initializer(stddev=0.05, seed=30))


def learning_rate_schedule(step):
  """Linear warm-up, then steps down."""
  step = tf.cast(step, tf.float32)
  decay_rate = FLAGS.base_learning_rate * step / LR_SCHEDULE[0][1]
  for multiplier, start in LR_SCHEDULE:
    decay_rate = tf.where(step < start, decay_rate, FLAGS.base_learning_rate * multiplier)
  return decay_rate


def resnet_model_fn(features, labels, mode, params):
  """The model_fn for ResNet to be used with TPUEstimator."""
  if isinstance(features, dict):
    features = features["feature"]
  is_training = mode == model_fn_lib.ModeKeys.TRAIN
  logits = resnet(features, is_training)

  ema = None
  ema_vars = None
  if FLAGS.moving_average_decay > 0:
    ema = tf.train.ExponentialMovingAverage(
        decay=FLAGS.moving_average_decay, num_updates=tf.train.get_or_create_global_step())
    ema_vars = tf.trainable_variables() + tf.get_collection("moving_vars")
    for v in tf.global_variables():
      # We maintain mva for batch norm moving mean and variance as well.
      if "moving_mean" in v.name or "moving_variance" in v.name:
        ema_vars.append(v)

  def scaffold_fn():
    saver = tf.train.Saver(ema.variables_to_restore(ema_vars))
    return tf.train.Scaffold(saver=saver)

  use_averages = scaffold_fn if ema and not is_training else None

  if mode == model_fn_lib.ModeKeys.PREDICT:
    predictions = {
        "classes": tf.argmax(logits, axis=1),
        "probabilities": tf.nn.softmax(logits, name="softmax_tensor"),
    }
    return tpu_estimator.TPUEstimatorSpec(
        mode=mode, predictions=predictions, scaffold_fn=use_averages,
        export_outputs={"classify": tf.estimator.export.PredictOutput(predictions)})

  one_hot_labels = tf.one_hot(labels, NUM_CLASSES)
  cross_entropy = tf.losses.softmax_cross_entropy(
      logits=logits, onehot_labels=one_hot_labels, label_smoothing=FLAGS.label_smoothing)
  loss = cross_entropy + FLAGS.weight_decay * tf.add_n([
      tf.nn.l2_loss(v) for v in tf.trainable_variables() if "batch_normalization" not in v.name])

  train_op = None
  host_call = None
  eval_metrics = None
  if is_training:
    global_step = tf.train.get_global_step()
    learning_rate = learning_rate_schedule(global_step)
    optimizer = tf.train.MomentumOptimizer(
        learning_rate=learning_rate, momentum=FLAGS.momentum, use_nesterov=True)
    if params["use_tpu"]:
      optimizer = tf.tpu.CrossShardOptimizer(optimizer)

    # Batch normalization requires UPDATE_OPS to be added as a dependency to the train operation.
    update_ops = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    with tf.control_dependencies(update_ops):
      train_op = optimizer.minimize(loss, global_step)
    if ema:
      with tf.control_dependencies([train_op]):
        train_op = ema.apply(ema_vars)
  else:

    def metric_fn(labels, logits):
      predictions = tf.argmax(logits, axis=1)
      in_top_2 = tf.cast(tf.nn.in_top_k(predictions=logits, targets=labels, k=2), tf.float32)
      return {
          "top_1_accuracy": tf.metrics.accuracy(labels, predictions),
          "top_2_accuracy": tf.metrics.mean(in_top_2),
      }

    eval_metrics = (metric_fn, [labels, logits])

  return tpu_estimator.TPUEstimatorSpec(
      mode=mode, loss=loss, train_op=train_op, host_call=host_call, eval_metrics=eval_metrics,
      scaffold_fn=use_averages)


class LossHook(tf.train.SessionRunHook):
  """Notes the total loss after every step."""

  def __init__(self):
    self.losses = []

  def before_run(self, run_context):
    graph = run_context.session.graph
    return tf.train.SessionRunArgs(graph.get_collection(tf.GraphKeys.LOSSES)[-1])

  def after_run(self, run_context, run_values):
    self.losses.append(float(run_values.results))


def evaluate_all_checkpoints(classifier, images, train_steps):
  """Evaluates checkpoints as they come, until the one of the last step."""
  results = {}
  for checkpoint in tf.train.checkpoints_iterator(FLAGS.model_dir, timeout=1, min_interval_secs=0):
    start = time.time()
    result = classifier.evaluate(
        input_fn=images.input_fn,
        steps=FLAGS.num_eval_images // FLAGS.eval_batch_size,
        checkpoint_path=checkpoint)
    tf.logging.info("Eval results: %s. Elapsed seconds: %d", result, time.time() - start)
    current_step = int(os.path.basename(checkpoint).split("-")[1])
    results[str(current_step)] = {key: float(value) for key, value in result.items()}
    if current_step >= train_steps:
      tf.logging.info("Evaluation finished after training step %d", current_step)
      break
  return results


def serving_input_fn():
  images = tf.placeholder(tf.float32, [None, IMAGE_SIZE, IMAGE_SIZE, 3], name="images")
  return tf.estimator.export.TensorServingInputReceiver(images, {"image": images})


def main(unused_argv):
  cluster = None
  if FLAGS.use_tpu:
    cluster = tf.distribute.cluster_resolver.TPUClusterResolver(FLAGS.tpu)
  config = tpu_config.RunConfig(
      cluster=cluster,
      model_dir=FLAGS.model_dir,
      save_checkpoints_steps=FLAGS.steps_per_eval,
      keep_checkpoint_max=None,
      log_step_count_steps=10,
      session_config=tf.ConfigProto(
          graph_options=tf.GraphOptions(
              rewrite_options=tf.GraphOptions().rewrite_options)),
      tpu_config=tpu_config.TPUConfig(
          iterations_per_loop=FLAGS.iterations_per_loop,
          num_shards=FLAGS.num_cores,
          per_host_input_for_training=tpu_config.InputPipelineConfig.PER_HOST_V2))

  classifier = tpu_estimator.TPUEstimator(
      use_tpu=FLAGS.use_tpu,
      model_fn=resnet_model_fn,
      config=config,
      params={},
      train_batch_size=FLAGS.train_batch_size,
      eval_batch_size=FLAGS.eval_batch_size,
      predict_batch_size=FLAGS.eval_batch_size,
      export_to_tpu=False)

  hook = LossHook()
  evaluation = {}
  test = Images(False, FLAGS.num_eval_images, seed=2)
  if FLAGS.mode == "train_and_eval":
    current_step = 0
    while current_step < FLAGS.train_steps:
      # Train for up to steps_per_eval number of steps.
      next_checkpoint = min(current_step + FLAGS.steps_per_eval, FLAGS.train_steps)
      classifier.train(
          input_fn=Images(True, 480, seed=1).input_fn, max_steps=next_checkpoint, hooks=[hook])
      current_step = next_checkpoint
      evaluation.update(evaluate_all_checkpoints(classifier, test, current_step))
  elif FLAGS.mode == "train":
    classifier.train(Images(True, 480, seed=1).input_fn, max_steps=FLAGS.train_steps, hooks=[hook])
  else:
    evaluation = evaluate_all_checkpoints(classifier, test, FLAGS.train_steps)

  predictions = list(classifier.predict(Images(False, 10, seed=3).input_fn))
  if FLAGS.export_dir is not None:
    classifier.export_saved_model(FLAGS.export_dir, serving_input_fn)

  with tf.gfile.Open(os.path.join(FLAGS.model_dir, "results.json"), "w") as f:
    json.dump({
        "losses": hook.losses,
        "evaluation": evaluation,
        "classes": [int(p["classes"]) for p in predictions],
        "probabilities": [p["probabilities"].tolist() for p in predictions],
        "variables": classifier.get_variable_names(),
        "moving_mean": classifier.get_variable_value(
            "resnet/batch_normalization/moving_mean").tolist(),
        "average_of_moving_mean": classifier.get_variable_value(
            "resnet/batch_normalization/moving_mean/ExponentialMovingAverage").tolist(),
    }, f)


if __name__ == "__main__":
  tf.logging.set_verbosity(tf.logging.INFO)
  app.run(main)
