# SPDX-License-Identifier: Apache-2.0
"""Skip-gram word vectors, as the first TPU models of early 2018 were written.

TensorFlow 1 through and through: `import tensorflow as tf`, and the TPU names come from where they
were then, modules deep in `tensorflow.contrib.tpu.python.tpu`.
"""
from __future__ import absolute_import
from __future__ import division
from __future__ import print_function

import json
import os
import sys

import numpy as np
import tensorflow as tf
from tensorflow.contrib.tpu.python.tpu import tpu_config
from tensorflow.contrib.tpu.python.tpu import tpu_estimator
from tensorflow.contrib.tpu.python.tpu import tpu_optimizer

flags = tf.app.flags
flags.DEFINE_string("master", "local", "BNS name of the TensorFlow master to use.")
flags.DEFINE_string("model_dir", None, "Directory for model output.")
flags.DEFINE_bool("use_tpu", True, "Run on a TPU.")
flags.DEFINE_integer("num_shards", 8, "Number of TPU chips.")
flags.DEFINE_integer("iterations", 25, "Number of iterations per TPU training loop.")
flags.DEFINE_integer("train_epochs", 4, "Epochs to train for.")
flags.DEFINE_integer("batch_size", 64, "Words in a batch.")
FLAGS = flags.FLAGS

WORDS = 24
TOPICS = 4
DIMENSION = 6
SAMPLES = 1600


def word_pairs(count, seed):
  """Pairs of neighbours: words of one topic, mostly."""
  rng = np.random.RandomState(seed)
  center = rng.randint(WORDS, size=count)
  neighbour = center % TOPICS + TOPICS * rng.randint(WORDS // TOPICS, size=count)
  noise = rng.uniform(size=count) < 0.1
  neighbour[noise] = rng.randint(WORDS, size=noise.sum())
  return center.astype(np.int32), neighbour.astype(np.int32)


def train_input_fn(params):
  """Tensors, not a dataset: the first TPUEstimator knew no other way."""
  center, neighbour = word_pairs(SAMPLES, 1)
  dataset = tf.data.Dataset.from_tensor_slices((center, neighbour)).repeat()
  dataset = dataset.batch(params["batch_size"], drop_remainder=True)
  center, neighbour = dataset.make_one_shot_iterator().get_next()
  return center, neighbour


def eval_input_fn(params):
  dataset = tf.data.Dataset.from_tensor_slices(word_pairs(320, 2))
  dataset = dataset.batch(params["batch_size"], drop_remainder=True)
  return dataset.make_one_shot_iterator().get_next()


def predict_input_fn(params):
  del params  # one batch of its own size
  return tf.data.Dataset.from_tensors({"word": np.arange(WORDS, dtype=np.int32)})


def serving_input_receiver_fn():
  word = tf.placeholder(tf.int32, [None], "word")
  return tf.estimator.export.ServingInputReceiver({"word": word}, {"word": word})


def model_fn(features, labels, mode, params):
  """Vectors of words, and a softmax over the neighbours."""
  word = features["word"] if isinstance(features, dict) else features
  with tf.variable_scope("word2vec"):
    vectors = tf.get_variable(
        "vectors", [WORDS, DIMENSION],
        initializer=tf.random_uniform_initializer(-0.5, 0.5, seed=1))
    weights = tf.get_variable(
        "nce_weights", [WORDS, DIMENSION],
        initializer=tf.truncated_normal_initializer(stddev=0.3, seed=2))
    biases = tf.get_variable(
        "nce_biases", [WORDS], initializer=tf.zeros_initializer())
  vector = tf.nn.embedding_lookup(vectors, word)
  logits = tf.matmul(vector, weights, transpose_b=True) + biases

  if mode == tf.estimator.ModeKeys.PREDICT:
    predictions = {"vector": vector, "neighbours": tf.nn.top_k(logits, k=3).indices}
    return tpu_estimator.TPUEstimatorSpec(mode=mode, predictions=predictions)

  loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
  if mode == tf.estimator.ModeKeys.EVAL:

    def metric_fn(labels, logits):
      recall_at_3 = tf.cast(tf.nn.in_top_k(predictions=logits, targets=labels, k=3), tf.float32)
      return {"recall_at_3": tf.metrics.mean(recall_at_3)}

    return tpu_estimator.TPUEstimatorSpec(
        mode=mode, loss=loss, eval_metrics=(metric_fn, [labels, logits]))

  global_step = tf.train.get_global_step()
  learning_rate = tf.train.exponential_decay(
      params["learning_rate"], global_step, 25, 0.9, staircase=True)
  optimizer = tf.train.AdagradOptimizer(learning_rate)
  if params["use_tpu"]:
    optimizer = tpu_optimizer.CrossShardOptimizer(optimizer)
  train_op = optimizer.minimize(loss, global_step=global_step)
  return tpu_estimator.TPUEstimatorSpec(mode=mode, loss=loss, train_op=train_op)


class CollectLoss(tf.train.SessionRunHook):

  def __init__(self):
    self.losses = []

  def before_run(self, run_context):
    return tf.train.SessionRunArgs(tf.losses.get_losses()[0])

  def after_run(self, run_context, run_values):
    self.losses.append(float(run_values.results))


def main(unused_argv):
  if FLAGS.model_dir is None:
    raise ValueError("Flags --model_dir must be set.")

  run_config = tpu_config.RunConfig(
      master=FLAGS.master if FLAGS.master != "local" else "",
      evaluation_master="",
      model_dir=FLAGS.model_dir,
      save_checkpoints_secs=3600,
      session_config=tf.ConfigProto(allow_soft_placement=True),
      tpu_config=tpu_config.TPUConfig(FLAGS.iterations, FLAGS.num_shards, None,
                                      tpu_config.InputPipelineConfig.PER_HOST_V1))
  estimator = tpu_estimator.TPUEstimator(
      model_fn=model_fn,
      use_tpu=FLAGS.use_tpu,
      config=run_config,
      params=dict(learning_rate=1.0),
      train_batch_size=FLAGS.batch_size,
      eval_batch_size=FLAGS.batch_size,
      predict_batch_size=WORDS)
  steps_per_epoch = SAMPLES // FLAGS.batch_size
  collect = CollectLoss()
  report = {"epochs": []}
  for cycle in range(FLAGS.train_epochs):
    tf.logging.info("Starting training cycle %d.", cycle)
    estimator.train(input_fn=train_input_fn, steps=steps_per_epoch, hooks=[collect])
    evaluation = estimator.evaluate(input_fn=eval_input_fn, steps=5)
    report["epochs"].append({key: float(evaluation[key]) for key in evaluation})
  report["losses"] = collect.losses
  predictions = list(estimator.predict(predict_input_fn))
  report["neighbours"] = [[int(n) for n in p["neighbours"]] for p in predictions]
  report["vectors"] = [[float(x) for x in p["vector"]] for p in predictions]
  estimator.export_savedmodel(
      os.path.join(FLAGS.model_dir, "export"), serving_input_receiver_fn)
  report["variables"] = estimator.get_variable_names()
  with open(os.path.join(FLAGS.model_dir, "results.json"), "w") as out:
    json.dump(report, out, sort_keys=True)


if __name__ == "__main__":
  tf.logging.set_verbosity(tf.logging.INFO)
  tf.app.run(main=main, argv=[sys.argv[0]] + sys.argv[1:])
