# SPDX-License-Identifier: Apache-2.0
"""Changes ops of an existing graph, through private methods of `tf.Operation`.

No public method changes a graph. TensorFlow's own while loops are built by the same methods.
"""

from __future__ import annotations

from typing import Any


def replace_input(op: Any, value: Any, position: int = 0) -> None:
    """Makes an op read `value` as one of its inputs.

    The name of an embedding core's table is known only after the model used its column, and a
    variable can't be renamed; so the model is built on stand-ins. And updates of tables are made
    faster in the finished graph. TensorFlow's own while loops are built in the same way, by the
    same method.
    """
    op._update_input(position, value)


def replace_output(old: Any, new: Any) -> None:
    """Makes all ops that read the tensor `old` read `new`; see `replace_input`."""
    for user in old.consumers():
        for position, value in enumerate(user.inputs):
            if value is old:
                replace_input(user, new, position)


def replace_control_inputs(op: Any, ops: list[Any]) -> None:
    """Makes an op wait for these ops, and for no others. No public method changes a graph."""
    op._remove_all_control_inputs()
    op._add_control_inputs(ops)


def wait_for_replacements(op: Any, replacements: dict[Any, Any]) -> None:
    """Makes an op wait for the replacements of what it waits for; see `replace_control_inputs`."""
    waits_for = op.control_inputs
    if any(other in replacements for other in waits_for):
        instead = dict.fromkeys(replacements.get(other, other) for other in waits_for)
        replace_control_inputs(op, list(instead))


def add_control_input(op: Any, other: Any) -> None:
    """Makes an op wait for one more; see `replace_control_inputs`."""
    op._add_control_input(other)


def control_flow_context(op: Any) -> Any:
    """The `tf.cond` or `tf.while_loop` of TF1 that an op is within, or None."""
    return op._get_control_flow_context()
