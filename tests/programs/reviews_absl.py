# SPDX-License-Identifier: Apache-2.0
"""Good and bad reviews: Keras layers in a TPUEstimator, absl flags, summaries by a host call.

The style of research code of 2020: `tensorflow.compat.v1` as `tf`, and the Estimator imported from
it.
"""
from __future__ import absolute_import
from __future__ import division
from __future__ import print_function

import json
import os

from absl import app
from absl import flags
from absl import logging
import numpy as np
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2
from tensorflow.compat.v1 import estimator as tf_estimator

flags.DEFINE_string("output_dir", None, "Directory for checkpoints, summaries and results.")
flags.DEFINE_enum("optimizer", "adam", ["adam", "momentum"], "Which optimizer to use.")
flags.DEFINE_multi_enum("mode", ["train", "eval", "predict", "export"],
                        ["train", "eval", "predict", "export"], "What to do.")
flags.DEFINE_integer("train_steps", 60, "Number of training steps.", lower_bound=1)
flags.DEFINE_integer("train_batch_size", 24, "Batch size of training.")
flags.DEFINE_integer("eval_batch_size", 16, "Batch size of evaluation.")
flags.DEFINE_integer("predict_batch_size", 8, "Batch size of prediction.")
flags.DEFINE_float("learning_rate", 0.01, "Learning rate.")
flags.DEFINE_bool("use_tpu", False, "Whether to run on a TPU.")
flags.DEFINE_string("tpu_name", None, "Name of the TPU.")
flags.DEFINE_string("master", "", "Address of the TPU's master.")
flags.mark_flag_as_required("output_dir")

FLAGS = flags.FLAGS

VOCABULARY = 80
LENGTH = 12


def reviews(count, seed):
  """Rows of word ids; the first words are good, the last are bad, most say nothing."""
  random = np.random.RandomState(seed)
  words = random.randint(1, VOCABULARY, size=(count, LENGTH))
  lengths = random.randint(4, LENGTH + 1, size=count)
  words[np.arange(LENGTH) >= lengths[:, np.newaxis]] = 0
  tone = ((words > 0) & (words < 20)).sum(axis=1) - (words >= 60).sum(axis=1)
  return words.astype(np.int32), (tone > 0).astype(np.int32)


def get_input_fn(seed, count, is_training):
  """An input_fn over made-up reviews."""

  def input_fn(params):
    words, labels = reviews(count, seed)
    dataset = tf.data.Dataset.from_tensor_slices(({"words": words}, labels))
    if is_training:
      dataset = dataset.shuffle(100, seed=7).repeat()
    return dataset.batch(params["batch_size"], drop_remainder=is_training)

  return input_fn


def serving_input_receiver_fn():
  words = tf.placeholder(tf.int32, [None, LENGTH], name="words")
  return tf_estimator.export.build_raw_serving_input_receiver_fn({"words": words})()


def get_logits(words, is_training):
  """Words to logits [B, 2]."""
  embedded = tf.keras.layers.Embedding(
      VOCABULARY, 8, name="word_embedding",
      embeddings_initializer=tf.keras.initializers.RandomUniform(-0.1, 0.1, seed=1))(words)
  mask = tf.cast(words > 0, tf.float32)[:, :, tf.newaxis]
  pooled = tf.reduce_sum(embedded * mask, axis=1) / tf.reduce_sum(mask, axis=1)
  hidden = tf.keras.layers.Dense(
      16, activation="relu", name="hidden",
      kernel_initializer=tf.keras.initializers.glorot_uniform(seed=2))(pooled)
  if is_training:
    hidden = tf.nn.dropout(hidden, rate=0.1, seed=3)
  return tf.keras.layers.Dense(
      2, name="logits", kernel_initializer=tf.keras.initializers.glorot_uniform(seed=4))(hidden)


def get_host_call(summaries, model_dir):
  """A host call that writes scalars of a dictionary with TF2's writer."""
  names = sorted(summaries)

  def host_call_fn(step, *values):
    step = step[0]
    with tf2.summary.create_file_writer(model_dir, max_queue=10).as_default():
      with tf2.summary.record_if(tf.equal(step % 5, 0)):
        for name, value in zip(names, values):
          tf2.summary.scalar(name, value[0], step=step)
      return tf.summary.all_v2_summary_ops()

  step = tf.train.get_or_create_global_step()
  tensors = [tf.reshape(step, [1])] + [tf.reshape(summaries[name], [1]) for name in names]
  return host_call_fn, tensors


def get_optimizer(learning_rate):
  if FLAGS.optimizer == "adam":
    optimizer = tf.train.AdamOptimizer(learning_rate)
  else:
    optimizer = tf.train.MomentumOptimizer(learning_rate, 0.9, use_nesterov=True)
  if FLAGS.use_tpu:
    optimizer = tf.tpu.CrossShardOptimizer(optimizer)
  return optimizer


def model_fn(features, labels, mode, params, config):
  """Model function."""
  is_training = mode == tf_estimator.ModeKeys.TRAIN
  logits = get_logits(features["words"], is_training)
  predictions = {"label": tf.argmax(logits, axis=-1), "scores": tf.nn.softmax(logits)}
  if mode == tf_estimator.ModeKeys.PREDICT:
    return tf_estimator.tpu.TPUEstimatorSpec(mode=mode, predictions=predictions)

  loss = tf.reduce_mean(
      tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits), name="loss")
  if mode == tf_estimator.ModeKeys.EVAL:

    def metric_fn(labels, predicted, logits):
      return {
          "accuracy": tf.metrics.accuracy(labels, predicted),
          "precision": tf.metrics.precision(labels, predicted),
          "recall": tf.metrics.recall(labels, predicted),
          "mean_logit": tf.metrics.mean(logits),
      }

    return tf_estimator.tpu.TPUEstimatorSpec(
        mode=mode, loss=loss, eval_metrics=(metric_fn, [labels, predictions["label"], logits]))

  step = tf.train.get_or_create_global_step()
  learning_rate = tf.train.polynomial_decay(
      params["learning_rate"], step, FLAGS.train_steps, end_learning_rate=0.0)
  train_op = get_optimizer(learning_rate).minimize(loss, step)
  summaries = {"training/loss": loss, "training/learning_rate": learning_rate}
  return tf_estimator.tpu.TPUEstimatorSpec(
      mode=mode, loss=loss, train_op=train_op,
      host_call=get_host_call(summaries, config.model_dir))


def read_summaries(model_dir):
  """What the host call wrote: {tag: {step: value}}."""
  found = {}
  for path in tf.gfile.Glob(os.path.join(model_dir, "*.v2")):
    for event in tf.train.summary_iterator(path):
      for value in event.summary.value:
        found.setdefault(value.tag, {})[event.step] = float(tf2.make_ndarray(value.tensor))
  return found


def main(unused_argv):
  model_dir = os.path.join(FLAGS.output_dir, "model")
  tf.gfile.MakeDirs(FLAGS.output_dir)
  run_config = tf_estimator.tpu.RunConfig(
      master=FLAGS.master,
      model_dir=model_dir,
      save_checkpoints_steps=20,
      keep_checkpoint_max=5,
      tf_random_seed=42,
      tpu_config=tf_estimator.tpu.TPUConfig(
          iterations_per_loop=10,
          per_host_input_for_training=tf_estimator.tpu.InputPipelineConfig.PER_HOST_V2))
  estimator = tf_estimator.tpu.TPUEstimator(
      use_tpu=FLAGS.use_tpu,
      model_fn=model_fn,
      config=run_config,
      params={"learning_rate": FLAGS.learning_rate},
      train_batch_size=FLAGS.train_batch_size,
      eval_batch_size=FLAGS.eval_batch_size,
      predict_batch_size=FLAGS.predict_batch_size)
  results = {}

  if "train" in FLAGS.mode:
    estimator.train(get_input_fn(1, 480, True), max_steps=FLAGS.train_steps)
    written = read_summaries(model_dir)
    results["summaries"] = {
        tag: {str(step): value for step, value in sorted(values.items())}
        for tag, values in written.items()}
    results["losses"] = [value for _, value in sorted(written["training/loss"].items())]
  if "eval" in FLAGS.mode:
    metrics = estimator.evaluate(get_input_fn(2, 100, False), steps=None, name="test")
    logging.info("Evaluation: %s", metrics)
    results["metrics"] = {name: float(value) for name, value in metrics.items()}
    early = estimator.evaluate(
        get_input_fn(2, 100, False), steps=2,
        checkpoint_path=os.path.join(model_dir, "model.ckpt-20"), name="early")
    results["early_metrics"] = {name: float(value) for name, value in early.items()}
  if "predict" in FLAGS.mode:
    predictions = estimator.predict(get_input_fn(3, 20, False), yield_single_examples=False)
    results["scores"] = [batch["scores"].tolist() for batch in predictions]
  if "export" in FLAGS.mode:
    estimator.export_saved_model(
        os.path.join(FLAGS.output_dir, "export"), serving_input_receiver_fn)
  results["variables"] = estimator.get_variable_names()
  results["shapes"] = {
      name: list(estimator.get_variable_value(name).shape) for name in results["variables"]}

  with tf.gfile.GFile(os.path.join(FLAGS.output_dir, "results.json"), "w") as f:
    f.write(json.dumps(results, indent=2, sort_keys=True))


if __name__ == "__main__":
  app.run(main)
