# SPDX-License-Identifier: Apache-2.0
"""Fuses the ops by which TF1's Adam updates a table into one.

Adam updates rows without a gradient as well, by their momentum. So its ten ops go over the whole
table and both slots in each step:

    m ─▶ read ─▶ · β₁ ─▶ assign ─▶ add to rows ─▶ read ─▶ · rate ─┐
    v ─▶ read ─▶ · β₂ ─▶ assign ─▶ add to rows ─▶ read ─▶ √ ─▶ + ε ─▶ ÷ ─▶ subtract from the table

`ApplyAdam`, TensorFlow's kernel for dense gradients, computes the same in one pass from the
gradient with zeros in all other rows. (`tf.raw_ops.ResourceApplyAdam` has its formula.) It computes
`m + (g - m) · (1 - β₁)` where the ten ops compute `m · β₁ + g · (1 - β₁)`: the difference is one of
rounding, too large only for 16-bit tables, which aren't rewritten. An infinite slot becomes NaN.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container
from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import graph_surgery
from estimator_spec.core.updates import dependencies, kernels


@dataclasses.dataclass(frozen=True)
class _Slot:
    """Update of a slot variable: `slot · decay`, then `(1 - decay) · rows` are added at `ids`.

    Attributes:
        variable: the slot variable's handle or reference.
        decay: a scalar.
        ids: the rows that have a gradient.
        rows: gradients, or their squares.
        ops: the assignment and the addition.
    """

    variable: Any
    decay: Any
    ids: Any
    rows: Any
    ops: tuple[Any, Any]


@dataclasses.dataclass(frozen=True)
class _AdamUpdate:
    """Update of a table: `rate · m ÷ (√v + epsilon)` is subtracted.

    Attributes:
        subtract: the op that subtracts.
        m: the first slot variable.
        v: the second slot variable; its `rows` are the squares of those of `m`.
        rate: a scalar, corrected for the bias of the first steps.
        epsilon: a scalar.
    """

    subtract: Any
    m: _Slot
    v: _Slot
    rate: Any
    epsilon: Any

    @property
    def ops(self) -> tuple[Any, ...]:
        """The ops that write the table or a slot variable."""
        return (*self.m.ops, *self.v.ops, self.subtract)


def fuse_adam(graph: tf.Graph, step: Container[Any]) -> dict[Any, Any]:
    """Replaces the ops by which TF1's Adam updates a table by one op.

    Args:
        graph: a training graph.
        step: the ops of a training step.

    Returns:
        The replacement of each replaced op.
    """
    replaced: dict[Any, Any] = {}
    for op in graph.get_operations():
        update = _update(op) if op.type in ("AssignSubVariableOp", "AssignSub") else None
        if update is not None and _is_only_writer(update, step):
            replaced |= _fuse(update)
    return replaced


def _fuse(update: _AdamUpdate) -> dict[Any, Any]:
    """Replaces the ops of one table's update; see `fuse_adam`."""
    ops = update.ops
    before = {other for op in ops for other in op.control_inputs if other not in ops}
    table, change = update.subtract.inputs
    summed = (update.m.rows, update.m.ids)
    values, ids, _ = kernels.before_summing(*summed)
    waits = [*before, *dependencies.collect_control_inputs(summed, (values, ids))]
    with dependencies.replacing(update.subtract, "_in_one", waits):
        shape = tf.constant(change.shape.as_list(), ids.dtype)
        gradient = tf.scatter_nd(tf.expand_dims(ids, -1), values, shape)
        zero = tf.zeros([], gradient.dtype)
        arguments = {
            "var": table,
            "m": update.m.variable,
            "v": update.v.variable,
            # Powers of zero leave the rate unchanged: the optimizer has corrected its bias.
            "beta1_power": zero,
            "beta2_power": zero,
            "lr": update.rate,
            "beta1": update.m.decay,
            "beta2": update.v.decay,
            "epsilon": update.epsilon,
            "grad": gradient,
        }
        if table.dtype == tf.resource:
            fused = tf.raw_ops.ResourceApplyAdam(**arguments)
        else:
            fused = tf.raw_ops.ApplyAdam(**arguments).op
    _disable(update, fused)
    return dict.fromkeys(ops, fused)


def _disable(update: _AdamUpdate, fused: Any) -> None:
    """Makes the replaced ops run after `fused` without effect: a hook may fetch one of them."""
    for assign, add in (update.m.ops, update.v.ops):
        with dependencies.replacing(assign, "_without_change", [fused]):
            variable, decayed = assign.inputs
            if variable.dtype == tf.resource:
                same = tf.raw_ops.ReadVariableOp(resource=variable, dtype=decayed.dtype)
            else:
                same = variable + tf.zeros([], decayed.dtype)
        graph_surgery.replace_input(assign, same, 1)
        graph_surgery.add_control_input(assign, fused)
        addition = kernels.find_update(add)
        assert addition is not None  # it is a ScatterAdd
        addition.disable(fused)
    subtract = update.subtract
    with dependencies.replacing(subtract, "_without_change", [fused]):
        change = subtract.inputs[1]
        graph_surgery.replace_input(subtract, tf.zeros(change.shape.as_list(), change.dtype), 1)
    graph_surgery.add_control_input(subtract, fused)


def _update(subtract: Any) -> _AdamUpdate | None:
    """Returns the update of a table that ends with an op, or None if it isn't Adam's."""
    quotient = _inputs(subtract.inputs[1], "RealDiv")
    step, spread = (
        (_inputs(quotient[0], "Mul"), _inputs(quotient[1], "AddV2")) if quotient else (None, None)
    )
    root = _inputs(spread[0], "Sqrt") if spread else None
    if not (step and spread and root) or root[0].dtype.base_dtype not in (tf.float32, tf.float64):
        return None
    m, v = _slot(step[1]), _slot(root[0])
    if m is None or v is None or m.ids is not v.ids or m.rows.shape.rank != 2:
        return None
    squared = _inputs(v.rows, "Mul")
    if squared is None or any(rows is not m.rows for rows in squared):
        return None
    scalars = (step[0], spread[1], m.decay, v.decay)
    if any(scalar.shape.rank != 0 for scalar in scalars):
        return None
    if not subtract.inputs[1].shape.is_fully_defined():
        return None
    if any(output.consumers() for output in subtract.outputs):
        return None
    update = _AdamUpdate(subtract, m, v, step[0], spread[1])
    if any(graph_surgery.control_flow_context(op) is not None for op in update.ops):
        return None
    return update


def _is_only_writer(update: _AdamUpdate, step: Container[Any]) -> bool:
    """Returns whether no other op writes the table or a slot variable."""
    variables = (update.subtract.inputs[0], update.m.variable, update.v.variable)
    return not dependencies.has_other_writers(variables, update.ops, step)


def _slot(value: Any) -> _Slot | None:
    """Returns the update of a slot variable from its new value, or None if it isn't Adam's."""
    add = _addition(value)
    if add is None:
        return None
    variable, ids, added = add.inputs
    assigns = [
        op
        for op in add.control_inputs
        if op.type in dependencies.ASSIGNMENTS and op.inputs[0] is variable
    ]
    decayed = _inputs(assigns[0].inputs[1], "Mul") if len(assigns) == 1 else None
    scaled = _inputs(added, "Mul")
    rest = _inputs(scaled[1], "Sub") if scaled else None
    if not (decayed and scaled and rest) or _read_in_between(add, assigns[0]):
        return None
    read, decay = decayed
    is_decay = read.op.type in ("ReadVariableOp", "Identity") and read.op.inputs[0] is variable
    is_rest = rest[1] is decay and tf.get_static_value(rest[0]) == 1
    if not (is_decay and is_rest):
        return None
    return _Slot(variable, decay, ids, scaled[0], (assigns[0], add))


def _addition(value: Any) -> Any:
    """Returns the op that added to rows of a slot variable before it was read as `value`."""
    if value.op.type == "ScatterAdd":
        return value.op if len(value.consumers()) == 1 else None
    if value.op.type != "ReadVariableOp":
        return None
    adds = [
        op
        for op in value.op.control_inputs
        if op.type == "ResourceScatterAdd" and op.inputs[0] is value.op.inputs[0]
    ]
    return adds[0] if len(adds) == 1 else None


def _read_in_between(add: Any, assign: Any) -> bool:
    """Returns whether an op reads the slot variable between its decay and the addition."""
    if assign.outputs:
        return bool(assign.outputs[0].consumers())
    return any(
        op.outputs[0].consumers()
        for op in add.inputs[0].consumers()
        if op.type == "ReadVariableOp"
        and assign in op.control_inputs
        and add not in op.control_inputs
    )


def _inputs(value: Any, kind: str) -> Any:
    """Returns the inputs of the op that computes a value, or None for another op type."""
    return tuple(value.op.inputs) if value.op.type == kind else None
