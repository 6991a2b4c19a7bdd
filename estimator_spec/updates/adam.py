# SPDX-License-Identifier: Apache-2.0
"""The way in which TF1's Adam changes a table: all of its rows, in one op instead of ten.

Rows without a gradient move, too, since their momentum goes on. So the optimizer goes over the
whole table and both slots ten times a step:

    m ─▶ read ─▶ · β₁ ─▶ assign ─▶ add to rows ─▶ read ─▶ · rate ─┐
    v ─▶ read ─▶ · β₂ ─▶ assign ─▶ add to rows ─▶ read ─▶ √ ─▶ + ε ─▶ ÷ ─▶ subtract from the table

`ApplyAdam`, TensorFlow's kernel for gradients that aren't sparse, does the same in one go, given
the gradient with zeros in all other rows. (`tf.raw_ops.ResourceApplyAdam` has its formula.)
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Container, Iterator
from typing import Any

import tensorflow as tf

from estimator_spec._tensorflow import graph_surgery
from estimator_spec.updates import dependencies, kernels

tf1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class _Slot:
    """How a slot changes: `slot · decay`, then `(1 - decay) · rows` are added at `ids`.

    Attributes:
      variable: the slot's handle, or its reference.
      decay: a scalar.
      ids: the rows that have a gradient.
      rows: what is added, without its factor.
      ops: the assignment and the addition.
    """

    variable: Any
    decay: Any
    ids: Any
    rows: Any
    ops: tuple[Any, Any]


@dataclasses.dataclass(frozen=True)
class _Update:
    """How a table changes: `rate · m ÷ (√v + epsilon)` is subtracted.

    Attributes:
      subtract: the op that does.
      m: the first slot.
      v: the second, with the squares of the first's rows.
      rate: a scalar, with Adam's correction of the first steps.
      epsilon: a scalar.
    """

    subtract: Any
    m: _Slot
    v: _Slot
    rate: Any
    epsilon: Any

    @property
    def ops(self) -> tuple[Any, ...]:
        """All that change the table or a slot."""
        return (*self.m.ops, *self.v.ops, self.subtract)


def in_one_op(graph: tf.Graph, step: Container[Any]) -> dict[Any, Any]:
    """Puts one op in the place of those by which TF1's Adam changes a table.

    Args:
      graph: of a training step.
      step: the ops of a step.

    Returns:
      What took the place of each op that is not to run any more.
    """
    replaced: dict[Any, Any] = {}
    for op in graph.get_operations():
        update = _update(op) if op.type in ("AssignSubVariableOp", "AssignSub") else None
        if update is not None and _is_alone(update, step):
            replaced |= _in_one(graph, update)
    return replaced


def _in_one(graph: tf.Graph, update: _Update) -> dict[Any, Any]:
    """As `in_one_op`, for one table."""
    ops = update.ops
    before = {other for op in ops for other in op.control_inputs if other not in ops}
    table, moved = update.subtract.inputs
    summed = (update.m.rows, update.m.ids)
    values, ids = _before_summing(*summed)
    with (
        graph.as_default(),
        tf1.name_scope(update.subtract.name + "_in_one/"),
        tf1.device(update.subtract.device),
        tf.control_dependencies([*before, *dependencies.waits_between(summed, (values, ids))]),
    ):
        shape = tf.constant(moved.shape.as_list(), ids.dtype)
        gradient = tf.scatter_nd(tf.expand_dims(ids, -1), values, shape)
        zero = tf.zeros([], gradient.dtype)
        arguments = {
            "var": table,
            "m": update.m.variable,
            "v": update.v.variable,
            # With powers of zero the rate is left as it is: the optimizer corrected it already.
            "beta1_power": zero,
            "beta2_power": zero,
            "lr": update.rate,
            "beta1": update.m.decay,
            "beta2": update.v.decay,
            "epsilon": update.epsilon,
            "grad": gradient,
        }
        if table.dtype == tf.resource:
            one = tf.raw_ops.ResourceApplyAdam(**arguments)
        else:
            one = tf.raw_ops.ApplyAdam(**arguments).op
    _leave_nothing_to_do(update, one)
    return dict.fromkeys(ops, one)


def _leave_nothing_to_do(update: _Update, one: Any) -> None:
    """Makes the replaced ops change nothing, after the one: a hook may fetch one of them."""
    for assign, add in (update.m.ops, update.v.ops):
        with _after(one, assign):
            variable, decayed = assign.inputs
            if variable.dtype == tf.resource:
                same = tf.raw_ops.ReadVariableOp(resource=variable, dtype=decayed.dtype)
            else:
                same = variable + tf.zeros([], decayed.dtype)
        graph_surgery.replace_input(assign, same, 1)
        graph_surgery.add_control_input(assign, one)
        kernels.leave_nothing_to_do(add, one)
    subtract = update.subtract
    with _after(one, subtract):
        moved = subtract.inputs[1]
        graph_surgery.replace_input(subtract, tf.zeros(moved.shape.as_list(), moved.dtype), 1)
    graph_surgery.add_control_input(subtract, one)


@contextlib.contextmanager
def _after(one: Any, op: Any) -> Iterator[None]:
    """Within, ops are made where `op` is, and wait for the one."""
    with (
        op.graph.as_default(),
        tf1.name_scope(op.name + "_without_change/"),
        tf1.device(op.device),
        tf.control_dependencies([one]),
    ):
        yield


def _update(subtract: Any) -> _Update | None:
    """The update of a table that ends with this op, or None if it isn't Adam's."""
    moved = _inputs(subtract.inputs[1], "RealDiv")
    step, spread = (_inputs(moved[0], "Mul"), _inputs(moved[1], "AddV2")) if moved else (None, None)
    root = _inputs(spread[0], "Sqrt") if spread else None
    if not (step and spread and root):
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
    update = _Update(subtract, m, v, step[0], spread[1])
    if any(graph_surgery.control_flow_context(op) is not None for op in update.ops):
        return None
    return update


def _is_alone(update: _Update, step: Container[Any]) -> bool:
    """Whether nothing else writes the table or a slot: what is subtracted may be by several."""
    variables = (update.subtract.inputs[0], update.m.variable, update.v.variable)
    return not dependencies.others_write(variables, update.ops, step)


def _before_summing(rows: Any, ids: Any) -> tuple[Any, Any]:
    """Gradients and their ids, before the optimizer summed those of the same id."""
    summed, unique = rows.op, ids.op
    if summed.type == "UnsortedSegmentSum" and summed.inputs[1].op is unique:
        return summed.inputs[0], unique.inputs[0]
    return rows, ids


def _slot(value: Any) -> _Slot | None:
    """How the slot whose new value this is changes, or None if in another way."""
    add = _addition(value)
    if add is None:
        return None
    variable, ids, added = add.inputs
    assigns = [
        op
        for op in add.control_inputs
        if op.type in ("AssignVariableOp", "Assign") and op.inputs[0] is variable
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
    """The op that added to rows of a slot just before it was read as `value`."""
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
    """Whether anything sees the slot when it is decayed but not yet added to."""
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
    """The inputs of the op that makes a value, if it is of this kind."""
    return tuple(value.op.inputs) if value.op.type == kind else None
