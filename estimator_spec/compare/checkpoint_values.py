# SPDX-License-Identifier: Apache-2.0
"""Compares the variables of two checkpoints, of any size, in blocks of rows."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

import numpy as np

from estimator_spec.checkpoints.differences import Side as StoredSide
from estimator_spec.compare import comparison, gaps, values
from estimator_spec.compare.comparison import Comparison, Item, Outcome
from estimator_spec.compare.gaps import Gap, GapBuilder
from estimator_spec.compare.matching import compare_variables
from estimator_spec.compare.recording import RecordedVariable
from estimator_spec.compare.stages import Stage, Tolerance, Tolerances
from estimator_spec.core.checkpoints.bundle import Checkpoint, StoredVariable

_CHUNK = 4 << 20
# Larger tables aren't searched for permuted rows: both must be in memory for it.
_MAX_SORTED_BYTES = 1 << 28
# Why only one of two systems has a variable, by the end of its name.
_POWER = (
    "TensorFlow 1's Adam stores this power of its beta; Keras computes it from the number of "
    "iterations"
)
_REASONS = {"beta1_power": _POWER, "beta2_power": _POWER}


def compare_checkpoints(old: str, new: str, *, tolerances: Tolerances | None = None) -> Comparison:
    """Compares two checkpoints; tables are compared row by row, whatever their layouts.

    Args:
        old: checkpoint prefix, or a directory, of which the latest checkpoint is read.
        new: the other checkpoint, likewise.
        tolerances: bounds of what agrees. None: those of the stages.

    Returns:
        Items of the stages 'variables' and 'trained values'.

    Raises:
        CheckpointError: one of them is missing or damaged.
    """
    tolerances = tolerances or Tolerances()
    with Checkpoint(old) as first, Checkpoint(new) as second:
        sides = StoredSide(first), StoredSide(second)
        items = [*map(_with_reason, compare_variables(_variables(first), _variables(second)))]
        for name, variable in first.variables.items():
            other = second.variables.get(name)
            if other is not None and (variable.shape, variable.dtype) == (other.shape, other.dtype):
                items.append(_compare_values(*sides, name, tolerances))
        names = comparison.Side(first.prefix), comparison.Side(second.prefix)
        return Comparison(*names, tuple(items))


def _variables(checkpoint: Checkpoint) -> dict[str, RecordedVariable]:
    return {
        name: RecordedVariable(name, variable.dtype.name, variable.shape, trainable=True)
        for name, variable in checkpoint.variables.items()
    }


def _with_reason(item: Item) -> Item:
    reason = _REASONS.get(item.name.rpartition("/")[2].rstrip("_0123456789"))
    if reason is None or item.outcome not in (Outcome.ONLY_OLD, Outcome.ONLY_NEW):
        return item
    return dataclasses.replace(item, text=f"{item.outcome.value}: {reason}")


def _compare_values(old: StoredSide, new: StoredSide, name: str, tolerances: Tolerances) -> Item:
    stage = Stage.TRAINED_VALUES
    variable = old.variable(name)
    if not variable.is_numbers:
        same = old.whole(name) == new.whole(name)
        outcome = Outcome.AGREES if same else Outcome.DIFFERS
        return Item(stage, name, outcome, "" if same else "other contents")
    tolerance = tolerances.of(stage, name, np.dtype(variable.dtype.as_numpy_dtype).kind)
    if not (variable.is_rows and new.variable(name).is_rows):
        arrays = _whole(old, name), _whole(new, name)
        gap = gaps.measure(*arrays, tolerance)
        describe = functools.partial(values.describe_gap, gap, *arrays)
    else:
        gap = _measure_rows(old, new, name, tolerance)
        describe = functools.partial(_describe_rows, old, new, name, gap, tolerance)
    return values.measured_item(stage, name, gap, tolerance, describe)


def _measure_rows(old: StoredSide, new: StoredSide, name: str, tolerance: Tolerance) -> Gap:
    largest = max((gaps.largest_magnitude(block) for block in _blocks(old, name)), default=0.0)
    builder = GapBuilder(tolerance, largest)
    for one, other in zip(_blocks(old, name), _blocks(new, name), strict=True):
        builder.add(one, other)
    return builder.finish()


def _describe_rows(
    old: StoredSide, new: StoredSide, name: str, gap: Gap, tolerance: Tolerance
) -> str:
    if old.variable(name).num_bytes <= _MAX_SORTED_BYTES:
        rows, new_rows = (np.concatenate(list(_blocks(side, name))) for side in (old, new))
        order = gaps.find_order(rows, new_rows, tolerance)
        if order is not None:
            return values.describe_order(order)
    return values.describe_rows(gap)


def _blocks(side: StoredSide, name: str) -> Iterator[np.ndarray]:
    """Yields the rows of a variable, [n, …] each."""
    variable = side.variable(name)
    for _, rows in side.reader(name).blocks(_CHUNK):
        yield _numbers(rows, variable).reshape(len(rows), *variable.shape[1:])


def _whole(side: StoredSide, name: str) -> np.ndarray:
    variable = side.variable(name)
    array = _numbers(np.frombuffer(side.whole(name), np.uint8), variable)
    # Slices along other axes than the first aren't in the order of elements.
    return array.reshape(variable.shape) if len(variable.pieces) == 1 else array


def _numbers(data: np.ndarray, variable: StoredVariable) -> np.ndarray:
    array = data.view(variable.dtype.as_numpy_dtype)
    # bfloat16 and its kin aren't numbers to NumPy.
    return array if array.dtype.kind in "biufc" else array.astype(np.float32)
