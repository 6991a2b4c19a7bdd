# SPDX-License-Identifier: Apache-2.0
"""Delays updates of tables by a step, as pipelining on a TPU's embedding core does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tpu_columns import shared_state


class HeldUpdate:
    """Queue that holds the tensors of one update until the next step.

    A queue, not variables: Grappler infers a variable's shape from the value that the step assigns
    to it, and folds the Size of the old value to that of the new one.

    Args:
        queue: an empty queue of one element.
        apply: makes the update, given its tensors; returns the ops, or None where they run anyway.
            It creates no variables.
    """

    def __init__(self, queue: Any, apply: Callable[..., Any]) -> None:
        self._queue = queue
        self._apply = apply

    def hold(self, tensors: Sequence[Any]) -> Any:
        """Returns the op that holds the tensors of an update; no other may be held."""
        return self._queue.enqueue(list(tensors))

    def apply(self) -> Any:
        """Makes the held update, if there is one; returns whether there was, as a tensor."""

        def apply_held() -> Any:
            with tf.control_dependencies(self._apply(*self._queue.dequeue()) or []):
                return tf.constant(True)

        return tf.cond(self._queue.size() > 0, apply_held, lambda: tf.constant(False))

    def drop(self) -> None:
        """Removes the held update, if there is one."""

        def remove() -> Any:
            self._queue.dequeue()
            return tf.constant(True)

        tf.cond(self._queue.size() > 0, remove, lambda: tf.constant(False))


def delay(pending: Sequence[Any], apply: Callable[..., Any], after: Sequence[Any]) -> Any:
    """Returns the op that holds the tensors of an update, and applies the previous step's.

    Args:
        pending: the tensors.
        apply: returns the ops of an update, given its tensors; it creates no variables.
        after: tensors of this step that must not have the update.
    """

    def apply_with_shapes(*values: Any) -> Any:
        for value, given in zip(values, pending, strict=True):
            value.set_shape([None, *given.shape[1:]] if given.shape.rank else given.shape)
        return apply(*values)

    # Outside of a loop, so that the queue keeps its element between steps.
    with tf.init_scope():
        queue = tf.queue.FIFOQueue(1, [value.dtype for value in pending], name="held_update")
        held = HeldUpdate(queue, apply_with_shapes)
        tf.compat.v1.add_to_collection(shared_state.HELD_UPDATES, held.apply())
    with tf.control_dependencies(after):
        applied = held.apply()
    with tf.control_dependencies([applied]):
        return held.hold(pending)
