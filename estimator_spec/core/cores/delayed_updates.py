# SPDX-License-Identifier: Apache-2.0
"""Delays updates of tables by a step, as pipelining on a TPU's embedding core does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tpu_columns import shared_state

tf1 = tf.compat.v1


def delay(pending: Sequence[Any], apply: Callable[..., Any], after: Sequence[Any]) -> Any:
    """Returns the op that holds the tensors of an update, and applies the previous step's.

    Args:
        pending: the tensors.
        apply: returns the ops of an update, given its tensors; it creates no variables.
        after: tensors of this step that must not have the update.
    """

    def apply_held() -> Any:
        values = held.dequeue()
        for value, given in zip(values, pending, strict=True):
            value.set_shape([None, *given.shape[1:]] if given.shape.rank else given.shape)
        with tf.control_dependencies(apply(*values)):
            return tf.constant(True)

    def apply_if_held() -> Any:
        return tf.cond(held.size() > 0, apply_held, lambda: tf.constant(False))

    # A queue, not variables: Grappler infers a variable's shape from the value that the step
    # assigns to it, and folds the Size of the old value to that of the new one. Outside of a
    # loop, so that it keeps its element between steps.
    with tf.init_scope():
        held = tf.queue.FIFOQueue(1, [value.dtype for value in pending], name="held_update")
        tf1.add_to_collection(shared_state.HELD_UPDATES, apply_if_held())
    with tf.control_dependencies(after):
        applied = apply_if_held()
    with tf.control_dependencies([applied]):
        return held.enqueue(pending)
