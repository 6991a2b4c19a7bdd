# SPDX-License-Identifier: Apache-2.0
"""Who waits for whom in a step, and who else writes: what a rewriting must leave as it was.

TensorFlow orders ops by their inputs and control inputs alone, and gives an op that is made within
`tf.control_dependencies` no edge if one of its inputs has it already. So an op may wait through ops
that only prepare its inputs, and where those are passed by, their edges have to come along.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import Any

import tensorflow as tf

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
_CHANGES = re.compile("Apply|Scatter|AssignAdd|AssignSub")
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


def others_write(variables: Iterable[Any], own: Container[Any], step: Container[Any]) -> bool:
    """Returns whether a step of training may write some variables by other ops than some.

    What a step doesn't run counts only if it changes what is there: a second optimizer, whose
    updates a hook runs beside the step. Whole values are assigned before the first one.

    Args:
      variables: the handle of each, or the reference that it is.
      own: ops that may write them.
      step: the ops of a step.
    """
    return any(
        op not in own and (op in step or _CHANGES.search(op.type))
        for variable in variables
        for op in _writers(variable)
    )


def is_assigned(variable: Any) -> bool:
    """Returns whether a graph without training may write a variable when it is asked for results.

    Args:
      variable: its handle.
    """
    return not all(map(_is_of_the_start, _writers(variable)))


def _writers(variable: Any) -> list[Any]:
    if variable.dtype == tf.resource:
        return [op for op in variable.consumers() if op.type not in _READERS]
    return [op for op in variable.consumers() if _takes_reference(op, variable)]


def _takes_reference(op: Any, variable: Any) -> bool:
    # Lists, which come last in the ops that have some, aren't references.
    arguments = zip(op.op_def.input_arg, op.inputs, strict=False)
    return any(argument.is_ref and value is variable for argument, value in arguments)


def _is_of_the_start(op: Any) -> bool:
    """Whether a write gives a variable its initial value, or one of a checkpoint or the program."""
    if op.type not in _ASSIGNMENTS:
        return False
    if op.name == f"{op.inputs[0].op.name}/Assign":
        return True
    made_of = _before([op.inputs[1].op], through_controls=False)
    return any(other.type in ("RestoreV2", "Placeholder") for other in made_of)


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
