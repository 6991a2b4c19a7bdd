# SPDX-License-Identifier: Apache-2.0
"""Replaces optimizers' updates of float32 tables by our ops, one for one.

    sums of gradients of equal ids ─▶ SparseApply…         as built by an optimizer
    Update                                                 sums and updates in place

The ops add in the same order. Where TensorFlow multiplies by a reciprocal root, they divide by a
root, which differs in the last digit.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import graph_surgery
from estimator_spec.core.updates import dependencies, kernels
from tpu_columns.kernels import calls


def update_rows(
    rule: str,
    variable: Any,
    slots: Sequence[Any],
    hyperparameters: Sequence[Any],
    ids: Any,
    gradient: Any,
    limits: Sequence[float] = (),
    decay_has_rate: bool = False,
) -> Any:
    """Returns an op that updates rows of a variable and of its slots in place.

    Args:
        rule: one of `tpu_columns/kernels/cpp/update_rules.h`.
        variable: the table's handle or reference, float32 [V, D].
        slots: those of the slot variables that the rule has.
        hyperparameters: float32 scalars, in the rule's order.
        ids: distinct rows, int32 or int64 [U].
        gradient: of those rows, [U, D]. If it is the output of a sum over equal ids, the op takes
            the unsummed gradients and sums them; if it is a concatenation, the op reads the parts.
        limits: empty, or least and largest gradient, weight decay, least and largest weight.
        decay_has_rate: whether the weight decay is multiplied by the first hyperparameter.
    """
    gradient, ids, bypassed = kernels.before_summing(gradient, ids)
    sums = bool(bypassed) and not kernels.are_unique(ids)
    gradients = _parts(gradient)
    bypassed += [] if gradients[0] is gradient else [gradient.op]
    waits = [other for op in bypassed for other in op.control_inputs]
    with tf.control_dependencies(waits):
        return calls.update_rows(
            variable,
            slots=list(slots),
            hyperparameters=list(hyperparameters),
            ids=ids,
            gradients=gradients,
            rule=rule,
            sums=sums,
            limits=list(limits),
            decay_has_rate=decay_has_rate,
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


def replace_updates(updates: Iterable[kernels.RowUpdate], step: Container[Any]) -> dict[Any, Any]:
    """Replaces updates of rows, and the sums of gradients before them.

    Args:
        updates: those with distinct ids, of native tables.
        step: the ops of a training step.

    Returns:
        The replacement of each replaced op.
    """
    replaced: dict[Any, Any] = {}
    before_updates: set[Any] = set()
    for update in updates:
        op, inputs = update.op, update.inputs
        table, *slots = update.variables
        # An update that a hook runs by itself must not run the lookups of the step.
        reads = list(_lookups_before(table, step, before_updates)) if op in step else []
        with dependencies.replacing(op, "_native", [*op.control_inputs, *reads]):
            hyperparameters = update.hyperparameters()
            replaced[op] = update_rows(
                update.kernel.rule,
                table,
                slots,
                hyperparameters,
                inputs["indices"],
                inputs["grad"],
            )
    return replaced


def is_lookup(op: Any) -> bool:
    """Returns whether an op reads rows of a table by their ids."""
    return op.type in ("ResourceGather", "GatherV2", calls.LOOKUP)


def _lookups_before(table: Any, step: Container[Any], before_updates: set[Any]) -> Iterator[Any]:
    """Yields the lookups of a table in a step that follow no update."""
    for op in _find_lookups(table):
        is_inside = graph_surgery.control_flow_context(op) is not None
        if op in step and not is_inside and not kernels.may_follow_an_update(op, before_updates):
            yield op


def _find_lookups(table: Any) -> Iterator[Any]:
    """Yields the ops that read rows of a table, from its handle or the value of a reference."""
    for user in table.consumers():
        if is_lookup(user) and (user.type == calls.LOOKUP or user.inputs[0] is table):
            yield user
        elif user.type == "Identity" and table.dtype != tf.resource:
            yield from _find_lookups(user.outputs[0])
