"""Exports the model as a SavedModel that takes serialized tf.Examples: serve.py DIRECTORY."""

from __future__ import annotations

import sys
from typing import Any

import keras
import tensorflow as tf

import model as columns

EXAMPLES = {
    "age": tf.io.FixedLenFeature([1], tf.float32),
    "city": tf.io.VarLenFeature(tf.string),
    "counts": tf.io.VarLenFeature(tf.float32),
    "items": tf.io.VarLenFeature(tf.string),
    "spent": tf.io.FixedLenFeature([1], tf.float32),
}


def export(directory: str) -> None:
    """Writes a SavedModel with the signature `serve`."""
    trained = keras.models.load_model(columns.WEIGHTS, compile=False)
    archive = keras.export.ExportArchive()
    archive.track(trained)
    for table in columns.TABLES:
        archive.track(table)

    def serve(examples: Any) -> Any:
        features = tf.io.parse_example(examples, EXAMPLES)
        return columns.with_classes(trained(columns.preprocess(features)))

    signature = [tf.TensorSpec([None], tf.string, name="examples")]
    archive.add_endpoint("serve", serve, signature)
    archive.write_out(directory)


if __name__ == "__main__":
    export(sys.argv[1])
