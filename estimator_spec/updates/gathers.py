# SPDX-License-Identifier: Apache-2.0
"""Rows of tables, read by the kernel that takes the least time for short ones.

`ResourceGather` asks the processor for the next row ahead of time, row by row, which a processor of
today does by itself, and further ahead. `ResourceGatherNd` just reads: rows of up to 128 bytes (32
floats), of a table that isn't in a core's own cache anyway, take it three quarters of the time, on
every TensorFlow from 2.15 on (`benchmarks/ops.py`). Longer rows take it more. `GatherV2` and
`GatherNd` are the same for reference variables.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_spec._tensorflow import graph_surgery
from estimator_spec.updates import variables

tf1 = tf.compat.v1

# Bytes: of a row, and of a table.
_LONGEST_ROW = 128
_SMALLEST_TABLE = 1 << 18
# The other kernel takes no 32-bit ids for a table of more numbers.
_MOST_NUMBERS = 2**31 - 1
_STITCHES = frozenset({"DynamicStitch", "ParallelDynamicStitch"})


def rows_of(table: Any, ids: Any, dtype: Any) -> Any:
    """Reads rows of a table by the faster kernel.

    Args:
      table: a handle, or what was read of a reference variable.
      ids: integers, [N].
      dtype: of the table.

    Returns:
      [N, D].
    """
    if _is_faster_otherwise(table, ids, dtype):
        return _rows_at(table, tf.expand_dims(ids, 1), dtype)
    if table.dtype == tf.resource:
        return tf.raw_ops.ResourceGather(resource=table, indices=ids, dtype=dtype)
    return tf.raw_ops.GatherV2(params=table, indices=ids, axis=0)


def lookups_by_rows(graph: tf.Graph) -> dict[Any, Any]:
    """Lets lookups read short rows of large tables by the faster kernel.

    An id out of range is refused as before, by an `InvalidArgumentError` with other words.

    Only what `embedding_lookup` read is changed, which hands it on by another op. A tensor of
    `tf.gather` may be what a hook fetches: it would get the old op's, of after an update perhaps.

    Args:
      graph: finished. Its ops are changed and added to.

    Returns:
      By the op that gathered, the one that does it now.
    """
    replaced: dict[Any, Any] = {}
    matrices: dict[str, Any] = {}  # by the name of ids, those ids as a matrix of one column
    for op in graph.get_operations():
        if not _is_of_a_lookup(op) or graph_surgery.control_flow_context(op) is not None:
            continue
        (table, ids), dtype = op.inputs[:2], op.outputs[0].dtype
        if not _is_faster_otherwise(table, ids, dtype):
            continue
        with graph.as_default(), tf1.name_scope(op.name + "_by_rows/"):
            if ids.name not in matrices:
                with tf.control_dependencies(None), tf1.device(ids.device):
                    matrices[ids.name] = tf.expand_dims(ids, 1)
            with tf.control_dependencies(op.control_inputs), tf1.colocate_with(table.op):
                rows = _rows_at(table, matrices[ids.name], dtype)
        graph_surgery.replace_output(op.outputs[0], rows)
        replaced[op] = rows.op
    return replaced


def _is_of_a_lookup(op: Any) -> bool:
    """Whether it gathers rows of a variable, or a part of one, within an `embedding_lookup`."""
    if op.type not in ("ResourceGather", "GatherV2") or op.get_attr("batch_dims"):
        return False
    if op.type == "GatherV2":
        table, axis = op.inputs[0], tf.get_static_value(op.inputs[2])
        while table.op.type == "Identity":
            table = table.op.inputs[0]
        if axis != 0 or not variables.is_reference(table):
            return False
    return any(
        (user.type == "Identity" and user.name.startswith(op.name + "/"))
        or (user.type in _STITCHES and op.name.startswith(user.name + "/"))
        for user in op.outputs[0].consumers()
    )


def _is_faster_otherwise(table: Any, ids: Any, dtype: Any) -> bool:
    # Of quantized integers the other kernel can't read any.
    if not dtype.is_floating or ids.shape.rank != 1:
        return False
    shape = variables.shape_of(table)
    if shape is None or not shape.is_fully_defined() or shape.rank != 2:
        return False
    rows, width = shape.as_list()
    length = width * dtype.size
    if ids.dtype == tf.int32 and rows * width > _MOST_NUMBERS:
        return False
    return bool(length <= _LONGEST_ROW and rows * length >= _SMALLEST_TABLE)


def _rows_at(table: Any, places: Any, dtype: Any) -> Any:
    if table.dtype == tf.resource:
        return tf.raw_ops.ResourceGatherNd(resource=table, indices=places, dtype=dtype)
    return tf.raw_ops.GatherNd(params=table, indices=places)
