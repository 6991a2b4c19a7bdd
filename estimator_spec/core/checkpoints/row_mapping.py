# SPDX-License-Identifier: Apache-2.0
"""Says from which source row a conversion takes each row of a table and its slots."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from estimator_spec.core.checkpoints.bundle import Extents, StoredVariable
from tpu_columns.partition import RowPartition

# (extents, shape, number of bytes) of each piece of a variable.
PieceShapes = list[tuple[Extents, tuple[int, ...], int]]
# Called as (first, last): returns the new rows `first` to `last`, in calls from first to last row.
RowSource = Callable[[int, int], np.ndarray]


@dataclasses.dataclass(frozen=True)
class RowMapping:
    """The rows of a table and of its slots in source and target.

    Attributes:
        before: layout in the source.
        after: layout in the target.
        rows_from: source row of each target row, -1 for a new row. None: the source's rows in
            their order, followed by new rows.
    """

    before: RowPartition
    after: RowPartition
    rows_from: np.ndarray | None

    @property
    def count_new(self) -> int:
        """Number of new rows."""
        if self.rows_from is not None:
            return int((self.rows_from < 0).sum())
        return self.after.num_rows - self.before.num_rows

    def is_as_stored(self, variable: StoredVariable) -> bool:
        """Returns whether target and source store a variable in the same slices and row order."""
        if self.rows_from is not None or self.before.num_rows != self.after.num_rows:
            return False
        if self.before == self.after:
            return True
        stored = [(piece.first_row, piece.shape[0]) for piece in variable.pieces]
        wanted = [
            (extents[0][0] if extents and extents[0] else 0, shape[0])
            for extents, shape, _ in slices(self.after, variable)
        ]
        return self.before.in_row_order and self.after.in_row_order and stored == wanted

    def describe(self) -> list[str]:
        """Returns descriptions of the changes."""
        whats = []
        old, new = self.before, self.after
        if (old.strategy, old.num_shards) != (new.strategy, new.num_shards):
            whats.append(f"{old.strategy} × {old.num_shards} → {new.strategy} × {new.num_shards}")
        if self.rows_from is not None:
            whats.append("rows permuted")
        if self.count_new:
            whats.append(f"{self.count_new} new rows")
        return whats


def slices(layout: RowPartition, variable: StoredVariable) -> PieceShapes:
    """Returns (extents, shape, bytes) of each shard of a layout; empty shards have no piece."""
    rest = variable.shape[1:]
    if layout.num_shards == 1 or layout.num_rows <= 1:
        return [((), (layout.num_rows, *rest), layout.num_rows * variable.row_bytes)]
    return [
        (((start, size), *((0, n) for n in rest)), (size, *rest), size * variable.row_bytes)
        for start, size in zip(layout.shard_starts, layout.shard_sizes, strict=True)
        if size
    ]
