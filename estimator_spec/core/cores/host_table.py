# SPDX-License-Identifier: Apache-2.0
"""Defines `HostTable`: one table of the host core, with its variables and its lookup in a graph."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import graph_surgery
from estimator_spec.core.cores import delayed_updates, host_updates, stacked_tables, table_groups
from estimator_spec.core.cores.enqueue import Enqueued
from estimator_spec.core.cores.host_updates import GatheredRows, TableUpdate
from estimator_spec.core.cores.table_variables import create_variable, op_name
from estimator_spec.core.embedding.table_config import TableConfig
from tpu_columns import combining, entries, lookup_errors
from tpu_columns.partition import RowPartition
from tpu_columns.storage import ShardedTable


@dataclasses.dataclass(eq=False)
class HostTable:
    """A table of the host core.

    Attributes:
        key: its key in the spec.
        config: its configuration.
        parameters: its optimizer; None only where it isn't trained.
        rate: its learning rate, a number or a function of the global step.
        layout: its rows in the checkpoint: the concatenated shards.
        uses: the ids of its features in a step: by feature, then in order of the replicas.
        name: full name of its variable.
        variable: the rows; those of the whole stack in the first table of one.
        slots: the slot variables of a stack, by slot; None for a table without a stack.
        sharded: the rows on parameter servers, by positions in the shards; or None.
        gathered: the `GatheredRows` of a step, where TensorFlow's ops look up; or None.
        combined: those combined to the activation of each use.
    """

    key: str
    config: TableConfig
    parameters: Any
    rate: Any
    layout: RowPartition
    uses: dict[str, list[Enqueued]] = dataclasses.field(default_factory=dict)
    name: str = ""
    variable: Any = None
    slots: dict[str, Any] | None = None
    sharded: ShardedTable | None = None
    gathered: Any = None
    combined: list[tuple[Enqueued, Any]] = dataclasses.field(default_factory=list)

    @property
    def all_uses(self) -> list[Enqueued]:
        """The ids of all features."""
        return [use for uses in self.uses.values() for use in uses]

    @property
    def candidate(self) -> table_groups.Candidate:
        """The properties by which tables are grouped into stacks."""
        shards = 1 if self.layout.in_row_order else self.layout.num_shards
        rate = id(self.rate) if callable(self.rate) else self.rate
        rows, width = self.config.vocabulary_size, self.config.dimension
        return table_groups.Candidate(self.key, (self.parameters, rate, shards), width, rows)

    @property
    def member(self) -> stacked_tables.Member:
        """The table in a stack."""
        return stacked_tables.Member(self.name, self.layout, self._initializer())

    def create(self, on_servers: bool) -> None:
        """Creates the variable, on parameter servers one for each shard."""
        shape = self.config.vocabulary_size, self.config.dimension
        if not on_servers:
            self.variable = create_variable(self.name, shape, self._initializer())
            return
        count = min(self.layout.num_shards, shape[0])
        layout = RowPartition(self.layout.strategy, shape[0], count)
        self.variable = create_variable(self.name, shape, self.config.initializer, layout=layout)
        shards = tuple(self.variable)
        self.sharded = ShardedTable(shards, RowPartition("div", shape[0], len(shards)))

    def _initializer(self) -> Any:
        """Returns the initializer with the rows permuted to the layout's order."""
        initializer = self.config.initializer
        if self.layout.in_row_order:
            return initializer
        order = self.layout.inverse_permutation()

        def permuted(shape: Any, dtype: Any = tf.float32, **kwargs: Any) -> Any:
            return tf.gather(initializer(shape, dtype=dtype, **kwargs), order)

        return permuted

    def _positions(self, ids: Any) -> Any:
        """Returns the positions of rows in the concatenated shards, as ops."""
        layout = self.layout
        if layout.in_row_order:
            return ids
        starts = tf.constant(layout.shard_starts, ids.dtype)
        shard, local = ids % layout.num_shards, ids // layout.num_shards
        position = tf.gather(starts, shard) + local
        # An id out of range must not become another row's position; unchanged, the gather fails.
        in_range = (ids >= 0) & (ids < layout.num_rows)
        return tf.where(in_range, position, ids)

    def _record_site(self, scope: str) -> None:
        users = ", ".join(self.uses)
        lookup_errors.record_site(scope, users, users, self.config.vocabulary_size)

    def look_up(self, training: bool, num_turns: int) -> None:
        """Gathers the rows once for all features, and connects their activations.

        Args:
            training: whether the table is trained.
            num_turns: number of replicas whose gradients are applied in turns; 1: their sum is.
        """
        with tf.name_scope(f"look_up_{op_name(self.key)}") as scope:
            self._record_site(scope)
            # By feature, then by replica: the order of one large batch.
            uses = self.all_uses
            batches = [entries.from_sparse(*use.rows, use.combiner) for use in uses]
            values = [tf.cast(batch.ids, tf.int64) for batch in batches]
            sizes = [tf.size(value) for value in values]
            all_ids = values[0] if len(values) == 1 else tf.concat(values, 0)
            ids, index = combining.rows_to_read(self._positions(all_ids), training)
            if self.sharded is not None:
                rows = self.sharded.gather(ids)
            else:
                rows = tf.nn.embedding_lookup(self.variable, ids)
            gathered = GatheredRows(self.variable, ids, rows)
            if num_turns > 1:
                replicas = [use.replica for use in uses]
                gathered, index = host_updates.separate_replicas(
                    gathered, index, all_ids, zip(replicas, sizes, strict=True), num_turns
                )
            source = gathered.trained_rows
            size = tf.size(ids if gathered.turns is None else gathered.turns, out_type=tf.int64)
            indices = [index] if len(batches) == 1 else tf.split(index, sizes)
            for use, batch, own in zip(uses, batches, indices, strict=True):
                value = combining.combine(source, own, batch, size)
                if use.max_sequence_length:
                    value = tf.reshape(value, [-1, *use.activation.shape.as_list()[1:]])
                graph_surgery.replace_input(use.activation.op, value)
                self.combined.append((use, value))
            self.gathered = gathered

    def learning_rate(self, step: Any, known: dict[Any, Any]) -> Any:
        """Returns the learning rate of a step, a scalar tensor.

        Args:
            step: the global step.
            known: rates by their functions, each of which is called once.
        """
        if not callable(self.rate):
            return tf.constant(self.rate, tf.float32)
        if self.rate not in known:
            known[self.rate] = tf.cast(self.rate(step), tf.float32)
        return known[self.rate]

    def update(
        self, gradient: Any, rate: Any, step: Any, num_replicas: int, read_before: list[Any] | None
    ) -> Any:
        """Returns the op that trains the table once, after `look_up`.

        Args:
            gradient: of `gathered.trained_rows`.
            rate: the learning rate.
            step: the global step.
            num_replicas: number of replicas.
            read_before: None, or with pipelining what is read before the update: it is delayed to
                the next step.
        """
        update = TableUpdate(self.gathered, gradient, rate, step)
        with tf.name_scope(f"update_{op_name(self.key)}") as scope:
            # An id out of range may raise here first.
            self._record_site(scope)
            if self.sharded is not None:
                return host_updates.apply_on_shards(update, self.sharded, self.parameters)
            slots = host_updates.slot_variables(self.variable, self.parameters)
            if read_before is None:
                return host_updates.apply(update, slots, self.parameters, num_replicas)

            def apply(ids: Any, gradient: Any, rate: Any, step: Any, *turns: Any) -> list[Any]:
                rows = tf.nn.embedding_lookup(self.variable, ids)
                held = GatheredRows(self.variable, ids, rows, *turns)
                update = TableUpdate(held, gradient, rate, step)
                return [host_updates.apply(update, slots, self.parameters, num_replicas)]

            pending = [self.gathered.ids, gradient, rate, tf.convert_to_tensor(step)]
            if self.gathered.turns is not None:
                pending += [self.gathered.index, self.gathered.turns]
            return delayed_updates.delay(pending, apply, read_before)
