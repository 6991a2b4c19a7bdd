# SPDX-License-Identifier: Apache-2.0
"""Embedding core on the host: a TPU's semantics on any machine.

One step of training, for each table:

    ids of all its features ─▶ unique ─▶ gather rows ─▶ combine ─▶ activations ─▶ model ─▶ loss
                                 │           │                                           │
                                 │           └────────────▶ update rule ◀── gradients ◀──┘
                                 └────────────────▶ scatter rows and slots

Rows are gathered once, so their gradient is the sum over the occurrences of an id. Tables aren't
trainable variables, so the model's optimizers don't update them.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_spec._tensorflow import graph_surgery
from estimator_spec.cores import enqueue, host_updates, update_rules
from estimator_spec.cores.host_updates import GatheredRows, TableUpdate
from estimator_spec.cores.interface import GRADIENT_OPS
from estimator_spec.cores.table_variables import create_variable, variable_names
from estimator_spec.embedding import optimizers
from estimator_spec.embedding.spec import (
    EmbeddingConfigSpec,
    TableConfig,
    table_learning_rate,
    table_optimizer,
    tables_and_features,
)
from tpu_columns import categorical, combining, entries, lookup, lookup_errors, storage
from tpu_columns.partition import RowPartition

tf1 = tf.compat.v1

# A tuple, so that TensorFlow leaves the collection out of exported graphs.
HELD_UPDATES = ("estimator_spec", "held_embedding_updates")


class HostCore:
    """Embedding core that looks up and trains the tables of a spec in a TF1 graph.

    Call `look_up` before the model, `attach` after it, and in training `update` last. With several
    replicas, call `look_up` for the features of each; the tables get one batch of all.

    Args:
        spec: tables, features and optimizers.
        training: whether tables are trained and have slot variables.
        num_shards: number of shards of each table, laid out by `spec.partition_strategy`. A
            checkpoint holds the concatenated shards.

    Raises:
        ValueError: a table has no optimizer, or `tables_and_features` raises it.
        TypeError: `tables_and_features` raises it.
    """

    def __init__(self, spec: EmbeddingConfigSpec, training: bool, num_shards: int = 1) -> None:
        self._spec = spec
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
        self._activations: dict[str, list[Any]] = {key: [] for key in self._features}
        self._gathered: dict[str, GatheredRows] = {}
        self._step: Any = None

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
        self._step = tf.identity(global_step, name="step_of_embeddings")
        for key, feature in self._features.items():
            table = self._tables[feature.table_id]
            enqueued = enqueue.take(key, feature, table, found)
            self._enqueued[key].append(enqueued)
            batch, length = enqueued.ids.shape[0], enqueued.max_sequence_length
            shape = [batch, length, table.dimension] if length else [batch, table.dimension]
            # The name of the table's variable depends on the layer that uses the column, so
            # `attach` creates the lookup later and replaces this stand-in by its result.
            stand_in = tf1.placeholder(tf.float32, shape, f"{_op_name(key)}_stand_in")
            with tf.control_dependencies([self._step]):
                activation = tf.identity(stand_in, name=f"{_op_name(key)}_activation")
            self._activations[key].append(activation)
            found[key] = activation
            if length:
                ids = _truncate(enqueued.ids, length)
                lengths = lookup.sequence_lengths(ids)
                lengths.set_shape([batch])
                found[categorical.sequence_length_key(key)] = lengths
        return found

    def attach(self) -> None:
        """Creates the tables and their lookups, and replaces the model's stand-ins.

        Raises:
            RuntimeError: a column of the spec is in no feature layer of the model.
        """
        names = variable_names(self._spec, self._tables)
        for key, table in sorted(self._tables.items()):
            users = [f for f, feature in self._features.items() if feature.table_id == key]
            shape = (table.vocabulary_size, table.dimension)
            variable = create_variable(names[key], shape, self._initializer(key, table))
            storage.record_layout(names[key], self._partitions[key])
            self._gathered[key] = self._look_up_table(key, variable, users)

    def variable_names(self) -> dict[str, str]:
        """Returns the full name of each table's variable, by table key."""
        return {key: gathered.variable.op.name for key, gathered in self._gathered.items()}

    def update(self, loss: Any) -> Any:
        """Returns the op that trains all tables once.

        With pipelining it delays this step's update to the next step, and adds an op that applies
        the delayed update to the graph collection `HELD_UPDATES`.

        Args:
            loss: scalar; the model's loss.
        """
        global_step = self._step
        multiplier = self._spec.experimental_gradient_multiplier_fn
        factor = None if multiplier is None else tf.cast(multiplier(global_step), tf.float32)
        keys = sorted(self._gathered)
        sources = [_differentiable(self._gathered[key]) for key in keys]
        graph = tf1.get_default_graph()
        before = len(graph.get_operations())
        gradients = tf1.gradients(loss, sources, name="embedding_gradients")
        graph.get_collection_ref(GRADIENT_OPS).extend(graph.get_operations()[before:])
        rates: dict[Any, Any] = {}
        ops = []
        for key, source, gradient in zip(keys, sources, gradients, strict=True):
            if gradient is None:  # the model doesn't use the table, but its rows are updated
                gradient = tf.zeros_like(source)
            if isinstance(gradient, tf.IndexedSlices):
                gradient = tf.convert_to_tensor(gradient)
            if factor is not None:
                gradient *= factor
            rate = self._learning_rate(key, global_step, rates)
            update = TableUpdate(self._gathered[key], gradient, rate, global_step)
            with tf.name_scope(f"update_{_op_name(key)}") as scope:
                # An id out of range may raise here first.
                self._record_site(scope, key)
                if self._spec.pipeline_execution_with_tensor_core:
                    ops.append(self._delay_update(key, update))
                else:
                    ops.append(host_updates.apply(update, self._optimizer(key)))
        return tf.group(*ops, name="update_embeddings")

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
        users = ", ".join(f for f, feature in self._features.items() if feature.table_id == key)
        lookup_errors.record_site(scope, users, users, self._tables[key].vocabulary_size)

    def _look_up_table(self, key: str, variable: Any, users: list[str]) -> GatheredRows:
        """Gathers a table's rows once for all its features; connects their activations."""
        with tf.name_scope(f"look_up_{_op_name(key)}") as scope:
            self._record_site(scope, key)
            # By feature, then by replica: the order of one large batch.
            uses = [
                (enqueued, activation)
                for feature in users
                for enqueued, activation in zip(
                    self._enqueued[feature], self._activations[feature], strict=True
                )
            ]
            sums = self._sums_gradients(key)
            batches = [self._entries(key, enqueued) for enqueued, _ in uses]
            values = [tf.cast(batch.ids, tf.int64) for batch in batches]
            all_ids = values[0] if len(values) == 1 else tf.concat(values, 0)
            ids, index = combining.rows_to_read(self._positions(key, all_ids), self._training)
            rows = tf.nn.embedding_lookup(variable, ids)
            if not self._training and len(batches) == 1 and sums:
                combining.record_sum(rows, ids, batches[0], variable)
            occurrences = None
            if not sums:
                occurrences = tf.gather(rows, index)
            indices = (
                [index] if len(batches) == 1 else tf.split(index, [tf.size(v) for v in values])
            )
            start, size = tf.constant(0, tf.int64), tf.size(ids, out_type=tf.int64)
            for use, batch, own in zip(uses, batches, indices, strict=True):
                source, row_indices = rows, own
                if occurrences is not None:
                    count = tf.size(own, out_type=tf.int64)
                    source, row_indices, size = occurrences, tf.range(start, start + count), None
                    start += count
                value = combining.combine(source, row_indices, batch, self._training, size)
                _replace_stand_in(*use, value)
            return GatheredRows(variable, ids, rows, index, occurrences)

    def _entries(self, key: str, enqueued: enqueue.Enqueued) -> combining.Entries:
        """Returns the entries of a feature; each step of a truncated sequence is a row."""
        ids, weights, combiner, length, matrix = enqueued
        if length:
            ids = _steps_as_rows(ids, length)
            weights = None if weights is None else _steps_as_rows(weights, length)
        elif matrix is not None and matrix.shape.as_list()[1] and self._sums_gradients(key):
            may_update_row_0 = update_rules.keeps_rows_of_gradient_zero(self._parameters[key])
            return entries.from_padded(matrix, combiner, self._training, may_update_row_0)
        return entries.from_sparse(ids, weights, combiner)

    def _optimizer(self, key: str) -> optimizers.OptimizationParameters:
        parameters = self._parameters[key]
        assert parameters is not None  # checked by __init__
        return parameters

    def _sums_gradients(self, key: str) -> bool:
        parameters = self._parameters[key]
        return parameters is None or parameters.use_gradient_accumulation

    def _learning_rate(self, key: str, global_step: Any, known: dict[Any, Any]) -> Any:
        rate = table_learning_rate(self._spec, self._tables[key])
        if not callable(rate):
            return tf.constant(rate, tf.float32)
        if rate not in known:
            known[rate] = tf.cast(rate(global_step), tf.float32)
        return known[rate]

    def _delay_update(self, key: str, update: TableUpdate) -> Any:
        """Delays this step's update, and applies the previous step's after all lookups."""
        pending = [
            update.gathered.ids,
            update.gathered.index,
            update.gradient,
            update.learning_rate,
            tf.convert_to_tensor(update.global_step),
        ]
        # A queue, not variables: Grappler infers a variable's shape from the value that the step
        # assigns to it, and folds the Size of the old value to that of the new one. Outside of a
        # loop, so that it keeps its element between steps.
        with tf.init_scope():
            held = tf.queue.FIFOQueue(1, [value.dtype for value in pending], name="held_update")
            emptied = self._apply_held(key, held, _empty_like(pending), [])
            tf1.add_to_collection(HELD_UPDATES, emptied)
        empty = _empty_like(pending)
        looked_up = [gathered.rows for gathered in self._gathered.values()]
        applied = self._apply_held(key, held, empty, looked_up)
        with tf.control_dependencies([applied]):
            return held.enqueue(pending)

    def _apply_held(self, key: str, held: Any, empty: list[Any], after: list[Any]) -> Any:
        """Applies the update of a queue; if that is empty, an update of no rows."""
        variable = self._gathered[key].variable
        with tf.control_dependencies(after):
            is_due = held.size() > 0
            values = tf.cond(is_due, held.dequeue, lambda: empty)
            shapes = [[None], [None], [None, variable.shape[1]], [], []]
            ids, index, gradient, rate, step = map(tf.ensure_shape, values, shapes)
            rows = tf.nn.embedding_lookup(variable, ids)
            gathered = GatheredRows(variable, ids, rows, index, None)
            update = TableUpdate(gathered, gradient, rate, step, is_due)
            return host_updates.apply(update, self._optimizer(key))


def _empty_like(values: list[Any]) -> list[Any]:
    return [tf.zeros([n or 0 for n in value.shape.as_list()], value.dtype) for value in values]


def _op_name(key: str) -> str:
    """Returns a key with the characters that names of ops can't have replaced."""
    return "".join(c if c.isalnum() or c in "_.-" else "_" for c in key)


def _truncate(ids: tf.SparseTensor, length: int) -> tf.SparseTensor:
    shape = ids.dense_shape
    return tf.sparse.slice(ids, [0, 0], tf.stack([shape[0], tf.minimum(shape[1], length)]))


def _steps_as_rows(ids: tf.SparseTensor, length: int) -> tf.SparseTensor:
    """Truncates ids [B, T] to L steps, and reshapes them to [B·L, 1]."""
    ids = _truncate(ids, length)
    flat = ids.indices[:, 0] * length + ids.indices[:, 1]
    shape = tf.stack([ids.dense_shape[0] * length, tf.constant(1, tf.int64)])
    return tf.SparseTensor(tf.stack([flat, tf.zeros_like(flat)], 1), ids.values, shape)


def _replace_stand_in(enqueued: enqueue.Enqueued, activation: Any, value: Any) -> None:
    """Replaces the stand-in of an activation by the result of its lookup."""
    length = enqueued.max_sequence_length
    if length:
        value = tf.reshape(value, [-1, length, activation.shape.as_list()[-1]])
    graph_surgery.replace_input(activation.op, value)


def _differentiable(gathered: GatheredRows) -> Any:
    return gathered.rows if gathered.occurrences is None else gathered.occurrences
