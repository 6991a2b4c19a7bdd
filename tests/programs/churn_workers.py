# SPDX-License-Identifier: Apache-2.0
"""A click model with a MultiWorkerMirroredStrategy in its RunConfig, as on a cluster of GPUs.

The style of 2019: train_and_evaluate on TF_CONFIG; without it, the same file runs on one machine.
`hidden_units` come from a flag, as strings.
"""
from __future__ import absolute_import
from __future__ import division
from __future__ import print_function

import json
import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.flags.DEFINE_string("model_dir", None, "Where to save files.")
tf.flags.DEFINE_string("hidden_units", "8 4", "Sizes of the hidden layers.")
tf.flags.DEFINE_integer("batch_size", 32, "Examples of a step, on all workers.")
tf.flags.DEFINE_integer("train_steps", 60, "Training steps.")
FLAGS = tf.flags.FLAGS


def data():
  random = np.random.RandomState(7)
  plans = np.array(["basic", "family", "business"])[random.randint(3, size=320)]
  months = random.randint(1, 48, size=320).astype(np.float32)
  churned = (months < 12) ^ (plans == "business")
  return {"plan": plans, "months": months}, churned.astype(np.int32)


def input_fn(mode, input_context=None):
  dataset = tf.data.Dataset.from_tensor_slices(data())
  size = FLAGS.batch_size
  if input_context:
    dataset = dataset.shard(
        input_context.num_input_pipelines, input_context.input_pipeline_id)
    size = input_context.get_per_replica_batch_size(size)
  if mode == tf.estimator.ModeKeys.TRAIN:
    dataset = dataset.repeat()
  return dataset.batch(size)


def columns():
  plan = tf.feature_column.categorical_column_with_vocabulary_list(
      "plan", ["basic", "family", "business"])
  months = tf.feature_column.numeric_column("months", normalizer_fn=lambda x: x / 48.0)
  return [tf.feature_column.indicator_column(plan), months]


class Losses(tf.train.SessionRunHook):

  def __init__(self):
    self.losses = []

  def before_run(self, run_context):
    losses = run_context.session.graph.get_collection(tf.GraphKeys.LOSSES)
    return tf.train.SessionRunArgs(losses[-1])

  def after_run(self, run_context, run_values):
    self.losses.append(float(run_values.results))


def main(_):
  strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy()
  config = tf.estimator.RunConfig(
      model_dir=FLAGS.model_dir, train_distribute=strategy, tf_random_seed=3,
      save_checkpoints_steps=30)
  estimator = tf.estimator.DNNClassifier(
      hidden_units=FLAGS.hidden_units.split(), feature_columns=columns(), config=config,
      optimizer=lambda: tf.train.AdagradOptimizer(0.1))
  hook = Losses()
  receiver_fn = tf.estimator.export.build_parsing_serving_input_receiver_fn(
      tf.feature_column.make_parse_example_spec(columns()))
  exporter = tf.estimator.FinalExporter("churn", receiver_fn)
  tf.estimator.train_and_evaluate(
      estimator,
      tf.estimator.TrainSpec(input_fn, max_steps=FLAGS.train_steps, hooks=[hook]),
      tf.estimator.EvalSpec(input_fn, steps=None, exporters=exporter, throttle_secs=0))
  metrics = estimator.evaluate(input_fn)
  results = {
      "losses": hook.losses,
      "metrics": {key: float(value) for key, value in metrics.items()},
      "predictions": [p["probabilities"].tolist() for p in estimator.predict(input_fn)][:20],
      "variables": [v for v in estimator.get_variable_names() if "Adagrad" not in v],
      "kernels": [list(estimator.get_variable_value("dnn/hiddenlayer_%d/kernel" % i).shape)
                  for i in range(2)],
  }
  with tf.gfile.Open(os.path.join(FLAGS.model_dir, "results.json"), "w") as f:
    json.dump(results, f, sort_keys=True, indent=1)


if __name__ == "__main__":
  tf.disable_eager_execution()
  tf.app.run(main)
