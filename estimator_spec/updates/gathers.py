# SPDX-License-Identifier: Apache-2.0
"""Gathers short rows of large tables by a faster kernel.

`ResourceGather` prefetches the next row, which slows down today's processors: they prefetch further
ahead themselves. `ResourceGatherNd` doesn't prefetch: it takes three quarters of the time for rows
of up to 128 bytes (32 floats) of a table that exceeds a core's own cache, on every TensorFlow from
2.15 on (`benchmarks/ops.py`), and more time for longer rows. The same holds for `GatherV2` and
`GatherNd`, which read reference variables.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

import tensorflow as tf

from estimator_spec._tensorflow import graph_surgery
from estimator_spec.updates import variables

tf1 = tf.compat.v1

_MAX_ROW_BYTES = 128
_MIN_TABLE_BYTES = 1 << 18
# The other kernel rejects int32 ids for a table with more elements.
_MAX_ELEMENTS = 2**31 - 1
_STITCHES = frozenset({"DynamicStitch", "ParallelDynamicStitch"})


def gather_rows(table: Any, ids: Any, dtype: Any) -> Any:
    """Gathers rows of a table by the faster kernel.

    Args:
        table: a handle, or the value of a reference variable.
        ids: integers, [N].
        dtype: dtype of the table.

    Returns:
        [N, D].
    """
    if _gather_nd_is_faster(table, ids, dtype):
        return _gather_nd(table, tf.expand_dims(ids, 1), dtype)
    if table.dtype == tf.resource:
        return tf.raw_ops.ResourceGather(resource=table, indices=ids, dtype=dtype)
    return tf.raw_ops.GatherV2(params=table, indices=ids, axis=0)


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


def replace_gathers(graph: tf.Graph, skipped: Container[Any] = ()) -> dict[Any, Any]:
    """Replaces gathers of lookups that read short rows of large tables.

    An id out of range still raises an `InvalidArgumentError`, with another message.

    Only gathers made by `embedding_lookup` are replaced: what it returns is the output of a later
    op, so no program holds the gather's own output. The result of a program's own `tf.gather` may
    be fetched by a hook, which would then run the replaced op, possibly after an update.

    Args:
        graph: the finished graph; it is changed.
        skipped: ops to leave alone.

    Returns:
        The replacement of each replaced op.
    """
    replaced: dict[Any, Any] = {}
    # Ids as a matrix of one column, by their name and the table's device, which gets them once.
    matrices: dict[tuple[str, str], Any] = {}
    for op in graph.get_operations():
        if op in skipped or not is_of_a_lookup(op):
            continue
        if graph_surgery.control_flow_context(op) is not None:
            continue
        (table, ids), dtype = op.inputs[:2], op.outputs[0].dtype
        if not _gather_nd_is_faster(table, ids, dtype):
            continue
        with graph.as_default(), tf1.name_scope(op.name + "_by_rows/"):
            key = (ids.name, op.device)
            if key not in matrices:
                with tf.control_dependencies(None), tf1.device(op.device):
                    matrices[key] = tf.expand_dims(ids, 1)
            with tf.control_dependencies(op.control_inputs), tf1.colocate_with(table.op):
                rows = _gather_nd(table, matrices[key], dtype)
        graph_surgery.replace_output(op.outputs[0], rows)
        replaced[op] = rows.op
    return replaced


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
    """Returns whether an op gathers rows of a variable, or of a shard, in `embedding_lookup`."""
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


def _gather_nd_is_faster(table: Any, ids: Any, dtype: Any) -> bool:
    # The other kernel doesn't support quantized integers.
    if not dtype.is_floating or ids.shape.rank != 1:
        return False
    shape = variables.static_shape(table)
    if shape is None or not shape.is_fully_defined() or shape.rank != 2:
        return False
    rows, width = shape.as_list()
    row_bytes = width * dtype.size
    if ids.dtype == tf.int32 and rows * width > _MAX_ELEMENTS:
        return False
    return bool(row_bytes <= _MAX_ROW_BYTES and rows * row_bytes >= _MIN_TABLE_BYTES)


def _gather_nd(table: Any, indices: Any, dtype: Any) -> Any:
    if table.dtype == tf.resource:
        return tf.raw_ops.ResourceGatherNd(resource=table, indices=indices, dtype=dtype)
    return tf.raw_ops.GatherNd(params=table, indices=indices)
