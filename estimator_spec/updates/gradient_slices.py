# SPDX-License-Identifier: Apache-2.0
"""Replaces the op that splits the gradient of concatenated activations by slices.

TensorFlow splits the gradient of a `tf.concat` of more than 16 tensors by one op, `SplitV`, which
calls Eigen for each row. As many `Slice` ops copy the same values in a quarter of the time, and in
parallel. (With fewer tensors TensorFlow creates slices itself.)
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_spec._tensorflow import graph_surgery
from estimator_spec.updates import dependencies


def replace_split_by_slices(graph: tf.Graph) -> None:
    """Replaces each op that splits a matrix into columns by slices.

    Args:
        graph: the finished graph.
    """
    for op in [op for op in graph.get_operations() if op.type == "SplitV" and _is_of_columns(op)]:
        value = op.inputs[0]
        # TensorFlow adds no control input to a split whose sizes have it already.
        waits = dependencies.collect_control_inputs(op.outputs, [value])
        with dependencies.replacing(op, "_by_slices", waits):
            begin = 0
            for output in op.outputs:
                width = int(output.shape[1])
                graph_surgery.replace_output(output, tf.slice(value, [0, begin], [-1, width]))
                begin += width


def _is_of_columns(op: Any) -> bool:
    """Returns whether an op splits all columns of a matrix into parts of known widths."""
    value = op.inputs[0]
    if value.shape.rank != 2 or graph_surgery.control_flow_context(op) is not None:
        return False
    if any(output.shape.rank != 2 for output in op.outputs):
        return False
    widths = [output.shape.as_list()[1] for output in op.outputs]
    if len(widths) < 2 or None in widths:
        return False
    # Had its rows been split, each part would be as wide as the whole.
    return bool(0 < sum(widths) == value.shape.as_list()[1])
