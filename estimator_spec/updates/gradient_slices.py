# SPDX-License-Identifier: Apache-2.0
"""The gradient of all activations side by side, taken apart column by column.

TensorFlow splits the gradient of a `tf.concat` of more than 16 tensors by one op, `SplitV`, which
goes through Eigen row by row. As many `Slice` ops copy the same numbers in a quarter of the time,
and all cores share them. (With fewer tensors TensorFlow slices, too.)
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_spec._tensorflow import graph_surgery
from estimator_spec.updates import dependencies

tf1 = tf.compat.v1


def by_slices(graph: tf.Graph) -> None:
    """Puts slices in the place of each op that splits a matrix into columns.

    Args:
      graph: finished.
    """
    for op in [op for op in graph.get_operations() if op.type == "SplitV" and _is_of_columns(op)]:
        value = op.inputs[0]
        with (
            graph.as_default(),
            tf1.name_scope(op.name + "_by_slices/"),
            tf1.device(op.device),
            # The sizes may wait in the place of the split: TensorFlow gives it no second edge.
            tf.control_dependencies(dependencies.waits_between(op.outputs, [value])),
        ):
            begin = 0
            for output in op.outputs:
                width = int(output.shape[1])
                graph_surgery.replace_output(output, tf.slice(value, [0, begin], [-1, width]))
                begin += width


def _is_of_columns(op: Any) -> bool:
    """Whether it is a matrix whose columns are split, all of them, in numbers that are known."""
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
