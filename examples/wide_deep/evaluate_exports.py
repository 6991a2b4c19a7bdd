# SPDX-License-Identifier: Apache-2.0
"""Evaluates exported models on the test rows, with TensorFlow and the standard library only."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("exports", None, "JSON: directories of SavedModels by name.", required=True)
flags.DEFINE_string("data", None, "A gzip-compressed file of the Adult data.", required=True)
flags.DEFINE_integer("batch_size", 1024, "Examples a request.", lower_bound=1)
flags.DEFINE_string("output", None, "Where to write the results, as JSON.", required=True)

NUMBERS = ("age", "education_num", "capital_gain", "capital_loss", "hours_per_week")


def read_rows(path: str) -> Iterator[dict[str, str]]:
    """Yields the rows of the file as dictionaries by column name."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines, skipinitialspace=True)
        names = [name.replace("-", "_") for name in reader.fieldnames or ()]
        for row in reader:
            yield dict(zip(names, row.values(), strict=True))


def as_example(row: dict[str, str]) -> bytes:
    """Returns a row as a serialized `tf.Example`; the model's parser takes what it needs."""
    features = {}
    for name, value in row.items():
        if name in NUMBERS:
            feature = tf.train.Feature(float_list=tf.train.FloatList(value=[float(value)]))
        else:
            feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
        features[name] = feature
    return bytes(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def area_under_curve(labels: np.ndarray, scores: np.ndarray) -> float:
    """Returns the share of pairs, one of each class, in which the positive has the higher score.

    Ties count one half: the Mann-Whitney statistic.
    """
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    positives = int(labels.sum())
    total = ranks[place][labels == 1].sum() - positives * (positives + 1) / 2
    return float(total / (positives * (len(labels) - positives)))


def probabilities(path: str, examples: list[bytes]) -> np.ndarray:
    """Returns the probability that a model gives each example."""
    signature = tf.saved_model.load(path).signatures["serving_default"]
    found = [
        signature(tf.constant(examples[start : start + FLAGS.batch_size]))["scores"].numpy()[:, 1]
        for start in range(0, len(examples), FLAGS.batch_size)
    ]
    return np.concatenate(found)


def main(argv: list[str]) -> None:
    """Evaluates each model, and writes the results."""
    del argv
    rows = list(read_rows(FLAGS.data))
    labels = np.array([row["Y"].startswith(">50K") for row in rows]).astype(int)
    examples = [as_example(row) for row in rows]
    models: dict[str, Any] = {}
    for name, path in json.loads(FLAGS.exports).items():
        scores = probabilities(path, examples)
        models[name] = {
            "auc": area_under_curve(labels, scores),
            "probabilities": scores.tolist(),
        }
    ours = sorted({"estimator_spec", "tpu_columns"} & set(sys.modules))
    with open(FLAGS.output, "w", encoding="utf-8") as output:
        json.dump({"models": models, "ours": ours}, output)


if __name__ == "__main__":
    app.run(main)
