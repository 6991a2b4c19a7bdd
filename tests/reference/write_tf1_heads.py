# SPDX-License-Identifier: Apache-2.0
"""Records what TensorFlow 1.15.5's heads of `tf.contrib.estimator` make of fixed batches.

    python3.7 tests/reference/write_tf1_heads.py        (tensorflow==1.15.5, protobuf<3.21)

The record is `tests/data/tf1_15_heads.json`: TensorFlow 2.15 has no such heads to ask.
"""

from __future__ import annotations

import json
import os

import numpy as np
import tensorflow as tf
from head_calls import encoded, graph_outcome, outcome

RECORD = os.path.join(os.path.dirname(__file__), "..", "data", "tf1_15_heads.json")
WEIGHTED = {"weight_column": "weight", "name": "some_head"}


def batch(dimension, labels):
    """Returns a batch of 6 examples."""
    random = np.random.RandomState(dimension)
    return {
        "logits": random.randint(-32, 33, (6, dimension)).astype(np.float32) / 16,
        "labels": labels(random),
        "features": {"weight": random.randint(0, 9, (6, 1)).astype(np.float32) / 4},
    }


def ids(count):
    """Returns a function that draws class ids."""
    return lambda random: random.randint(0, count, (6, 1))


def counts(dimension):
    """Returns a function that draws labels of a regression."""
    return lambda random: random.randint(0, 5, (6, dimension)).astype(np.float32)


def sets(random):
    """Draws labels of several classes."""
    return random.randint(0, 2, (6, 3))


def several(random):
    """Draws the labels of two heads."""
    return {"one": counts(1)(random), "two": ids(2)(random)}


def cases():
    """Yields heads with their arguments and batches."""
    for head, options, dimension, labels in (
        ("binary_classification_head", {"thresholds": [0.25, 0.5]}, 1, ids(2)),
        ("multi_class_head", {"n_classes": 3}, 3, ids(3)),
        ("multi_label_head", {"n_classes": 3, "thresholds": [0.5]}, 3, sets),
        (
            "multi_label_head",
            {
                "n_classes": 3,
                "label_vocabulary": ["ant", "bee", "cat"],
                "classes_for_class_based_metrics": ["cat", "ant"],
            },
            3,
            sets,
        ),
        (
            "multi_label_head",
            {"n_classes": 3, "classes_for_class_based_metrics": [1]},
            3,
            sets,
        ),
        ("regression_head", {"label_dimension": 2}, 2, counts(2)),
        ("regression_head", {"inverse_link_fn": "exp", "loss_fn": "absolute"}, 1, counts(1)),
        ("poisson_regression_head", {"label_dimension": 2}, 2, counts(2)),
        ("poisson_regression_head", {"compute_full_loss": False}, 1, counts(1)),
        ("logistic_regression_head", {}, 1, ids(2)),
    ):
        for more in ({}, WEIGHTED, {"loss_reduction": "weighted_sum"}):
            yield {
                "head": head,
                "arguments": {**options, **more},
                "batches": [batch(dimension, labels)],
            }
    heads = [("regression_head", {"name": "one"}), ("binary_classification_head", {"name": "two"})]
    for more in ({}, {"head_weights": [1.0, 2.0]}):
        one = batch(1, several)
        for logits in ({"one": one["logits"], "two": -one["logits"]}, batch(2, ids(2))["logits"]):
            yield {
                "head": "multi_head",
                "arguments": {"heads": heads, **more},
                "batches": [{**one, "logits": logits}],
            }


def main():
    """Writes the record."""
    heads = tf.contrib.estimator
    entries = [[encoded(case), outcome(heads, case, graph_outcome)] for case in cases()]
    record = {"tensorflow": tf.__version__, "cases": entries}
    temporary = RECORD + ".tmp"
    with open(temporary, "w") as file:
        json.dump(record, file, indent=None, sort_keys=True)
        file.write("\n")
    os.replace(temporary, RECORD)


if __name__ == "__main__":
    main()
