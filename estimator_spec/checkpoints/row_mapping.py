# SPDX-License-Identifier: Apache-2.0
"""Maps the rows of a table, and of its slots, from source to target."""

from __future__ import annotations

import dataclasses

import numpy as np

from estimator_spec.checkpoints import output_variables, variable_roles
from estimator_spec.checkpoints.bundle import StoredVariable
from tpu_columns.partition import RowPartition


@dataclasses.dataclass(frozen=True)
class RowMapping:
    """The rows of a table and of its slots in source and target.

    Attributes:
        table: the table of the source.
        after: layout in the target.
        rows_from: source row of each target row, -1 for a new row. None: the source's rows in
            their order, followed by new rows.
    """

    table: variable_roles.CheckpointTable
    after: RowPartition
    rows_from: np.ndarray | None

    @property
    def before(self) -> RowPartition:
        """Layout in the source."""
        return self.table.layout

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
            for extents, shape, _ in output_variables.slices(self.after, variable)
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
