# SPDX-License-Identifier: Apache-2.0
"""Compares two checkpoints row by row, whatever their tables' layouts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection

import numpy as np

from estimator_spec.core.checkpoints import records, spec_tables, variable_roles
from estimator_spec.core.checkpoints.bundle import Checkpoint, CheckpointPath, StoredVariable
from estimator_spec.core.checkpoints.rows import RowReader
from estimator_spec.core.common.terminal import ByteProgress, format_table
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec
from tpu_columns.partition import RowPartition

_CHUNK = 4 << 20


@dataclasses.dataclass(frozen=True)
class VariableDifference:
    """A variable that differs between two checkpoints.

    Attributes:
        name: full name of the variable.
        what: description of the difference.
        rows: number of rows that differ; 0 if rows can't be compared.
        largest: largest absolute difference of two elements; None if rows can't be compared.
    """

    name: str
    what: str
    rows: int = 0
    largest: float | None = None


@dataclasses.dataclass(frozen=True)
class Differences:
    """The result of `diff`; true if there are differences. `str()` formats it as a table.

    Attributes:
        first: prefix of the first checkpoint.
        second: prefix of the second checkpoint.
        only_first: variables that only the first has.
        only_second: variables that only the second has.
        changed: variables that differ.
        num_equal: number of variables that are equal bit by bit.
    """

    first: str
    second: str
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    changed: tuple[VariableDifference, ...]
    num_equal: int

    def __bool__(self) -> bool:
        return bool(self.only_first or self.only_second or self.changed)

    def __str__(self) -> str:
        lines = [f"{self.first} and {self.second}: {self.num_equal} variables are the same"]
        rows = [[name, "only in the first"] for name in self.only_first]
        rows += [[name, "only in the second"] for name in self.only_second]
        rows += [[change.name, change.what] for change in self.changed]
        if rows:
            lines.append(format_table(["variable", "difference"], rows))
        return "\n".join(lines)


def diff(
    first: CheckpointPath,
    second: CheckpointPath,
    spec: EmbeddingConfigSpec | None = None,
    *,
    strategy: str | None = None,
    shards: int | None = None,
    tables: Collection[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Differences:
    """Compares two checkpoints; tables are compared row by row, whatever their layouts.

    Args:
        first: checkpoint prefix, or a directory, of which the latest checkpoint is read.
        second: the other checkpoint, likewise.
        spec: the spec of both. Without one, tables are identified by the records beside the
            checkpoints, or by their names.
        strategy: 'div' or 'mod', the layout of a checkpoint that has no record.
        shards: its number of shards. None: the number of slices that a table is stored in.
        tables: names of the tables, if nothing else identifies them.
        progress: called with (bytes done, bytes in all). Default: a bar, on a terminal.

    Returns:
        The differences; printable.

    Raises:
        CheckpointError: one of them is missing or damaged.
        ValueError: neither of them has a table that `tables` names.
    """
    with Checkpoint(first) as a, Checkpoint(second) as b:
        common = sorted(set(a.variables) & set(b.variables))
        sides = [StoredSide(side, spec, strategy, shards, tables) for side in (a, b)]
        for name in tables or ():
            if not any(name in side.given for side in sides):
                raise ValueError(f"Neither checkpoint has a table {name!r}.")
        total = sum(a.variables[name].num_bytes for name in common)
        changed = []
        with ByteProgress(total, progress) as compared:
            for name in common:
                found = _compare(sides[0], sides[1], name)
                compared.advance(a.variables[name].num_bytes)
                if found is not None:
                    changed.append(found)
        return Differences(
            a.prefix,
            b.prefix,
            tuple(sorted(set(a.variables) - set(b.variables))),
            tuple(sorted(set(b.variables) - set(a.variables))),
            tuple(changed),
            len(common) - len(changed),
        )


class StoredSide:
    """One of two checkpoints that are compared; `diff` describes the arguments.

    `given` are those names of `tables` that mean a table of this one.

    Strategy and shards have no effect if a record beside the checkpoint has the layout.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        spec: EmbeddingConfigSpec | None = None,
        strategy: str | None = None,
        shards: int | None = None,
        tables: Collection[str] | None = None,
    ) -> None:
        self._checkpoint = checkpoint
        matrices = variable_roles.list_matrices(checkpoint, spec) if tables else []
        self.given = [
            name
            for name in tables or ()
            if name in checkpoint.variables or spec_tables.matching(name, matrices)
        ]
        if records.read(checkpoint.prefix) is not None:
            strategy = shards = None
        self._roles = variable_roles.classify(
            checkpoint, spec, strategy, shards, self.given, may_grow=True
        )

    def variable(self, name: str) -> StoredVariable:
        """Returns a variable."""
        return self._checkpoint.variables[name]

    def reader(self, name: str) -> RowReader:
        """Returns a new reader of a variable's rows, in the order of ids if it is a table's."""
        table = self._roles.table_of(name)
        variable = self.variable(name)
        layout = table.layout if table else RowPartition("div", variable.num_rows)
        return RowReader(self._checkpoint, variable, layout)

    def whole(self, name: str) -> bytes:
        """Returns the bytes of a variable."""
        variable = self.variable(name)
        parts = (self._checkpoint.read_piece(variable, piece) for piece in variable.pieces)
        return b"".join(part.tobytes() for part in parts)


def _compare(a: StoredSide, b: StoredSide, name: str) -> VariableDifference | None:
    one, other = a.variable(name), b.variable(name)
    if one.dtype != other.dtype:
        return VariableDifference(name, f"{one.dtype.name} and {other.dtype.name}")
    if one.shape != other.shape:
        return VariableDifference(name, f"shapes {list(one.shape)} and {list(other.shape)}")
    if not (one.is_rows and other.is_rows):
        return _compare_whole(a, b, name)
    count, largest = 0, 0.0
    blocks = (side.reader(name).blocks(_CHUNK) for side in (a, b))
    for (_, x), (_, y) in zip(*blocks, strict=True):
        different = (x != y).any(axis=1)
        if different.any():
            count += int(different.sum())
            largest = max(largest, _largest(x[different], y[different], one))
    if not count:
        return None
    return VariableDifference(
        name, f"{count} of {one.num_rows} rows differ, by at most {largest:.3g}", count, largest
    )


def _compare_whole(a: StoredSide, b: StoredSide, name: str) -> VariableDifference | None:
    """Compares variables that aren't rows: scalars, strings, slices along other axes."""
    x, y = a.whole(name), b.whole(name)
    if x == y:
        return None
    variable = a.variable(name)
    if variable.is_numbers and not variable.shape:
        kind = variable.dtype.as_numpy_dtype
        values = [np.frombuffer(raw, kind)[0] for raw in (x, y)]
        return VariableDifference(name, f"{values[0]} and {values[1]}", 1)
    return VariableDifference(name, "other contents")


def _largest(x: np.ndarray, y: np.ndarray, variable: StoredVariable) -> float:
    kind = variable.dtype.as_numpy_dtype
    a, b = (np.asarray(rows.view(kind), np.float64) for rows in (x, y))
    gap = np.abs(a - b)
    return float("nan") if np.isnan(gap).any() else float(gap.max(initial=0.0))
