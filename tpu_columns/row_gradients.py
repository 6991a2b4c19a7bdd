# SPDX-License-Identifier: Apache-2.0
"""Gradients of gathers by lists of ids, in few ops.

TensorFlow's own gradients of `ResourceGather` and `GatherV2` reshape rows and ids for ids of any
rank: ten ops more for each table, all of them without effect if the ids are a list.
"""

from __future__ import annotations

import contextlib
from typing import Any

import tensorflow as tf

from tpu_columns import driver_graphs, optimizations
from tpu_columns.optimizations import Optimization

_NAME = "TpuColumnsGatherOfList"


def without_reshapes() -> contextlib.AbstractContextManager[Any]:
    """Overrides the gradient of gathers by ids [n] from tables [rows, D] in the driver's graphs."""
    if not optimizations.is_used(Optimization.LOOKUPS):
        return contextlib.nullcontext()
    return driver_graphs.override_gradients({"ResourceGather": _NAME, "GatherV2": _NAME})


@tf.RegisterGradient(_NAME)
def _gradient_of_gather(op: Any, gradient: Any) -> list[Any]:
    """Returns the gradient of the table, as slices; the ids (and the axis) have none."""
    table, ids = op.inputs[:2]
    slices = tf.IndexedSlices(tf.convert_to_tensor(gradient), ids, _shape_of(table))
    return [slices] + [None] * (len(op.inputs) - 1)


def _shape_of(table: Any) -> tf.Tensor:
    """Returns the shape of a table from its handle or value; a constant if it is known."""
    if table.dtype != tf.resource:
        return tf.shape(table)
    if table.op.type == "VarHandleOp":
        shape = tf.TensorShape(table.op.get_attr("shape"))
        if shape.is_fully_defined():
            return tf.constant(shape.as_list(), tf.int32)
    return tf.raw_ops.VariableShape(input=table, out_type=tf.int32)
