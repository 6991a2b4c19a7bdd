# SPDX-License-Identifier: Apache-2.0
"""Serves the SavedModel with TensorFlow alone, without estimators.

    python serve.py --saved_model DIR --data adult.test.gz --rows 512 --output probabilities.json

It asks the model for the probabilities of the file's first rows. It imports neither
`estimator_spec` nor `tpu_columns`, and reads the raw rows itself.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import sys
from typing import Any

import tensorflow as tf
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("saved_model", None, "Directory of the SavedModel.", required=True)
flags.DEFINE_string("data", None, "A gzip-compressed file of the Adult data.", required=True)
flags.DEFINE_integer("rows", 512, "How many of its first rows to send.", lower_bound=1)
flags.DEFINE_string("output", None, "Where to write the probabilities, as JSON.", required=True)


def read_rows(path: str, count: int) -> list[dict[str, str]]:
    """Returns the first rows of the file as dictionaries by column name."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines, skipinitialspace=True)
        names = [name.replace("-", "_") for name in reader.fieldnames or ()]
        rows = itertools.islice(reader, count)
        return [dict(zip(names, row.values(), strict=True)) for row in rows]


def request(rows: list[dict[str, str]], signature: Any) -> dict[str, Any]:
    """Returns a tensor of the right dtype for each input of the signature."""
    inputs = signature.structured_input_signature[1]
    tensors = {}
    for name, spec in inputs.items():
        values = [row[name] for row in rows]
        if spec.dtype != tf.string:
            values = [spec.dtype.as_numpy_dtype(value) for value in values]
        tensors[name] = tf.constant(values, spec.dtype)
    return tensors


def main(argv: list[str]) -> None:
    """Loads the model, predicts once, and writes the result."""
    del argv
    signature = tf.saved_model.load(FLAGS.saved_model).signatures["serving_default"]
    answer = signature(**request(read_rows(FLAGS.data, FLAGS.rows), signature))
    ours = sorted({"estimator_spec", "tpu_columns"} & set(sys.modules))
    with open(FLAGS.output, "w", encoding="utf-8") as output:
        json.dump(
            {"probability": answer["probability"][:, 0].numpy().tolist(), "ours": ours}, output
        )


if __name__ == "__main__":
    app.run(main)
