# SPDX-License-Identifier: Apache-2.0
"""Trains Keras models by `model_to_estimator` on one side, and records comparable results.

    SIDE=reference python run_keras_models.py OUT functional_v1 functional_v2
    SIDE=ours python run_keras_models.py OUT functional_v1 functional_v2 --donor OTHER_OUT
    SIDE=reference python run_keras_models.py OUT functional_v1 --donor OTHER_OUT --continue-only

Each case trains 20 steps, then evaluates, predicts and exports; its record is OUT/<case>.json.
With a donor, it does so again from the donor's last checkpoint on: OUT/<case>-continued.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from pathlib import Path

import numpy as np
import tensorflow as tf

if os.environ["SIDE"] == "ours":
    import estimator_spec
    from estimator_spec.core.common import legacy_keras

    legacy_keras.select_legacy_keras()
    estimator_spec.install(replace=True)

tf1 = tf.compat.v1
keras = tf.keras
STEPS = 20


def seeded(seed):
    """Returns an initializer with a seed."""
    return keras.initializers.GlorotUniform(seed=seed)


def functional():
    """Returns a model of two inputs and two outputs, with every kind of loss and metric."""
    first = keras.Input((3,), name="first")
    second = keras.Input((2,), name="second")
    both = keras.layers.Concatenate()([first, second])
    hidden = keras.layers.Dense(
        4,
        "tanh",
        kernel_initializer=seeded(1),
        kernel_regularizer=keras.regularizers.L2(0.01),
        name="hidden",
    )(both)
    hidden = keras.layers.BatchNormalization(momentum=0.5, name="norm")(hidden)
    amount = keras.layers.Dense(1, kernel_initializer=seeded(2), name="amount")(hidden)
    kind = keras.layers.Dense(3, "softmax", kernel_initializer=seeded(3), name="kind")(hidden)
    model = keras.Model([first, second], [amount, kind], name="pair")
    model.compile(
        keras.optimizers.legacy.Adam(0.05),
        loss={"amount": "mse", "kind": "sparse_categorical_crossentropy"},
        loss_weights={"amount": 0.5, "kind": 2.0},
        metrics={"amount": ["mae"], "kind": ["accuracy"]},
    )
    return model


def sequential(optimizer=None):
    """Returns a classifier of one input."""
    model = keras.Sequential(
        [
            keras.layers.Dense(5, "relu", input_shape=(3,), kernel_initializer=seeded(4)),
            keras.layers.Dense(1, "sigmoid", kernel_initializer=seeded(5)),
        ],
        name="one",
    )
    model.compile(
        optimizer or keras.optimizers.legacy.SGD(0.3, momentum=0.5),
        loss="binary_crossentropy",
        metrics=["accuracy", keras.metrics.AUC(name="auc")],
        weighted_metrics=["mae"],
    )
    return model


class Subclassed(keras.Model):
    """Regression of one input."""

    def __init__(self):
        super().__init__(name="own")
        self.hidden = keras.layers.Dense(4, "tanh", kernel_initializer=seeded(6))
        self.last = keras.layers.Dense(1, kernel_initializer=seeded(7))

    def call(self, inputs):
        """Returns predictions."""
        return self.last(self.hidden(inputs))


def subclassed():
    """Returns a compiled subclassed model."""
    model = Subclassed()
    model.compile(keras.optimizers.legacy.RMSprop(0.02), loss="mae", metrics=["mse"])
    return model


def trained():
    """Returns a model that has been trained by Keras."""
    model = functional()
    features, labels = arrays(pair=True)
    model.fit(features, labels, batch_size=8, epochs=2, shuffle=False, verbose=0)
    return model


def arrays(pair=False, weights=False):
    """Returns features and labels of 40 examples."""
    rng = np.random.RandomState(3)
    first = rng.normal(size=(40, 3)).astype(np.float32)
    second = rng.normal(size=(40, 2)).astype(np.float32)
    amount = (first[:, :1] + second[:, 1:]).astype(np.float32)
    kind = (first[:, 1:2] > 0).astype(np.int64) + (second[:, :1] > 0)
    if pair:
        return {"first": first, "second": second}, {"amount": amount, "kind": kind}
    label = (amount > 0).astype(np.float32)
    if weights:
        weight = rng.uniform(0.2, 2.0, size=40).astype(np.float32)
        return {"features": first, "sample_weights": weight}, label
    return first, label


def v1(*args, **kwargs):
    """Calls TensorFlow 1's function."""
    return tf1.keras.estimator.model_to_estimator(*args, **kwargs)


def v2(*args, **kwargs):
    """Calls TensorFlow 2's function."""
    return keras.estimator.model_to_estimator(*args, **kwargs)


NAMES = {"amount_mae": "how_far", "kind_accuracy": "how_often"}
CASES = {
    "functional_v2": (v2, functional, {"pair": True}, {}),
    "functional_v1": (v1, functional, {"pair": True}, {"metric_names_map": NAMES}),
    "sequential_v2": (v2, sequential, {}, {"checkpoint_format": "saver"}),
    "sequential_v1": (v1, sequential, {}, {}),
    "subclassed_v1": (v1, subclassed, {}, {}),
    "trained_v2": (v2, trained, {"pair": True}, {}),
    "trained_v1": (v1, trained, {"pair": True}, {}),
    "tf1_optimizer_v1": (
        v1,
        lambda: sequential(tf1.train.AdagradOptimizer(0.1)),
        {},
        {},
    ),
    "new_optimizer_v2": (v2, lambda: sequential(keras.optimizers.Adam(0.05)), {}, {}),
    "named_optimizer_v2": (v2, lambda: sequential("rmsprop"), {}, {}),
}


def input_fn_of(data, repeat):
    """Returns an input_fn over batches of 8."""

    def input_fn():
        made = tf.data.Dataset.from_tensor_slices(data)
        return (made.repeat() if repeat else made).batch(8)

    return input_fn


class Losses(tf1.train.SessionRunHook):
    """Hook that records the loss of each step."""

    def __init__(self):
        self.values = []

    def begin(self):
        self._loss = tf1.get_collection(tf1.GraphKeys.LOSSES)[-1]

    def before_run(self, run_context):
        return tf1.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        self.values.append(float(run_values.results))


def variables(directory):
    """Returns the variables of the latest checkpoint by name; not its object graph."""
    reader = tf.train.load_checkpoint(directory)
    return {
        name: np.asarray(reader.get_tensor(name)).tolist()
        for name in reader.get_variable_to_shape_map()
        if "OBJECT_GRAPH" not in name and not name.startswith("save_counter")
    }


def described(path):
    """Returns dtypes and shapes of the signatures of a SavedModel."""
    found = {}
    with tf1.Session(graph=tf.Graph()) as session:
        graph = tf1.saved_model.load(session, ["serve"], path)
        for key, signature in graph.signature_def.items():
            found[key] = [signature.method_name] + [
                [name, info.dtype, [size.size for size in info.tensor_shape.dim]]
                for part in (signature.inputs, signature.outputs)
                for name, info in sorted(part.items())
            ]
    return found


def receiver_fn_of(data):
    """Returns a receiver of raw features."""

    def receiver_fn():
        if isinstance(data, dict):
            inputs = {k: tf1.placeholder(tf.float32, [None, v.shape[1]]) for k, v in data.items()}
        else:
            inputs = tf1.placeholder(tf.float32, [None, data.shape[1]])
        if isinstance(inputs, dict):
            return tf.estimator.export.ServingInputReceiver(inputs, inputs)
        return tf.estimator.export.TensorServingInputReceiver(inputs, inputs)

    return receiver_fn


def run_case(name, directory):
    """Returns the record of one case, or its error."""
    make, build, data_arguments, arguments = CASES[name]
    keras.backend.clear_session()
    config = tf.estimator.RunConfig(tf_random_seed=1, model_dir=directory)
    features, labels = arrays(**data_arguments)
    losses = Losses()
    estimator = make(build(), config=config, **arguments)
    first = os.path.join(directory, "keras")
    record = {
        "class": type(estimator).__name__,
        "initial_files": sorted(os.listdir(first)) if os.path.isdir(first) else [],
    }
    train = input_fn_of((features, labels), True)
    test = input_fn_of((features, labels), False)
    if not tf.train.latest_checkpoint(directory) and record["initial_files"]:
        record["before"] = [{k: v.tolist() for k, v in p.items()} for p in estimator.predict(test)]
    estimator.train(train, hooks=[losses], steps=STEPS)
    record["losses"] = losses.values
    record["metrics"] = {k: float(v) for k, v in estimator.evaluate(test).items()}
    record["predictions"] = [{k: v.tolist() for k, v in p.items()} for p in estimator.predict(test)]
    record["variables"] = variables(directory)
    record["names"] = sorted(estimator.get_variable_names())
    served = features["features"] if "weights" in data_arguments else features
    if not name.startswith("subclassed"):
        path = estimator.export_saved_model(directory + "-export", receiver_fn_of(served))
        record["signatures"] = described(path.decode())
    return record


def main():
    """Runs all cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--donor")
    parser.add_argument("--continue-only", action="store_true")
    args = parser.parse_args()
    tf1.logging.set_verbosity("ERROR")
    for name in args.cases:
        endings = [] if args.continue_only else [""]
        endings += ["-continued"] if args.donor else []
        for ending in endings:
            directory = os.path.join(args.out, name + ending)
            if ending:
                shutil.copytree(os.path.join(args.donor, name), directory)
            record = run_case(name, directory)
            Path(directory + ".json").write_text(json.dumps(record))


if __name__ == "__main__":
    main()
