# SPDX-License-Identifier: Apache-2.0
"""Control edges and other writers that a rewrite must preserve.

TensorFlow orders ops by their inputs and control inputs alone, and gives an op that is created
within `tf.control_dependencies` no control edge if one of its inputs has it already. So the control
inputs of an op may be those of the ops that prepare its inputs. A rewrite that bypasses these ops
must keep their control inputs.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Container, Iterable, Iterator
from typing import Any

import tensorflow as tf

from tpu_columns import graphs
from tpu_columns.kernels import calls

# Ops that don't write the variable they take.
_READERS = frozenset(
    {
        "DisableCopyOnRead",
        "ReadVariableOp",
        "ResourceGather",
        "ResourceGatherNd",
        "VarIsInitializedOp",
        "VariableShape",
        calls.LOOKUP,
    }
)
_CHANGES = re.compile("Apply|Scatter|AssignAdd|AssignSub")
ASSIGNMENTS = frozenset({"AssignVariableOp", "Assign"})
"""Types of the ops that set the whole value of a variable."""


@contextlib.contextmanager
def replacing(op: Any, suffix: str, control_inputs: Iterable[Any] | None = None) -> Iterator[None]:
    """Creates ops that replace `op`: in its graph and device, and with its control inputs.

    Args:
        op: the op to replace.
        suffix: suffix of the op's name in the name scope of the new ops.
        control_inputs: control inputs in place of the op's.
    """
    waits = op.control_inputs if control_inputs is None else list(control_inputs)
    with (
        op.graph.as_default(),
        tf.compat.v1.name_scope(f"{op.name}{suffix}/"),
        tf.compat.v1.device(op.device),
        tf.control_dependencies(waits),
    ):
        yield


def collect_ancestors(op: Any, known: Container[Any] = ()) -> frozenset[Any]:
    """Returns all ops that run when `op` does, itself included; an empty set for other objects.

    Args:
        op: an op or a tensor, or any other object.
        known: ops that are left out, with those that only they depend on.
    """
    op = op.op if isinstance(op, tf.Tensor) else op
    return frozenset(graphs.ancestors([op], known)) if isinstance(op, tf.Operation) else frozenset()


def collect_control_inputs(ends: Iterable[Any], starts: Iterable[Any]) -> list[Any]:
    """Returns the control inputs of the ops between some tensors and others.

    Args:
        ends: tensors.
        starts: tensors from which `ends` are computed, or some of them.

    Returns:
        The control inputs of the ops that compute `ends` from `starts`.
    """
    known = {value.op for value in starts}
    ops = [value.op for value in ends]
    between = dict.fromkeys(graphs.ancestors(ops, known, through_controls=False))
    waits = dict.fromkeys(other for op in between for other in op.control_inputs)
    return [op for op in waits if op not in between]


def has_other_writers(variables: Iterable[Any], own: Container[Any], step: Container[Any]) -> bool:
    """Returns whether ops other than `own` may write some variables during training.

    Outside of a step, ops count only if they change a value in place, as those of a second
    optimizer that a hook runs beside the step. Whole values are assigned before the first step.

    Args:
        variables: the handle or the reference of each.
        own: ops that are expected to write them.
        step: the ops of a training step.
    """
    return any(
        op not in own and (op in step or _CHANGES.search(op.type))
        for variable in variables
        for op in writers(variable)
    )


def changes_state(op: Any) -> bool:
    """Returns whether an op may change something when it runs, such as a variable.

    Args:
        op: an op; one without inputs, such as a variable's handle, changes nothing.
    """
    if not op.inputs or op.type in _READERS:
        return False
    return op.op_def.is_stateful or any(_takes_reference(op, value) for value in op.inputs)


def is_assigned(variable: Any) -> bool:
    """Returns whether a graph without training may write a variable after its initialization.

    Args:
        variable: its handle.
    """
    return not all(map(_is_initialization, writers(variable)))


def writers(variable: Any) -> list[Any]:
    """Returns the ops that write a variable.

    Args:
        variable: its handle or reference.
    """
    if variable.dtype == tf.resource:
        return [op for op in variable.consumers() if op.type not in _READERS]
    return [op for op in variable.consumers() if _takes_reference(op, variable)]


def _takes_reference(op: Any, variable: Any) -> bool:
    # Lists, which are the last arguments of an op, aren't references.
    arguments = zip(op.op_def.input_arg, op.inputs, strict=False)
    return any(argument.is_ref and value is variable for argument, value in arguments)


def _is_initialization(op: Any) -> bool:
    """Returns whether a write assigns an initial value, or one of a checkpoint or a feed."""
    if op.type not in ASSIGNMENTS:
        return False
    if op.name == f"{op.inputs[0].op.name}/Assign":
        return True
    ancestors = graphs.ancestors([op.inputs[1].op], through_controls=False)
    return any(other.type in ("RestoreV2", "Placeholder") for other in ancestors)
