# SPDX-License-Identifier: Apache-2.0
"""Trains a census model by an Experiment, as the cloud's samples did in 2017.

learn_runner with RunConfig and HParams, CSV files read by queues, TFRecords by
read_batch_record_features, export strategies for JSON, CSV and tf.Examples.
"""
from __future__ import absolute_import
from __future__ import division
from __future__ import print_function

import argparse
import glob
import json
import os

import numpy as np
import tensorflow as tf
from tensorflow.contrib import layers
from tensorflow.contrib import learn
from tensorflow.contrib.learn import learn_runner
from tensorflow.contrib.learn.python.learn.estimators import run_config
from tensorflow.contrib.learn.python.learn.utils import input_fn_utils
from tensorflow.contrib.learn.python.learn.utils import saved_model_export_utils
from tensorflow.contrib.training.python.training import hparam

CSV_COLUMNS = ["age", "hours", "job", "sex", "income"]
CSV_COLUMN_DEFAULTS = [[0.], [0.], [""], [""], [""]]
LABELS = [" <=50K", " >50K"]
INPUT_COLUMNS = [
    layers.sparse_column_with_keys(column_name="sex", keys=["f", "m"]),
    layers.sparse_column_with_hash_bucket("job", hash_bucket_size=20, dtype=tf.string),
    layers.real_valued_column("age"),
    layers.real_valued_column("hours"),
]


def people(count, seed):
  random = np.random.RandomState(seed)
  rows = []
  for _ in range(count):
    age, hours = random.randint(18, 80), random.randint(10, 60)
    job, sex = ["sales", "tech", "farm"][random.randint(3)], "fm"[random.randint(2)]
    rows.append([age, hours, job, sex, LABELS[int(hours + 30 * (job == "tech") > 50)]])
  return rows


def write_files(job_dir):
  """The training data as CSV, the evaluation data as TFRecords."""
  train_file = os.path.join(job_dir, "train.csv")
  with tf.gfile.Open(train_file, "w") as f:
    f.write("".join(",".join(map(str, row)) + "\n" for row in people(400, 1)))
  eval_file = os.path.join(job_dir, "eval.tfrecord")
  with tf.python_io.TFRecordWriter(eval_file) as writer:
    for row in people(100, 2):
      example = tf.train.Example()
      for name, value in zip(CSV_COLUMNS, row):
        feature = example.features.feature[name]
        if isinstance(value, str):
          feature.bytes_list.value.append(value.encode())
        else:
          feature.float_list.value.append(value)
      writer.write(example.SerializeToString())
  return train_file, eval_file


def build_estimator(config, embedding_size, hidden_units):
  """Build a wide and deep model for predicting income category."""
  sex, job, age, hours = INPUT_COLUMNS
  hour_buckets = layers.bucketized_column(hours, boundaries=[20, 30, 40, 50])
  wide_columns = [
      layers.crossed_column([hour_buckets, job], hash_bucket_size=100,
                            hash_key=layers.SPARSE_FEATURE_CROSS_DEFAULT_HASH_KEY),
      sex, job, hour_buckets]
  deep_columns = [
      layers.embedding_column(job, dimension=embedding_size), layers.one_hot_column(sex), age, hours]
  return learn.DNNLinearCombinedClassifier(
      config=config,
      linear_feature_columns=wide_columns,
      dnn_feature_columns=deep_columns,
      dnn_optimizer=tf.train.AdagradOptimizer(0.01),
      dnn_hidden_units=hidden_units,
      fix_global_step_increment_bug=True)


def parse_label_column(label_string_tensor):
  table = tf.contrib.lookup.index_table_from_tensor(tf.constant(LABELS))
  return table.lookup(label_string_tensor)


def parse_csv(rows_string_tensor):
  """Takes the string input tensor and returns a dict of rank-2 tensors."""
  row_columns = tf.expand_dims(rows_string_tensor, -1)
  columns = tf.decode_csv(row_columns, record_defaults=CSV_COLUMN_DEFAULTS)
  return dict(zip(CSV_COLUMNS, columns))


def train_input_fn(filenames, batch_size):
  """Generates features and labels for training, by queues."""
  filename_queue = tf.train.string_input_producer(filenames, shuffle=False)
  _, rows = tf.TextLineReader().read_up_to(filename_queue, num_records=batch_size)
  features = parse_csv(rows)
  features = tf.train.batch(
      features, batch_size, capacity=batch_size * 10, num_threads=1, enqueue_many=True)
  label_tensor = parse_label_column(features.pop("income"))
  return features, label_tensor


def eval_input_fn(filenames, batch_size):
  spec = {name: tf.FixedLenFeature([1], tf.string if default == [""] else tf.float32)
          for name, default in zip(CSV_COLUMNS, CSV_COLUMN_DEFAULTS)}
  features = learn.read_batch_record_features(
      filenames, batch_size, spec, num_epochs=1, randomize_input=False)
  return features, parse_label_column(features.pop("income"))


def csv_serving_input_fn():
  """Build the serving inputs."""
  csv_row = tf.placeholder(shape=[None], dtype=tf.string)
  features = parse_csv(csv_row)
  features.pop("income")
  return learn.InputFnOps(features, None, {"csv_row": csv_row})


def json_serving_input_fn():
  inputs = {}
  for feat in INPUT_COLUMNS:
    inputs[feat.name] = tf.placeholder(shape=[None], dtype=feat.dtype)
  features = {key: tf.expand_dims(tensor, -1) for key, tensor in inputs.items()}
  return learn.InputFnOps(features, None, inputs)


example_serving_input_fn = input_fn_utils.build_parsing_serving_input_fn(
    layers.create_feature_spec_for_parsing(INPUT_COLUMNS))


def generate_experiment_fn(train_files, eval_files, found, **experiment_args):
  """Create an experiment function given hyperparameters."""
  def _experiment_fn(run_config, hparams):
    experiment = learn.Experiment(
        build_estimator(
            run_config, hparams.embedding_size,
            # Construct layers sizes with exponential decay.
            [max(2, int(hparams.first_layer_size * hparams.scale_factor ** i))
             for i in range(hparams.num_layers)]),
        train_input_fn=lambda: train_input_fn(train_files, hparams.batch_size),
        eval_input_fn=lambda: eval_input_fn(eval_files, hparams.batch_size),
        **experiment_args)
    found.append(experiment)
    return experiment
  return _experiment_fn


def losses(model_dir):
  values = {}
  for path in glob.glob(os.path.join(model_dir, "*tfevents*")):
    for event in tf.train.summary_iterator(path):
      for value in event.summary.value:
        if value.tag == "loss":
          values[event.step] = value.simple_value
  return [values[step] for step in sorted(values)]


def main(args):
  train_file, eval_file = write_files(args.job_dir)
  strategies = []
  for name, function in (("json", json_serving_input_fn), ("csv", csv_serving_input_fn),
                         ("example", example_serving_input_fn)):
    strategy = saved_model_export_utils.make_export_strategy(
        function, exports_to_keep=1, default_output_alternative_key=None)
    strategies.append(learn.ExportStrategy(name, strategy.export_fn))
  experiments = []
  model_dir = os.path.join(args.job_dir, "model")
  metrics, exports = learn_runner.run(
      generate_experiment_fn(
          [train_file], [eval_file], experiments,
          min_eval_frequency=args.min_eval_frequency,
          eval_delay_secs=args.eval_delay_secs,
          train_steps=args.train_steps,
          eval_steps=args.eval_steps,
          export_strategies=strategies),
      run_config=run_config.RunConfig(
          model_dir=model_dir, tf_random_seed=1, save_checkpoints_steps=50, save_summary_steps=10),
      hparams=hparam.HParams(**args.__dict__))
  estimator = experiments[0].estimator
  rows = {"age": [30., 40.], "hours": [20., 55.], "job": ["sales", "tech"], "sex": ["f", "m"]}
  served = tf.contrib.predictor.from_saved_model(exports[0].decode())(rows)
  here = tf.contrib.predictor.from_contrib_estimator(estimator, json_serving_input_fn)(rows)
  with tf.gfile.Open(os.path.join(args.job_dir, "results.json"), "w") as f:
    json.dump({
        "losses": losses(model_dir),
        "metrics": {key: float(value) for key, value in metrics.items()},
        "variables": estimator.get_variable_names(),
        "served": served["probabilities"].tolist(),
        "predicted": here["probabilities"].tolist(),
        "evaluations": sorted(os.listdir(os.path.join(model_dir, "export"))),
    }, f)


if __name__ == "__main__":
  parser = argparse.ArgumentParser()
  parser.add_argument("--job-dir", required=True, help="location to write checkpoints and exports")
  parser.add_argument("--train-steps", type=int, default=150)
  parser.add_argument("--eval-steps", type=int, default=2)
  parser.add_argument("--batch-size", type=int, default=40)
  parser.add_argument("--embedding-size", type=int, default=4)
  parser.add_argument("--first-layer-size", type=int, default=10)
  parser.add_argument("--num-layers", type=int, default=2)
  parser.add_argument("--scale-factor", type=float, default=0.7)
  parser.add_argument("--eval-delay-secs", type=int, default=0)
  parser.add_argument("--min-eval-frequency", type=int, default=1)
  main(parser.parse_args())
