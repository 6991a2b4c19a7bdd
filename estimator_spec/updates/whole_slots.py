# SPDX-License-Identifier: Apache-2.0
"""Slot variables that an optimizer changes as a whole, and then by rows, as TF1's Adam does.

    slot ─▶ read ─▶ decay ─▶ assign ─▶ add to rows ─▶ read ─▶ …        what the optimizer makes
    slot ─▶ read ─▶ decay ─▶ add to rows ─┬▶ assign                    what is put in its place
                                          └▶ …

Once rows of a resource variable were written, TensorFlow copies all of it whenever it is read:
twice in each step for each slot. Rows of the decayed value are added to in place, and nothing is
copied.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_spec import _tensorflow as private

tf1 = tf.compat.v1

_ADD, _ASSIGN, _READ = "ResourceScatterAdd", "AssignVariableOp", "ReadVariableOp"


def without_copies(graph: tf.Graph, initializers: frozenset[Any]) -> dict[Any, Any]:
    """Changes such slots of a finished graph.

    Args:
      graph: of a training step.
      initializers: ops that give variables their first values.

    Returns:
      What took the place of each op that is not to run any more.
    """
    replaced: dict[Any, Any] = {}
    for add in [op for op in graph.get_operations() if op.type == _ADD]:
        assign = _assigned_before(add, initializers)
        if assign is not None:
            replaced |= _in_place(graph, add, assign)
    return replaced


def _assigned_before(add: Any, initializers: frozenset[Any]) -> Any:
    """The op that assigns the whole slot before rows are added to, if nothing comes in between."""
    slot, rows, _ = add.inputs
    users = [op for op in slot.consumers() if op is not add and op not in initializers]
    assigns = [op for op in users if op.type == _ASSIGN]
    if (
        len(assigns) != 1
        or assigns[0] not in add.control_inputs
        or rows.shape.rank != 1
        or private.control_flow_context(add) is not None
    ):
        return None
    for op in users:
        if op.type not in (_ASSIGN, _READ, "VarIsInitializedOp"):
            return None
        in_between = assigns[0] in op.control_inputs and add not in op.control_inputs
        if op.type == _READ and in_between and op.outputs[0].consumers():
            return None
    return assigns[0]


def _in_place(graph: tf.Graph, add: Any, assign: Any) -> dict[Any, Any]:
    slot, rows, values = add.inputs
    first = [op for op in (*assign.control_inputs, *add.control_inputs) if op is not assign]
    with (
        graph.as_default(),
        tf1.name_scope(add.name + "_in_place/"),
        tf1.device(add.device),
        tf.control_dependencies(first),
    ):
        places = tf.expand_dims(rows, -1)
        changed = tf.raw_ops.TensorScatterAdd(
            tensor=assign.inputs[1], indices=places, updates=values
        )
        assigned = tf.raw_ops.AssignVariableOp(resource=slot, value=changed)
    replaced = {assign: assigned, add: assigned}
    for read in [op for op in slot.consumers() if op.type == _READ and add in op.control_inputs]:
        private.replace_output(read.outputs[0], changed)
        replaced[read] = assigned
    return replaced
