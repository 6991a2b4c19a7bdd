"""Predicts the tf.Examples of TFRecord files, and prints a line of JSON for each: serve.py FILES.

KERAS_BACKEND is 'torch' if it isn't set.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras

import model as columns
import records

EXAMPLES = {
    "age": records.FixedLen([1], "float32"),
    "city": records.VarLen("string"),
    "counts": records.VarLen("float32"),
    "items": records.VarLen("string"),
    "spent": records.FixedLen([1], "float32"),
}


def predict(trained: Any, examples: list[bytes]) -> dict[str, np.ndarray]:
    """Returns the predictions of serialized tf.Examples."""
    features = records.parse_examples(examples, EXAMPLES)
    outputs = trained(columns.preprocess(features))
    outputs = {key: keras.ops.convert_to_numpy(value) for key, value in outputs.items()}
    return columns.with_classes(outputs)


def batches(paths: Iterable[str], size: int = 512) -> Iterator[list[bytes]]:
    """Yields the examples of TFRecord files in batches."""
    examples = itertools.chain.from_iterable(map(records.read_records, paths))
    while batch := list(itertools.islice(examples, size)):
        yield batch


def plain(value: Any) -> Any:
    """Returns a value of JSON; text becomes str."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value.tolist()


def main(paths: list[str]) -> None:
    """Prints the predictions of files."""
    trained = keras.models.load_model(columns.WEIGHTS, compile=False)
    for batch in batches(paths):
        outputs = predict(trained, batch)
        for number in range(len(batch)):
            row = {key: value[number] for key, value in outputs.items()}
            sys.stdout.write(json.dumps(row, default=plain) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
