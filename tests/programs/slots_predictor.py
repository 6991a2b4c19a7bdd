# SPDX-License-Identifier: Apache-2.0
"""Marks the words of requests by fused LSTMs, as in 2017; clusters what it learned, and serves it.

TensorFlow 1, with tf.contrib's fused cells, k-means and predictors.
"""
from __future__ import absolute_import
from __future__ import division
from __future__ import print_function

import json
import os

import numpy as np
import tensorflow as tf
from tensorflow.contrib import predictor
from tensorflow.contrib.factorization import KMeansClustering

tf.app.flags.DEFINE_string("model_dir", None, "Directory of the model.")
FLAGS = tf.app.flags.FLAGS

WORDS, SLOTS, LENGTH, UNITS = 12, 4, 5, 6


def requests(count, seed):
  """Words, their number, and the slot of each: that of the word, or of a marker before it."""
  random = np.random.RandomState(seed)
  words = random.randint(1, WORDS, size=[count, LENGTH])
  lengths = random.randint(2, LENGTH + 1, size=count)
  slots = words % SLOTS
  for column in range(1, LENGTH):
    after = words[:, column - 1] < 3
    slots[after, column] = words[after, column - 1]
  inside = np.arange(LENGTH) < lengths[:, None]
  features = {"words": (words * inside).astype(np.int64), "lengths": lengths.astype(np.int32)}
  return features, (slots * inside).astype(np.int32)


def make_input_fn(training):
  def input_fn():
    data = tf.data.Dataset.from_tensor_slices(requests(128, 1 if training else 2))
    return (data.repeat() if training else data).batch(32).make_one_shot_iterator().get_next()
  return input_fn


def model_fn(features, labels, mode):
  with tf.variable_scope("slots", initializer=tf.glorot_uniform_initializer(seed=3)):
    vectors = tf.get_variable("vectors", [WORDS, UNITS])
    inputs = tf.transpose(tf.nn.embedding_lookup(vectors, features["words"]), [1, 0, 2])
    forward = tf.contrib.rnn.LSTMBlockFusedCell(UNITS)
    backward = tf.contrib.rnn.TimeReversedFusedRNN(tf.contrib.rnn.LSTMBlockFusedCell(UNITS))
    outputs = [cell(inputs, dtype=tf.float32, sequence_length=features["lengths"])[0]
               for cell in (forward, backward)]
    encoded = tf.transpose(tf.concat(outputs, -1), [1, 0, 2])
    weights = tf.get_variable("weights", [2 * UNITS, SLOTS])
    logits = tf.tensordot(encoded, weights, 1)
  predictions = {"slots": tf.argmax(logits, -1), "probabilities": tf.nn.softmax(logits)}
  if mode == tf.estimator.ModeKeys.PREDICT:
    return tf.estimator.EstimatorSpec(mode, predictions)
  mask = tf.sequence_mask(features["lengths"], LENGTH)
  loss = tf.losses.sparse_softmax_cross_entropy(labels, logits, tf.to_float(mask))
  tf.add_to_collection("reported_loss", loss)
  train_op = tf.train.AdamOptimizer(0.05).minimize(loss, tf.train.get_global_step())
  return tf.estimator.EstimatorSpec(mode, predictions, loss, train_op, eval_metric_ops={
      "accuracy": tf.metrics.accuracy(labels, predictions["slots"], mask)})


class Losses(tf.train.SessionRunHook):

  def __init__(self):
    self.values = []

  def before_run(self, run_context):
    return tf.train.SessionRunArgs(tf.get_collection("reported_loss")[0])

  def after_run(self, run_context, run_values):
    self.values.append(float(run_values.results))


def serving_input_receiver_fn():
  inputs = {"words": tf.placeholder(tf.int64, [None, LENGTH]),
            "lengths": tf.placeholder(tf.int32, [None])}
  return tf.estimator.export.ServingInputReceiver(inputs, inputs)


def clusters(vectors):
  """Clusters vectors, beginning with the first three."""
  def input_fn():
    return tf.constant(vectors)
  kmeans = KMeansClustering(
      3, os.path.join(FLAGS.model_dir, "clusters"), initial_clusters=vectors[:3],
      use_mini_batch=False, random_seed=1)
  kmeans.train(input_fn, steps=4)
  def once():
    return tf.train.limit_epochs(tf.constant(vectors), num_epochs=1)
  return {"centers": kmeans.cluster_centers().tolist(), "score": float(kmeans.score(input_fn)),
          "indices": [int(index) for index in kmeans.predict_cluster_index(once)]}


def main(_):
  estimator = tf.estimator.Estimator(
      model_fn, os.path.join(FLAGS.model_dir, "slots"), tf.estimator.RunConfig(tf_random_seed=1))
  losses = Losses()
  estimator.train(make_input_fn(True), [losses], max_steps=80)
  metrics = estimator.evaluate(make_input_fn(False))
  path = estimator.export_savedmodel(
      os.path.join(FLAGS.model_dir, "export"), serving_input_receiver_fn)
  features, _ = requests(6, seed=5)
  of_model = predictor.from_estimator(estimator, serving_input_receiver_fn)
  of_export = predictor.from_saved_model(path, signature_def_key="serving_default")
  results = {
      "losses": losses.values,
      "metrics": {name: float(value) for name, value in metrics.items()},
      "variables": estimator.get_variable_names(),
      "slots": [predict(features)["slots"].tolist() for predict in (of_model, of_export)],
      "probabilities": of_export(features)["probabilities"].tolist(),
      "feeds": sorted(of_export.feed_tensors),
      "clusters": clusters(estimator.get_variable_value("slots/vectors")),
  }
  with tf.gfile.Open(os.path.join(FLAGS.model_dir, "results.json"), "w") as output:
    json.dump(results, output)


if __name__ == "__main__":
  tf.app.run()
