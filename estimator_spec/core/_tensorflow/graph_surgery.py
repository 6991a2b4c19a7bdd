# SPDX-License-Identifier: Apache-2.0
"""Changes ops of an existing graph, through private methods of `tf.Operation`.

No public method changes a graph. TensorFlow's own while loops are built by the same methods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any


def replace_input(op: Any, value: Any, position: int = 0) -> None:
    """Replaces one input of an op.

    Models are built on placeholders for an embedding core's tables, because a table's name is known
    only after the model used its column; and optimizers' update ops are replaced in the finished
    graph.

    Args:
        op: the op to change.
        value: the tensor that it reads from now on.
        position: index of the input.
    """
    op._update_input(position, value)


def replace_output(old: Any, new: Any) -> None:
    """Replaces a tensor by another one in all ops that read it; see `replace_input`."""
    replace_outputs([(old, new)])


def replace_outputs(pairs: Iterable[tuple[Any, Any]]) -> None:
    """Replaces tensors by others in all ops that read them; see `replace_input`.

    Args:
        pairs: the tensors, each with its replacement.
    """
    new_tensors = {old.ref(): new for old, new in pairs}
    users = dict.fromkeys(user for old in new_tensors for user in old.deref().consumers())
    for user in users:
        # Read once: a change of one input makes TensorFlow read all of them again.
        for position, value in enumerate(tuple(user.inputs)):
            new = new_tensors.get(value.ref())
            if new is not None:
                replace_input(user, new, position)


def replace_control_inputs(op: Any, ops: list[Any]) -> None:
    """Replaces all control inputs of an op."""
    op._remove_all_control_inputs()
    op._add_control_inputs(ops)


def redirect_control_inputs(op: Any, replacements: dict[Any, Any]) -> None:
    """Replaces those control inputs of an op that have a replacement."""
    before = op.control_inputs
    if any(other in replacements for other in before):
        after = dict.fromkeys(replacements.get(other, other) for other in before)
        replace_control_inputs(op, list(after))


def remove_control_inputs(op: Any, ops: Collection[Any]) -> None:
    """Removes those control inputs of an op that are among `ops`."""
    before = op.control_inputs
    if any(other in ops for other in before):
        replace_control_inputs(op, [other for other in before if other not in ops])


def add_control_input(op: Any, other: Any) -> None:
    """Adds a control input to an op."""
    op._add_control_input(other)


def find_users(op: Any) -> list[Any]:
    """Returns the ops that read an op's outputs or wait for it."""
    readers = [user for output in op.outputs for user in output.consumers()]
    return [*readers, *op._control_outputs]


def control_flow_context(op: Any) -> Any:
    """Returns the TF1 `tf.cond` or `tf.while_loop` context that an op is in, or None."""
    return op._get_control_flow_context()


def is_in_loop(op: Any) -> bool:
    """Returns whether an op is in a TF1 `tf.while_loop`: then none outside of it can gate it."""
    context = control_flow_context(op)
    return context is not None and context.GetWhileContext() is not None
