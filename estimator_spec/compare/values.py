# SPDX-License-Identifier: Apache-2.0
"""Compares arrays: the items of variables, losses, metrics and predictions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from estimator_spec.compare import gaps
from estimator_spec.compare.comparison import Item, Outcome
from estimator_spec.compare.gaps import Gap
from estimator_spec.compare.recording import Array
from estimator_spec.compare.stages import Stage, Tolerances

# Numbers that an item keeps of each side, for pages.
_MAX_SERIES = 1000


def compare_values(stage: Stage, name: str, old: Array, new: Array, tolerances: Tolerances) -> Item:
    """Returns the item of an array that both sides have."""
    tolerance = tolerances.of(stage, name)
    if old.dtype != new.dtype:
        return Item(stage, name, Outcome.DIFFERS, f"{old.dtype} and {new.dtype}")
    if old.shape != new.shape or old.rows_kept != new.rows_kept:
        text = f"shapes {list(old.shape)} and {list(new.shape)}"
        return Item(stage, name, Outcome.DIFFERS, text)
    arrays = old.load(), new.load()
    gap = gaps.measure(*arrays, tolerance)
    if gap.agrees:
        return Item(stage, name, Outcome.AGREES, "", gap, tolerance)
    order = gaps.find_order(*arrays, tolerance)
    text = describe_order(order) if order is not None else describe_gap(gap, *arrays)
    return Item(stage, name, Outcome.DIFFERS, text, gap, tolerance)


def compare_losses(title: str, old: Array, new: Array, tolerances: Tolerances) -> Iterator[Item]:
    """Yields the items of two trainings' losses, [steps]: of the first step, and of all steps."""
    a, b = old.load(), new.load()
    if len(a) and len(b):
        name = f"{title}: loss of the first step"
        tolerance = tolerances.of(Stage.FORWARD_PASS, name)
        gap = gaps.measure(a[:1], b[:1], tolerance)
        text = "" if gap.agrees else describe_gap(gap, a[0], b[0])
        outcome = Outcome.AGREES if gap.agrees else Outcome.DIFFERS
        yield Item(Stage.FORWARD_PASS, name, outcome, text, gap, tolerance)
    tolerance = tolerances.of(Stage.LOSSES, title)
    series = _series(a), _series(b)
    if a.shape != b.shape:
        text = f"{len(a)} steps and {len(b)}"
        yield Item(Stage.LOSSES, title, Outcome.DIFFERS, text, None, tolerance, series)
        return
    gap = gaps.measure(a, b, tolerance)
    text = "" if gap.agrees else _describe_losses(gap, a, b)
    outcome = Outcome.AGREES if gap.agrees else Outcome.DIFFERS
    yield Item(Stage.LOSSES, title, outcome, text, gap, tolerance, series)


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
