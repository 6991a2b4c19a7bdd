# SPDX-License-Identifier: Apache-2.0
"""Tags words of sentences by an LSTM and a conditional random field, as in 2018.

TensorFlow 1, with half of tensorflow.contrib imported and less of it used.
"""
from __future__ import absolute_import
from __future__ import division
from __future__ import print_function

import json
import os

import numpy as np
import tensorflow as tf
import tensorflow.contrib.legacy_seq2seq as seq2seq
from tensorflow.contrib import crf
from tensorflow.contrib import lookup as lookup_ops
from tensorflow.contrib import metrics as contrib_metrics
from tensorflow.contrib import quantize as contrib_quantize
from tensorflow.contrib.framework.python.framework import experimental
from tensorflow.contrib.rnn.python.ops import rnn as contrib_rnn_ops
from tensorflow.contrib.training.python.training import hparam

try:
  from tensorflow.contrib.cudnn_rnn import CudnnLSTM
except ImportError:
  CudnnLSTM = None

rnn = tf.contrib.rnn
opt = tf.contrib.opt
layers = tf.contrib.layers

tf.flags.DEFINE_string("model_dir", None, "Directory of the model.")
tf.flags.DEFINE_bool("quantize", False, "Train for eight bits.")
FLAGS = tf.flags.FLAGS

WORDS = ["<pad>", "the", "a", "dog", "cat", "barks", "sleeps", "loud"]
TAGS = [0, 1, 1, 2, 2, 3, 3, 4]
LENGTH = 6


class PointingDecoder(seq2seq.BasicDecoder):
  """For summaries, which nobody wrote."""

  def step(self, time, inputs, state, name=None):
    raise NotImplementedError


def sentences(count, seed):
  """Words and their tags; the tag of "loud" is that of the word before it."""
  random = np.random.RandomState(seed)
  lengths = random.randint(2, LENGTH + 1, size=count)
  words = random.randint(1, len(WORDS), size=[count, LENGTH])
  words *= np.arange(LENGTH) < lengths[:, None]
  tags = np.array(TAGS)[words]
  for column in range(1, LENGTH):
    loud = words[:, column] == WORDS.index("loud")
    tags[loud, column] = tags[loud, column - 1]
  return np.array(WORDS)[words], lengths.astype(np.int32), tags.astype(np.int32)


def make_input_fn(training):
  def input_fn():
    words, lengths, tags = sentences(256, seed=1 if training else 2)
    data = tf.data.Dataset.from_tensor_slices(({"words": words, "lengths": lengths}, tags))
    if training:
      data = data.repeat()
    return data.batch(32).make_one_shot_iterator().get_next()
  return input_fn


def model_fn(features, labels, mode, params):
  table = lookup_ops.index_table_from_tensor(mapping=WORDS)
  ids = table.lookup(features["words"])
  lengths = tf.to_int32(features["lengths"])
  vectors = tf.get_variable(
      "vectors", [len(WORDS), params.units],
      initializer=layers.xavier_initializer(seed=1),
      regularizer=layers.l2_regularizer(1e-4))
  cells = [rnn.LSTMCell(params.units, initializer=layers.xavier_initializer(seed=2))
           for _ in range(2)]
  encoded, _, _ = contrib_rnn_ops.stack_bidirectional_dynamic_rnn(
      cells[:1], cells[1:], tf.nn.embedding_lookup(vectors, ids), dtype=tf.float32,
      sequence_length=lengths)
  scores = tf.layers.dense(
      encoded, params.tags, kernel_initializer=layers.xavier_initializer(seed=3))
  transitions = tf.get_variable(
      "transitions", [params.tags, params.tags], initializer=tf.zeros_initializer())
  tags, score = crf.crf_decode(scores, transitions, lengths)
  predictions = {"tags": tags, "score": score}
  if mode == tf.estimator.ModeKeys.PREDICT:
    return tf.estimator.EstimatorSpec(
        mode, predictions,
        export_outputs={"serving_default": tf.estimator.export.PredictOutput(predictions)})
  likelihood, _ = crf.crf_log_likelihood(scores, labels, lengths, transitions)
  loss = tf.reduce_mean(-likelihood) + tf.losses.get_regularization_loss()
  tf.add_to_collection("reported_loss", loss)
  if FLAGS.quantize:
    contrib_quantize.create_training_graph()
  train_op = tf.train.AdamOptimizer(params.rate).minimize(loss, tf.train.get_global_step())
  weights = tf.sequence_mask(lengths, LENGTH)
  return tf.estimator.EstimatorSpec(mode, predictions, loss, train_op, eval_metric_ops={
      "accuracy": contrib_metrics.streaming_accuracy(tags, labels, weights),
      "error": contrib_metrics.streaming_mean_absolute_error(tags, labels, weights),
  })


class Losses(tf.train.SessionRunHook):

  def __init__(self):
    self.values = []

  def before_run(self, run_context):
    return tf.train.SessionRunArgs(tf.get_collection("reported_loss")[0])

  def after_run(self, run_context, run_values):
    self.values.append(float(run_values.results))


def advice(function):
  """What an unsupported name says when it is used."""
  try:
    function()
  except AttributeError as error:
    return str(error)
  return None


def main(_):
  params = hparam.HParams(units=8, tags=5, rate=0.05)
  estimator = tf.estimator.Estimator(
      model_fn, FLAGS.model_dir, tf.estimator.RunConfig(tf_random_seed=1), params)
  losses = Losses()
  estimator.train(make_input_fn(True), [losses], max_steps=60)
  metrics = estimator.evaluate(make_input_fn(False))
  predictions = [p["tags"].tolist() for p in estimator.predict(make_input_fn(False))]
  estimator.export_savedmodel(
      os.path.join(FLAGS.model_dir, "export"),
      tf.estimator.export.build_raw_serving_input_receiver_fn({
          "words": tf.placeholder(tf.string, [None, LENGTH]),
          "lengths": tf.placeholder(tf.int32, [None])}))
  results = {
      "losses": losses.values,
      "metrics": {name: float(value) for name, value in metrics.items()},
      "predictions": predictions,
      "expected": sentences(256, seed=2)[2].tolist(),
      "variables": estimator.get_variable_names(),
      "fallback": CudnnLSTM is None,
      "found": [hasattr(tf.contrib, name) for name in ("rnn", "legacy_seq2seq", "cudnn_rnn")],
      "advice": [
          advice(lambda: PointingDecoder(None, None, None)),
          advice(lambda: contrib_quantize.create_training_graph()),
          advice(lambda: opt.ElasticAverageOptimizer(None)),
          advice(lambda: experimental(None)),
      ],
  }
  with tf.gfile.Open(os.path.join(FLAGS.model_dir, "results.json"), "w") as output:
    json.dump(results, output)


if __name__ == "__main__":
  tf.app.run()
