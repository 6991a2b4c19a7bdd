# SPDX-License-Identifier: Apache-2.0
"""Tensors that are kept between the calls of a step, which may be in several functions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.mid_level import tables
from estimator_spec.mid_level.replicas import DEVICE

_MANY = 2**31 - 1


class TensorQueue:
    """First-in, first-out queue of lists of tensors.

    Args:
        dtypes: of a list.
        if_empty: message of the error if a list is taken and there is none.
    """

    def __init__(self, dtypes: Sequence[Any], if_empty: str) -> None:
        self._queue = tables.create_outside(lambda: tf.queue.FIFOQueue(_MANY, dtypes))
        self._if_empty = if_empty

    def put(self, tensors: Sequence[Any]) -> None:
        """Appends a list."""
        with tf.device(DEVICE):
            self._queue.enqueue(list(tensors))

    def is_empty(self) -> bool:
        """Returns whether there is no list; eagerly only."""
        return not int(self._queue.size())

    def take(self) -> list[Any]:
        """Removes the first list, and returns it.

        Raises:
            RuntimeError: there is none. In a function running it raises InvalidArgumentError.
        """
        with tf.device(DEVICE):
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
        self._variable = tables.create_outside(
            lambda: tf.Variable(tf.raw_ops.OptionalNone(), trainable=False, dtype=tf.variant)
        )

    def put(self, tensors: Sequence[Any]) -> None:
        """Replaces the list."""
        with tf.device(DEVICE):
            self._assign(tf.raw_ops.OptionalFromValue(components=list(tensors)))

    def has_list(self) -> Any:
        """Returns whether there is a list, a bool scalar."""
        with tf.device(DEVICE):
            return tf.raw_ops.OptionalHasValue(optional=self._variable.read_value())

    def take(self) -> list[Any]:
        """Removes the list, and returns it.

        Raises:
            RuntimeError: there is none. In a function running it raises InvalidArgumentError.
        """
        with tf.device(DEVICE):
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
        with tf.device(DEVICE):
            self._assign(tf.raw_ops.OptionalNone())

    def _assign(self, optional: Any) -> None:
        self._variable.assign(optional, read_value=False)


class DelayedCall:
    """Call of a function that waits for the next one: the update of a pipelined step.

    Args:
        call: the function, of what is known when a function is traced, and of tensors.
    """

    def __init__(self, call: Callable[[Any, Sequence[Any]], None]) -> None:
        self._call = call
        self._held: dict[Hashable, HeldTensors] = {}

    def replace(self, known: Hashable, tensors: Sequence[Any]) -> None:
        """Makes the call that waits, if there is one, and lets another one wait."""
        self.make()
        if known not in self._held:
            self._held[known] = HeldTensors([each.dtype for each in tensors], "No call waits.")
        self._held[known].put(tensors)

    def make(self) -> None:
        """Makes the call that waits, if there is one."""
        for known, held in self._held.items():
            if not tf.executing_eagerly():
                self._make_in_graph(known, held)
            elif bool(held.has_list()):
                self._call(known, held.take())

    def forget(self) -> None:
        """Drops the call that waits."""
        for held in self._held.values():
            held.clear()

    def _make_in_graph(self, known: Hashable, held: HeldTensors) -> None:
        def make() -> Any:
            self._call(known, held.take())
            return tf.constant(True)

        tf.cond(held.has_list(), make, lambda: tf.constant(False))


def of_shape(tensor: Any, shape: Any) -> Any:
    """Returns a tensor whose shape is known here, but not where it comes from: such a state.

    Unlike `tf.ensure_shape` it is no op: there are hundreds in a step.
    """
    tensor.set_shape(shape)
    return tensor


def _check(holds: Any, message: str) -> list[Any]:
    """Raises RuntimeError if a condition doesn't hold; returns the op that checks it in a graph."""
    if tf.executing_eagerly():
        if not bool(holds):
            raise RuntimeError(message)
        return []
    return [tf.debugging.Assert(holds, [message], summarize=1)]
