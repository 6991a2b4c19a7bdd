# SPDX-License-Identifier: Apache-2.0
"""The trained tables of a legacy checkpoint, by the spec's table keys, rows in their own order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec import checkpoints
from estimator_spec.checkpoints import slots as slot_names
from estimator_spec.checkpoints import spec_tables
from estimator_spec.checkpoints.bundle import Checkpoint
from estimator_spec.convert import checks
from estimator_spec.convert.report import Entry, Status
from estimator_spec.convert.spec_source import Source
from estimator_spec.embedding.optimizers import OptimizationParameters, slot_initial_values


class TrainedTables:
    """The tables and slots of a checkpoint that `TPUEstimator` wrote, on a CPU or a TPU.

    Args:
        source: the spec that it belongs to.
        checkpoint: its prefix, or a directory, whose latest checkpoint is meant.
        num_shards: shards of each table, if the checkpoint has no record of them; None: as many as
            a table is stored in. Matters with partition_strategy='mod' only.
        variable_names: full names of tables' variables, for those that the spec doesn't tell.

    Raises:
        CheckpointError: it is missing or damaged, or lacks a table.
        ValueError: a table is there several times, and nobody says which is meant; or an argument
            is wrong.
    """

    def __init__(
        self,
        source: Source,
        checkpoint: Any,
        num_shards: int | None = None,
        variable_names: Mapping[str, str] | None = None,
    ) -> None:
        checks.positive_or_none(num_shards=num_shards)
        checks.known("variable_names", "table", variable_names or (), source.tables)
        with Checkpoint(checkpoint) as opened:
            self._prefix = opened.prefix
            self._shapes = {name: found.shape for name, found in opened.variables.items()}
        self._source = source
        self._shards = num_shards
        self.names = self._find(dict(variable_names or {}))

    @property
    def global_step(self) -> int:
        """The step that the checkpoint was written at, 0 if it doesn't say."""
        if "global_step" not in self._shapes:
            return 0
        return int(tf.train.load_checkpoint(self._prefix).get_tensor("global_step"))

    def blocks(self, table: str) -> Iterator[tuple[int, np.ndarray]]:
        """The rows of a table, some at a time.

        Yields:
            (number of the first row, float32 [n, D]).
        """
        yield from self._blocks(table, self.names[table])

    def rows(self, table: str) -> np.ndarray:
        """A table whole: float32, [V, D]."""
        return self._whole(table, self.names[table])

    def assign_to(self, variable: Any, table: str) -> None:
        """Writes a table into a variable, some rows at a time.

        Args:
            variable: a TensorFlow variable, [V, D].
            table: the table's key.
        """
        for first, block in self.blocks(table):
            rows = np.arange(first, first + len(block))
            variable.scatter_update(tf.IndexedSlices(block, rows))

    def slots(self, table: str, parameters: OptimizationParameters) -> dict[str, np.ndarray]:
        """The slots of a table that an optimizer can go on with, by its slots' names.

        Args:
            table: its key.
            parameters: the optimizer; TF1's CPU optimizer of the same name serves, too.
        """
        names = self.slot_variables(table, parameters)
        return {slot: self._whole(table, name) for slot, name in names.items()}

    def slot_variables(self, table: str, parameters: OptimizationParameters) -> dict[str, str]:
        """The variables of these slots, by the slots' names; none if one is missing.

        Args:
            table: as for `slots`.
            parameters: as for `slots`.
        """
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
        self, tables: Iterable[str], becomes: str | None = None, note: str = ""
    ) -> list[Entry]:
        """The lines of a report about optimizers' slots.

        Args:
            tables: those whose optimizers have slots in the target.
            becomes: what becomes of slots that the checkpoint has; None: they are taken over.
            note: how so.
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
                why = f"it has none of {name}: they begin anew"
                entries.append(Entry(table, "slots", Status.CHANGED, None, old, new, why))
            elif becomes is None:
                entries.append(Entry(table, "slots", Status.EXACT, ", ".join(found)))
            else:
                old = ", ".join(found)
                entries.append(Entry(table, "slots", Status.CHANGED, old, old, becomes, note))
        return entries

    def _whole(self, table: str, name: str) -> np.ndarray:
        return np.concatenate([block for _, block in self._blocks(table, name)])

    def _blocks(self, table: str, name: str) -> Iterator[tuple[int, np.ndarray]]:
        rows = self._source.tables[table].vocabulary_size
        spec = self._source.spec
        for first, block in checkpoints.iterate_table(
            self._prefix,
            name,
            spec,
            # Told only together; otherwise the record beside the checkpoint, or the spec, says.
            strategy=None if self._shards is None else spec.partition_strategy,
            shards=self._shards,
            tables=sorted(self.names.values()),
        ):
            # Small tables are filled up, so that every host has a row.
            kept = block[: max(0, rows - first)]
            if len(kept):
                yield first, kept.astype(np.float32)

    def _find(self, told: dict[str, str]) -> dict[str, str]:
        candidates: dict[str, list[str]] = {table: [] for table in self._source.tables}
        for name, table in spec_tables.match_variables(
            spec_tables.list_tables(self._source.spec), sorted(self._shapes)
        ).items():
            if table.key in candidates:
                candidates[table.key].append(name)
        names = {}
        for key, found in candidates.items():
            if key in told:
                found = [told[key]]
                if told[key] not in self._shapes:
                    raise checkpoints.CheckpointError(
                        self._prefix, f"There is no variable {told[key]!r} in {self._prefix!r}."
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
            self._check_shape(key, found[0])
        return names

    def _check_shape(self, key: str, name: str) -> None:
        config, shape = self._source.tables[key], tuple(self._shapes[name])
        if len(shape) != 2 or shape[0] < config.vocabulary_size or shape[1] != config.dimension:
            raise checkpoints.CheckpointError(
                self._prefix,
                f"Table {key!r} has {config.vocabulary_size} rows of {config.dimension} in the "
                f"spec, but {name!r} of {self._prefix!r} has the shape {list(shape)}.",
            )
