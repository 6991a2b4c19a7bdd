# SPDX-License-Identifier: Apache-2.0
"""Finds the ops that gather rows of tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from estimator_spec.updates import variables

tf1 = tf.compat.v1

_STITCHES = frozenset({"DynamicStitch", "ParallelDynamicStitch"})


def find_gathers(table: Any) -> Iterator[Any]:
    """Yields the ops that gather rows of a table.

    Args:
        table: a handle, or the value of a reference variable.
    """
    for user in table.consumers():
        if table_of(user) is table:
            yield user
        elif user.type == "Identity" and table.dtype != tf.resource:
            yield from find_gathers(user.outputs[0])


def is_read_of_variable(table: Any) -> bool:
    """Returns whether a tensor is the value of a reference variable, without a copy."""
    while table.op.type == "Identity":
        table = table.op.inputs[0]
    return variables.is_reference(table)


def table_of(op: Any) -> Any:
    """Returns the input of which an op gathers rows, or None for an op that doesn't."""
    if op.type not in ("ResourceGather", "GatherV2") or op.get_attr("batch_dims"):
        return None
    if op.type == "GatherV2" and tf.get_static_value(op.inputs[2]) != 0:
        return None
    return op.inputs[0]


def is_of_a_lookup(op: Any) -> bool:
    """Returns whether an op gathers rows of a variable, or of a shard, in `embedding_lookup`.

    What that returns is the output of a later op, so no program holds the gather's own output. The
    result of a program's own `tf.gather` may be fetched by a hook.
    """
    table = table_of(op)
    if table is None:
        return False
    if table.dtype != tf.resource and not is_read_of_variable(table):
        return False
    return any(
        (user.type == "Identity" and user.name.startswith(op.name + "/"))
        or (user.type in _STITCHES and op.name.startswith(user.name + "/"))
        for user in op.outputs[0].consumers()
    )
