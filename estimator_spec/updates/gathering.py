# SPDX-License-Identifier: Apache-2.0
"""Rows of tables, read by the kernel that takes the least time for short ones.

`ResourceGather` asks the processor for the next row ahead of time, row by row, which a processor of
today does by itself, and further ahead. `ResourceGatherNd` just reads: rows of up to 32 floats, of
a table that isn't in a core's own cache anyway, take it three quarters of the time, on every
TensorFlow from 2.15 on (`benchmarks/ops.py`). Longer rows take it more. `GatherV2` and `GatherNd`
are the same for reference variables.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_spec import _tensorflow as private
from estimator_spec.updates import kernels

tf1 = tf.compat.v1

# Bytes: of a row, and of a table.
_LONGEST_ROW = 128
_SMALLEST_TABLE = 1 << 18


def of_short_rows(graph: tf.Graph) -> dict[Any, Any]:
    """Lets what reads short rows of large tables read them faster.

    An id out of range is refused as before, by an `InvalidArgumentError` with other words.

    Args:
      graph: finished. Its ops are changed and added to.

    Returns:
      By the op that gathered, the one that does it now.
    """
    replaced: dict[Any, Any] = {}
    matrices: dict[str, Any] = {}  # by the name of ids, those ids as a matrix of one column
    for op in graph.get_operations():
        if not _gathers_rows(op) or not _is_faster_otherwise(op):
            continue
        table, ids = op.inputs[:2]
        with (
            graph.as_default(),
            tf1.name_scope(op.name + "_of_short_rows/"),
            tf1.device(op.device),
            tf.control_dependencies(None),
        ):
            if ids.name not in matrices:
                matrices[ids.name] = tf.expand_dims(ids, 1)
            with tf.control_dependencies(op.control_inputs):
                rows = _read(table, matrices[ids.name], op.outputs[0].dtype)
        rows.set_shape(op.outputs[0].shape)
        private.replace_output(op.outputs[0], rows)
        replaced[op] = rows.op
    return replaced


def _gathers_rows(op: Any) -> bool:
    """Whether it reads rows of a variable."""
    if op.type == "ResourceGather":
        return not op.get_attr("batch_dims")
    if op.type != "GatherV2" or op.get_attr("batch_dims"):
        return False
    if tf.get_static_value(op.inputs[2]) != 0:  # the axis
        return False
    table = op.inputs[0]
    while table.op.type == "Identity":
        table = table.op.inputs[0]
    return kernels.is_reference(table)


def _is_faster_otherwise(op: Any) -> bool:
    table, ids = op.inputs[:2]
    kind = op.outputs[0].dtype
    # Of quantized integers the other kernel can't read any.
    if not kind.is_floating or ids.shape.rank != 1:
        return False
    if private.control_flow_context(op) is not None:
        return False
    shape = kernels.shape_of(table)
    if shape is None or not shape.is_fully_defined() or shape.rank != 2:
        return False
    rows, width = shape.as_list()
    length = width * kind.size
    return bool(length <= _LONGEST_ROW and rows * length >= _SMALLEST_TABLE)


def _read(table: Any, places: Any, kind: Any) -> Any:
    if table.dtype == tf.resource:
        return tf.raw_ops.ResourceGatherNd(resource=table, indices=places, dtype=kind)
    return tf.raw_ops.GatherNd(params=table, indices=places)
