# SPDX-License-Identifier: Apache-2.0
"""The updates of a table on the host's embedding core, once its gradient is known."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from estimator_spec.cores import update_rules
from estimator_spec.embedding import optimizers

tf1 = tf.compat.v1


@dataclasses.dataclass
class Gathered:
    """The rows of one table in one step.

    Attributes:
        variable: the table, [V, D].
        ids: where the step's rows are in the table: unique positions, [U].
        rows: those rows, [U, D].
        index: of each occurrence, its place in `ids`, [N].
        occurrences: rows of each occurrence, [N, D]; None where gradients are summed by `rows`.
    """

    variable: Any
    ids: Any
    rows: Any
    index: Any
    occurrences: Any


@dataclasses.dataclass
class Step:
    """What one step does to one table.

    Attributes:
        gathered: its rows.
        gradient: of the rows, [U, D], or of the occurrences, [N, D].
        learning_rate: scalar.
        global_step: scalar.
        is_due: bool, scalar; False for a step that is none, without rows. None: it is one.
    """

    gathered: Gathered
    gradient: Any
    learning_rate: Any
    global_step: Any
    is_due: Any = None


def update(now: Step, parameters: Any) -> Any:
    """Returns the op that trains one table once.

    Args:
        now: what the step does to the table.
        parameters: of its optimizer.
    """
    gathered = now.gathered
    slots = _slot_variables(gathered.variable, parameters)
    if not parameters.use_gradient_accumulation:
        return _one_after_the_other(now, slots, parameters)
    if update_rules.updates_all_rows(parameters):
        return _all_rows(now, slots, parameters)
    # Not earlier: what was just read is still in a cache when it is written.
    with tf.control_dependencies([now.gradient]):
        slot_rows = _rows_of(slots, gathered.ids)
    rows, new_slot_rows = update_rules.apply(
        parameters, gathered.rows, slot_rows, now.gradient, now.learning_rate, now.global_step
    )
    rows = update_rules.decay(parameters, rows, gathered.rows, now.learning_rate)
    rows = update_rules.clip_weights(parameters, rows)
    # A new value needn't depend on all old ones, and must not overtake their reading.
    with tf.control_dependencies([gathered.rows, *slot_rows.values()]):
        return _scatter(gathered.variable, slots, gathered.ids, rows, new_slot_rows)


def _slot_variables(variable: Any, parameters: Any) -> dict[str, Any]:
    names = optimizers.slot_names(parameters, variable.op.name)
    values = optimizers.slot_initial_values(parameters)
    with tf1.variable_scope(tf1.VariableScope(reuse=tf1.AUTO_REUSE), auxiliary_name_scope=False):
        return {
            slot: tf1.get_variable(
                name,
                shape=variable.shape,
                dtype=tf.float32,
                initializer=tf1.constant_initializer(values[slot]),
                trainable=False,
                use_resource=True,
            )
            for slot, name in names.items()
        }


def _rows_of(slots: dict[str, Any], ids: Any) -> dict[str, Any]:
    return {name: tf.nn.embedding_lookup(slot, ids) for name, slot in slots.items()}


def _scatter(variable: Any, slots: dict[str, Any], ids: Any, rows: Any, slot_rows: Any) -> Any:
    writes = [variable.scatter_update(tf.IndexedSlices(rows, ids)).op]
    for name, slot in slots.items():
        writes.append(slot.scatter_update(tf.IndexedSlices(slot_rows[name], ids)).op)
    return tf.group(*writes)


def _all_rows(now: Step, slots: Any, parameters: Any) -> Any:
    """Adam that isn't lazy: m of a row that wasn't looked up still moves it."""
    gathered = now.gathered
    shape = gathered.variable.shape
    places = gathered.ids[:, tf.newaxis]
    dense = tf.scatter_nd(places, now.gradient, tf.constant(shape.as_list(), tf.int64))
    looked_up = tf.scatter_nd(places, gathered.rows, tf.constant(shape.as_list(), tf.int64))
    table = gathered.variable.read_value()
    values = {name: slot.read_value() for name, slot in slots.items()}
    rows, new_values = update_rules.apply(
        parameters, table, values, dense, now.learning_rate, now.global_step
    )
    rows = update_rules.decay(parameters, rows, looked_up, now.learning_rate)
    rows = update_rules.clip_weights(parameters, rows)
    if now.is_due is not None:
        rows = tf.where(now.is_due, rows, table)
        new_values = {name: tf.where(now.is_due, new_values[name], values[name]) for name in slots}
    with tf.control_dependencies([gathered.rows, table, *values.values()]):
        writes = [gathered.variable.assign(rows, read_value=False)]
        writes += [slots[name].assign(new_values[name], read_value=False) for name in slots]
    return tf.group(*writes)


def _one_after_the_other(now: Step, slots: Any, parameters: Any) -> Any:
    """Without gradient accumulation: round k applies the k-th occurrence of every id."""
    gathered, variable = now.gathered, now.gathered.variable
    order = tf.argsort(gathered.index, stable=True)  # occurrences of an id side by side
    sorted_index = tf.gather(gathered.index, order)
    count = tf.size(order)
    first = tf.math.unsorted_segment_min(tf.range(count), sorted_index, tf.size(gathered.ids))
    nth = tf.range(count) - tf.gather(first, sorted_index)
    rounds = tf.reduce_max(tf.concat([nth, [-1]], 0)) + 1

    def one_round(number: Any) -> Any:
        chosen = tf.gather(order, tf.where(tf.equal(nth, number))[:, 0])
        places = tf.gather(gathered.index, chosen)
        ids = tf.gather(gathered.ids, places)
        rows = tf.nn.embedding_lookup(variable, ids)
        slot_rows = _rows_of(slots, ids)
        rows, new_slot_rows = update_rules.apply(
            parameters,
            rows,
            slot_rows,
            tf.gather(now.gradient, chosen),
            now.learning_rate,
            now.global_step,
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
    # Once a step, however often a row occurs in it.
    with tf.control_dependencies([*done, gathered.rows]):
        rows = tf.nn.embedding_lookup(variable, gathered.ids)
        rows = update_rules.decay(parameters, rows, gathered.rows, now.learning_rate)
        return _scatter(variable, {}, gathered.ids, update_rules.clip_weights(parameters, rows), {})
