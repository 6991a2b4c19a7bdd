# SPDX-License-Identifier: Apache-2.0
"""Host core: a TPU's semantics on any machine.

One step of training, for each table:

    ids of all its features ─▶ unique ─▶ gather rows ─▶ combine ─▶ activations ─▶ model ─▶ loss
                                 │           │                                           │
                                 │           └────────────▶ update rule ◀── gradients ◀──┘
                                 └────────────────▶ scatter rows and slots

Where there are native kernels, one op looks up all tables, and one updates them: see
`native_tables`. Many small tables of one width and optimizer are then stacked in one variable: see
`table_groups` and `stacked_tables`.

Rows are gathered once, so their gradient is the sum over the occurrences of an id; without gradient
accumulation, once for each replica. Tables aren't trainable variables, so the model's optimizers
don't update them; `activation_gradients` captures their gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_spec.core.cores import (
    enqueue,
    host_updates,
    native_tables,
    table_groups,
    update_rules,
)
from estimator_spec.core.cores.activation_gradients import MIN_SHARING_TABLES, ActivationGradients
from estimator_spec.core.cores.host_table import HostTable
from estimator_spec.core.cores.interface import EmbeddingCore, replica_id
from estimator_spec.core.cores.stacked_tables import StackedTable
from estimator_spec.core.cores.table_variables import op_name, variable_names
from estimator_spec.core.embedding import optimizers
from estimator_spec.core.embedding.spec import (
    EmbeddingConfigSpec,
    id_rules,
    table_learning_rate,
    table_optimizer,
    tables_and_features,
)
from tpu_columns import categorical, engine, lookup, storage
from tpu_columns.kernels import devices
from tpu_columns.partition import RowPartition

tf1 = tf.compat.v1


class HostCore(EmbeddingCore):
    """Embedding core that looks up and trains the tables of a spec in a TF1 graph.

    The features of all replicas are one batch of the tables.

    Args:
        spec: tables, features and optimizers.
        training: whether tables are trained and have slot variables.
        num_shards: number of shards of each table, laid out by `spec.partition_strategy`. A
            checkpoint holds the concatenated shards.
        on_servers: whether each shard is a variable of its own, on a parameter server, that other
            processes may update, too. Then updates aren't pipelined.
        stack: whether tables that are trained alike may share variables and ops; see
            `table_groups`.
        pad: as for `EmbeddingCore`.

    Raises:
        ValueError: a table has no optimizer, or `tables_and_features` raises it.
        TypeError: `tables_and_features` raises it.
    """

    def __init__(
        self,
        spec: EmbeddingConfigSpec,
        training: bool,
        num_shards: int = 1,
        on_servers: bool = False,
        stack: bool = False,
        pad: Callable[[Any], Any] = dict,
    ) -> None:
        super().__init__(pad)
        self._spec = spec
        # A strategy mirrors variables; servers hold a variable for each shard of a table.
        self._stacking = stack and training and not on_servers and not tf.distribute.has_strategy()
        self._on_servers = on_servers
        self._training = training
        configs, self._features = tables_and_features(spec)
        self._tables = {
            key: HostTable(
                key,
                config,
                table_optimizer(spec, config),
                table_learning_rate(spec, config),
                RowPartition(spec.partition_strategy, config.vocabulary_size, num_shards),
            )
            for key, config in sorted(configs.items())
        }
        missing = [key for key, table in self._tables.items() if table.parameters is None]
        if training and missing:
            raise ValueError(
                f"Tables {missing} have no optimizer. Give the spec (or their TableConfig) "
                "optimization_parameters."
            )
        for key, feature in self._features.items():
            self._tables[feature.table_id].uses[key] = []
        tables = {key: feature.table_id for key, feature in self._features.items()}
        share = self._stacking and len(self._tables) >= MIN_SHARING_TABLES
        self._gradients = ActivationGradients(tables, share) if training else None
        self._native = native_tables.NativeTables()
        # The first table of each variable that native ops look up, with the ids of all tables.
        self._looked_up: list[tuple[HostTable, list[enqueue.Enqueued]]] = []
        self._step: Any = None
        self._num_replicas = 0

    def feed(self, features: list[Any]) -> list[Any]:
        """Replaces the ids of each replica's features by activations."""
        step = tf1.train.get_global_step()
        return [self.look_up(self._pad(part), step) for part in features]

    def look_up(self, features: Any, global_step: Any) -> dict[str, Any]:
        """Replaces ids by activations.

        Args:
            features: tensors by key; not modified.
            global_step: scalar; read before the model increments it.

        Returns:
            A new dict: float32 [B, D] under each feature's key ([B, L, D] for a sequence, with
            int64 lengths [B] under `<key>_seq_length_`), without weights.

        Raises:
            ValueError: a TPU can't look up a feature.
        """
        found = dict(features)
        self._num_replicas += 1
        self._step = tf.identity(global_step, name="step_of_embeddings")
        rules = id_rules(self._spec)
        for key, feature in self._features.items():
            table = self._tables[feature.table_id]
            enqueued = enqueue.take(key, feature, table.config, found, rules[key])
            table.uses[key].append(enqueued)
            batch, length = enqueued.shape[0], enqueued.max_sequence_length
            shape = [batch, *([length] if length else []), table.config.dimension]
            # The name of the table's variable depends on the layer that uses the column, so
            # `attach` creates the lookup later and replaces this placeholder by its result.
            placeholder = tf1.placeholder(tf.float32, shape, f"{op_name(key)}_placeholder")
            with tf.control_dependencies([self._step]):
                activation = tf.identity(placeholder, name=f"{op_name(key)}_activation")
            enqueued.replica, enqueued.activation = len(table.uses[key]) - 1, activation
            enqueued.layout = table.layout
            found[key] = activation
            if length:
                ids = lookup.truncate_steps(enqueued.ids, length)
                lengths = lookup.sequence_lengths(ids)
                lengths.set_shape([batch])
                found[categorical.sequence_length_key(key)] = lengths
        return found

    def receive(self, features: dict[str, Any], replica: int | None = None) -> dict[str, Any]:
        """Returns a replica's features; in training, the gradients of activations are captured.

        Args:
            features: the result of `look_up` for the replica.
            replica: number of the replica; None: the current one.
        """
        if self._gradients is None:
            return features
        replica = replica_id() if replica is None else replica
        return features | self._gradients.connect(
            {key: features[key] for key in self._features}, replica
        )

    def finish(self) -> list[Any]:
        """Creates the tables; returns the op that trains them in a list, empty without training."""
        self.attach()
        return [self.update()] if self._training else []

    def attach(self) -> None:
        """Creates the tables and their lookups, and replaces the placeholders of the activations.

        In training, tables with native ops are looked up later, in `update`, because the lookup
        needs the finished model.

        Raises:
            RuntimeError: a column of the spec is in no feature layer of the model.
        """
        names = variable_names(self._spec, self._tables)
        for key, table in self._tables.items():
            table.name = names[key]
        stacks = {tables[0].key: tables for tables in self._choose_stacks()}
        stacked = {table.key for tables in stacks.values() for table in tables}
        with devices.on_host():
            for key, table in self._tables.items():
                storage.record_layout(table.name, table.layout)
                if key in stacked and key not in stacks:
                    continue
                if key in stacks:
                    self._create_stack(stacks[key])
                else:
                    table.create(self._on_servers)
                found = self._engine(table)
                if found.is_native:
                    uses = [use for each in stacks.get(key, [table]) for use in each.all_uses]
                    self._looked_up.append((table, uses))
                else:
                    found.log("look up and update", table.name)
                    table.look_up(self._training, self._num_turns(table))
            if not self._training:
                for table, uses in self._looked_up:
                    self._native.add(table.variable, uses)
                self._native.look_up(self._step)

    def update(self) -> Any:
        """Returns the op that trains all tables once.

        With pipelining it delays this step's update to the next step.
        """
        assert self._gradients is not None  # only called in training
        self._gradients.finish(self._step)
        with devices.on_host():
            return self._update_tables()

    def _update_tables(self) -> Any:
        gathered, gradients = self._row_gradients()
        multiplier = self._spec.experimental_gradient_multiplier_fn
        factor = None if multiplier is None else tf.cast(multiplier(self._step), tf.float32)
        rates: dict[Any, Any] = {}
        ops = self._update_native(factor, rates)
        read_before = None
        if self._spec.pipeline_execution_with_tensor_core:
            read_before = [table.gathered.rows for table in gathered]
        for table, gradient in zip(gathered, gradients, strict=True):
            if factor is not None:
                gradient *= factor
            rate = table.learning_rate(self._step, rates)
            ops.append(table.update(gradient, rate, self._step, self._num_replicas, read_before))
        return tf.group(*ops, name="update_embeddings")

    def _update_native(self, factor: Any, rates: dict[Any, Any]) -> list[Any]:
        """Connects the tables of native ops to the finished model; returns the ops of updates."""
        if not self._looked_up:
            return []
        for table, uses in self._looked_up:
            variable, parameters, slots = table.variable, table.parameters, table.slots
            if slots is None:
                slots = host_updates.slot_variables(variable, parameters)
            ordered = [slots[name] for name in optimizers.slot_initial_values(parameters)]
            rate = table.learning_rate(self._step, rates)
            trained = update_rules.trained_table(variable, ordered, parameters, rate)
            self._native.add(variable, uses, trained)
        self._native.look_up(self._step)
        assert self._gradients is not None
        captured = self._gradients.captured
        if not self._spec.pipeline_execution_with_tensor_core:
            return self._native.update(captured, factor, self._step)
        return [self._native.delay_update(captured, factor, self._step)]

    def _engine(self, table: HostTable) -> engine.EngineChoice:
        """Returns what looks up, and in training updates, a table."""
        rule = update_rules.native_rule(table.parameters) if self._training else None
        return engine.of_tables(
            engine.of_graph(),
            have_rules=rule is not None or not self._training,
            on_servers=self._on_servers,
            in_turns=self._num_turns(table) > 1,
        )

    def _num_turns(self, table: HostTable) -> int:
        """Returns how many gradients update a table one after the other; 1: their sum does."""
        sums = not self._training or table.parameters.use_gradient_accumulation
        return 1 if sums else self._num_replicas

    def _row_gradients(self) -> tuple[list[HostTable], list[Any]]:
        """Returns the gathered tables, and the gradient of each one's `trained_rows`.

        They are computed from the gradients of the activations.
        """
        assert self._gradients is not None  # only called in training
        tables = [table for table in self._tables.values() if table.gathered is not None]
        rows = [table.gathered.trained_rows for table in tables]
        captured = [
            (value, self._gradients.captured(use.key, use.replica))
            for table in tables
            for use, value in table.combined
        ]
        used = [(value, gradient) for value, gradient in captured if gradient is not None]
        gradients = [None] * len(rows)
        if used:
            values, upstream = zip(*used, strict=True)
            gradients = tf1.gradients(list(values), rows, list(upstream), "embedding_gradients")
        # A table that the model doesn't use gets zeros, so that its rows are updated.
        return tables, [
            tf.zeros_like(source) if gradient is None else tf.convert_to_tensor(gradient)
            for source, gradient in zip(rows, gradients, strict=True)
        ]

    def _choose_stacks(self) -> list[list[HostTable]]:
        """Returns the tables of each stack."""
        if not self._stacking:
            return []
        native = [table for table in self._tables.values() if self._engine(table).is_native]
        found = table_groups.stacks([table.candidate for table in native])
        return [[self._tables[key] for key in keys] for keys in found]

    @staticmethod
    def _create_stack(tables: list[HostTable]) -> None:
        """Creates the variables of a stack, and gives them to the first table."""
        first, members = tables[0], [table.member for table in tables]
        stack = StackedTable(members, first.config.dimension, first.parameters)
        for table, first_row in zip(tables, stack.offsets, strict=True):
            for use in table.all_uses:
                use.first_row = first_row
        first.variable, first.slots = stack.variable, stack.slots
