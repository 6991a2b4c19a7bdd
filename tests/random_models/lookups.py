# SPDX-License-Identifier: Apache-2.0
"""Lookups of the random models: columns, and a program's own gathers."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

import tpu_columns

tf1 = tf.compat.v1

COLUMNS = ("dense", "sparse", "weighted", "shared", "sequence")
GATHERS = ("gather", "unique", "safe", "cond", "while", "function")


@dataclasses.dataclass(frozen=True)
class Lookup:
    """One table and what reads it.

    Attributes:
        name: name of its features and variables.
        kind: one of `COLUMNS` or `GATHERS`.
        combiner: 'mean', 'sqrtn' or 'sum'.
        rows: vocabulary size.
        width: dimension.
        ids: largest number of ids of an example.
        dtype: dtype of a table that no column creates.
    """

    name: str
    kind: str
    combiner: str
    rows: int
    width: int
    ids: int
    dtype: str

    def __str__(self) -> str:
        return f"{self.kind} {self.combiner} {self.rows}x{self.width} of {self.ids}"

    @property
    def output_width(self) -> int:
        """Columns of the result of `look_up`."""
        return self.width * (2 if self.kind in ("shared", "sequence") else 1)

    def inputs(self, batch: int | None) -> dict[str, Any]:
        """Returns placeholders of a batch of ids, by name."""
        if self.kind in GATHERS and self.kind != "safe":
            return {"ids": tf1.placeholder(tf.int64, [batch, self.ids])}
        if self.kind in ("dense", "shared"):
            names = ("ids", "more") if self.kind == "shared" else ("ids",)
            return {name: tf1.placeholder(tf.int64, [batch, self.ids]) for name in names}
        return {
            "indices": tf1.placeholder(tf.int64, [None, 2]),
            "values": tf1.placeholder(tf.int64, [None]),
            "weights": tf1.placeholder_with_default(np.zeros([0], np.float32), [None]),
            "shape": tf1.placeholder_with_default(np.zeros([2], np.int64), [2]),
        }

    def feeds(self, given: dict[str, Any], rng: np.random.Generator, batch: int) -> dict[Any, Any]:
        """Returns the values of a batch; ids repeat, and columns get missing ones."""
        lowest = 0 if self.kind in GATHERS and self.kind != "safe" else -1
        # A low maximum makes ids repeat.
        highest = min(self.rows, int(rng.integers(1, 12)))
        ids = rng.integers(lowest, highest, (batch, self.ids))
        if "ids" in given:
            return {given[name]: ids if name == "ids" else ids[::-1] for name in given}
        places = np.argwhere(rng.random(ids.shape) < 0.7)
        if self.kind == "sequence":  # its steps have no gaps
            lengths = rng.integers(0, self.ids + 1, [batch, 1])
            places = np.argwhere(np.arange(self.ids) < lengths)
        values = ids[tuple(places.T)]
        weights = rng.choice([-1, 0, 0.5, 1, 2.5], len(values)).astype(np.float32)
        return {
            given["indices"]: places,
            given["values"]: values,
            given["weights"]: weights,
            given["shape"]: [batch, self.ids],
        }

    def look_up(self, given: dict[str, Any]) -> Any:
        """Returns activations [batch, output_width] of the model's dtype."""
        if self.kind in COLUMNS:
            return self._by_columns(given)
        table = tf1.get_variable(
            self.name, [self.rows, self.width], self.dtype, tf1.zeros_initializer()
        )
        if self.kind == "safe":
            return tf1.nn.safe_embedding_lookup_sparse(
                table, _sparse(given, "values"), None, combiner=self.combiner
            )
        ids = given["ids"]
        if self.kind == "unique":
            unique, places = tf.unique(tf.reshape(ids, [-1]))
            rows = tf.gather(tf1.nn.embedding_lookup(table, unique), places)
            return tf.reduce_mean(tf.reshape(rows, [-1, self.ids, self.width]), 1)
        if self.kind == "cond":
            rows = tf1.cond(
                tf.equal(ids[0, 0] % 2, 0),
                lambda: tf.gather(table, ids),
                lambda: 2 * tf1.nn.embedding_lookup(table, ids[:, ::-1]),
            )
        elif self.kind == "function":
            rows = tf.function(lambda ids: tf.gather(table, ids))(ids)
        elif self.kind == "while":
            _, total = tf.while_loop(
                lambda i, total: i < self.ids,
                lambda i, total: (i + 1, total + tf.gather(table, ids[:, i])),
                (0, tf.zeros([tf.shape(ids)[0], self.width], self.dtype)),
                shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, self.width])),
            )
            return total
        else:
            rows = tf.gather(table, ids)
        return tf.reduce_mean(rows, 1)

    def _by_columns(self, given: dict[str, Any]) -> Any:
        key = self.name
        identity = tf.feature_column.categorical_column_with_identity
        zeros = {"combiner": self.combiner, "initializer": tf1.zeros_initializer()}
        if self.kind == "shared":
            columns = tpu_columns.shared_embedding_columns(
                [identity(f"{key}_{name}", self.rows) for name in given], self.width, **zeros
            )
            features = {f"{key}_{name}": ids for name, ids in given.items()}
            return tpu_columns.input_layer(features, columns)
        if self.kind == "dense":
            column = tpu_columns.embedding_column(identity(key, self.rows), self.width, **zeros)
            return tpu_columns.input_layer({key: given["ids"]}, [column])
        features = {key: _sparse(given, "values")}
        if self.kind == "sequence":
            steps = tf.feature_column.sequence_categorical_column_with_identity(key, self.rows)
            column = tpu_columns.embedding_column(steps, self.width, max_sequence_length=2, **zeros)
            values, _ = tpu_columns.sequence_input_layer(features, [column])
            return tf.reshape(values, [-1, 2 * self.width])
        ids = identity(key, self.rows)
        if self.kind == "weighted":
            features[f"{key}_weights"] = _sparse(given, "weights")
            ids = tf.feature_column.weighted_categorical_column(ids, f"{key}_weights")
        column = tpu_columns.embedding_column(ids, self.width, **zeros)
        return tpu_columns.input_layer(features, [column])


def draw(rng: np.random.Generator, dtype: str, use_resource: bool, number: int) -> Lookup:
    """Returns a random lookup.

    Args:
        rng: the model's random numbers.
        dtype: dtype of the model; columns create tables of float32 only.
        use_resource: whether tables are resource variables.
        number: place of the lookup in its model.
    """
    kinds = GATHERS + COLUMNS * 2 if dtype == "float32" else GATHERS
    kind = str(rng.choice(kinds))
    if kind == "function" and not use_resource:
        kind = "gather"  # functions read references at any time: TensorFlow's own numbers vary
    return Lookup(
        name=f"table_{number}",
        kind=kind,
        combiner=str(rng.choice(["mean", "sqrtn", "sum"])),
        rows=int(rng.integers(12, 60)),
        width=int(rng.choice([1, 3, 8, 16, 37])),
        ids=int(rng.integers(1, 5)),
        dtype=dtype,
    )


def _sparse(given: dict[str, Any], values: str) -> tf.SparseTensor:
    return tf.SparseTensor(given["indices"], given[values], given["shape"])
