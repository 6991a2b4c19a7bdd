# SPDX-License-Identifier: Apache-2.0
"""Keras classes that train tables by the rules of estimators, on TensorFlow's backend.

Optimizers train the rows that a step looks up, and clip the gradient of each lookup.
"""

from __future__ import annotations

import types
from typing import Any

import keras
import keras_rs
import tensorflow as tf

from estimator_spec.convert.keras_columns.keras_classes.row_gradients import (
    RowsLookedUp,
    RowsSummed,
    sum_rows,
)


class RowsClipped(RowsSummed):
    """Clips the gradients of each lookup, and then sums those of a row."""

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Updates variables by gradients."""
        super(RowsSummed, self).apply(grads, trainable_variables)  # type: ignore[misc]

    def _clip_gradients(self, grads: Any) -> Any:
        """Returns clipped gradients, with one row for each index."""
        return [sum_rows(each) for each in super()._clip_gradients(grads)]


class ClippedRowsLookedUp(RowsClipped, RowsLookedUp):
    """Updates the rows that a step looks up, and no others."""


class UniqueRows(keras.layers.Embedding):
    """Table that looks up each row once: its gradient has one entry for a row."""

    def call(self, inputs: Any) -> Any:
        """Returns the rows."""
        ids, places = tf.unique(tf.reshape(inputs, [-1]))
        rows = tf.gather(super().call(ids), places)
        return tf.reshape(rows, [*inputs.shape, self.output_dim])


class LookedUpOnce(keras_rs.layers.EmbedReduce, UniqueRows):
    """`EmbedReduce` of rows that are looked up once."""


layers = types.SimpleNamespace(**(vars(keras_rs.layers) | {"EmbedReduce": LookedUpOnce}))
RULES = {
    "RowsSummed": RowsClipped,
    "RowsLookedUp": ClippedRowsLookedUp,
    "keras_rs": types.SimpleNamespace(layers=layers),
}
"""By the name in programs of what each replaces."""
