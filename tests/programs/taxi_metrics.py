# SPDX-License-Identifier: Apache-2.0
"""Taxi fares: a DNNRegressor with metrics of its own, in train_and_evaluate.

The style of a cloud course of 2018: CSV files, `tf.decode_csv`, a model.py and a task.py in one,
`add_metrics`, exporters, and instances with a key.
"""

import argparse
import json
import os

import numpy as np
import tensorflow as tf

CSV_COLUMNS = ["fare", "day", "hour", "from_x", "from_y", "to_x", "to_y", "passengers"]
DEFAULTS = [[0.0], ["Sun"], [0], [0.0], [0.0], [0.0], [0.0], [1.0]]
DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]


def write_csv(path, rows, seed):
    rng = np.random.RandomState(seed)
    with open(path, "w") as file:
        for _ in range(rows):
            day, hour = DAYS[rng.randint(7)], rng.randint(24)
            points = rng.uniform(-1, 1, size=4)
            distance = abs(points[2] - points[0]) + abs(points[3] - points[1])
            fare = 2.5 + 5 * distance * (1.3 if 15 < hour < 20 else 1.0) + 0.1 * rng.normal()
            cells = ["%.3f" % fare, day, str(hour)] + ["%.4f" % p for p in points]
            file.write(",".join(cells + [str(rng.randint(1, 5))]) + "\n")


def read_dataset(filename, mode, batch_size):
    def decode_csv(row):
        features = dict(zip(CSV_COLUMNS, tf.io.decode_csv(row, record_defaults=DEFAULTS)))
        label = features.pop("fare")
        return add_engineered(features), label

    def _input_fn():
        dataset = tf.data.TextLineDataset(filename).map(decode_csv)
        if mode == tf.estimator.ModeKeys.TRAIN:
            dataset = dataset.shuffle(buffer_size=10 * batch_size, seed=41).repeat()
        return dataset.batch(batch_size)

    return _input_fn


def add_engineered(features):
    features["diff_x"] = features["from_x"] - features["to_x"]
    features["diff_y"] = features["from_y"] - features["to_y"]
    features["manhattan"] = tf.abs(features["diff_x"]) + tf.abs(features["diff_y"])
    return features


def columns():
    day = tf.feature_column.categorical_column_with_vocabulary_list("day", DAYS)
    hour = tf.feature_column.categorical_column_with_identity("hour", num_buckets=24)
    day_hour = tf.feature_column.crossed_column([day, hour], 24 * 7)
    wide = [day_hour, day, hour]
    deep = [
        tf.feature_column.numeric_column("diff_x"),
        tf.feature_column.numeric_column("diff_y"),
        tf.feature_column.numeric_column("manhattan"),
        tf.feature_column.numeric_column("passengers", normalizer_fn=lambda x: x / 4.0),
    ]
    return wide, deep


def serving_input_fn():
    receivers = {
        "day": tf.compat.v1.placeholder(tf.string, [None]),
        "hour": tf.compat.v1.placeholder(tf.int64, [None]),
    }
    for name in CSV_COLUMNS[3:]:
        receivers[name] = tf.compat.v1.placeholder(tf.float32, [None])
    features = add_engineered(dict(receivers))
    return tf.estimator.export.ServingInputReceiver(features, receivers)


# Our own metrics, beside those of the regressor.
def add_eval_metrics(labels, predictions, features):
    labels = tf.reshape(labels, [-1])
    pred_values = tf.reshape(predictions["predictions"], [-1])
    passengers = tf.reshape(features["passengers"], [-1])
    is_long = tf.cast(tf.reshape(features["manhattan"], [-1]) > 1.0, tf.float32)
    rmse = tf.keras.metrics.RootMeanSquaredError(name="rmse")
    rmse.update_state(y_true=labels, y_pred=pred_values)
    mae = tf.keras.metrics.Mean(name="mae")
    mae.update_state(tf.abs(labels - pred_values), sample_weight=passengers)
    long_ride = tf.keras.metrics.Mean(name="long_ride")
    long_ride.update_state(tf.abs(labels - pred_values), sample_weight=is_long)
    return {"rmse": rmse, "mae_by_passengers": mae, "long_ride_error": long_ride}


class StartAndWatch(tf.estimator.SessionRunHook):
    """Sets the layers' first weights, and keeps the losses."""

    def __init__(self):
        self.losses = []

    def begin(self):
        self.loss = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.LOSSES)[-1]
        self.step = tf.compat.v1.train.get_global_step()
        self.values = {}
        names = sorted(v.name for v in tf.compat.v1.trainable_variables())
        by_name = {v.name: v for v in tf.compat.v1.trainable_variables()}
        rng = np.random.RandomState(77)
        for name in names:
            variable = by_name[name]
            if "dnn" in name and "kernel" in name:
                holder = tf.compat.v1.placeholder(tf.float32, variable.shape)
                first = rng.uniform(-0.5, 0.5, size=variable.shape.as_list())
                self.values[variable.assign(holder).op] = {holder: first}

    def after_create_session(self, session, coord):
        if session.run(self.step) == 0:
            for op, feed in self.values.items():
                session.run(op, feed_dict=feed)

    def before_run(self, run_context):
        return tf.estimator.SessionRunArgs(self.loss)

    def after_run(self, run_context, run_values):
        self.losses.append(float(run_values.results))


def train_and_evaluate(args):
    data = {}
    for name, rows, seed in (("train", 500, 1), ("valid", 150, 2), ("new", 4, 3)):
        data[name] = os.path.join(args.job_dir, name + ".csv")
        write_csv(data[name], rows, seed)
    wide, deep = columns()
    estimator = tf.estimator.DNNLinearCombinedRegressor(
        model_dir=os.path.join(args.job_dir, "model"),
        linear_feature_columns=wide,
        dnn_feature_columns=deep,
        dnn_hidden_units=[16, 8],
        linear_optimizer=tf.keras.optimizers.legacy.Ftrl(0.05),
        dnn_optimizer="Adagrad",
        config=tf.estimator.RunConfig(tf_random_seed=1, save_checkpoints_steps=60),
    )
    # Add our own evaluation metrics
    estimator = tf.estimator.add_metrics(estimator, add_eval_metrics)
    watch = StartAndWatch()
    train_spec = tf.estimator.TrainSpec(
        input_fn=read_dataset(data["train"], tf.estimator.ModeKeys.TRAIN, args.batch_size),
        max_steps=args.train_steps,
        hooks=[watch],
    )
    eval_spec = tf.estimator.EvalSpec(
        input_fn=read_dataset(data["valid"], tf.estimator.ModeKeys.EVAL, 64),
        steps=None,
        start_delay_secs=0,
        throttle_secs=0,
        exporters=[
            tf.estimator.BestExporter(
                "best",
                serving_input_fn,
                exports_to_keep=1,
                compare_fn=lambda best_eval_result, current_eval_result: (
                    current_eval_result["rmse"] < best_eval_result["rmse"]
                ),
            ),
            tf.estimator.FinalExporter("final", serving_input_fn),
        ],
    )
    metrics, _ = tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
    fares = [
        float(p["predictions"][0])
        for p in estimator.predict(read_dataset(data["new"], tf.estimator.ModeKeys.EVAL, 3))
    ]
    spec = tf.estimator.regressor_parse_example_spec(
        wide + deep, label_key="fare", weight_column="trust"
    )
    results = {
        "losses": watch.losses,
        "metrics": {name: float(value) for name, value in metrics.items()},
        "fares": fares,
        "variables": estimator.get_variable_names(),
        "spec": {
            name: [type(feature).__name__, feature.dtype.name] for name, feature in spec.items()
        },
    }
    with open(os.path.join(args.job_dir, "results.json"), "w") as file:
        json.dump(results, file, indent=2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--job-dir", required=True)
    parser.add_argument("--train_steps", type=int, default=180)
    parser.add_argument("--batch_size", type=int, default=50)
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.WARN)
    train_and_evaluate(parser.parse_args())
