# SPDX-License-Identifier: Apache-2.0
"""Compares arrays: the items of variables, losses, metrics and predictions."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator

import numpy as np

from estimator_spec.compare import gaps
from estimator_spec.compare.comparison import Item, Outcome, Series
from estimator_spec.compare.gaps import Gap
from estimator_spec.compare.recording import Array
from estimator_spec.compare.stages import Stage, Tolerance, Tolerances

# Numbers that an item keeps of each side, for pages.
_MAX_SERIES = 1000
# Part of what training changes that may differ: few elements may be differences of larger ones.
_SAME_CHANGE = 0.01


def compare_values(
    stage: Stage, name: str, old: Array | None, new: Array | None, tolerances: Tolerances
) -> Item:
    """Returns the item of a recorded array; None stands for a side that lacks it."""
    if old is None or new is None:
        return lone_item(stage, name, old is not None)
    if old.dtype != new.dtype:
        return Item(stage, name, Outcome.DIFFERS, f"{old.dtype} and {new.dtype}")
    if old.shape != new.shape or old.rows_kept != new.rows_kept:
        text = f"shapes {list(old.shape)} and {list(new.shape)}"
        return Item(stage, name, Outcome.DIFFERS, text)
    return compare_arrays(stage, name, old.load(), new.load(), tolerances)


def lone_item(stage: Stage, name: str, in_old: bool) -> Item:
    """Returns the item of what only one side has."""
    return Item(stage, name, Outcome.ONLY_OLD if in_old else Outcome.ONLY_NEW)


def compare_arrays(
    stage: Stage,
    name: str,
    old: np.ndarray | None,
    new: np.ndarray | None,
    tolerances: Tolerances,
    rounding: float = 0.0,
) -> Item:
    """Returns the item of an array; None stands for a side that lacks it.

    Args:
        stage: the item's stage.
        name: the item's name.
        old: the old side's.
        new: the new side's.
        tolerances: bounds of what agrees.
        rounding: absolute difference that rounding may make.
    """
    if old is None or new is None:
        return lone_item(stage, name, old is not None)
    if _dtype(old) != _dtype(new):
        return Item(stage, name, Outcome.DIFFERS, f"{_dtype(old)} and {_dtype(new)}")
    if old.shape != new.shape:
        text = f"shapes {list(old.shape)} and {list(new.shape)}"
        return Item(stage, name, Outcome.DIFFERS, text)
    tolerance = tolerances.of(stage, name, old.dtype.kind)
    if rounding > tolerance.absolute:
        tolerance = dataclasses.replace(tolerance, absolute=rounding)
    gap = gaps.measure(old, new, tolerance)

    def describe() -> str:
        order = gaps.find_order(old, new, tolerance)
        return describe_order(order) if order is not None else describe_gap(gap, old, new)

    return measured_item(stage, name, gap, tolerance, describe)


def measured_item(
    stage: Stage,
    name: str,
    gap: Gap,
    tolerance: Tolerance,
    describe: Callable[[], str],
    series: Series | None = None,
) -> Item:
    """Returns the item of measured differences; `describe` is called if they are too large."""
    if gap.agrees:
        return Item(stage, name, Outcome.AGREES, "", gap, tolerance, series)
    return Item(stage, name, Outcome.DIFFERS, describe(), gap, tolerance, series)


def compare_changes(
    item: Item, start: np.ndarray, old: np.ndarray, new: np.ndarray, steps: int
) -> Item:
    """Returns the item of a trained array, which differs if training changed the two differently.

    Arrays that hardly change agree after it, whatever the learning rates were.

    Args:
        item: the item of the array's values.
        start: the array before the steps.
        old: the old side's after them.
        new: the new side's.
        steps: number of steps.
    """
    shapes = {array.shape for array in (start, old, new)}
    if not item.agrees or item.tolerance is None or old.dtype.kind != "f" or len(shapes) > 1:
        return item
    norm, new_norm, difference = gaps.measure_changes(start, old, new, steps)
    if not difference > max(_SAME_CHANGE, item.tolerance.relative) * max(norm, new_norm):
        return item
    text = f"equal, but training changed it by {norm:.3g} and {new_norm:.3g} (Euclidean norms)"
    return dataclasses.replace(item, outcome=Outcome.DIFFERS, text=text)


def _dtype(array: np.ndarray) -> str:
    return "string" if array.dtype.kind in "OSU" else array.dtype.name


def compare_losses(
    title: str, old: Array | None, new: Array | None, tolerances: Tolerances
) -> Iterator[Item]:
    """Yields the items of two trainings' losses, [steps]: of the first step, and of all steps.

    None stands for a training without a loss.
    """
    if old is None or new is None:
        if old is not new:
            yield lone_item(Stage.LOSSES, title, old is not None)
        return
    a, b = old.load(), new.load()
    if len(a) and len(b):
        name = f"{title}: loss of the first step"
        tolerance = tolerances.of(Stage.FORWARD_PASS, name)
        gap = gaps.measure(a[:1], b[:1], tolerance)
        describe = functools.partial(describe_gap, gap, a[0], b[0])
        yield measured_item(Stage.FORWARD_PASS, name, gap, tolerance, describe)
    yield compare_series(title, a, b, tolerances)


def compare_series(title: str, old: np.ndarray, new: np.ndarray, tolerances: Tolerances) -> Item:
    """Returns the item of two trainings' losses, [steps]."""
    tolerance = tolerances.of(Stage.LOSSES, title)
    series = _series(old), _series(new)
    if old.shape != new.shape:
        text = f"{len(old)} steps and {len(new)}"
        return Item(Stage.LOSSES, title, Outcome.DIFFERS, text, None, tolerance, series)
    gap = gaps.measure(old, new, tolerance)
    describe = functools.partial(_describe_losses, gap, old, new)
    return measured_item(Stage.LOSSES, title, gap, tolerance, describe, series)


def describe_gap(gap: Gap, old: np.ndarray, new: np.ndarray) -> str:
    """Returns a difference as text."""
    if old.ndim == 0 and new.ndim == 0:
        return f"{_element(old)} and {_element(new)}"
    if gap.num_elements == 1:
        return f"{_element(old.reshape(-1)[0])} and {_element(new.reshape(-1)[0])}"
    return describe_rows(gap)


def describe_rows(gap: Gap) -> str:
    """Returns which rows differ, and by how much, as text."""
    shown = ", ".join(map(str, gap.rows))
    more = ", …" if len(gap.rows) < gap.num_rows_outside else ""
    text = f"{gap.num_rows_outside} of {gap.num_rows} rows differ ({shown}{more})"
    if gap.absolute is None or gap.relative is None:
        return text
    return f"{text}, by at most {gap.absolute:.3g} ({gap.relative:.2g} relative)"


def describe_order(order: np.ndarray) -> str:
    """Returns the order that rows are in as text.

    Args:
        order: rows of the old array, [n], in the order of the new one.
    """
    from tpu_columns.partition import RowPartition

    text = "the same rows in another order"
    rows = np.arange(len(order))
    for shards in range(2, min(len(order), 129)):
        positions = RowPartition("mod", len(order), shards).positions(rows)
        if np.array_equal(order[positions], rows):
            return f"{text}: the new ones are in {shards} mod shards"
        if np.array_equal(order, positions):
            return f"{text}: the old ones are in {shards} mod shards"
    moved = np.flatnonzero(order != rows)
    first = f"the new row {moved[0]} is the old row {order[moved[0]]}"
    return f"{text}: {len(moved)} of {len(order)} moved, {first}"


def _describe_losses(gap: Gap, old: np.ndarray, new: np.ndarray) -> str:
    step = gap.rows[0]
    return (
        f"from step {step + 1} of {len(old)} on: {old[step]:.7g} and {new[step]:.7g}; largest "
        f"difference {gap.absolute:.3g} ({gap.relative:.2g} relative)"
    )


def _element(value: np.ndarray) -> str:
    plain = value.item()
    if isinstance(plain, bytes):
        return repr(plain.decode("utf-8", "replace"))
    return f"{plain:.7g}" if isinstance(plain, float) else str(plain)


def _series(values: np.ndarray) -> tuple[float, ...]:
    return tuple(float(value) for value in values.reshape(-1)[:_MAX_SERIES])
