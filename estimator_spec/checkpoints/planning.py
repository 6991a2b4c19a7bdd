# SPDX-License-Identifier: Apache-2.0
"""Plans a conversion: decides the new name, layout and contents of each variable."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from estimator_spec.checkpoints import change_report, new_rows, vocabulary
from estimator_spec.checkpoints.objects import OBJECT_GRAPH, SAVE_COUNTER, ObjectCheckpoint
from estimator_spec.checkpoints.options import ConversionOptions
from estimator_spec.checkpoints.renaming import Rename, Renaming, compile_pattern
from estimator_spec.checkpoints.slot_conversion import SlotConversion
from estimator_spec.core.checkpoints import (
    output_variables,
    records,
    slots,
    spec_tables,
    variable_roles,
)
from estimator_spec.core.checkpoints.bundle import Checkpoint
from estimator_spec.core.checkpoints.row_mapping import RowMapping
from tpu_columns.partition import RowPartition


@dataclasses.dataclass(frozen=True)
class ConversionPlan:
    """A planned conversion.

    Attributes:
        outputs: variables to write, sorted by name.
        changes: changes for the report, including variables that are left out.
        notes: notes for the report.
        record: the target's record.
    """

    outputs: tuple[output_variables.OutputVariable, ...]
    changes: tuple[change_report.Change, ...]
    notes: tuple[str, ...]
    record: records.CheckpointRecord


class Planner:
    """Plans a conversion; writes nothing.

    Args:
        checkpoint: the source, open.
        found: roles of its variables.
        options: options of the conversion.

    Raises:
        ValueError: an option names a table or variable that the source lacks.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        found: variable_roles.VariableRoles,
        options: ConversionOptions,
    ) -> None:
        self._variables = checkpoint.variables
        self._checkpoint = checkpoint
        self._found = found
        self._options = options
        self._outputs: dict[str, output_variables.OutputVariable] = {}
        self._changes: list[change_report.Change] = []
        self._notes: list[str] = []
        self._records: dict[str, records.TableRecord] = {}
        self._grow = self._by_table(options.grow, "grow")
        self._vocabulary = self._by_table(options.vocabulary, "vocabulary")
        self._initializers = self._by_table(options.initializers, "initializers")
        self._drop = [compile_pattern("drop", pattern) for pattern in options.drop]
        self._slots = SlotConversion(options.slots)
        self._renamed = Renaming(self._rename(options.rename))

    def plan(self, spec_data: Any = None) -> ConversionPlan:
        """Returns the plan; call it once.

        Args:
            spec_data: spec as plain data for the target's record; None copies the source's.

        Raises:
            ValueError: an option can't be met.
        """
        options = self._options
        renames = options.rename or options.slots or options.objects
        if OBJECT_GRAPH in self._variables and renames:
            raise ValueError(
                f"{self._checkpoint.prefix!r} is a checkpoint of TF2 objects: its names are paths "
                "in a graph of objects that it holds, and can't be changed one by one."
            )
        if options.objects is not None:
            self._add_objects(options.objects)
        else:
            self._add_variables()
        if spec_data is None and self._found.record is not None:
            spec_data = self._found.record.spec
        return ConversionPlan(
            tuple(self._outputs[name] for name in sorted(self._outputs)),
            tuple(self._changes),
            (*self._notes, *self._slots.notes),
            records.CheckpointRecord(self._records, spec_data),
        )

    def _add_variables(self) -> None:
        """Adds all variables, under the names that they have in a graph."""
        renamed = self._renamed
        for table in self._found.tables.values():
            self._add_table(table, renamed.new_name(table.name))
        unneeded = self._slots.without_beta_powers(self._found, self._variables)
        for name, beside in self._found.slots_of.items():
            if name in unneeded:
                self._leave_out([name], "an embedding core's Adam has none")
                continue
            self._add_copy(name, renamed.new_name(name))
            for slot in beside:
                self._add_copy(slot, renamed.slot_name(slot, name))
        made = self._slots.beta_powers(self._checkpoint)
        for name, (value, what) in made.items():
            self._put(output_variables.new_numbers(name, value), None, (), what)
        renamed.check_used()

    def _add_objects(self, objects: ObjectCheckpoint) -> None:
        """Adds the tables and their slots as variables of TF2 objects."""
        for table in self._found.tables.values():
            if self._dropped(table.name) or objects.is_left_out(table):
                why = "dropped" if self._dropped(table.name) else "the model's, not the object's"
                self._leave_out([table.name, *table.slots], why)
                continue
            key = objects.key(table)
            rows, _ = self._add_without_slots(table, objects.add_variable(key), what="object")
            self._add_object_slots(objects, table, key, rows)
        for name, beside in self._found.slots_of.items():
            self._leave_out([name, *beside], "no table")
        graph = output_variables.new_string(OBJECT_GRAPH, objects.graph())
        counter = output_variables.new_numbers(SAVE_COUNTER, np.asarray(1, np.int64))
        for output in (graph, counter):
            self._put(output, None, (), "of TF2 objects")

    def _add_object_slots(
        self,
        objects: ObjectCheckpoint,
        table: variable_roles.CheckpointTable,
        key: str,
        rows: RowMapping,
    ) -> None:
        """Adds those slots of a table that the object has."""
        kept = self._kept_slots(table)
        found = objects.slots_of(table, kept)
        for slot in found:
            new = None
            if rows.count_new:
                new = self._slot_rows(table, slot.name, slot.suffix, slot.naming)
            if slot.naming.system == slots.CPU:
                self._slots.note_difference(slot.naming.optimizer, slots.TPU)
            self._add_rows(
                slot.name,
                objects.add_variable(key, slot.attribute),
                rows,
                new,
                self._slots.factor(table, slot.naming, slot.suffix),
                f"slot of {slot.naming.optimizer}",
            )
        self._leave_out(sorted(set(kept) - {s.name for s in found}), "the object has none such")
        if kept and not found:
            self._notes.append(f"{table.name}: its slots are left out, training begins new ones.")

    def _by_table(self, values: Mapping[str, Any] | None, argument: str) -> dict[str, Any]:
        """Returns the values of an option that is given by table, by the tables' full names."""
        known = [table.names for table in self._found.tables.values()]
        where = repr(self._checkpoint.prefix)
        found = spec_tables.by_table(values, known, argument, where)
        return {table.variable: value for table, value in found.items()}

    def _rename(self, rename: Rename) -> Rename:
        """Returns `rename` with the full names of tables that are given by others."""
        if not isinstance(rename, Mapping):
            return rename
        others = self._variables.keys() - self._found.tables.keys()
        tables = {name: new for name, new in rename.items() if name not in others}
        variables = {name: new for name, new in rename.items() if name in others}
        return {**variables, **self._by_table(tables, "rename")}

    def _dropped(self, name: str) -> bool:
        """Returns whether `drop` matches a variable."""
        return any(pattern.search(name) for pattern in self._drop)

    def _put(
        self,
        output: output_variables.OutputVariable,
        source: str | None,
        shape: tuple[int, ...],
        what: str,
    ) -> None:
        """Adds an output variable and its change, after checking its name.

        Args:
            output: the output variable.
            source: name in the source; None for a new variable.
            shape: shape in the target.
            what: description of the change.
        """
        if output.name in self._outputs:
            other = next(c.source for c in self._changes if c.target == output.name)
            raise ValueError(
                f"{source!r} and {other!r} would both be named {output.name!r}. Give them "
                "different names."
            )
        if not output.name or output.name.startswith("\0"):
            raise ValueError(
                f"{source!r} can't be named {output.name!r}: a name has one character or "
                "more. To leave a variable out, use `drop`."
            )
        self._outputs[output.name] = output
        before = None if source is None else self._variables[source].shape
        self._changes.append(
            change_report.Change(
                source, output.name, before, shape, what, output.num_bytes, self._names(source)
            )
        )

    def _leave_out(self, names: Iterable[str], why: str) -> None:
        """Reports that variables of the source aren't written."""
        for name in names:
            shape = self._variables[name].shape
            change = change_report.Change(name, None, shape, None, why, 0, self._names(name))
            self._changes.append(change)

    def _names(self, variable: str | None) -> spec_tables.TableNames | None:
        """Returns the names of a table; None for other variables."""
        table = self._found.tables.get(variable or "")
        return table.names if table else None

    def _kept_slots(self, table: variable_roles.CheckpointTable) -> dict[str, str]:
        """Returns the suffixes of a table's slots by name; leaves out those to drop."""
        dropped = sorted(name for name in table.slots if self._dropped(name))
        self._leave_out(dropped, "dropped")
        return {name: suffix for name, suffix in table.slots.items() if name not in dropped}

    def _add_copy(self, name: str, target: str) -> None:
        """Adds a variable that isn't a table, unless it is dropped."""
        if self._dropped(name):
            self._leave_out([name], "dropped")
            return
        variable = self._variables[name]
        what = change_report.COPIED if name == target else "renamed"
        output = output_variables.copied(target, variable)
        self._put(output, name, variable.shape, what)

    def _add_table(self, table: variable_roles.CheckpointTable, target: str) -> None:
        """Adds a table with its slots, unless it is dropped."""
        if self._dropped(table.name):
            self._leave_out([table.name, *table.slots], "dropped with its table")
            return
        rows, initial = self._add_without_slots(table, target)
        self._add_slots(table, target, rows, initial)

    def _add_without_slots(
        self, table: variable_roles.CheckpointTable, target: str, what: str = ""
    ) -> tuple[RowMapping, new_rows.RowSource | None]:
        """Adds a table and its record; returns its rows, and the source of the new ones."""
        rows_from, num_rows = self._rows(table)
        rows = RowMapping(table.layout, self._layout(table, num_rows), rows_from)
        initial = self._initial_rows(table, rows.count_new) if rows.count_new else None
        self._add_rows(table.name, target, rows, initial, what=what)
        self._records[target] = records.TableRecord(rows.after, table.variable.shape[1], table.key)
        return rows, initial

    def _layout(self, table: variable_roles.CheckpointTable, num_rows: int) -> RowPartition:
        options = self._options
        if options.objects is not None:
            return RowPartition("div", num_rows)
        strategy = options.strategy or table.layout.strategy
        return RowPartition(strategy, num_rows, options.shards or table.layout.num_shards)

    def _add_rows(
        self,
        name: str,
        target: str,
        rows: RowMapping,
        new: new_rows.RowSource | None,
        factor: float = 1.0,
        what: str = "",
    ) -> None:
        """Adds a table or slot; a plain copy if at most its name changes."""
        variable = self._variables[name]
        shape = (rows.after.num_rows, *variable.shape[1:])
        whats = [what] if what else []
        output = output_variables.converted(target, variable, rows, new, factor)
        if not rows.is_as_stored(variable):
            whats += rows.describe()
        if name != target and not what:
            whats.insert(0, "renamed")
        self._put(output, name, shape, ", ".join(whats) or change_report.COPIED)

    def _rows(self, table: variable_roles.CheckpointTable) -> tuple[np.ndarray | None, int]:
        """Returns the source row of each target row (None: unchanged order), and their number."""
        name, old = table.name, table.layout.num_rows
        rows_from, num_rows = None, old
        source = self._vocabulary.get(name)
        if source is not None:
            if isinstance(source, tuple) and len(source) == 2:
                rows_from, buckets = vocabulary.match_vocabularies(source[0], source[1], old)
                if buckets:
                    self._notes.append(
                        f"{name}: its last {buckets} rows have no word in the old vocabulary, and "
                        "are kept as buckets of unknown words."
                    )
            else:
                rows_from = vocabulary.check_row_sources(source, name, old)
            num_rows = len(rows_from)
            lost = old - len(np.unique(rows_from[rows_from >= 0]))
            if lost:
                self._notes.append(f"{name}: {lost} of its {old} rows are left out.")
        wanted = self._grow.get(name)
        if wanted is None and table.in_spec is not None:
            wanted = max(table.in_spec.rows, num_rows)
        if wanted is None:
            return rows_from, num_rows
        if wanted < num_rows:
            raise ValueError(
                f"{name!r} has {num_rows} rows and can't be made smaller ({wanted}) by `grow`. "
                "Say by `vocabulary` which rows are kept."
            )
        if table.in_spec is not None and wanted != table.in_spec.rows:
            raise ValueError(
                f"{name!r} would have {wanted} rows, in the spec {table.in_spec.key!r} has "
                f"{table.in_spec.rows}. Correct the spec, or `vocabulary` and `grow`."
            )
        if rows_from is not None:
            rows_from = np.pad(rows_from, (0, wanted - num_rows), constant_values=-1)
        return rows_from, int(wanted)

    def _initial_rows(
        self, table: variable_roles.CheckpointTable, count: int
    ) -> new_rows.RowSource:
        """Returns new rows by the argument's initializer, the spec's, or the columns' default."""
        variable = table.variable
        if len(variable.shape) != 2 or not variable.dtype.is_floating:
            raise ValueError(
                f"{table.name!r} can't get new rows: it is {variable.dtype.name} of shape "
                f"{list(variable.shape)}, a table is [rows, width] of floats."
            )
        width = variable.shape[1]
        initializer = self._initializers.get(table.name)
        if initializer is None and table.in_spec is not None:
            initializer = table.in_spec.initializer
        if initializer is None:
            return new_rows.truncated_normal(
                table.name, count, width, variable.dtype, self._options.seed
            )
        return new_rows.from_initializer(
            table.name, initializer, count, width, variable.dtype, self._options.seed
        )

    def _add_slots(
        self,
        table: variable_roles.CheckpointTable,
        target: str,
        rows: RowMapping,
        initial: new_rows.RowSource | None,
    ) -> None:
        kept = self._kept_slots(table)
        known, _, _ = slots.recognize_optimizers(kept.values())
        for name, suffix in sorted(kept.items()):
            naming = next((n for n in known if suffix in n.suffixes.values()), None)
            new_naming, new_suffix = self._slots.naming(table, naming, suffix)
            scope, _, partition = name.removesuffix(suffix).rpartition(table.name)
            new_name = self._renamed.explicit_name(name) or scope + target + partition + new_suffix
            what = f"slot of {naming.optimizer}" if naming and new_suffix != suffix else ""
            new = initial
            if rows.count_new and not suffix.endswith("/ExponentialMovingAverage"):
                new = self._slot_rows(table, name, new_suffix, new_naming)
            factor = self._slots.factor(table, naming, suffix)
            self._add_rows(name, new_name, rows, new, factor, what)

    def _slot_rows(
        self,
        table: variable_roles.CheckpointTable,
        name: str,
        suffix: str,
        naming: slots.SlotNaming | None,
    ) -> new_rows.RowSource:
        parameters = table.in_spec.optimizer if table.in_spec else None
        value = new_rows.slot_initial_value(suffix, naming, parameters)
        if value is None:
            raise ValueError(
                f"{name!r} belongs to no known optimizer, so the initial value of its new rows "
                "is unknown. Leave it out by `drop`."
            )
        variable = self._variables[name]
        return new_rows.constant(value, variable.shape[1], variable.dtype.as_numpy_dtype)
