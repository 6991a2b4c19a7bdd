# SPDX-License-Identifier: Apache-2.0
"""Inspects checkpoints: tables, slot variables, and what is missing or left over."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

from estimator_spec.checkpoints.change_report import format_shape
from estimator_spec.core.checkpoints import variable_roles
from estimator_spec.core.checkpoints.bundle import Checkpoint, CheckpointPath, StoredVariable
from estimator_spec.core.common.terminal import format_size, format_table
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec


@dataclasses.dataclass(frozen=True)
class InspectedVariable:
    """A variable of a checkpoint.

    Attributes:
        name: full name.
        kind: 'table', 'slot' or 'variable'.
        dtype: dtype, such as 'float32'.
        shape: shape.
        num_bytes: size on disk.
        stored_in: number of slices that it is stored in.
        beside: for a slot, the variable that it belongs to; '' for others.
        optimizer: for a table, the optimizers recognized by its slots, such as 'Adam (tpu)'; ''
            for others.
        strategy: for a table and its slots 'div' or 'mod'; '' for others.
        shards: for a table and its slots the number of shards; 0 for others.
        layout_from: source of the layout, 'recorded', 'told' (by arguments or spec) or 'assumed';
            '' for variables without a layout.
        key: for a table and its slots the table's key in the spec, or ''. Where neither spec nor
            record has it, key and feature are those that a column of such a variable has.
        features: for a table and its slots the keys of the features that look it up, as far as
            they are known.
    """

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    num_bytes: int
    stored_in: int
    beside: str = ""
    optimizer: str = ""
    strategy: str = ""
    shards: int = 0
    layout_from: str = ""
    key: str = ""
    features: tuple[str, ...] = ()


_HEADER = ("variable", "shape", "type", "size", "layout", "optimizer", "table", "features")


@dataclasses.dataclass(frozen=True)
class Inspection:
    """The result of `inspect`; `str()` formats it as a table, `dataclasses.asdict` as plain data.

    Attributes:
        path: checkpoint prefix.
        global_step: global step of the checkpoint, or None.
        entries: each table followed by its slots, then the other variables with theirs.
        missing: what is missing, one sentence each.
        leftover: unused variables, one sentence each.
        recorded: whether a record beside the checkpoint stores its tables' layouts.
    """

    path: str
    global_step: int | None
    entries: tuple[InspectedVariable, ...]
    missing: tuple[str, ...]
    leftover: tuple[str, ...]
    recorded: bool

    @property
    def tables(self) -> tuple[InspectedVariable, ...]:
        """The tables."""
        return tuple(entry for entry in self.entries if entry.kind == "table")

    @property
    def num_bytes(self) -> int:
        """Number of bytes of all variables on disk."""
        return sum(entry.num_bytes for entry in self.entries)

    def __str__(self) -> str:
        step = "" if self.global_step is None else f", step {self.global_step}"
        lines = [f"{self.path}: {format_size(self.num_bytes)}{step}"]
        rows = [_row(entry) for entry in self.entries]
        lines.append(format_table(_HEADER, rows))
        if self.tables and not self.recorded:
            lines.append("The checkpoint has no record of its tables' layouts.")
        lines += [f"missing: {text}" for text in self.missing]
        lines += [f"left over: {text}" for text in self.leftover]
        return "\n".join(lines)


def _row(entry: InspectedVariable) -> list[str]:
    name = entry.name
    names = ["", ""]
    if entry.kind == "slot":
        name = f"  {name.removeprefix(entry.beside)}"
    layout = ""
    if entry.kind == "table":
        names = [entry.key, ", ".join(entry.features)]
        layout = f"{entry.strategy} × {entry.shards}"
        if entry.layout_from != variable_roles.RECORDED:
            layout += f" ({entry.layout_from})"
    elif entry.kind == "variable" and entry.stored_in > 1:
        layout = f"{entry.stored_in} slices"
    size = format_size(entry.num_bytes)
    return [name, format_shape(entry.shape), entry.dtype, size, layout, entry.optimizer, *names]


def inspect(
    path: CheckpointPath,
    spec: EmbeddingConfigSpec | None = None,
    *,
    strategy: str | None = None,
    shards: int | None = None,
    tables: Collection[str] | None = None,
) -> Inspection:
    """Lists the variables of a checkpoint without reading their values.

    Args:
        path: checkpoint prefix, or a directory, of which the latest checkpoint is read.
        spec: the spec that the checkpoint should match. Without one, tables are identified by the
            record beside the checkpoint, or by their names.
        strategy: 'div' or 'mod', the layout of a checkpoint without a record.
        shards: its number of shards.
        tables: names of the tables, if nothing else identifies them; see `convert`.

    Returns:
        Tables, slots and other variables, and what is missing; printable.

    Raises:
        CheckpointError: the checkpoint is missing or damaged, or its tables aren't the spec's.
        ValueError: strategy or shards contradict the record.
    """
    with Checkpoint(path) as checkpoint:
        found = variable_roles.classify(checkpoint, spec, strategy, shards, tables)
        entries: list[InspectedVariable] = []
        for table in found.tables.values():
            same = {
                "strategy": table.layout.strategy,
                "shards": table.layout.num_shards,
                "layout_from": table.layout_from,
                "key": table.names.key,
                "features": table.names.features,
            }
            optimizer = ", ".join(f"{n.optimizer} ({n.system})" for n in table.optimizers)
            entries.append(_entry(table.variable, "table", optimizer=optimizer, **same))
            for name in sorted(table.slots):
                variable = checkpoint.variables[name]
                entries.append(_entry(variable, "slot", beside=table.name, **same))
        for name, beside in sorted(found.slots_of.items()):
            entries.append(_entry(checkpoint.variables[name], "variable"))
            for slot in sorted(beside):
                entries.append(_entry(checkpoint.variables[slot], "slot", beside=name))
        return Inspection(
            checkpoint.prefix,
            checkpoint.read_global_step(),
            tuple(entries),
            found.missing,
            found.leftover,
            found.record is not None,
        )


def _entry(variable: StoredVariable, kind: str, **more: Any) -> InspectedVariable:
    return InspectedVariable(
        variable.name,
        kind,
        variable.dtype.name,
        variable.shape,
        variable.num_bytes,
        len(variable.pieces),
        **more,
    )
