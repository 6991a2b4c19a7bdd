# SPDX-License-Identifier: Apache-2.0
"""Creates `tests/data/boosted_trees/` with the boosted trees of TensorFlow 2.8.4, and of 1.15.5.

TensorFlow 2.8 was the last with them, and needs Python 3.10 and an old protobuf; 1.15.5 needs
Python 3.7:

    python3.10 -m venv tf28
    tf28/bin/pip install tensorflow==2.8.4 'protobuf<3.21' 'numpy<1.24'
    tf28/bin/python tests/data/make_boosted_trees.py

    python3.7 -m venv tf1
    tf1/bin/pip install tensorflow==1.15.5 'protobuf<3.21' 'numpy<1.19'
    tf1/bin/python tests/data/make_boosted_trees.py

Each writes a folder of its version: for each model a checkpoint, and `expected.json`, what that
TensorFlow computes with it: predictions, metrics, the outputs of an exported model, importances of
the features and contributions to predictions.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import sys
import tempfile

import numpy as np
import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))
COLORS = ["red", "green", "blue"]
NAMES = ["no", "perhaps", "yes"]
TRAIN_ROWS, TEST_ROWS = 48, 8
column = tf.feature_column


def make_features(rows, seed):
    """Returns features by key; those of a test have values that no training has seen."""
    random = np.random.RandomState(seed)
    features = {
        "x": random.uniform(-1, 1, [rows, 2]).astype(np.float32),
        "age": random.uniform(0, 90, [rows, 1]).astype(np.float32),
        "color": random.choice(COLORS, [rows, 1]),
        "place": random.randint(0, 4, [rows, 1]),
        "weight": random.uniform(0.5, 2, [rows, 1]).astype(np.float32),
    }
    if rows == TEST_ROWS:
        features["x"][0] = [np.nan, 50]
        features["x"][1] = [-50, np.nan]
        features["age"][2] = np.nan
        features["color"][3] = "white"
    return features


def score(features):
    """Returns numbers that depend on all features, [rows, 1]."""
    x, age = np.nan_to_num(features["x"]), np.nan_to_num(features["age"])
    place = features["place"] == 2
    return x[:, :1] * 2 + x[:, 1:] ** 2 + (age > 40) * (features["color"] == "red") + place


def make_columns(*keys):
    """Returns columns of the features, by their keys."""
    columns = {
        "x": column.numeric_column("x", 2),
        "age": column.bucketized_column(column.numeric_column("age"), [20.0, 40.0, 60.0]),
        "color": column.indicator_column(
            column.categorical_column_with_vocabulary_list("color", COLORS)
        ),
        "place": column.categorical_column_with_identity("place", 4),
    }
    return [columns[key] for key in keys]


def make_models():
    """Returns class, arguments and a function from scores to labels of each model, by its name."""

    def to_names(values):
        return np.asarray(NAMES)[np.digitize(values, [0.0, 1.0])]

    both = {"n_trees": 5, "max_depth": 3, "learning_rate": 0.4}
    columns = make_columns("x", "age", "color")
    return {
        "binary": (
            "BoostedTreesClassifier",
            {"feature_columns": columns, "center_bias": True, "l2_regularization": 0.01, **both},
            lambda values: (values > 0.7).astype(np.int64),
        ),
        "classes": (
            "BoostedTreesClassifier",
            {"feature_columns": columns, "n_classes": 3, "label_vocabulary": NAMES, **both},
            to_names,
        ),
        "numbers": (
            "BoostedTreesRegressor",
            {
                "feature_columns": columns,
                "center_bias": True,
                "weight_column": "weight",
                "tree_complexity": 0.01,
                "pruning_mode": "post",
                **both,
            },
            lambda values: values.astype(np.float32),
        ),
        "pairs": (
            "BoostedTreesRegressor",
            {
                "feature_columns": columns,
                "label_dimension": 2,
                "quantile_sketch_epsilon": 0.2,
                **both,
            },
            lambda values: np.concatenate([values, -values], 1).astype(np.float32),
        ),
        # Without numbers, which have quantiles. TensorFlow doesn't train with both such columns.
        "equality": (
            "BoostedTreesRegressor",
            {"feature_columns": make_columns("place"), "l2_regularization": 0.01, **both},
            lambda values: values.astype(np.float32),
        ),
    }


def input_fn(make_labels, rows, seed, repeat=False):
    """Returns a function that returns one batch of all rows."""

    def make():
        features = make_features(rows, seed)
        data = tf.data.Dataset.from_tensors((features, make_labels(score(features))))
        return data.repeat() if repeat else data

    return make


def receiver_tensors():
    """Returns the inputs of an exported model: raw features."""
    dtypes = {"color": (tf.string, 1), "place": (tf.int64, 1)}
    tensors = {}
    for key in ("x", "age", "color", "place", "weight"):
        dtype, width = dtypes.get(key, (tf.float32, 2 if key == "x" else 1))
        tensors[key] = tf.compat.v1.placeholder(dtype, [None, width], key)
    return tensors


def run_exported(path):
    """Returns the outputs of all signatures of an exported model for the test's features."""
    features = make_features(TEST_ROWS, seed=1)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        model = tf.compat.v1.saved_model.load(session, ["serve"], path)
        outputs = {}
        for key, signature in model.signature_def.items():
            feed = {info.name: features[name] for name, info in signature.inputs.items()}
            fetched = {name: info.name for name, info in signature.outputs.items()}
            outputs[key] = session.run(fetched, feed)
    return outputs


def evaluate(estimator, arguments, make_labels, receiver):
    """Returns what an estimator computes with its checkpoint.

    Args:
        estimator: of either TensorFlow.
        arguments: those of its constructor.
        make_labels: function of scores.
        receiver: the class `ServingInputReceiver`.
    """

    def receiver_fn():
        tensors = receiver_tensors()
        return receiver(tensors, tensors)

    test = input_fn(make_labels, TEST_ROWS, seed=1)
    found = {
        "metrics": estimator.evaluate(test),
        "predictions": list(estimator.predict(test)),
        "exported": run_exported(estimator.export_saved_model(tempfile.mkdtemp(), receiver_fn)),
    }
    if len(arguments["feature_columns"]) > 1:  # an error for splits of categorical columns
        found["importances"] = estimator.experimental_feature_importances()
        found["normalized"] = estimator.experimental_feature_importances(normalize=True)
    if arguments.get("center_bias"):
        explained = estimator.experimental_predict_with_explanations(test)
        found["explained"] = [{key: one[key] for key in ("bias", "dfc")} for one in explained]
    return found


def to_json(value):
    """Returns numbers of NumPy as Python's, bytes as strings."""
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [to_json(item) for item in value]
    if isinstance(value, bytes):
        return value.decode()
    return value.item() if isinstance(value, np.generic) else value


def main():
    """Trains all models, saves checkpoints and results."""
    out = os.path.join(HERE, "boosted_trees", "tf" + tf.__version__)
    shutil.rmtree(out, ignore_errors=True)
    expected = {"tensorflow": tf.__version__, "python": sys.version.split()[0]}
    config = tf.estimator.RunConfig(tf_random_seed=1)
    for name, (kind, arguments, make_labels) in make_models().items():
        if tf.__version__.startswith("1.") and name not in ("binary", "numbers"):
            continue  # 1.15 has one logit only
        folder = os.path.join(out, name)
        estimator = getattr(tf.estimator, kind)(
            n_batches_per_layer=1, model_dir=tempfile.mkdtemp(), config=config, **arguments
        )
        # The last tree isn't finished.
        estimator.train(input_fn(make_labels, TRAIN_ROWS, seed=0, repeat=True), max_steps=14)
        os.makedirs(folder)
        prefix = estimator.latest_checkpoint()
        for suffix in (".index", ".data-*"):  # the .meta graph is larger, and not needed
            for path in glob.glob(prefix + suffix):
                shutil.copy(path, folder)
        with open(os.path.join(folder, "checkpoint"), "w") as file:
            file.write(f'model_checkpoint_path: "{os.path.basename(prefix)}"\n')
        receiver = tf.estimator.export.ServingInputReceiver
        expected[name] = to_json(evaluate(estimator, arguments, make_labels, receiver))
    with open(os.path.join(out, "expected.json"), "w") as file:
        json.dump(expected, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
