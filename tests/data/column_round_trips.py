# SPDX-License-Identifier: Apache-2.0
"""Copies Keras 2 models of TensorFlow's feature columns, and saves and loads them.

    python tests/data/column_round_trips.py

prints, as JSON, what became of the columns before this project is imported, and after each further
stage: with each of its modules imported, with the names of old programs restored, and after a
canned estimator has trained. With `plain` as its argument it does the first stage only.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

fc = tf.feature_column
BATCH = {
    "word": np.array([["a"], ["b"], ["a"]]),
    "id": np.array([[1], [3], [0]], np.int64),
    "weight": np.array([[0.5], [2.0], [1.0]], np.float32),
    "x": np.array([[0.5], [-1.5], [7.0]], np.float32),
}


def columns(directory: str) -> dict[str, Any]:
    """Returns a dense column of each of TensorFlow's kinds that Keras' layers take, by its kind."""
    path = os.path.join(directory, "words.txt")
    with open(path, "w") as file:
        file.write("a\nb\n")
    x, id_ = fc.numeric_column("x"), fc.categorical_column_with_identity("id", 5)
    word = fc.categorical_column_with_vocabulary_list("word", ["a", "b"])
    buckets = fc.bucketized_column(x, [0.0, 1.0])
    categorical = {
        "identity": id_,
        "vocabulary list": word,
        "vocabulary file": fc.categorical_column_with_vocabulary_file("word", path, 2),
        "hashed": fc.categorical_column_with_hash_bucket("word", 7),
        "crossed": fc.crossed_column([buckets, "word"], 11),
        "weighted": fc.weighted_categorical_column(id_, "weight"),
        "bucketized": buckets,
    }
    embeddings = {f"embedding of {k}": fc.embedding_column(c, 3) for k, c in categorical.items()}
    indicators = {f"indicator of {k}": fc.indicator_column(c) for k, c in categorical.items()}
    return {"numeric": x, "buckets": buckets, **embeddings, **indicators}


def serialized() -> dict[str, str]:
    """Returns what becomes of other columns when TensorFlow serializes and deserializes them."""
    convert = tf.__internal__.feature_column
    sequence = fc.sequence_categorical_column_with_identity("id", 5)
    found = {}
    with tf.Graph().as_default():
        ids = [fc.categorical_column_with_identity(key, 5) for key in ("id", "other")]
        all_columns = [
            *(*ids, sequence, fc.sequence_numeric_column("x"), fc.embedding_column(sequence, 3)),
            *(fc.indicator_column(sequence), *fc.shared_embeddings(ids, 3)),
        ]
        for column in all_columns:
            try:
                config = convert.serialize_feature_column(column)
                again = type(convert.deserialize_feature_column(config))
            except Exception as error:
                again = type(error)
            found[f"{type(column).__name__} {column.name}"] = f"{again.__module__}.{again.__name__}"
    return found


def make_model(column: Any) -> Any:
    """Returns a Keras model of one column."""
    inputs = {
        key: tf.keras.Input(
            [1], name=key, dtype=tf.string if values.dtype.kind == "U" else values.dtype
        )
        for key, values in BATCH.items()
    }
    dense = tf.keras.layers.DenseFeatures([column])(inputs)
    return tf.keras.Model(inputs, tf.keras.layers.Dense(1)(dense))


def outcome(model: Any, again: Callable[[], Any]) -> str:
    """Returns what a copy of a model is: its columns' classes, whether it predicts the same."""
    try:
        copy = again()
        copy.set_weights(model.get_weights())
        batch = {key: tf.constant(values) for key, values in BATCH.items()}
        np.testing.assert_array_equal(copy(batch), model(batch))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    layers = [layer for layer in copy.layers if hasattr(layer, "_feature_columns")]
    kinds = [type(column) for layer in layers for column in layer._feature_columns]
    return "equal, of " + " ".join(f"{kind.__module__}.{kind.__name__}" for kind in kinds)


def loaded(model: Any, path: str) -> Any:
    """Returns a model that was saved and loaded."""
    model.save(path)
    return tf.keras.models.load_model(path, compile=False)


def record() -> dict[str, dict[str, str]]:
    """Returns the outcome of each way to copy a model of each column."""
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        for number, (kind, column) in enumerate(columns(directory).items()):
            model = make_model(column)
            path = os.path.join(directory, str(number))
            ways = {
                "clone_model": lambda m=model: tf.keras.models.clone_model(m),
                "from_config": lambda m=model: tf.keras.Model.from_config(m.get_config()),
                ".keras": lambda m=model, path=path: loaded(m, f"{path}.keras"),
                ".h5": lambda m=model, path=path: loaded(m, f"{path}.h5"),
            }
            found[kind] = {way: outcome(model, again) for way, again in ways.items()}
    found["others"] = serialized()
    return found


NOT_IMPORTED = (
    # Written programs have copies of these, which import others of their directory.
    "estimator_spec.convert.keras_program.check",
    "estimator_spec.convert.torch_columns.files.",
    # A conversion imports these: they register their classes with Keras.
    "estimator_spec.convert.keras_columns.keras_classes.",
)


def import_everything() -> None:
    """Imports every module of both packages."""
    for name in ("tpu_columns", "estimator_spec"):
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith("__main__") and not module.name.startswith(NOT_IMPORTED):
                importlib.import_module(module.name)


def restore_names() -> None:
    """Restores the names of old programs."""
    importlib.import_module("estimator_spec.legacy").install()


def train() -> None:
    """Trains canned estimators of both generations, one on columns of this project."""
    es = importlib.import_module("estimator_spec")
    ours = importlib.import_module("tpu_columns")
    id_ = fc.categorical_column_with_identity("id", 5)

    def input_fn() -> Any:
        return tf.data.Dataset.from_tensors((BATCH, np.array([[0], [1], [1]])))

    for package in (es, importlib.import_module("estimator_spec.canned.v1")):
        package.DNNClassifier([2], [fc.embedding_column(id_, 3)]).train(input_fn)
        package.DNNClassifier([2], [ours.embedding_column(id_, 3)]).train(input_fn)


if __name__ == "__main__":
    stages = {"plain": lambda: None}
    if sys.argv[1:] != ["plain"]:
        stages |= {"imported": import_everything, "restored": restore_names, "trained": train}
    print(json.dumps({stage: [do(), record()][1] for stage, do in stages.items()}))
