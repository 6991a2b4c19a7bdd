# SPDX-License-Identifier: Apache-2.0
"""Classifies the variables of a checkpoint: tables, slots of other variables, and the rest."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from estimator_spec.core.checkpoints import records, slots, spec_tables
from estimator_spec.core.checkpoints.bundle import Checkpoint, StoredVariable
from estimator_spec.core.checkpoints.errors import CheckpointError
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec
from tpu_columns.partition import RowPartition

RECORDED, TOLD, ASSUMED = "recorded", "told", "assumed"


@dataclasses.dataclass(frozen=True)
class CheckpointTable:
    """A table of a checkpoint and its slots.

    Attributes:
        variable: the table's variable.
        layout: layout of its rows.
        layout_from: source of the layout: 'recorded' beside the checkpoint, 'told' by argument or
            spec, or 'assumed'.
        slots: its slot variables: suffixes such as '/Adagrad' by full name.
        optimizers: optimizers that the slots belong to; none for gradient descent.
        missing: suffixes of slots that these optimizers need and the checkpoint lacks.
        unknown: suffixes that belong to no known optimizer.
        in_spec: the spec's table, if a spec was given and has it.
        key: key in the spec or the record, or None.
        names: all its names; those that neither spec nor record has are taken from the variable's.
    """

    variable: StoredVariable
    layout: RowPartition
    layout_from: str
    slots: dict[str, str]
    optimizers: tuple[slots.SlotNaming, ...]
    missing: tuple[str, ...]
    unknown: tuple[str, ...]
    in_spec: spec_tables.SpecTable | None
    key: str | None
    names: spec_tables.TableNames

    @property
    def name(self) -> str:
        """The variable's full name."""
        return self.variable.name


@dataclasses.dataclass(frozen=True)
class VariableRoles:
    """The roles of a checkpoint's variables.

    Attributes:
        tables: `CheckpointTable` by name.
        slots_of: slots of each variable that isn't a table: suffixes by full name.
        missing: descriptions of what the spec or an optimizer needs and the checkpoint lacks.
        leftover: descriptions of unused variables.
        record: the record beside the checkpoint, or None.
    """

    tables: dict[str, CheckpointTable]
    slots_of: dict[str, dict[str, str]]
    missing: tuple[str, ...]
    leftover: tuple[str, ...]
    record: records.CheckpointRecord | None

    def table_of(self, name: str) -> CheckpointTable | None:
        """Returns the table that a variable is, or is a slot of."""
        if name in self.tables:
            return self.tables[name]
        return next((table for table in self.tables.values() if name in table.slots), None)

    def find_table(self, name: str, argument: str, prefix: str) -> CheckpointTable:
        """Returns the table that a user's name means; see `spec_tables.find_table`."""
        names = [table.names for table in self.tables.values()]
        return self.tables[spec_tables.find_table(name, names, argument, repr(prefix)).variable]


def classify(
    checkpoint: Checkpoint,
    spec: EmbeddingConfigSpec | None = None,
    strategy: str | None = None,
    shards: int | None = None,
    tables: Collection[str] | None = None,
    may_grow: bool = False,
    may_shrink: bool = False,
) -> VariableRoles:
    """Classifies the variables of an open checkpoint.

    Spec, strategy, shards and tables are those of `inspect`. With `may_grow` a table may have fewer
    rows than in the spec, with `may_shrink` more.

    Raises:
        CheckpointError: the checkpoint lacks a table, or a shape isn't that of record or spec.
        ValueError: strategy or shards contradict the record.
    """
    record = records.read(checkpoint.prefix)
    shapes = {name: variable.shape for name, variable in checkpoint.variables.items()}
    if record is not None:
        records.check(checkpoint.prefix, record, shapes)
    tables = _find_given(checkpoint, spec, tables or ())
    specified = spec_tables.match_variables(spec_tables.list_tables(spec) if spec else [], shapes)
    recorded = record.tables if record else {}
    names = {*recorded, *specified, *tables} & set(shapes)
    if not (recorded or specified or tables):
        names = {name for name in shapes if spec_tables.looks_like_table(name, shapes[name])}
    found, others = {}, {}
    for name, own_slots in _slots_by_owner(shapes, names).items():
        if name not in names:
            others[name] = own_slots
            continue
        variable = checkpoint.variables[name]
        layout, source = _layout(checkpoint, variable, spec, record, strategy, shards)
        known, missing, unknown = slots.recognize_optimizers(own_slots.values())
        in_spec = specified.get(name)
        found[name] = CheckpointTable(
            variable,
            layout,
            source,
            own_slots,
            tuple(known),
            tuple(sorted(missing)),
            tuple(sorted(unknown)),
            in_spec,
            in_spec.key if in_spec else recorded[name].table if name in recorded else None,
            _names(name, in_spec, record),
        )
    _check_sizes(checkpoint, found, may_grow, may_shrink)
    faults = _faults(found, others, spec)
    return VariableRoles(found, others, *faults, record)


def list_matrices(
    checkpoint: Checkpoint, spec: EmbeddingConfigSpec | None = None
) -> list[spec_tables.TableNames]:
    """Returns the names of all variables that a caller can call tables: matrices but no slots."""
    record = records.read(checkpoint.prefix)
    known = spec_tables.list_tables(spec) if spec else []
    specified = spec_tables.match_variables(known, checkpoint.variables)
    return [
        _names(name, specified.get(name), record)
        for name, variable in checkpoint.variables.items()
        if len(variable.shape) == 2 and slots.base_variable(name) is None
    ]


def _find_given(
    checkpoint: Checkpoint, spec: EmbeddingConfigSpec | None, tables: Collection[str]
) -> list[str]:
    """Returns the full names of variables that the caller calls tables, by any of their names."""
    found = []
    for name in tables:
        variable = checkpoint.variables.get(name)
        if variable is None:
            known = list_matrices(checkpoint, spec)
            name = spec_tables.find_table(name, known, "tables", repr(checkpoint.prefix)).variable
        elif len(variable.shape) != 2:
            raise CheckpointError(
                checkpoint.prefix,
                f"{name!r} of {checkpoint.prefix!r} is no table: its shape is "
                f"{list(variable.shape)}, a table's is [rows, width].",
            )
        found.append(name)
    return found


def _names(
    variable: str, in_spec: spec_tables.SpecTable | None, record: records.CheckpointRecord | None
) -> spec_tables.TableNames:
    """Returns the names of a table by the spec, the record, or else its variable's name."""
    if in_spec is not None:
        return spec_tables.TableNames(variable, in_spec.key, in_spec.features)
    recorded = record.tables.get(variable) if record else None
    if record is None or recorded is None or recorded.table is None:
        return spec_tables.names_of_variable(variable)
    return spec_tables.TableNames(variable, recorded.table, record.features_of(recorded.table))


def _slots_by_owner(
    shapes: Mapping[str, tuple[int, ...]], tables: Collection[str]
) -> dict[str, dict[str, str]]:
    """Returns the slots (suffixes by full name) of each variable that isn't a slot itself."""
    same_shape: dict[tuple[int, ...], list[str]] = {}
    for name, shape in shapes.items():
        if name not in tables:  # a table is never a slot
            same_shape.setdefault(shape, []).append(name)
    owners: dict[str, dict[str, str]] = {}
    owned: set[str] = set()
    for name in sorted(shapes, key=lambda name: (name not in tables, len(name), name)):
        if name in owned:
            continue
        found = slots.find_slots(name, same_shape.get(shapes[name], ())) if shapes[name] else {}
        if name not in tables:
            found = {slot: suffix for slot, suffix in found.items() if suffix in slots.SUFFIXES}
        owners[name] = found
        owned.update(found)
    return owners


def _layout(
    checkpoint: Checkpoint,
    variable: StoredVariable,
    spec: EmbeddingConfigSpec | None,
    record: records.CheckpointRecord | None,
    strategy: str | None,
    shards: int | None,
) -> tuple[RowPartition, str]:
    rows = variable.num_rows
    recorded = record.tables.get(variable.name) if record else None
    if recorded is not None:
        layout = recorded.layout
        told = (strategy or layout.strategy, rows, shards or layout.num_shards)
        if told != (layout.strategy, layout.num_rows, layout.num_shards):
            raise ValueError(
                f"{records.path_of(checkpoint.prefix)!r} says that {variable.name!r} has "
                f"{layout.num_rows} rows on {layout.num_shards} shard(s) by "
                f"{layout.strategy!r}; told was {told[0]!r} on {told[2]} shard(s), and the "
                f"checkpoint has {rows} rows. Leave the arguments out, or move the file away if "
                "it is wrong."
            )
        return layout, RECORDED
    count = shards or max(1, len(variable.pieces))
    if strategy is None and spec is not None:
        strategy = spec.partition_strategy
    if strategy or shards:
        return RowPartition(strategy or "div", rows, count), TOLD
    return RowPartition("div", rows, count), ASSUMED


def _check_sizes(
    checkpoint: Checkpoint, tables: dict[str, CheckpointTable], may_grow: bool, may_shrink: bool
) -> None:
    for table in tables.values():
        wanted = table.in_spec
        shape = table.variable.shape
        if wanted is None or shape == (wanted.rows, wanted.width):
            continue
        more, same_width = shape[0] > wanted.rows, shape[1:] == (wanted.width,)
        if not (same_width and (may_shrink if more else may_grow)):
            raise CheckpointError(
                checkpoint.prefix,
                f"The table {table.name!r} of {checkpoint.prefix!r} has shape "
                f"{list(shape)}, in the spec {wanted.key!r} has "
                f"{[wanted.rows, wanted.width]}. Grow it or permute its rows by "
                "`python -m estimator_spec checkpoint convert`, or correct the spec.",
            )


def _faults(
    tables: dict[str, CheckpointTable],
    others: dict[str, dict[str, str]],
    spec: EmbeddingConfigSpec | None,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns descriptions of missing and of unused variables."""
    missing: list[str] = []
    leftover: list[str] = []
    for name in others:
        base = slots.base_variable(name)
        if base is not None and base not in others and base not in tables:
            leftover.append(f"{name}: a slot without its variable {base}")
    for table in tables.values():
        names = " and ".join(naming.optimizer for naming in table.optimizers)
        missing += [f"{table.name}{suffix}: a slot of {names}" for suffix in table.missing]
        leftover += [f"{table.name}{suffix}: of no known optimizer" for suffix in table.unknown]
    if spec is None:
        return tuple(missing), tuple(leftover)
    present = {table.key for table in tables.values()}
    for wanted in spec_tables.list_tables(spec):
        if wanted.key not in present:
            missing.append(f"{wanted.key}: no variable ends in {wanted.ending!r}")
    for table in tables.values():
        more, less = _against_spec(table)
        missing += more
        leftover += less
    return tuple(missing), tuple(leftover)


def _against_spec(table: CheckpointTable) -> tuple[list[str], list[str]]:
    """Returns missing slots of the spec's optimizer, and slots of other optimizers."""
    if table.in_spec is None:
        return [], [f"{table.name}: a table that the spec doesn't have"]
    if table.in_spec.optimizer is None or not table.optimizers:
        return [], []
    wanted = type(table.in_spec.optimizer).__name__.removesuffix("Parameters")
    if wanted in [found.optimizer for found in table.optimizers]:
        return [], []
    own = {slot.suffix for slot in table.in_spec.optimizer.SLOTS}
    missing = [f"{table.name}{suffix}: a slot of the spec's {wanted}" for suffix in sorted(own)]
    leftover = [
        f"{table.name}{suffix}: of {found.optimizer}, the spec has {wanted}"
        for found in table.optimizers
        for suffix in sorted(found.suffixes.values())
        if suffix not in table.missing
    ]
    return missing, leftover
