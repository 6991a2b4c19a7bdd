# SPDX-License-Identifier: Apache-2.0
"""Tells whether the driver builds a graph, which alone may have our ops and gradients.

Graphs of other programs may be saved, and loaded where these aren't registered.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tpu_columns import _tensorflow as private
from tpu_columns import optimizations, placement, shared_state, storage
from tpu_columns.kernels import loading
from tpu_columns.optimizations import Optimization


def record_loop_body() -> None:
    """Records that the default graph is the body of the driver's own training loop."""
    graph = tf.compat.v1.get_default_graph()
    # Both, as a function's graph begins with copies of the collections around it.
    for each in (graph, graph.outer_graph):
        each.get_collection_ref(shared_state.LOOP_BODIES).append(graph)


def engine_of(graph: tf.Graph) -> str:
    """Returns what looks up and updates the tables of a graph: 'kernels' or 'TensorFlow'."""
    graphs = [graph, *graph.get_collection(shared_state.LOOP_BODIES)]
    types = (op.type for each in graphs for op in each.get_operations())
    return "kernels" if any(each.startswith(loading.PREFIX) for each in types) else "TensorFlow"


def captured_from(tensor: Any) -> Any:
    """Returns the tensor outside of all functions for which one in a function stands.

    Args:
        tensor: a tensor of any graph.
    """
    for outside, inside in getattr(tensor.graph, "captures", ()):
        if inside is tensor:
            return captured_from(outside)
    return tensor


def static_shape(table: Any) -> list[int]:
    """Returns the shape of a variable from its handle or value.

    Args:
        table: a tensor of any graph.
    """
    if table.dtype != tf.resource:
        return list(table.shape.as_list())
    return list(tf.TensorShape(captured_from(table).op.get_attr("shape")).as_list())


def is_variable(op: Any) -> bool:
    """Returns whether an op makes a variable or its handle, or brings that into a function.

    Args:
        op: an op of any graph.
    """
    if op.type == "Placeholder":
        op = captured_from(op.outputs[0]).op
    return op.type in storage.VARIABLE_OPS


def uses_native_kernels() -> bool:
    """Returns whether lookups in the default graph are native ops, if there are any."""
    graph = tf.compat.v1.get_default_graph()
    current = placement.current()
    return (
        not tf.executing_eagerly()
        and current is not None
        and current.mode is not placement.Mode.SERVE  # other programs load exports
        and (not graph.building_function or graph in graph.get_collection(shared_state.LOOP_BODIES))
        and private.control_flow_context(graph) is None
        and optimizations.is_used(Optimization.NATIVE_KERNELS)
    )
