# SPDX-License-Identifier: Apache-2.0
"""Predicts who earns much by the wide, the deep, and the wide and deep model, as in 2016.

TensorFlow 1.0's tf.contrib.learn: columns of tf.contrib.layers, sparse tensors by hand, fit.
"""
from __future__ import absolute_import
from __future__ import division
from __future__ import print_function

import argparse
import glob
import json
import os
import sys

import numpy as np
import tensorflow as tf

CATEGORICAL_COLUMNS = ["workclass", "education", "occupation", "gender"]
CONTINUOUS_COLUMNS = ["age", "education_num", "hours_per_week"]
LABEL_COLUMN = "label"


def people(count, seed):
  """Rows like those of a census."""
  random = np.random.RandomState(seed)
  frame = {
      "workclass": np.array(["Private", "State-gov", "Self-emp"])[random.randint(3, size=count)],
      "education": np.array(["HS-grad", "Bachelors", "Masters"])[random.randint(3, size=count)],
      "occupation": np.array(["Sales", "Tech", "Farming", "?"])[random.randint(4, size=count)],
      "gender": np.array(["Female", "Male"])[random.randint(2, size=count)],
      "age": random.randint(17, 90, size=count),
      "hours_per_week": random.randint(10, 60, size=count),
  }
  frame["education_num"] = np.char.str_len(frame["education"])
  score = (frame["hours_per_week"] - 35) / 10.0 + 2.0 * (frame["education"] == "Masters")
  score += 3.0 * ((frame["occupation"] == "Tech") & (frame["workclass"] == "Private"))
  score -= 2.0 * (frame["age"] < 25)
  frame[LABEL_COLUMN] = (score > 1).astype(int)
  return frame


def build_estimator(model_dir, model_type):
  """Build an estimator."""
  # Sparse base columns.
  gender = tf.contrib.layers.sparse_column_with_keys(
      column_name="gender", keys=["female", "male", "Female", "Male"])
  education = tf.contrib.layers.sparse_column_with_hash_bucket("education", hash_bucket_size=100)
  workclass = tf.contrib.layers.sparse_column_with_hash_bucket("workclass", hash_bucket_size=100)
  occupation = tf.contrib.layers.sparse_column_with_hash_bucket("occupation", hash_bucket_size=100)

  # Continuous base columns.
  age = tf.contrib.layers.real_valued_column(
      "age", normalizer=lambda x: (tf.to_float(x) - 50.0) / 20.0)
  education_num = tf.contrib.layers.real_valued_column("education_num")
  hours_per_week = tf.contrib.layers.real_valued_column(
      "hours_per_week", normalizer=lambda x: (tf.to_float(x) - 35.0) / 15.0)

  # Transformations.
  age_buckets = tf.contrib.layers.bucketized_column(age, boundaries=[-1.25, -1., -.5, 0., .5, 1.])

  # Wide columns and deep columns.
  wide_columns = [
      gender, workclass, education, occupation, age_buckets,
      tf.contrib.layers.crossed_column([workclass, occupation], hash_bucket_size=int(1e3)),
      tf.contrib.layers.crossed_column(
          [age_buckets, education, occupation], hash_bucket_size=int(1e3)),
      hours_per_week,
  ]
  deep_columns = [
      tf.contrib.layers.embedding_column(workclass, dimension=8),
      tf.contrib.layers.embedding_column(education, dimension=8),
      tf.contrib.layers.embedding_column(occupation, dimension=8),
      tf.contrib.layers.one_hot_column(gender),
      age,
      education_num,
      hours_per_week,
  ]
  config = tf.contrib.learn.RunConfig(tf_random_seed=1, save_summary_steps=5)
  if model_type == "wide":
    return tf.contrib.learn.LinearClassifier(
        model_dir=model_dir, feature_columns=wide_columns, config=config)
  if model_type == "deep":
    return tf.contrib.learn.DNNClassifier(
        model_dir=model_dir, feature_columns=deep_columns, hidden_units=[20, 10],
        optimizer=tf.train.ProximalAdagradOptimizer(0.1), config=config)
  return tf.contrib.learn.DNNLinearCombinedClassifier(
      model_dir=model_dir,
      linear_feature_columns=wide_columns,
      dnn_feature_columns=deep_columns,
      dnn_hidden_units=[20, 10],
      fix_global_step_increment_bug=True,
      config=config)


def input_fn(df):
  """Input builder function."""
  continuous_cols = {k: tf.constant(df[k]) for k in CONTINUOUS_COLUMNS}
  # The number of the column's value in a row is 0.
  categorical_cols = {
      k: tf.SparseTensor(
          indices=[[i, 0] for i in range(df[k].size)],
          values=df[k],
          dense_shape=[df[k].size, 1])
      for k in CATEGORICAL_COLUMNS}
  feature_cols = dict(continuous_cols)
  feature_cols.update(categorical_cols)
  label = tf.constant(df[LABEL_COLUMN])
  return feature_cols, label


def serving_input_fn():
  inputs = {name: tf.placeholder(tf.float32, [None]) for name in CONTINUOUS_COLUMNS}
  inputs.update({name: tf.placeholder(tf.string, [None]) for name in CATEGORICAL_COLUMNS})
  features = {name: tf.expand_dims(tensor, -1) for name, tensor in inputs.items()}
  return tf.contrib.learn.InputFnOps(features, None, inputs)


def losses(model_dir):
  """The losses that training wrote."""
  values = {}
  for path in glob.glob(os.path.join(model_dir, "*tfevents*")):
    for event in tf.train.summary_iterator(path):
      for value in event.summary.value:
        if value.tag == "loss":
          values[event.step] = value.simple_value
  return [values[step] for step in sorted(values)]


def train_and_eval(base_dir, model_type, train_steps):
  """Train and evaluate the model."""
  model_dir = os.path.join(base_dir, model_type)
  df_train, df_test = people(400, seed=1), people(200, seed=2)
  m = build_estimator(model_dir, model_type)
  m.fit(input_fn=lambda: input_fn(df_train), steps=train_steps)
  results = m.evaluate(input_fn=lambda: input_fn(df_test), steps=1)
  for key in sorted(results):
    print("%s: %s" % (key, results[key]))
  m.export_savedmodel(os.path.join(model_dir, "export"), serving_input_fn)
  classes = m.predict(input_fn=lambda: input_fn(people(5, seed=3)))
  chances = m.predict_proba(input_fn=lambda: input_fn(people(5, seed=3)))
  return {
      "losses": losses(model_dir),
      "metrics": {key: float(value) for key, value in results.items()},
      "classes": [int(each) for each in classes],
      "probabilities": [each.tolist() for each in chances],
      "variables": m.get_variable_names(),
  }


FLAGS = None


def main(_):
  found = {kind: train_and_eval(FLAGS.model_dir, kind, FLAGS.train_steps)
           for kind in ("wide", "deep", "wide_n_deep")}
  report = dict(found["wide_n_deep"], others=found)
  with open(os.path.join(FLAGS.model_dir, "results.json"), "w") as f:
    json.dump(report, f, indent=2)


if __name__ == "__main__":
  parser = argparse.ArgumentParser()
  parser.register("type", "bool", lambda v: v.lower() == "true")
  parser.add_argument("--model_dir", type=str, default="", help="Base directory for the models.")
  parser.add_argument("--train_steps", type=int, default=100, help="Number of training steps.")
  FLAGS, unparsed = parser.parse_known_args()
  tf.app.run(main=main, argv=[sys.argv[0]] + unparsed)
