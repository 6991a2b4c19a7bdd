# SPDX-License-Identifier: Apache-2.0
"""Bases of optimizers, for gradients of the rows that a step looks up: on TensorFlow's backend."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


def is_of_rows(gradient: Any) -> bool:
    """Returns whether a gradient is one of rows."""
    return isinstance(gradient, tf.IndexedSlices)


def sum_rows(gradient: Any) -> Any:
    """Returns a gradient with one row for each index, if it is one of rows."""
    if not is_of_rows(gradient):
        return gradient
    rows, places = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


class RowsSummed:
    """Sums the gradients of a row that a batch has several times, as older optimizers do.

    Keras' optimizers take the square, and the norm, of each of them.
    """

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Updates variables by gradients."""
        summed = [sum_rows(gradient) for gradient in grads]
        super().apply(summed, trainable_variables)  # type: ignore[misc]

    def _clip_gradients(self, grads: Any) -> Any:
        """Returns clipped gradients; those of rows stay gradients of rows."""
        values = [gradient.values if is_of_rows(gradient) else gradient for gradient in grads]
        clipped = super()._clip_gradients(values)  # type: ignore[misc]
        return [
            tf.IndexedSlices(new, old.indices, old.dense_shape) if is_of_rows(old) else new
            for old, new in zip(grads, clipped, strict=True)
        ]


class RowsLookedUp(RowsSummed):
    """Updates the rows that a step looks up, and no others, on TensorFlow's backend."""

    slots: tuple[str, ...] = ()  # attributes with the slots of all variables

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Updates a variable and its slots."""
        number = self._get_variable_index(variable)  # type: ignore[attr-defined]
        lists = [getattr(self, name) for name in self.slots]
        changed = [variables[number] for variables in lists if variables]
        if not changed or not is_of_rows(gradient):
            super().update_step(gradient, variable, learning_rate)  # type: ignore[misc]
            return
        changed.append(variable)
        before = [tf.identity(keras.ops.convert_to_tensor(each)) for each in changed]
        super().update_step(gradient, variable, learning_rate)  # type: ignore[misc]
        rows = gradient.indices[:, tf.newaxis]
        for each, old in zip(changed, before, strict=True):
            new = tf.gather(keras.ops.convert_to_tensor(each), gradient.indices)
            kept = tf.tensor_scatter_nd_update(old, rows, new)
            self.assign(each, kept)  # type: ignore[attr-defined]
