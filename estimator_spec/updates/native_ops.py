# SPDX-License-Identifier: Apache-2.0
"""Replaces lookups and updates of float32 tables in a training graph by our ops.

    ids ─▶ UniqueWithCounts ─▶ gather ─▶ sparse product       as built by a lookup
    ids ─▶ Unique ───────────▶ LookUp                         copies no rows

    sums of gradients ─▶ SparseApply…                         as built for an update
    Update                                                    sums and updates in place

The ops add in the same order. Where TensorFlow multiplies by a reciprocal root, they divide by a
root, which differs in the last digit.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec._tensorflow import graph_surgery
from estimator_spec.updates import dependencies, gathers, kernels
from tpu_columns import combining
from tpu_columns.kernels import devices, loading

tf1 = tf.compat.v1

_PRODUCT = "SparseTensorDenseMatMul"
# Narrower products are as fast in TensorFlow.
_MIN_WIDTH_OF_PRODUCTS = 32


def update_rows(
    rule: str,
    variable: Any,
    slots: Sequence[Any],
    hyperparameters: Sequence[Any],
    ids: Any,
    gradient: Any,
) -> Any:
    """Returns an op that updates rows of a variable and of its slots in place.

    Args:
        rule: one of `tpu_columns/kernels/cpp/update_rules.h`.
        variable: the table's handle or reference, float32 [V, D].
        slots: those of the slot variables that the rule has.
        hyperparameters: float32 scalars, in the rule's order.
        ids: distinct rows, int32 or int64 [U].
        gradient: of those rows, [U, D]. If a sparse product or a segment sum gives it, the op sums
            it itself; if its rows are those of several tensors, the op reads them there.
    """
    ops = loading.load()
    make = ops.tpu_columns_update
    if variable.dtype == tf.resource:
        make = ops.tpu_columns_resource_update
    pairs, values, factor, adjoint = tf.zeros([0, 2], tf.int32), tf.zeros([0]), gradient, False
    summed = gradient.op
    if _is_product(summed):
        pairs, values, _, factor = summed.inputs
        adjoint = summed.get_attr("adjoint_a")
    elif _is_sum(summed):
        factor, segments, _ = summed.inputs
        places = tf.range(tf.size(segments, out_type=tf.int64))
        pairs = combining.zip_int32(tf.cast(segments, tf.int64), places)
        values = tf.ones_like(places, tf.float32)
    else:
        summed = None
    gradients = _parts(factor)
    bypassed = [] if summed is None else [summed]
    bypassed += [] if gradients[0] is factor else [factor.op]
    waits = [other for op in bypassed for other in op.control_inputs]
    with tf.control_dependencies(waits):
        return make(
            table=variable,
            slots=list(slots),
            hyperparameters=list(hyperparameters),
            ids=ids,
            gradients=gradients,
            pairs=pairs,
            values=values,
            rule=rule,
            sums=summed is not None,
            adjoint=adjoint,
        )


def _parts(rows: Any) -> list[Any]:
    """Returns the tensors whose rows a matrix has, one after the other; or the matrix alone."""
    op = rows.op
    if op.type != "ConcatV2" or tf.get_static_value(op.inputs[-1]) != 0:
        return [rows]
    parts = list(op.inputs)[:-1]
    # The op in front of a loop's exit, or what it waits for, may be within the loop.
    near = [op, *op.control_inputs, *(part.op for part in parts)]
    is_outside = all(graph_surgery.control_flow_context(other) is None for other in near)
    return parts if is_outside else [rows]


def replace_updates(updates: Iterable[Any], step: Container[Any]) -> dict[Any, Any]:
    """Replaces updates of rows, and the products that sum their gradients.

    Args:
        updates: ops that `kernels.find_kernel` supports, with distinct ids.
        step: the ops of a training step.

    Returns:
        The replacement of each replaced op.
    """
    replaced: dict[Any, Any] = {}
    before_updates: set[Any] = set()
    for op in updates:
        kernel, inputs = kernels.find_kernel(op), kernels.inputs_by_name(op)
        gradient = inputs["grad"]
        if kernel is None or gradient.dtype != tf.float32 or gradient.shape.rank != 2:
            continue
        if not is_of_a_table_on_cpu(op):
            continue
        table, *slots = (inputs[name] for name in kernel.variables)
        # An update that a hook runs by itself must not run the lookups of the step.
        reads = list(_lookups_before(table, step, before_updates)) if op in step else []
        with dependencies.replacing(op, "_native", [*op.control_inputs, *reads]):
            replaced[op] = update_rows(
                kernel.rule,
                table,
                slots,
                kernels.hyperparameters(op),
                inputs["indices"],
                gradient,
            )
    return replaced


def is_of_a_table_on_cpu(op: Any) -> bool:
    """Returns whether an op updates a table that is on the CPU.

    Args:
        op: an op that `kernels.find_kernel` supports.
    """
    kernel = kernels.find_kernel(op)
    assert kernel is not None
    return devices.is_on_cpu(kernels.inputs_by_name(op)[kernel.variables[0]].op, op)


def replace_lookups(graph: tf.Graph) -> dict[Any, Any]:
    """Replaces searches for repeated ids, and products of sparse matrices and rows of tables.

    Args:
        graph: the finished graph; it is changed.

    Returns:
        The replacement of each replaced op.
    """
    replaced: dict[Any, Any] = {}
    ops = loading.load()
    outputs: list[tuple[Any, Any]] = []
    for op in graph.get_operations():
        if graph_surgery.control_flow_context(op) is not None:
            continue
        if op.type == "UniqueWithCounts" and _can_search(op):
            with dependencies.replacing(op, "_native"):
                unique, index = ops.tpu_columns_unique(op.inputs[0])
            outputs += [(op.outputs[0], unique), (op.outputs[1], index)]
            replaced[op] = unique.op
        elif _is_product(op) and op.outputs[0].consumers():
            new, before = _replace_product(ops, op)
            if new is not None:
                outputs.append((op.outputs[0], new))
                replaced |= dict.fromkeys([op, *before], new.op)
    graph_surgery.replace_outputs(outputs)
    return replaced


def _is_product(op: Any) -> bool:
    return (
        op.type == _PRODUCT
        and op.inputs[0].dtype == tf.int32
        and op.outputs[0].dtype == tf.float32
        and graph_surgery.control_flow_context(op) is None
    )


def _is_sum(op: Any) -> bool:
    return (
        kernels.is_sum_of_equal_ids(op)
        and op.inputs[0].shape.rank == 2
        and graph_surgery.control_flow_context(op) is None
    )


def _can_search(op: Any) -> bool:
    """Returns whether the native search gives all outputs that are used."""
    ids, (_, index, counts) = op.inputs[0], op.outputs
    if ids.dtype not in (tf.int32, tf.int64) or index.dtype != tf.int64 or counts.consumers():
        return False
    return devices.is_on_cpu(op)


def _replace_product(ops: Any, op: Any) -> tuple[Any, list[Any]]:
    """Returns the output that replaces a product's, or None; and the reads that it replaces."""
    pairs, values, shape, rows = op.inputs
    adjoint = op.get_attr("adjoint_a")
    reads = _find_gather(rows)
    if not reads:
        width = rows.shape.as_list()[1] if rows.shape.rank == 2 else None
        if width is None or width < _MIN_WIDTH_OF_PRODUCTS or not devices.is_on_cpu(op):
            return None, []
        with dependencies.replacing(op, "_native"):
            new = ops.tpu_columns_product(pairs, values, shape, rows, adjoint=adjoint)
    else:
        table, ids = reads[-1].inputs[:2]
        look_up = ops.tpu_columns_look_up
        if table.dtype == tf.resource:
            look_up = ops.tpu_columns_resource_look_up
        waits = [*op.control_inputs, *dependencies.collect_control_inputs([rows], [table, ids])]
        # In the gather's scope, by which an error finds the column.
        with dependencies.replacing(reads[-1], "_native", waits):
            new = look_up(table, ids, pairs, values, shape, adjoint=adjoint)
    new.set_shape(op.outputs[0].shape)
    return new, reads


def _find_gather(rows: Any) -> list[Any]:
    """Returns the op that gathers rows of a variable for one use, and before it those in between.

    Returns no ops if there is none.
    """
    between = []
    while rows.op.type == "Identity" and len(rows.consumers()) == 1:
        between.append(rows.op)
        rows = rows.op.inputs[0]
    op = rows.op
    if not gathers.is_of_a_lookup(op) or len(rows.consumers()) != 1:
        return []
    if graph_surgery.control_flow_context(op) is not None:
        return []
    table = op.inputs[0]
    while table.op.type == "Identity":  # reads of a reference variable
        table = table.op.inputs[0]
    if not devices.is_on_cpu(table.op):
        return []
    ids = op.inputs[1]
    is_list = ids.shape.rank == 1 and ids.dtype in (tf.int32, tf.int64)
    return [*between, op] if is_list and op.outputs[0].dtype == tf.float32 else []


def _lookups_before(table: Any, step: Container[Any], before_updates: set[Any]) -> Iterator[Any]:
    """Yields the gathers of a table in a step that follow no update."""
    for op in gathers.find_gathers(table):
        is_inside = graph_surgery.control_flow_context(op) is not None
        if op in step and not is_inside and not kernels.may_follow_an_update(op, before_updates):
            yield op
