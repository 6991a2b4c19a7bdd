# SPDX-License-Identifier: Apache-2.0
"""Tensors that are kept between the calls of a step, which may be in several functions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.core.cores.delayed_updates import HeldUpdate
from estimator_spec.mid_level.replicas import DEVICE

_MANY = 2**31 - 1


def create_outside(make: Callable[[], Any]) -> Any:
    """Returns the result of a function that creates variables, of which there is one copy each.

    In the scope of a strategy, or while a tf.function is traced, it runs in a thread of its own:
    both change how the current thread creates variables.
    """
    if tf.executing_eagerly() and not tf.distribute.has_strategy():
        with tf.device(DEVICE):
            return make()
    result: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            with tf.device(DEVICE):
                result.append(make())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return result[0]


class TensorQueue:
    """First-in, first-out queue of lists of tensors.

    Args:
        dtypes: of a list.
        if_empty: message of the error if a list is taken and there is none.
    """

    def __init__(self, dtypes: Sequence[Any], if_empty: str) -> None:
        self._queue = create_outside(lambda: tf.queue.FIFOQueue(_MANY, dtypes))
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
        self._variable = create_outside(
            lambda: tf.Variable(tf.raw_ops.OptionalNone(), trainable=False, dtype=tf.variant)
        )

    def put(self, tensors: Sequence[Any]) -> None:
        """Replaces the list."""
        with tf.device(DEVICE):
            self._assign(tf.raw_ops.OptionalFromValue(components=list(tensors)))

    def take(self) -> list[Any]:
        """Removes the list, and returns it.

        Raises:
            RuntimeError: there is none. In a function running it raises InvalidArgumentError.
        """
        with tf.device(DEVICE):
            held = self._variable.read_value()
            has_list = tf.raw_ops.OptionalHasValue(optional=held)
            with tf.control_dependencies(_check(has_list, self._if_empty)):
                found = tf.raw_ops.OptionalGetValue(
                    optional=held,
                    output_types=self._dtypes,
                    output_shapes=[
                        tf.TensorShape([] if dtype == tf.variant else None)
                        for dtype in self._dtypes
                    ],
                )
            self._assign(tf.raw_ops.OptionalNone())
            return list(found)

    def _assign(self, optional: Any) -> None:
        self._variable.assign(optional, read_value=False)


class DelayedCall:
    """Call of a function that waits for the next one: the update of a pipelined step.

    Args:
        call: the function, of what is known when a function is traced, and of tensors.
    """

    def __init__(self, call: Callable[[Any, Sequence[Any]], None]) -> None:
        self._call = call
        self._held: dict[Hashable, HeldUpdate] = {}

    def replace(self, known: Hashable, tensors: Sequence[Any]) -> None:
        """Makes the call that waits, if there is one, and lets another one wait."""
        self.make()
        if known not in self._held:
            dtypes = [each.dtype for each in tensors]
            queue = create_outside(lambda: tf.queue.FIFOQueue(1, dtypes))
            self._held[known] = HeldUpdate(queue, lambda *given: self._call(known, given))
        with tf.device(DEVICE):
            self._held[known].hold(tensors)

    def make(self) -> None:
        """Makes the call that waits, if there is one."""
        with tf.device(DEVICE):
            for held in self._held.values():
                held.apply()

    def forget(self) -> None:
        """Drops the call that waits."""
        with tf.device(DEVICE):
            for held in self._held.values():
                held.drop()


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
