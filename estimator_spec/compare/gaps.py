# SPDX-License-Identifier: Apache-2.0
"""Measures the differences of two arrays: the largest ones, a histogram, the rows that differ."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import numpy as np

from estimator_spec.compare.stages import EXACT, Tolerance

# Upper bounds of the histogram's bins, in relative differences. The bins before and after them
# count equal elements and larger differences.
EDGES = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
BINS = ("0", *(f"<{edge:.0e}" for edge in EDGES), f"≥{EDGES[-1]:.0e}")

# Rows that are named at most.
_SHOWN_ROWS = 8
# Elements that are measured at a time.
_BLOCK = 1 << 20
# Elements below this part of the largest one are compared with it, not with themselves: they are
# differences of larger ones, with the rounding of these.
_FLOOR = 1e-2


@dataclasses.dataclass(frozen=True)
class Gap:
    """Differences of two arrays of the same shape.

    Attributes:
        num_elements: number of elements.
        num_outside: number of elements that differ by more than the tolerance.
        num_nan: number of elements that are NaN in both arrays.
        absolute: largest absolute difference; None for elements that are no numbers.
        relative: largest relative difference, likewise.
        histogram: numbers of elements by relative difference, in the bins `BINS`.
        num_rows: number of rows; a scalar is one row.
        num_rows_outside: number of rows that have such elements.
        rows: indices of the first of these rows.
    """

    num_elements: int
    num_outside: int
    num_nan: int
    absolute: float | None
    relative: float | None
    histogram: tuple[int, ...]
    num_rows: int
    num_rows_outside: int
    rows: tuple[int, ...]

    @property
    def agrees(self) -> bool:
        """Whether all elements are within the tolerance."""
        return not self.num_outside

    @property
    def shows_nothing(self) -> bool:
        """Whether there is no element, or none that is a number in one of the arrays."""
        return self.num_nan == self.num_elements


class GapBuilder:
    """Measures arrays that are read in blocks of rows.

    Args:
        tolerance: bounds of the elements that agree.
        largest: largest magnitude of the whole old array.
    """

    def __init__(self, tolerance: Tolerance, largest: float) -> None:
        self._tolerance = tolerance
        self._floor = _FLOOR * largest
        self._counts = np.zeros(len(BINS), np.int64)
        self._num_elements = self._num_outside = self._num_rows = self._num_rows_outside = 0
        self._num_nan = 0
        self._absolute = self._relative = 0.0
        self._is_numbers = True
        self._rows: list[int] = []

    def add(self, old: np.ndarray, new: np.ndarray) -> None:
        """Measures the next rows.

        Args:
            old: the old array's, [n, …].
            new: the new array's, of the same shape.
        """
        if old.dtype.kind in "biufc" and new.dtype.kind in "biufc":
            absolute, relative = _differences(old, new, self._floor)
            self._num_nan += int((np.isnan(old) & np.isnan(new)).sum())
            self._counts += np.bincount(_bins(absolute, relative), minlength=len(BINS))
            self._absolute = max(self._absolute, float(absolute.max(initial=0)))
            self._relative = max(self._relative, float(relative.max(initial=0)))
            bounds = self._tolerance
            outside = (relative > bounds.relative) & (absolute > bounds.absolute)
        else:
            self._is_numbers = False
            outside = np.asarray(old != new)
            self._counts[-1] += int(outside.sum())
            self._counts[0] += int(outside.size - outside.sum())
        width = outside.size // max(1, len(old))
        rows = np.flatnonzero(outside.reshape(len(old), width).any(axis=1))
        room = _SHOWN_ROWS - len(self._rows)
        self._rows += [self._num_rows + int(row) for row in rows[:room]]
        self._num_rows_outside += len(rows)
        self._num_rows += len(old)
        self._num_elements += old.size
        self._num_outside += int(outside.sum())

    def finish(self) -> Gap:
        """Returns the differences of all rows so far."""
        return Gap(
            self._num_elements,
            self._num_outside,
            self._num_nan,
            self._absolute if self._is_numbers else None,
            self._relative if self._is_numbers else None,
            tuple(self._counts.tolist()),
            self._num_rows,
            self._num_rows_outside,
            tuple(self._rows),
        )


def measure(old: np.ndarray, new: np.ndarray, tolerance: Tolerance = EXACT) -> Gap:
    """Measures the differences of two arrays of the same shape.

    The relative difference of two elements a and b is |a − b| / max(|a|, |b|, L / 100), where L is
    the largest magnitude in the old array. NaN agrees with NaN, and an infinity with itself; the
    difference of any of them and another number is infinite.

    Args:
        old: array of numbers, booleans or strings.
        new: array of the same shape.
        tolerance: bounds of the elements that agree.

    >>> gap = measure(np.array([1.0, 2.0]), np.array([1.0, 2.5]))
    >>> gap.num_outside, gap.absolute, gap.relative, gap.rows
    (1, 0.5, 0.2, (1,))
    """
    rows = [array.reshape(1) if not array.ndim else array for array in (old, new)]
    builder = GapBuilder(tolerance, largest_magnitude(old))
    for one, other in zip(*map(_blocks, rows), strict=True):
        builder.add(one, other)
    return builder.finish()


def largest_magnitude(array: np.ndarray) -> float:
    """Returns the largest finite magnitude of an array; 0 for one without numbers."""
    if array.dtype.kind not in "biufc":
        return 0.0
    largest = 0.0
    for block in _blocks(array.reshape(-1)):
        magnitudes = np.abs(block.astype(_wide(block)))
        largest = max(largest, magnitudes.max(initial=0.0, where=np.isfinite(magnitudes)))
    return float(largest)


def _blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    """Yields an array in blocks of rows, so that differences of a large one take little memory."""
    count = max(1, _BLOCK * len(array) // max(1, array.size))
    for first in range(0, len(array), count):
        yield array[first : first + count]


def find_order(old: np.ndarray, new: np.ndarray, tolerance: Tolerance) -> np.ndarray | None:
    """Returns the order in which an array has another one's rows, or None.

    Args:
        old: array of numbers, [n, …].
        new: array of the same shape.
        tolerance: bounds of the elements that agree.

    Returns:
        Row indices [n] for which `new` agrees with `old[indices]`; None if there are none, or if
        the arrays agree as they are.
    """
    if old.ndim < 1 or old.dtype.kind not in "iuf" or len(old) < 2:
        return None
    rows, new_rows = (array.reshape(len(array), -1) for array in (old, new))
    if measure(rows, new_rows, tolerance).agrees:
        return None
    # np.lexsort's last key is its first; a few columns tell rows apart.
    of_old, of_new = (np.lexsort(table[:, 15::-1].T) for table in (rows, new_rows))
    order = np.empty(len(old), np.int64)
    order[of_new] = of_old
    return order if measure(rows[order], new_rows, tolerance).agrees else None


def measure_changes(
    start: np.ndarray, old: np.ndarray, new: np.ndarray, steps: int
) -> tuple[float, float, float]:
    """Measures how differently two trainings changed an array.

    Args:
        start: the array before the steps.
        old: the old side's after them, of the same shape.
        new: the new side's.
        steps: number of steps, each of which rounds.

    Returns:
        The Euclidean norms of the old change, of the new one, and of their difference; the last is
        0 if rounding can make it.
    """
    squares = np.zeros(4)
    for parts in zip(*(_blocks(array.reshape(-1)) for array in (start, old, new)), strict=True):
        first, end, new_end = (part.astype(np.float64) for part in parts)
        found = (end - first, new_end - first, end - new_end, end)
        squares += [float(np.nansum(np.square(each))) for each in found]
    norm, new_norm, difference, size = np.sqrt(squares).tolist()
    rounding = math.sqrt(steps) * np.finfo(np.float32).eps * size
    return norm, new_norm, difference if difference > rounding else 0.0


def _wide(array: np.ndarray) -> type:
    return np.complex128 if array.dtype.kind == "c" else np.float64


def _differences(old: np.ndarray, new: np.ndarray, floor: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns absolute and relative differences, float64."""
    a: np.ndarray = old.astype(_wide(old))
    b: np.ndarray = new.astype(_wide(new))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        absolute = np.abs(a - b)
        relative = absolute / np.maximum(np.maximum(np.abs(a), np.abs(b)), floor)
    finite = np.isfinite(a) & np.isfinite(b)
    for differences in (absolute, relative):
        differences[~finite] = np.inf
        differences[same] = 0.0
    return absolute, relative


def _bins(absolute: np.ndarray, relative: np.ndarray) -> np.ndarray:
    numbers = 1 + np.searchsorted(EDGES, relative.reshape(-1), side="right")
    numbers[absolute.reshape(-1) == 0] = 0
    return numbers
