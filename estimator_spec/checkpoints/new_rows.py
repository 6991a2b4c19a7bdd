# SPDX-License-Identifier: Apache-2.0
"""Initializes the rows that a table gains when its vocabulary grows."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.core.checkpoints import slots
from estimator_spec.core.checkpoints.row_mapping import RowSource
from estimator_spec.core.embedding import optimizers
from estimator_spec.core.embedding.optimizer_base import OptimizationParameters

tf1 = tf.compat.v1

_AT_ONCE = 8 << 20


def constant(value: float, width: int, dtype: Any) -> RowSource:
    """Returns a source of rows that all hold one value."""
    return lambda first, last: np.full((last - first, width), value, dtype)


def truncated_normal(name: str, count: int, width: int, dtype: Any, seed: int) -> RowSource:
    """Returns a source of rows from a truncated normal, the columns' default initializer.

    The standard deviation is 1/√width; values beyond two of it are drawn again.

    Args:
        name: name of the table; each table gets other values.
        count: number of new rows.
        width: number of elements of a row.
        dtype: a `tf.DType`.
        seed: random seed.
    """
    deviation = 1 / math.sqrt(width)

    def block(number: int, size: int) -> np.ndarray:
        generator = np.random.default_rng([seed, zlib.crc32(name.encode()), number])
        values = generator.standard_normal((size, width))
        while (far := np.abs(values) > 2).any():
            values[far] = generator.standard_normal(int(far.sum()))
        return (values * deviation).astype(dtype.as_numpy_dtype)

    return _in_blocks(block, count, max(1, (1 << 20) // (8 * width)))


def from_initializer(
    name: str, initializer: Callable[..., Any], count: int, width: int, dtype: Any, seed: int
) -> RowSource:
    """Returns a source of rows from a TensorFlow initializer; see `truncated_normal`.

    It is called as `initializer([rows, width], dtype=dtype)`, in a graph with the seed, for all new
    rows at once, or for up to 8 MiB at a time.
    """

    def block(number: int, size: int) -> np.ndarray:
        with tf.Graph().as_default(), tf1.Session() as session:
            tf1.set_random_seed(seed + number)
            made = initializer([size, width], dtype=dtype)
            values = np.asarray(session.run(tf.convert_to_tensor(made)))
        if values.shape != (size, width):
            raise ValueError(
                f"The initializer of {name!r} made values of shape {list(values.shape)} where "
                f"{[size, width]} was expected."
            )
        return values

    return _in_blocks(block, count, max(1, _AT_ONCE // (width * dtype.size)))


def _in_blocks(block: Callable[[int, int], np.ndarray], count: int, at_once: int) -> RowSource:
    """Returns a source that calls `block` once for each `at_once` rows, in order."""
    held: dict[int, np.ndarray] = {}

    def rows(first: int, last: int) -> np.ndarray:
        parts = []
        while first < last:
            number, start = divmod(first, at_once)
            if number not in held:
                held.clear()
                held[number] = block(number, min(at_once, count - number * at_once))
            part = held[number][start : start + last - first]
            parts.append(part)
            first += len(part)
        return np.concatenate(parts)

    return rows


def slot_initial_value(
    suffix: str, naming: slots.SlotNaming | None, parameters: OptimizationParameters | None
) -> float | None:
    """Returns the initial value of a slot, or None if the optimizer is unknown.

    Args:
        suffix: suffix of the slot's name in the new checkpoint.
        naming: the optimizer that the slot belongs to.
        parameters: the spec's optimizer parameters, or None for the optimizer's defaults.
    """
    if naming is None:
        return None
    slot = next((name for name, known in naming.suffixes.items() if known == suffix), None)
    if slot is None:
        return None
    if naming.optimizer.startswith("RMSProp") and naming.system == slots.CPU:
        return 1.0 if slot == "ms" else 0.0  # unlike an embedding core's
    of_keras = naming.system == slots.KERAS and naming.optimizer.startswith("RMSProp")
    if of_keras or naming.optimizer == "Adadelta":
        return 0.0
    default = slots.DEFAULTS.get(naming.optimizer)
    if default is None:
        return None
    if not isinstance(parameters, type(default)):
        parameters = default
    return optimizers.slot_initial_values(parameters)[slot]
