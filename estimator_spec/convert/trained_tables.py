# SPDX-License-Identifier: Apache-2.0
"""Reads trained tables and slot variables of a legacy checkpoint by the spec's table keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec import checkpoints
from estimator_spec.convert.report import Entry, Status
from estimator_spec.convert.resolved_spec import ResolvedSpec
from estimator_spec.core.checkpoints import records, spec_tables
from estimator_spec.core.checkpoints import slots as slot_names
from estimator_spec.core.checkpoints.bundle import Checkpoint
from estimator_spec.core.common.checks import check_positive_ints
from estimator_spec.core.embedding.optimizers import OptimizationParameters, slot_initial_values


class TrainedTables:
    """Tables and slot variables of a checkpoint of `TPUEstimator`, on a CPU or TPU.

    Args:
        source: the resolved spec.
        checkpoint: its prefix, or a directory with the latest checkpoint.
        num_shards: shards of each table, if the checkpoint has no record; None: as many as
            a table is stored in. Matters with partition_strategy='mod' only.
        variable_names: full variable names by a name of the table, if the spec doesn't determine
            them.

    Raises:
        CheckpointError: it is missing or damaged, or lacks a table.
        ValueError: a table has several candidates and no entry in `variable_names`; or an argument
            is invalid.
    """

    def __init__(
        self,
        source: ResolvedSpec,
        checkpoint: Any,
        num_shards: int | None = None,
        variable_names: Mapping[str, str] | None = None,
    ) -> None:
        check_positive_ints(optional=True, num_shards=num_shards)
        known = [table.names for table in spec_tables.list_tables(source.spec)]
        given = spec_tables.by_table(variable_names, known, "variable_names", "the spec")
        with Checkpoint(checkpoint) as opened:
            self._prefix = opened.prefix
            self._shapes = {name: found.shape for name, found in opened.variables.items()}
            self._pieces = {name: len(found.pieces) for name, found in opened.variables.items()}
        record = records.read(self._prefix)
        self._recorded = record.tables if record else {}
        self._source = source
        self._shards = num_shards
        self.names = self._find({table.key: variable for table, variable in given.items()})

    @property
    def global_step(self) -> int:
        """Returns the checkpoint's global step, 0 if it has none."""
        with Checkpoint(self._prefix) as opened:
            return opened.read_global_step() or 0

    def blocks(self, table: str) -> Iterator[tuple[int, np.ndarray]]:
        """Yields the rows of a table in blocks.

        Yields:
            (index of the first row, float32 [n, D]).
        """
        yield from self._blocks(table, self.names[table])

    def rows(self, table: str) -> np.ndarray:
        """Returns a whole table: float32 [V, D]."""
        return self._whole(table, self.names[table])

    def assign_to(self, variable: Any, table: str) -> None:
        """Assigns a table to a variable in blocks.

        Args:
            variable: a TensorFlow variable, [V, D].
            table: the table's key.
        """
        for first, block in self.blocks(table):
            rows = np.arange(first, first + len(block))
            variable.scatter_update(tf.IndexedSlices(block, rows))

    def slots(self, table: str, parameters: OptimizationParameters) -> dict[str, np.ndarray]:
        """Returns the slot variables that an optimizer can continue with, by slot name.

        Args:
            table: the table's key.
            parameters: the optimizer; slots of TF1's CPU optimizer of the same name match, too.
        """
        names = self.slot_variables(table, parameters)
        return {slot: self._whole(table, name) for slot, name in names.items()}

    def slot_variables(self, table: str, parameters: OptimizationParameters) -> dict[str, str]:
        """Returns the names of these variables by slot name; an empty dict if one is missing."""
        optimizer = type(parameters).__name__.removesuffix("Parameters")
        for system in ("tpu", "cpu"):
            naming = slot_names.find_naming(optimizer, system)
            names = {
                slot: self.names[table] + suffix
                for slot, suffix in (naming.suffixes if naming else {}).items()
            }
            shape = self._shapes[self.names[table]]
            if names and all(self._shapes.get(name) == shape for name in names.values()):
                return names
        return {}

    def slot_entries(
        self, tables: Iterable[str], replacement: str | None = None, note: str = ""
    ) -> list[Entry]:
        """Returns the report's entries of slot variables.

        Args:
            tables: tables whose optimizers have slots in the target.
            replacement: what replaces the checkpoint's slots; None: they are kept.
            note: explanation.
        """
        entries = []
        for table in tables:
            parameters = self._source.parameters(table)
            if parameters is None or not slot_initial_values(parameters):
                continue
            found = sorted(self.slot_variables(table, parameters).values())
            if not found:
                name = type(parameters).__name__.removesuffix("Parameters")
                old, new = "the checkpoint's", "initial values"
                why = f"it has no slots of {name}"
                entries.append(Entry(table, "slots", Status.CHANGED, None, old, new, why))
            elif replacement is None:
                entries.append(Entry(table, "slots", Status.EXACT, ", ".join(found)))
            else:
                entries.append(Entry.changed(table, "slots", ", ".join(found), replacement, note))
        return entries

    def _whole(self, table: str, name: str) -> np.ndarray:
        return np.concatenate([block for _, block in self._blocks(table, name)])

    def _blocks(self, table: str, name: str) -> Iterator[tuple[int, np.ndarray]]:
        rows = self._source.tables[table].vocabulary_size
        by_record = self._shards is None and self.names[table] in self._recorded
        for first, block in checkpoints.iterate_table(
            self._prefix,
            name,
            strategy=None if by_record else self._source.spec.partition_strategy,
            shards=self._shards,
            tables=sorted(self.names.values()),
        ):
            kept = block[: max(0, rows - first)]
            if len(kept):
                yield first, kept.astype(np.float32)

    def _find(self, given: dict[str, str]) -> dict[str, str]:
        candidates: dict[str, list[str]] = {table: [] for table in self._source.tables}
        for name, table in spec_tables.match_variables(
            spec_tables.list_tables(self._source.spec), sorted(self._shapes)
        ).items():
            if table.key in candidates:
                candidates[table.key].append(name)
        names = {}
        for key, found in candidates.items():
            if key in given:
                found = [given[key]]
                if given[key] not in self._shapes:
                    raise checkpoints.CheckpointError(
                        self._prefix, f"There is no variable {given[key]!r} in {self._prefix!r}."
                    )
            if len(found) > 1:
                raise ValueError(
                    f"Table {key!r} is in {self._prefix!r} several times: {found}. Say which one "
                    f"is meant: variable_names={{{key!r}: …}}."
                )
            if not found:
                raise checkpoints.CheckpointError(
                    self._prefix,
                    f"Table {key!r} isn't in {self._prefix!r}, whose variables are "
                    f"{sorted(self._shapes)}. Say what it is called: "
                    f"variable_names={{{key!r}: …}}.",
                )
            names[key] = found[0]
            self._check_shape(key, found[0], may_be_padded=key in given)
        return names

    def _check_shape(self, key: str, name: str, may_be_padded: bool) -> None:
        """Checks a variable's shape. A table smaller than its hosts is padded to a row on each."""
        config, shape = self._source.tables[key], tuple(self._shapes[name])
        rows = config.vocabulary_size
        if len(shape) == 2 and shape[1] == config.dimension and shape[0] >= rows:
            shards = self._shards or self._pieces[name]
            if may_be_padded or shape[0] in (rows, shards):
                return
            advice = f" If its first {rows} are meant, say variable_names={{{key!r}: {name!r}}}."
        else:
            advice = ""
        raise checkpoints.CheckpointError(
            self._prefix,
            f"Table {key!r} has {rows} rows of {config.dimension} in the spec, but {name!r} of "
            f"{self._prefix!r} has the shape {list(shape)}.{advice}",
        )
