# SPDX-License-Identifier: Apache-2.0
"""Which iris is it, and what does a house cost? The first tutorials of tf.contrib.learn, 2016.

CSV files, arrays x and y, a ValidationMonitor that stops early; a model_fn with ModelFnOps.
"""
from __future__ import absolute_import
from __future__ import division
from __future__ import print_function

import itertools
import json
import os

import numpy as np
import tensorflow as tf
from tensorflow.contrib.learn.python.learn.estimators import model_fn as model_fn_lib

tf.logging.set_verbosity(tf.logging.INFO)
tf.flags.DEFINE_string("model_dir", None, "Directory of the models and the results.")
FLAGS = tf.flags.FLAGS

MEANS = [[5.0, 3.4, 1.5, 0.2], [5.9, 2.8, 4.3, 1.3], [6.6, 3.0, 5.6, 2.0]]
FEATURES = ["crim", "rm", "tax"]
LABEL = "medv"


def write_csv(path, count, seed):
  """Flowers like those of 1936, below a line with their number, that of features, and names."""
  random = np.random.RandomState(seed)
  target = random.randint(3, size=count)
  data = np.array(MEANS)[target] + random.normal(scale=0.3, size=(count, 4))
  with open(path, "w") as f:
    f.write("%d,4,setosa,versicolor,virginica\n" % count)
    for row, kind in zip(data, target):
      f.write(",".join("%.1f" % value for value in row) + ",%d\n" % kind)
  return path


class Losses(tf.contrib.learn.monitors.EveryN):
  """Keeps the loss of every fifth step."""

  def __init__(self):
    super(Losses, self).__init__(every_n_steps=5)
    self.values = []

  def every_n_step_begin(self, step):
    super(Losses, self).every_n_step_begin(step)
    self._name = tf.get_collection(tf.GraphKeys.LOSSES)[-1].name
    return [self._name]

  def every_n_step_end(self, step, outputs):
    super(Losses, self).every_n_step_end(step, outputs)
    self.values.append(float(outputs[self._name]))
    return False


def iris():
  path = lambda name: os.path.join(FLAGS.model_dir, name)
  # Load datasets.
  training_set = tf.contrib.learn.datasets.base.load_csv_with_header(
      filename=write_csv(path("training.csv"), 120, 1),
      target_dtype=np.int64, features_dtype=np.float32)
  test_set = tf.contrib.learn.datasets.base.load_csv_with_header(
      filename=write_csv(path("test.csv"), 30, 2),
      target_dtype=np.int64, features_dtype=np.float32)

  validation_metrics = {
      "accuracy":
          tf.contrib.learn.MetricSpec(
              metric_fn=tf.contrib.metrics.streaming_accuracy,
              prediction_key=tf.contrib.learn.PredictionKey.CLASSES),
      "versicolor":
          tf.contrib.learn.MetricSpec(
              metric_fn=lambda predictions, labels: tf.metrics.mean(tf.equal(predictions, 1)),
              prediction_key="classes"),
  }
  validation_monitor = tf.contrib.learn.monitors.ValidationMonitor(
      test_set.data, test_set.target, every_n_steps=50, metrics=validation_metrics,
      early_stopping_metric="loss", early_stopping_metric_minimize=True,
      early_stopping_rounds=200)
  losses = Losses()

  # Specify that all features have real-value data
  feature_columns = [tf.contrib.layers.real_valued_column("", dimension=4)]

  # Build 3 layer DNN with 10, 20, 10 units respectively.
  classifier = tf.contrib.learn.DNNClassifier(
      feature_columns=feature_columns,
      hidden_units=[10, 20, 10],
      n_classes=3,
      model_dir=path("iris"),
      config=tf.contrib.learn.RunConfig(save_checkpoints_steps=50, tf_random_seed=1))

  # Fit model.
  classifier.fit(x=training_set.data, y=training_set.target, steps=200,
                 monitors=[validation_monitor, losses])

  # Evaluate accuracy.
  metrics = classifier.evaluate(x=test_set.data, y=test_set.target, metrics=validation_metrics)
  print("Accuracy: {0:f}".format(metrics["accuracy"]))

  # Classify two new flower samples.
  new_samples = np.array([[6.4, 3.2, 4.5, 1.5], [5.8, 3.1, 5.0, 1.7]], dtype=float)
  y = list(classifier.predict(new_samples, as_iterable=True))
  print("Predictions: {}".format(str(y)))

  spec = tf.contrib.layers.create_feature_spec_for_parsing(
      [tf.contrib.layers.real_valued_column("x", dimension=4)])
  def serving_input_fn():
    inputs = tf.contrib.learn.utils.input_fn_utils.build_parsing_serving_input_fn(spec)()
    return inputs._replace(features={"": inputs.features["x"]})
  classifier.export_savedmodel(path("iris_export"), serving_input_fn)
  return {
      "losses": losses.values,
      "metrics": {key: float(value) for key, value in metrics.items()},
      "best": [bool(validation_monitor.best_step > 50), float(validation_monitor.best_value)],
      "predictions": [int(each) for each in y],
      "variables": classifier.get_variable_names(),
  }


def houses(count, seed):
  random = np.random.RandomState(seed)
  rows = {name: random.uniform(size=count) for name in FEATURES}
  rows[LABEL] = 3 * rows["rm"] - rows["crim"]
  return rows


def boston_input_fn(data_set):
  feature_cols = {k: tf.constant(data_set[k]) for k in FEATURES}
  labels = tf.constant(data_set[LABEL])
  return feature_cols, labels


def boston():
  feature_cols = [tf.contrib.layers.real_valued_column(k) for k in FEATURES]
  regressor = tf.contrib.learn.DNNRegressor(
      feature_columns=feature_cols, hidden_units=[10, 10],
      model_dir=os.path.join(FLAGS.model_dir, "boston"),
      config=tf.contrib.learn.RunConfig(tf_random_seed=2))
  regressor.fit(input_fn=lambda: boston_input_fn(houses(100, 1)), steps=300)
  ev = regressor.evaluate(input_fn=lambda: boston_input_fn(houses(50, 2)), steps=1)
  y = regressor.predict(input_fn=lambda: boston_input_fn(houses(6, 3)))
  # .predict() returns an iterator; convert to a list and print predictions
  predictions = list(itertools.islice(y, 6))
  return {"loss": float(ev["loss"]), "prices": [float(each) for each in predictions],
          "expected": houses(6, 3)[LABEL].tolist()}


def model_fn(features, targets, mode, params):
  """Model function for Estimator."""
  weights = tf.get_variable("weights", [2, 1])
  predictions = tf.reshape(tf.matmul(features, weights), [-1])
  predictions_dict = {"ages": predictions}
  loss = tf.losses.mean_squared_error(targets, predictions)
  eval_metric_ops = {
      "rmse": tf.metrics.root_mean_squared_error(tf.cast(targets, tf.float32), predictions)
  }
  train_op = tf.train.GradientDescentOptimizer(params["learning_rate"]).minimize(
      loss, tf.contrib.framework.get_global_step())
  return model_fn_lib.ModelFnOps(
      mode=mode,
      predictions=predictions_dict,
      loss=loss,
      train_op=train_op,
      eval_metric_ops=eval_metric_ops)


def abalone():
  x = np.random.RandomState(4).normal(size=(50, 2)).astype(np.float32)
  y = x.dot([2.0, -1.0])
  nn = tf.contrib.learn.Estimator(
      model_fn=model_fn, params={"learning_rate": 0.2},
      model_dir=os.path.join(FLAGS.model_dir, "abalone"),
      config=tf.contrib.learn.RunConfig(tf_random_seed=3))
  nn.fit(x=x, y=y, steps=50)
  ev = nn.evaluate(x=x, y=y, steps=1)
  return {"rmse": float(ev["rmse"]),
          "ages": [float(p["ages"]) for p in nn.predict(x=np.eye(2, dtype=np.float32), as_iterable=True)]}


def main(unused_argv):
  report = iris()
  report.update(boston=boston(), abalone=abalone())
  with open(os.path.join(FLAGS.model_dir, "results.json"), "w") as f:
    json.dump(report, f, indent=2)


if __name__ == "__main__":
  tf.app.run()
