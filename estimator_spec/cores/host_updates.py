# SPDX-License-Identifier: Apache-2.0
"""Updates a table on the host's embedding core from its gradient."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from estimator_spec.cores import update_rules
from estimator_spec.cores.table_variables import create_variable
from estimator_spec.embedding import optimizers

tf1 = tf.compat.v1


@dataclasses.dataclass
class GatheredRows:
    """The rows of one table in one step.

    Attributes:
        variable: the table, [V, D].
        ids: unique positions of the step's rows in the table, [U].
        rows: those rows, [U, D].
        index: index in `ids` of each occurrence of an id, [N].
        occurrences: row of each occurrence, [N, D]; None where gradients are summed by row.
    """

    variable: Any
    ids: Any
    rows: Any
    index: Any
    occurrences: Any


@dataclasses.dataclass
class TableUpdate:
    """Inputs of one table's update in one step.

    Attributes:
        gathered: the table's rows.
        gradient: gradient of the rows, [U, D], or of the occurrences, [N, D].
        learning_rate: scalar.
        global_step: scalar.
        is_due: bool, scalar. False: no-op step. None: always apply.
    """

    gathered: GatheredRows
    gradient: Any
    learning_rate: Any
    global_step: Any
    is_due: Any = None


def apply(update: TableUpdate, parameters: optimizers.OptimizationParameters) -> Any:
    """Returns the op that trains one table once.

    Args:
        update: rows, gradient and learning rate of the step.
        parameters: the table's optimizer.
    """
    gathered = update.gathered
    slots = _slot_variables(gathered.variable, parameters)
    if not parameters.use_gradient_accumulation:
        return _update_per_occurrence(update, slots, parameters)
    if update_rules.updates_all_rows(parameters):
        return _update_all_rows(update, slots, parameters)
    # After the gradient, so that the rows of slots are still in a cache when they are written.
    with tf.control_dependencies([update.gradient]):
        slot_rows = _gather_slots(slots, gathered.ids)
    rows, new_slot_rows = update_rules.apply(
        parameters,
        gathered.rows,
        slot_rows,
        update.gradient,
        update.learning_rate,
        update.global_step,
    )
    rows = update_rules.decay(parameters, rows, gathered.rows, update.learning_rate)
    rows = update_rules.clip_weights(parameters, rows)
    # A new value may not depend on all old ones, but must be written after they are read.
    with tf.control_dependencies([gathered.rows, *slot_rows.values()]):
        return _scatter(gathered.variable, slots, gathered.ids, rows, new_slot_rows)


def _slot_variables(variable: Any, parameters: optimizers.OptimizationParameters) -> dict[str, Any]:
    values = optimizers.slot_initial_values(parameters)
    return {
        slot: create_variable(name, variable.shape, tf1.constant_initializer(values[slot]))
        for slot, name in optimizers.slot_names(parameters, variable.op.name).items()
    }


def _gather_slots(slots: dict[str, Any], ids: Any) -> dict[str, Any]:
    return {name: tf.nn.embedding_lookup(slot, ids) for name, slot in slots.items()}


def _scatter(variable: Any, slots: dict[str, Any], ids: Any, rows: Any, slot_rows: Any) -> Any:
    writes = [variable.scatter_update(tf.IndexedSlices(rows, ids)).op]
    for name, slot in slots.items():
        writes.append(slot.scatter_update(tf.IndexedSlices(slot_rows[name], ids)).op)
    return tf.group(*writes)


def _update_all_rows(
    update: TableUpdate, slots: dict[str, Any], parameters: optimizers.OptimizationParameters
) -> Any:
    """Updates the whole table: in non-lazy Adam, m changes rows that weren't looked up."""
    gathered = update.gathered
    shape = gathered.variable.shape
    row_indices = gathered.ids[:, tf.newaxis]
    dense = tf.scatter_nd(row_indices, update.gradient, tf.constant(shape.as_list(), tf.int64))
    looked_up = tf.scatter_nd(row_indices, gathered.rows, tf.constant(shape.as_list(), tf.int64))
    table = gathered.variable.read_value()
    values = {name: slot.read_value() for name, slot in slots.items()}
    rows, new_values = update_rules.apply(
        parameters, table, values, dense, update.learning_rate, update.global_step
    )
    rows = update_rules.decay(parameters, rows, looked_up, update.learning_rate)
    rows = update_rules.clip_weights(parameters, rows)
    if update.is_due is not None:
        rows = tf.where(update.is_due, rows, table)
        new_values = {
            name: tf.where(update.is_due, new_values[name], values[name]) for name in slots
        }
    with tf.control_dependencies([gathered.rows, table, *values.values()]):
        writes = [gathered.variable.assign(rows, read_value=False)]
        writes += [slots[name].assign(new_values[name], read_value=False) for name in slots]
    return tf.group(*writes)


def _update_per_occurrence(
    update: TableUpdate, slots: dict[str, Any], parameters: optimizers.OptimizationParameters
) -> Any:
    """Updates without gradient accumulation: round k applies the k-th occurrence of every id."""
    gathered, variable = update.gathered, update.gathered.variable
    order = tf.argsort(gathered.index, stable=True)  # occurrences of an id become adjacent
    sorted_index = tf.gather(gathered.index, order)
    count = tf.size(order)
    first = tf.math.unsorted_segment_min(tf.range(count), sorted_index, tf.size(gathered.ids))
    nth = tf.range(count) - tf.gather(first, sorted_index)
    rounds = tf.reduce_max(tf.concat([nth, [-1]], 0)) + 1

    def one_round(number: Any) -> Any:
        chosen = tf.gather(order, tf.where(tf.equal(nth, number))[:, 0])
        row_indices = tf.gather(gathered.index, chosen)
        ids = tf.gather(gathered.ids, row_indices)
        rows = tf.nn.embedding_lookup(variable, ids)
        slot_rows = _gather_slots(slots, ids)
        rows, new_slot_rows = update_rules.apply(
            parameters,
            rows,
            slot_rows,
            tf.gather(update.gradient, chosen),
            update.learning_rate,
            update.global_step,
        )
        rows = update_rules.clip_weights(parameters, rows)
        with tf.control_dependencies(list(slot_rows.values())):
            written = _scatter(variable, slots, ids, rows, new_slot_rows)
        with tf.control_dependencies([written]):
            return number + 1

    done = tf.while_loop(
        lambda number: number < rounds, one_round, [tf.constant(0)], parallel_iterations=1
    )
    if not parameters.weight_decay_factor:
        return tf.group(done)
    # Decay each row once per step, even if its id is repeated.
    with tf.control_dependencies([*done, gathered.rows]):
        rows = tf.nn.embedding_lookup(variable, gathered.ids)
        rows = update_rules.decay(parameters, rows, gathered.rows, update.learning_rate)
        return _scatter(variable, {}, gathered.ids, update_rules.clip_weights(parameters, rows), {})
