# SPDX-License-Identifier: Apache-2.0
"""Updates a table on the host's embedding core from its gradient."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from estimator_spec.core.cores import update_rules
from estimator_spec.core.cores.table_variables import create_variable
from estimator_spec.core.embedding import optimizers
from estimator_spec.core.updates import native_ops
from tpu_columns import combining, engine
from tpu_columns.partition import RowPartition
from tpu_columns.storage import ShardedTable


@dataclasses.dataclass
class GatheredRows:
    """The rows of one table in one step.

    Without gradient accumulation every replica applies its own gradient of a row, one replica per
    turn, starting with turn 0. Otherwise `index` and `turns` are None.

    Attributes:
        variable: the table, [V, D].
        ids: unique positions of the step's rows in the table, int64 [U].
        rows: those rows, [U, D].
        index: index in `ids` of each pair of a row and a replica that looks it up, int64 [P].
        turns: turn of each pair, int64 [P].
        trained_rows: the rows of the gradient: `rows`, or a row for each pair, [P, D].
    """

    variable: Any
    ids: Any
    rows: Any
    index: Any = None
    turns: Any = None
    trained_rows: Any = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        pairs = self.turns is not None
        self.trained_rows = tf.gather(self.rows, self.index) if pairs else self.rows


@dataclasses.dataclass
class TableUpdate:
    """Inputs of one table's update in one step.

    Attributes:
        gathered: the table's rows.
        gradient: gradient of the rows that are trained, [U, D] or [P, D].
        learning_rate: scalar.
        global_step: scalar.
    """

    gathered: GatheredRows
    gradient: Any
    learning_rate: Any
    global_step: Any


def separate_replicas(
    gathered: GatheredRows,
    index: Any,
    ids: Any,
    parts: Iterable[tuple[int, Any]],
    num_replicas: int,
) -> tuple[GatheredRows, Any]:
    """Separates the occurrences of a row by replica, for updates without gradient accumulation.

    The first to apply its gradient is the replica on which the row resides, the row's id modulo the
    number of replicas. The others follow in cyclic order, which is an inference for more than two.

    Args:
        gathered: the rows of a step.
        index: index in `gathered.ids` of each occurrence of an id, int64 [N].
        ids: id of each occurrence, int64 [N].
        parts: number of the replica, and of its occurrences, of each part of `ids`.
        num_replicas: number of replicas.

    Returns:
        The rows with `index` and `turns`, and the pair of each occurrence, int64 [N].
    """
    numbers = [tf.fill([size], tf.constant(replica, tf.int64)) for replica, size in parts]
    turns = (tf.concat(numbers, 0) - ids) % num_replicas
    pairs, pair_of_occurrence = combining.rows_to_read(index * num_replicas + turns, unique=True)
    index, turns = pairs // num_replicas, pairs % num_replicas
    separated = dataclasses.replace(gathered, index=index, turns=turns)
    return separated, pair_of_occurrence


def apply(
    update: TableUpdate,
    slots: dict[str, Any],
    parameters: optimizers.OptimizationParameters,
    num_replicas: int = 1,
) -> Any:
    """Trains one table once, in a graph or eagerly; returns the op in a graph.

    Args:
        update: rows, gradient and learning rate of the step.
        slots: the table's slot variables, by the optimizer's slot names.
        parameters: the table's optimizer.
        num_replicas: number of replicas.
    """
    gathered = update.gathered
    if gathered.turns is not None:
        return _update_in_turns(update, slots, parameters, num_replicas)
    return _update_once(update, slots, parameters)


def apply_on_shards(
    update: TableUpdate, table: ShardedTable, parameters: optimizers.OptimizationParameters
) -> Any:
    """Returns the op that trains one table once, each shard on the device that has it.

    The rows are read again, because other processes may have updated them since the lookup. Native
    ops read them where they are.

    Args:
        update: unique positions, gradient and learning rate of the step.
        table: the table, by positions.
        parameters: the table's optimizer.
    """
    gathered = update.gathered
    slots = slot_variables(gathered.variable, parameters, len(table.shards))
    rule = update_rules.native_rule(parameters)
    native = engine.of_tables(engine.of_graph(), have_rules=rule is not None).is_native
    ops = []
    for number, (ids, gradient) in enumerate(table.split(gathered.ids, update.gradient)):
        shard = table.shards[number]
        own = {name: list(slot)[number] for name, slot in slots.items()}
        with tf.compat.v1.device(shard.device):
            rows = None if native else tf.nn.embedding_lookup(shard, ids)
            part = dataclasses.replace(
                update, gathered=GatheredRows(shard, ids, rows), gradient=gradient
            )
            change = _update_natively if native else _update_once
            ops.append(change(part, own, parameters))
    return tf.group(*ops)


def _update_natively(
    update: TableUpdate, slots: dict[str, Any], parameters: optimizers.OptimizationParameters
) -> Any:
    """Returns the native op that updates the rows of a step once, where they are."""
    rule, gathered = update_rules.native_rule(parameters), update.gathered
    assert rule is not None
    name, constants = rule.name, [update.learning_rate, *map(tf.constant, rule.constants)]
    if name == "frequency_estimator":
        name += "_at_step"
        constants.append(tf.cast(update.global_step, tf.float32))
    handles = [slot.handle for slot in slots.values()]
    return native_ops.update_rows(
        *(name, gathered.variable.handle, handles, constants, gathered.ids, update.gradient),
        *(rule.limits, rule.decay_has_rate),
    )


def _update_once(
    update: TableUpdate, slots: dict[str, Any], parameters: optimizers.OptimizationParameters
) -> Any:
    """Updates the rows of a step once; all rows if the optimizer moves those, too."""
    gathered, gradient = update.gathered, update.gradient
    variable, ids = gathered.variable, gathered.ids
    rows = looked_up = gathered.rows
    all_rows = update_rules.updates_all_rows(parameters)
    if all_rows:
        shape, places = tf.constant(variable.shape.as_list(), ids.dtype), ids[:, tf.newaxis]
        gradient = tf.scatter_nd(places, gradient, shape)
        looked_up = tf.scatter_nd(places, rows, shape)
        rows = variable.read_value()
        values = {name: slot.read_value() for name, slot in slots.items()}
    else:
        # After the gradient, so that the rows of slots are still in a cache when they are written.
        with tf.control_dependencies([gradient]):
            values = {name: tf.nn.embedding_lookup(slot, ids) for name, slot in slots.items()}
    new, new_values = update_rules.apply(
        parameters, rows, values, gradient, update.learning_rate, update.global_step
    )
    new = update_rules.decay(parameters, new, looked_up, update.learning_rate)
    new = update_rules.clip_weights(parameters, new)
    # A new value may not depend on all old ones, but must be written after they are read.
    with tf.control_dependencies([gathered.rows, rows, *values.values()]):
        changes = [(variable, new), *((slots[name], new_values[name]) for name in slots)]
        writes = [
            changed.assign(value, read_value=False)
            if all_rows
            else changed.scatter_update(tf.IndexedSlices(value, ids))
            for changed, value in changes
        ]
    if tf.executing_eagerly():
        return None
    return tf.group(*(getattr(write, "op", write) for write in writes))


def _update_in_turns(
    update: TableUpdate,
    slots: dict[str, Any],
    parameters: optimizers.OptimizationParameters,
    num_replicas: int,
) -> Any:
    """Applies the gradients of the replicas one after the other; see `separate_replicas`."""
    gathered = update.gathered
    done = [gathered.trained_rows]
    for turn in range(num_replicas):
        with tf.control_dependencies(done):
            chosen = tf.where(tf.equal(gathered.turns, turn))[:, 0]
            ids = tf.gather(gathered.ids, tf.gather(gathered.index, chosen))
            rows = tf.nn.embedding_lookup(gathered.variable, ids)
            part = dataclasses.replace(
                update,
                gathered=GatheredRows(gathered.variable, ids, rows),
                gradient=tf.gather(update.gradient, chosen),
            )
            done = [_update_once(part, slots, parameters)]
    return done[0]


def slot_variables(
    variable: Any, parameters: optimizers.OptimizationParameters, num_shards: int = 0
) -> dict[str, Any]:
    """Returns the slot variables of a table by slot; in shards unless `num_shards` is 0."""
    values = optimizers.slot_initial_values(parameters)
    layout = RowPartition("div", int(variable.shape[0]), num_shards) if num_shards else None
    table = variable.name.split(":")[0]
    return {
        slot: create_variable(
            name, variable.shape, tf.compat.v1.constant_initializer(values[slot]), layout=layout
        )
        for slot, name in optimizers.slot_names(parameters, table).items()
    }
