# SPDX-License-Identifier: Apache-2.0
"""Adds sparse gradients of several processes, whose numbers of rows differ by step.

In a graph, a collective of TensorFlow has one number, its instance key, for all steps, and fails if
its shape changes: "Shape mismatch in the collective instance". Of a table's gradients the number of
rows changes with the ids of a batch. Here rows are padded to a power of two, and each power has a
key of its own. (In functions TensorFlow takes another key in each call.)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

# Powers of two of an int32 number of rows.
_SIZES = 32


def sparse_sums(strategy: Any) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yields what adds sparse gradients, as (object, name of its method, function in its place).

    Args:
        strategy: a `MultiWorkerMirroredStrategy`.
    """
    # No public name leads to the objects that start a replica's collectives. Tried: 2.15 to 2.21.
    for launcher in strategy.extended._cross_device_ops._launchers:
        yield launcher, "all_reduce_indexed_slices", functools.partial(_add, launcher)


def _add(launcher: Any, slices: tf.IndexedSlices, options: Any = None) -> tf.IndexedSlices:
    """Returns the rows of all processes, with their ids."""
    with tf.device(launcher._device):
        count = tf.shape(slices.indices)
        counts = _gather(launcher, count, _new_keys(launcher, 1))
        powers = tf.bitwise.left_shift(1, tf.range(_SIZES - 1))
        number = tf.searchsorted(powers, tf.reshape(tf.reduce_max(counts), [1]))[0]
        size = powers[number]
        present = tf.reshape(tf.sequence_mask(counts, size), [-1])
        parts = []
        for part in (slices.values, slices.indices):
            after = tf.stack([size - count[0], *([0] * (part.shape.rank - 1))])
            padded = tf.pad(part, tf.stack([tf.zeros_like(after), after], 1))
            everybody = _gather(launcher, padded, _new_keys(launcher, _SIZES) + number)
            parts.append(tf.boolean_mask(everybody, present))
        return tf.IndexedSlices(*parts, slices.dense_shape)


def _new_keys(launcher: Any, count: int) -> int:
    """Returns the first of some keys that follow each other; all processes take the same ones."""
    keys = launcher._collective_keys
    found = [keys.get_instance_key(launcher._group_key, launcher._device) for _ in range(count)]
    return int(found[0])


def _gather(launcher: Any, tensor: Any, key: Any) -> Any:
    """Returns the tensors of all processes, one after the other in the first dimension."""
    return tf.raw_ops.CollectiveGatherV2(
        input=tensor,
        group_size=launcher._group_size,
        group_key=launcher._group_key,
        instance_key=key,
        ordering_token=[],
        communication_hint=launcher._options.implementation.value,
    )
