# SPDX-License-Identifier: Apache-2.0
"""House prices by a Keras model inside an Estimator: `model_to_estimator`.

The style of a course on cloud machine learning in 2019: build with Keras, train with Estimators.
"""

import argparse
import json
import os

import numpy as np
import tensorflow as tf

FEATURES = ["rooms", "area", "age", "distance"]
LABEL = "price"


def houses(count, seed):
    rng = np.random.RandomState(seed)
    rows = {
        "rooms": rng.randint(1, 8, size=count).astype(np.float32),
        "area": rng.uniform(20, 200, size=count).astype(np.float32),
        "age": rng.uniform(0, 100, size=count).astype(np.float32),
        "distance": rng.uniform(0, 30, size=count).astype(np.float32),
    }
    price = (
        rows["area"] / 60 + rows["rooms"] / 5 - rows["distance"] / 20
        + (rows["age"] < 10) + 0.05 * rng.normal(size=count)
    )
    rows = {name: values.reshape(-1, 1) for name, values in rows.items()}
    return rows, price.astype(np.float32).reshape(-1, 1)


def make_input_fn(data, batch_size, shuffle=False, epochs=1):
    def _input_fn():
        dataset = tf.data.Dataset.from_tensor_slices(data)
        if shuffle:
            dataset = dataset.shuffle(1000, seed=29)
        return dataset.repeat(epochs).batch(batch_size)

    return _input_fn


def scaled(name, x):
    mean, spread = {
        "rooms": (4.0, 2.0), "area": (110.0, 50.0), "age": (50.0, 30.0), "distance": (15.0, 9.0)
    }[name]
    return (x - mean) / spread


def build_functional(learning_rate):
    """One input a feature, two layers with batch normalization, a price."""
    inputs = [tf.keras.Input(shape=(1,), name=name) for name in FEATURES]
    x = tf.keras.layers.concatenate([scaled(i.name, i) for i in inputs])
    for i, units in enumerate([12, 6]):
        x = tf.keras.layers.Dense(
            units,
            activation="relu",
            kernel_initializer=tf.keras.initializers.GlorotUniform(seed=i),
            kernel_regularizer=tf.keras.regularizers.l2(0.001),
            name="dense_%d" % i,
        )(x)
    x = tf.keras.layers.BatchNormalization(name="norm")(x)
    price = tf.keras.layers.Dense(
        1, kernel_initializer=tf.keras.initializers.GlorotUniform(seed=9), name=LABEL
    )(x)
    model = tf.keras.Model(inputs, price)
    model.compile(
        optimizer=tf.keras.optimizers.legacy.Adam(learning_rate),
        loss="mse",
        metrics=[tf.keras.metrics.RootMeanSquaredError(name="rmse"), "mae"],
    )
    return model


def build_sequential():
    """All features in one vector, and an optimizer of TensorFlow 1."""
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(
                8, activation="tanh", input_shape=(len(FEATURES),),
                kernel_initializer=tf.keras.initializers.GlorotUniform(seed=3),
            ),
            tf.keras.layers.Dropout(0.0),
            tf.keras.layers.Dense(
                1, kernel_initializer=tf.keras.initializers.GlorotUniform(seed=4)
            ),
        ],
        name="baseline",
    )
    model.compile(
        optimizer=tf.compat.v1.train.AdagradOptimizer(0.1), loss="mean_absolute_error"
    )
    return model


def as_vectors(data):
    rows, price = data
    columns = [scaled(name, rows[name]) for name in FEATURES]
    return np.concatenate(columns, axis=1).astype(np.float32), price


def serving_input_fn():
    receivers = {name: tf.compat.v1.placeholder(tf.float32, [None], name) for name in FEATURES}
    features = {name: tf.expand_dims(tensor, -1) for name, tensor in receivers.items()}
    return tf.estimator.export.ServingInputReceiver(features, receivers)


class LossRecorder(tf.estimator.SessionRunHook):
    def __init__(self):
        self.losses = []

    def begin(self):
        self.tensor = tf.compat.v1.get_collection("losses")[-1]

    def before_run(self, run_context):
        return tf.estimator.SessionRunArgs(self.tensor)

    def after_run(self, run_context, run_values):
        self.losses.append(float(run_values.results))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--train_steps", type=int, default=120)
    parser.add_argument("--learning_rate", type=float, default=0.02)
    args = parser.parse_args()
    train, test, new = houses(400, 1), houses(90, 2), houses(5, 3)

    model = build_functional(args.learning_rate)
    model_dir = os.path.join(args.output_dir, "functional")
    config = tf.estimator.RunConfig(
        model_dir=model_dir, tf_random_seed=7, save_checkpoints_steps=40
    )
    estimator = tf.keras.estimator.model_to_estimator(keras_model=model, config=config)
    recorder = LossRecorder()
    exporter = tf.estimator.LatestExporter("exporter", serving_input_fn)
    metrics, _ = tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(
            make_input_fn(train, 32, shuffle=True, epochs=None),
            max_steps=args.train_steps,
            hooks=[recorder],
        ),
        tf.estimator.EvalSpec(
            make_input_fn(test, 32), steps=None, exporters=exporter,
            start_delay_secs=0, throttle_secs=0,
        ),
    )
    predictions = [float(p[LABEL][0]) for p in estimator.predict(make_input_fn(new, 3))]

    # The Keras model itself reads the Estimator's checkpoints.
    restored = build_functional(args.learning_rate)
    checkpoint = tf.train.Checkpoint(root=restored)
    status = checkpoint.restore(tf.train.latest_checkpoint(model_dir))
    status.expect_partial()
    by_keras = restored.predict(new[0], verbose=0)

    # A second model, with checkpoints of TensorFlow 1.
    baseline = build_sequential()
    baseline_dir = os.path.join(args.output_dir, "sequential")
    second = tf.compat.v1.keras.estimator.model_to_estimator(
        baseline, model_dir=baseline_dir, config=tf.estimator.RunConfig(tf_random_seed=8)
    )
    second_recorder = LossRecorder()
    second.train(
        make_input_fn(as_vectors(train), 32, epochs=None), hooks=[second_recorder], steps=60
    )
    second_metrics = second.evaluate(make_input_fn(as_vectors(test), 32))
    outputs = list(second.predict(make_input_fn(as_vectors(new)[0], 2)))
    (output,) = outputs[0].keys()

    results = {
        "losses": recorder.losses,
        "metrics": {name: float(value) for name, value in metrics.items()},
        "predictions": predictions,
        "by_keras": by_keras[:, 0].tolist(),
        "variables": estimator.get_variable_names() + second.get_variable_names(),
        "second_losses": second_recorder.losses,
        "second_metrics": {name: float(value) for name, value in second_metrics.items()},
        "second_output": output,
        "second_predictions": [float(p[output][0]) for p in outputs],
    }
    with open(os.path.join(args.output_dir, "results.json"), "w") as file:
        json.dump(results, file, indent=2)


if __name__ == "__main__":
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.WARN)
    main()
