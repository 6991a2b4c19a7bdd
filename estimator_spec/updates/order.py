# SPDX-License-Identifier: Apache-2.0
"""Who waits for whom in a step, and who else writes: what a rewriting must leave as it was.

TensorFlow orders ops by their inputs and control inputs alone, and gives an op that is made within
`tf.control_dependencies` no edge if one of its inputs has it already. So an op may wait through ops
that only prepare its inputs, and where those are passed by, their edges have to come along.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1

# Ops that leave a variable as it is.
_READERS = frozenset(
    {
        "DisableCopyOnRead",
        "ReadVariableOp",
        "ResourceGather",
        "ResourceGatherNd",
        "VarIsInitializedOp",
        "VariableShape",
    }
)
_ASSIGNMENTS = frozenset({"AssignVariableOp", "Assign"})


def run_with(op: Any) -> frozenset[Any]:
    """Returns all ops that run when `op` does, itself among them; none for what is no op."""
    op = op.op if isinstance(op, tf.Tensor) else op
    return frozenset(_before([op])) if isinstance(op, tf.Operation) else frozenset()


def waits_between(ends: Iterable[Any], starts: Iterable[Any]) -> list[Any]:
    """Returns what is waited for on the way from some tensors to others.

    Args:
      ends: tensors.
      starts: tensors that `ends` are made of, or some of them.

    Returns:
      The control inputs of the ops that make `ends` out of `starts`.
    """
    known = {value.op for value in starts}
    between = _before([value.op for value in ends], known, through_controls=False)
    waits = dict.fromkeys(other for op in between for other in op.control_inputs)
    return [op for op in waits if op not in between]


def initializers(graph: tf.Graph) -> frozenset[Any]:
    """Returns the ops that give a graph's variables their first values."""
    variables = graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)
    return frozenset(variable.initializer for variable in variables)


def others_write(variable: Any, own: Iterable[Any], initializers: frozenset[Any]) -> bool:
    """Returns whether a step may write a variable by other ops than some.

    Args:
      variable: its handle, or the reference that it is.
      own: ops that may write it.
      initializers: see above; other assignments of first values are known by what they assign.
    """
    return any(
        _writes(op, variable) and op not in own and not _is_before_training(op, initializers)
        for op in variable.consumers()
    )


def _writes(op: Any, variable: Any) -> bool:
    if variable.dtype == tf.resource:
        return op.type not in _READERS
    arguments = zip(op.op_def.input_arg, op.inputs, strict=False)
    return any(argument.is_ref and value is variable for argument, value in arguments)


def _is_before_training(op: Any, initializers: frozenset[Any]) -> bool:
    """Whether an assignment gives a variable its initial value, or one of a checkpoint."""
    if op in initializers:
        return True
    if op.type not in _ASSIGNMENTS:
        return False
    # A warm start makes a variable forget its first initializer, which stays in the graph.
    first = op.name == f"{op.inputs[0].op.name}/Assign"
    made_of = _before([op.inputs[1].op], through_controls=False)
    return first or any(other.type == "RestoreV2" for other in made_of)


def _before(
    ops: list[Any], known: Iterable[Any] = (), through_controls: bool = True
) -> dict[Any, None]:
    """Some ops and those that they are made of, up to known ones, and what they wait for."""
    found: dict[Any, None] = {}
    todo = list(ops)
    while todo:
        op = todo.pop()
        if op not in found and op not in known:
            found[op] = None
            todo += [value.op for value in op.inputs]
            if through_controls:
                todo += op.control_inputs
    return found
