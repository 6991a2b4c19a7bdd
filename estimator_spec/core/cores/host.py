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

from collections.abc import Hashable
from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import graph_surgery
from estimator_spec.core.cores import (
    delayed_updates,
    enqueue,
    host_updates,
    native_tables,
    stacked_tables,
    table_groups,
    update_rules,
)
from estimator_spec.core.cores.activation_gradients import MIN_SHARING_TABLES, ActivationGradients
from estimator_spec.core.cores.host_updates import GatheredRows, TableUpdate
from estimator_spec.core.cores.stacked_tables import StackedTable
from estimator_spec.core.cores.table_variables import create_variable, op_name, variable_names
from estimator_spec.core.embedding import optimizers
from estimator_spec.core.embedding.spec import (
    EmbeddingConfigSpec,
    TableConfig,
    id_rules,
    table_learning_rate,
    table_optimizer,
    tables_and_features,
)
from tpu_columns import (
    categorical,
    combining,
    engine,
    entries,
    lookup,
    lookup_errors,
    storage,
)
from tpu_columns.kernels import devices
from tpu_columns.partition import RowPartition

tf1 = tf.compat.v1


class HostCore:
    """Embedding core that looks up and trains the tables of a spec in a TF1 graph.

    The order of calls is that of `EmbeddingCore`. The features of all replicas are one batch of the
    tables.

    Args:
        spec: tables, features and optimizers.
        training: whether tables are trained and have slot variables.
        num_shards: number of shards of each table, laid out by `spec.partition_strategy`. A
            checkpoint holds the concatenated shards.
        on_servers: whether each shard is a variable of its own, on a parameter server, that other
            processes may update, too. Then updates aren't pipelined.
        stack: whether tables that are trained alike may share variables and ops; see
            `table_groups`.

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
    ) -> None:
        self._spec = spec
        # A strategy mirrors variables; servers hold a variable for each shard of a table.
        self._stacking = stack and training and not on_servers and not tf.distribute.has_strategy()
        self._on_servers = on_servers
        self._training = training
        self._tables, self._features = tables_and_features(spec)
        self._parameters = {
            key: table_optimizer(spec, table) for key, table in self._tables.items()
        }
        if training:
            missing = sorted(key for key, found in self._parameters.items() if found is None)
            if missing:
                raise ValueError(
                    f"Tables {missing} have no optimizer. Give the spec (or their TableConfig) "
                    "optimization_parameters."
                )
        self._partitions = {
            key: RowPartition(spec.partition_strategy, table.vocabulary_size, num_shards)
            for key, table in self._tables.items()
        }
        # By feature, in order of the replicas.
        self._enqueued: dict[str, list[enqueue.Enqueued]] = {key: [] for key in self._features}
        # The combined rows of each activation, by table.
        self._combined: dict[str, list[tuple[enqueue.Enqueued, Any]]] = {}
        tables = {key: feature.table_id for key, feature in self._features.items()}
        share = self._stacking and len(self._tables) >= MIN_SHARING_TABLES
        self._gradients = ActivationGradients(tables, share) if training else None
        self._gathered: dict[str, GatheredRows] = {}
        self._names: dict[str, str] = {}
        self._sharded: dict[str, storage.ShardedTable] = {}  # by positions in the shards
        self._users: dict[str, list[str]] = {key: [] for key in self._tables}
        for name, feature in self._features.items():
            self._users[feature.table_id].append(name)
        self._stacks: dict[str, StackedTable] = {}  # by the key of the first table
        self._native = native_tables.NativeTables()
        # Their variables and features by the key of the first table.
        self._looked_up: dict[str, tuple[Any, list[enqueue.Enqueued]]] = {}
        self._step: Any = None
        self._num_replicas = 0

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
            enqueued = enqueue.take(key, feature, table, found, rules[key])
            self._enqueued[key].append(enqueued)
            batch, length = enqueued.shape[0], enqueued.max_sequence_length
            shape = [batch, length, table.dimension] if length else [batch, table.dimension]
            # The name of the table's variable depends on the layer that uses the column, so
            # `attach` creates the lookup later and replaces this placeholder by its result.
            placeholder = tf1.placeholder(tf.float32, shape, f"{op_name(key)}_placeholder")
            with tf.control_dependencies([self._step]):
                activation = tf.identity(placeholder, name=f"{op_name(key)}_activation")
            enqueued.replica, enqueued.activation = len(self._enqueued[key]) - 1, activation
            enqueued.layout = self._partitions[feature.table_id]
            found[key] = activation
            if length:
                ids = lookup.truncate_steps(enqueued.ids, length)
                lengths = lookup.sequence_lengths(ids)
                lengths.set_shape([batch])
                found[categorical.sequence_length_key(key)] = lengths
        return found

    def receive(self, features: dict[str, Any], replica: int = 0) -> dict[str, Any]:
        """Returns a replica's features; in training, the gradients of activations are captured.

        Args:
            features: the result of `look_up` for the replica.
            replica: number of the replica, which is the current one.
        """
        if self._gradients is None:
            return features
        return features | self._gradients.connect(
            {key: features[key] for key in self._features}, replica
        )

    def attach(self) -> None:
        """Creates the tables and their lookups, and replaces the placeholders of the activations.

        In training, tables with native ops are looked up later, in `update`, because the lookup
        needs the finished model.

        Raises:
            RuntimeError: a column of the spec is in no feature layer of the model.
        """
        self._names = names = variable_names(self._spec, self._tables)
        stacks = {keys[0]: keys for keys in self._choose_stacks()}
        stacked = {key for keys in stacks.values() for key in keys}
        for key, table in sorted(self._tables.items()):
            storage.record_layout(names[key], self._partitions[key])
            if key in stacked and key not in stacks:
                continue
            with devices.on_host():
                if key in stacks:
                    variable = self._create_stack(stacks[key])
                else:
                    shape = (table.vocabulary_size, table.dimension)
                    variable = self._create_table(key, names[key], shape)
            found = self._engine(key)
            if found.is_native:
                self._looked_up[key] = variable, self._uses(stacks.get(key, [key]))
            else:
                found.log("look up and update", names[key])
                with devices.on_host():
                    self._gathered[key] = self._look_up_table(key, variable)
        if not self._training:
            for variable, uses in self._looked_up.values():
                self._native.add(variable, uses)
            with devices.on_host():
                self._native.look_up(self._step)

    def variable_names(self) -> dict[str, str]:
        """Returns the full name of each table's variable, by table key."""
        return {key: self._names[key] for key in self._tables if key in self._names}

    def update(self) -> Any:
        """Returns the op that trains all tables once.

        With pipelining it delays this step's update to the next step.
        """
        assert self._gradients is not None  # only called in training
        self._gradients.finish(self._step)
        with devices.on_host():
            return self._update_tables()

    def _update_tables(self) -> Any:
        gradients = self._row_gradients()
        global_step = self._step
        multiplier = self._spec.experimental_gradient_multiplier_fn
        factor = None if multiplier is None else tf.cast(multiplier(global_step), tf.float32)
        rates: dict[Any, Any] = {}
        ops = self._update_native(factor, rates)
        for key, gradient in gradients.items():
            if factor is not None:
                gradient *= factor
            rate = self._learning_rate(key, global_step, rates)
            update = TableUpdate(self._gathered[key], gradient, rate, global_step)
            with tf.name_scope(f"update_{op_name(key)}") as scope:
                # An id out of range may raise here first.
                self._record_site(scope, key)
                if key in self._sharded:
                    optimizer = self._optimizer(key)
                    ops.append(host_updates.apply_on_shards(update, self._sharded[key], optimizer))
                else:
                    ops.append(self._apply_or_delay(key, update))
        return tf.group(*ops, name="update_embeddings")

    def _update_native(self, factor: Any, rates: dict[Any, Any]) -> list[Any]:
        """Connects the tables of native ops to the finished model; returns the ops of updates."""
        if not self._looked_up:
            return []
        for key, (variable, uses) in self._looked_up.items():
            parameters = self._optimizer(key)
            if key in self._stacks:
                slots = self._stacks[key].slots
            else:
                slots = host_updates.slot_variables(variable, parameters)
            ordered = [slots[name] for name in optimizers.slot_initial_values(parameters)]
            rate = self._learning_rate(key, self._step, rates)
            trained = update_rules.trained_table(variable, ordered, parameters, rate)
            self._native.add(variable, uses, trained)
        self._native.look_up(self._step)
        assert self._gradients is not None
        captured = self._gradients.captured
        if not self._spec.pipeline_execution_with_tensor_core:
            return self._native.update(captured, factor, self._step)
        return [self._native.delay_update(captured, factor, self._step)]

    def _engine(self, key: str) -> engine.EngineChoice:
        """Returns what looks up, and in training updates, a table."""
        rule = update_rules.native_rule(self._optimizer(key)) if self._training else None
        return engine.of_tables(
            engine.of_graph(),
            have_rules=rule is not None or not self._training,
            on_servers=self._on_servers,
            in_turns=not self._sums_gradients(key),
        )

    def _row_gradients(self) -> dict[str, Any]:
        """Returns the gradient of each table's `trained_rows` from those of the activations."""
        assert self._gradients is not None  # only called in training
        keys = sorted(self._gathered)
        rows = [self._gathered[key].trained_rows for key in keys]
        captured = [
            (value, self._gradients.captured(use.key, use.replica))
            for key in keys
            for use, value in self._combined[key]
        ]
        used = [(value, gradient) for value, gradient in captured if gradient is not None]
        gradients = [None] * len(rows)
        if used:
            values, upstream = zip(*used, strict=True)
            gradients = tf1.gradients(list(values), rows, list(upstream), "embedding_gradients")
        return {
            # A table that the model doesn't use gets zeros, so that its rows are updated.
            key: tf.zeros_like(source) if gradient is None else tf.convert_to_tensor(gradient)
            for key, source, gradient in zip(keys, rows, gradients, strict=True)
        }

    def _create_table(self, key: str, name: str, shape: tuple[int, int]) -> Any:
        """Creates the variable of a table, on servers one for each shard."""
        table = self._tables[key]
        if not self._on_servers:
            return create_variable(name, shape, self._initializer(key, table))
        count = min(self._partitions[key].num_shards, shape[0])
        layout = RowPartition(self._spec.partition_strategy, shape[0], count)
        variable = create_variable(name, shape, table.initializer, layout=layout)
        shards = tuple(variable)
        layout = RowPartition("div", shape[0], len(shards))
        self._sharded[key] = storage.ShardedTable(shards, layout)
        return variable

    def _initializer(self, key: str, table: TableConfig) -> Any:
        """Returns a table's initializer with the rows permuted to the layout's order."""
        partition = self._partitions[key]
        if partition.in_row_order:
            return table.initializer
        order = partition.inverse_permutation()

        def initializer(shape: Any, dtype: Any = tf.float32, **kwargs: Any) -> Any:
            return tf.gather(table.initializer(shape, dtype=dtype, **kwargs), order)

        return initializer

    def _positions(self, key: str, ids: Any) -> Any:
        """Returns the positions of rows in the concatenated shards, as ops."""
        partition = self._partitions[key]
        if partition.in_row_order:
            return ids
        starts = tf.constant(partition.shard_starts, ids.dtype)
        shard, local = ids % partition.num_shards, ids // partition.num_shards
        position = tf.gather(starts, shard) + local
        # An id out of range must not become another row's position; unchanged, the gather fails.
        in_range = (ids >= 0) & (ids < partition.num_rows)
        return tf.where(in_range, position, ids)

    def _record_site(self, scope: str, key: str) -> None:
        users = ", ".join(self._users[key])
        lookup_errors.record_site(scope, users, users, self._tables[key].vocabulary_size)

    def _choose_stacks(self) -> list[list[str]]:
        """Returns the keys of the tables of each stack."""
        if not self._stacking:
            return []
        native = [key for key in sorted(self._tables) if self._engine(key).is_native]
        return table_groups.stacks([self._candidate(key) for key in native])

    def _candidate(self, key: str) -> table_groups.Candidate:
        """Returns what decides whether a table is stacked."""
        table, partition = self._tables[key], self._partitions[key]
        rate = table_learning_rate(self._spec, table)
        shards = 1 if partition.in_row_order else partition.num_shards
        rate_kind = id(rate) if callable(rate) else rate
        kind: Hashable = (self._optimizer(key), rate_kind, shards)
        return table_groups.Candidate(key, kind, table.dimension, table.vocabulary_size)

    def _create_stack(self, keys: list[str]) -> Any:
        """Creates the variables of a stack; returns that of the rows."""
        members = [
            stacked_tables.Member(
                self._names[key],
                self._partitions[key],
                self._initializer(key, self._tables[key]),
            )
            for key in keys
        ]
        first = keys[0]
        width, parameters = self._tables[first].dimension, self._optimizer(first)
        stack = self._stacks[first] = StackedTable(members, width, parameters)
        for key, first_row in zip(keys, stack.offsets, strict=True):
            for use in self._uses([key]):
                use.first_row = first_row
        return stack.variable

    def _uses(self, keys: list[str]) -> list[enqueue.Enqueued]:
        """Returns the ids of the features of tables: by feature, then by replica."""
        users = [feature for key in keys for feature in self._users[key]]
        return [enqueued for feature in users for enqueued in self._enqueued[feature]]

    def _look_up_table(self, key: str, variable: Any) -> GatheredRows:
        """Gathers a table's rows once for all its features; connects their activations."""
        with tf.name_scope(f"look_up_{op_name(key)}") as scope:
            self._record_site(scope, key)
            # By feature, then by replica: the order of one large batch.
            uses = self._uses([key])
            batches = [entries.from_sparse(*use.rows, use.combiner) for use in uses]
            values = [tf.cast(batch.ids, tf.int64) for batch in batches]
            sizes = [tf.size(value) for value in values]
            all_ids = values[0] if len(values) == 1 else tf.concat(values, 0)
            ids, index = combining.rows_to_read(self._positions(key, all_ids), self._training)
            if key in self._sharded:
                rows = self._sharded[key].gather(ids)
            else:
                rows = tf.nn.embedding_lookup(variable, ids)
            gathered = GatheredRows(variable, ids, rows)
            if not self._sums_gradients(key):
                replicas = [use.replica for use in uses]
                gathered, index = host_updates.separate_replicas(
                    gathered, index, all_ids, zip(replicas, sizes, strict=True), self._num_replicas
                )
            source = gathered.trained_rows
            size = tf.size(ids if gathered.turns is None else gathered.turns, out_type=tf.int64)
            indices = [index] if len(batches) == 1 else tf.split(index, sizes)
            self._combined[key] = []
            for use, batch, own in zip(uses, batches, indices, strict=True):
                value = combining.combine(source, own, batch, size)
                if use.max_sequence_length:
                    value = tf.reshape(value, [-1, *use.activation.shape.as_list()[1:]])
                graph_surgery.replace_input(use.activation.op, value)
                self._combined[key].append((use, value))
            return gathered

    def _optimizer(self, key: str) -> optimizers.OptimizationParameters:
        parameters = self._parameters[key]
        assert parameters is not None  # checked by __init__
        return parameters

    def _sums_gradients(self, key: str) -> bool:
        """Returns whether a table's gradients are summed over all replicas."""
        if not self._training or self._num_replicas == 1:
            return True
        return self._optimizer(key).use_gradient_accumulation

    def _learning_rate(self, key: str, global_step: Any, known: dict[Any, Any]) -> Any:
        rate = table_learning_rate(self._spec, self._tables[key])
        if not callable(rate):
            return tf.constant(rate, tf.float32)
        if rate not in known:
            known[rate] = tf.cast(rate(global_step), tf.float32)
        return known[rate]

    def _apply_or_delay(self, key: str, update: TableUpdate) -> Any:
        """Returns the op that trains a table once; with pipelining, after the next lookup."""
        variable, parameters = update.gathered.variable, self._optimizer(key)
        slots = host_updates.slot_variables(variable, parameters)
        if not self._spec.pipeline_execution_with_tensor_core:
            return host_updates.apply(update, slots, parameters, self._num_replicas)

        def apply(ids: Any, gradient: Any, rate: Any, step: Any, *turns: Any) -> list[Any]:
            gathered = GatheredRows(variable, ids, tf.nn.embedding_lookup(variable, ids), *turns)
            held = TableUpdate(gathered, gradient, rate, step)
            return [host_updates.apply(held, slots, parameters, self._num_replicas)]

        gathered = update.gathered
        pending = [gathered.ids, update.gradient, update.learning_rate]
        pending.append(tf.convert_to_tensor(update.global_step))
        if gathered.turns is not None:
            pending += [gathered.index, gathered.turns]
        looked_up = [gathered.rows for gathered in self._gathered.values()]
        return delayed_updates.delay(pending, apply, looked_up)
