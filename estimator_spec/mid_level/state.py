# SPDX-License-Identifier: Apache-2.0
"""Tensors that are kept between the calls of a step, which may be in several functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.mid_level import tables

_MANY = 2**31 - 1


class TensorQueue:
    """First-in, first-out queue of lists of tensors.

    Args:
        dtypes: of a list.
        if_empty: message of the error if a list is taken and there is none.
    """

    def __init__(self, dtypes: Sequence[Any], if_empty: str) -> None:
        self._queue = tables.outside_of_strategies(lambda: tf.queue.FIFOQueue(_MANY, dtypes))
        self._if_empty = if_empty

    def put(self, tensors: Sequence[Any]) -> None:
        """Appends a list."""
        with tf.device(tables.DEVICE):
            self._queue.enqueue(list(tensors))

    def take(self) -> list[Any]:
        """Removes the first list, and returns it.

        Raises:
            RuntimeError: there is none. In a function running it raises InvalidArgumentError.
        """
        with tf.device(tables.DEVICE):
            with tf.control_dependencies(_check(self._queue.size() > 0, self._if_empty)):
                found = self._queue.dequeue()
            return list(found) if isinstance(found, (list, tuple)) else [found]


class HeldTensors:
    """Variable with one list of tensors, or none.

    Args:
        dtypes: of the list.
        if_empty: message of the error if the list is taken and there is none.
    """

    def __init__(self, dtypes: Sequence[Any], if_empty: str) -> None:
        self._dtypes = list(dtypes)
        self._if_empty = if_empty
        self._variable = tables.outside_of_strategies(
            lambda: tf.Variable(tf.raw_ops.OptionalNone(), trainable=False, dtype=tf.variant)
        )

    def put(self, tensors: Sequence[Any]) -> None:
        """Replaces the list."""
        with tf.device(tables.DEVICE):
            self._assign(tf.raw_ops.OptionalFromValue(components=list(tensors)))

    def has_list(self) -> Any:
        """Returns whether there is a list, a bool scalar."""
        with tf.device(tables.DEVICE):
            return tf.raw_ops.OptionalHasValue(optional=self._variable.read_value())

    def take(self) -> list[Any]:
        """Removes the list, and returns it.

        Raises:
            RuntimeError: there is none. In a function running it raises InvalidArgumentError.
        """
        with tf.device(tables.DEVICE):
            with tf.control_dependencies(_check(self.has_list(), self._if_empty)):
                found = tf.raw_ops.OptionalGetValue(
                    optional=self._variable.read_value(),
                    output_types=self._dtypes,
                    output_shapes=[
                        tf.TensorShape([] if dtype == tf.variant else None)
                        for dtype in self._dtypes
                    ],
                )
            self.clear()
            return list(found)

    def clear(self) -> None:
        """Removes the list, if there is one."""
        with tf.device(tables.DEVICE):
            self._assign(tf.raw_ops.OptionalNone())

    def _assign(self, optional: Any) -> None:
        self._variable.assign(optional, read_value=False)


def _check(holds: Any, message: str) -> list[Any]:
    """Raises RuntimeError if a condition doesn't hold; returns the op that checks it in a graph."""
    if tf.executing_eagerly():
        if not bool(holds):
            raise RuntimeError(message)
        return []
    return [tf.debugging.Assert(holds, [message], summarize=1)]
