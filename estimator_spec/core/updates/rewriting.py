# SPDX-License-Identifier: Apache-2.0
"""Rewrites updates of tables, and reads of tables that aren't trained, in a finished graph.

The rewrites of an update keep its values up to rounding:

    values, ids ─▶ Unique ─▶ UnsortedSegmentSum ─▶ SparseApply…       as built by an optimizer
    values, ids ─────────────────────────────────▶ Update             with native kernels

Other modules rewrite optimizers that update whole tables (`adam`) and reads of tables
(`direct_sums`). Replaced ops stay in the graph, but nothing runs them unless a program fetches one.
`dependencies` finds the control edges and other writers to preserve.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import graph_surgery
from estimator_spec.core.updates import adam, dependencies, direct_sums, kernels, native_ops
from tpu_columns import engine
from tpu_columns.optimizations import Optimization

tf1 = tf.compat.v1

# Whether a process can run native kernels is for the driver to decide.
_TENSORFLOW_OPS_ONLY = frozenset(Optimization) - {Optimization.NATIVE_KERNELS}


def optimize_training_graph(
    graph: tf.Graph, train_op: Any, chosen: Container[Optimization] = _TENSORFLOW_OPS_ONLY
) -> Any:
    """Replaces updates of tables in a training graph by faster ops.

    Args:
        graph: the finished graph; it is changed.
        train_op: an op, or any other object.
        chosen: the optimizations to apply.

    Returns:
        The op to run instead of `train_op`: another op only if `train_op` itself was replaced.
    """
    if Optimization.UPDATES not in chosen:
        return train_op
    step = dependencies.collect_ancestors(train_op)
    replaced = adam.fuse_adam(graph, step)
    if engine.of_process(chosen).is_native:
        others = (op for op in graph.get_operations() if op not in replaced)
        found = filter(None, map(kernels.find_update, others))
        updates = {
            update: engine.of_update(update.op, update.variables[0], update.inputs["grad"])
            for update in filter(_is_replaceable, found)
        }
        native = [update for update, choice in updates.items() if choice.is_native]
        replaced |= native_ops.replace_updates(native, step)
        for update in native:
            update.disable(replaced[update.op])
        for update, choice in updates.items():
            choice.log("update", update.variables[0].op.name)
        if updates and all(choice == engine.ON_GPU for choice in updates.values()):
            tf1.logging.info(
                "All tables are on the GPU. Kernels on the CPU may be several times as fast: make "
                'the feature layer within tf.device("/cpu:0"); see docs/gpu.md.'
            )
    if replaced:
        tf1.logging.info("Replaced %d ops that update tables by faster ones.", len(replaced))
        for op in graph.get_operations():
            if op not in replaced:
                graph_surgery.redirect_control_inputs(op, replaced)
    return replaced.get(train_op, train_op)


def optimize_inference_graph(
    graph: tf.Graph, chosen: Container[Optimization] = _TENSORFLOW_OPS_ONLY
) -> None:
    """Replaces lookups in a graph that writes no table by faster ops.

    Args:
        graph: a finished graph for evaluation, prediction or export; it is changed.
        chosen: the optimizations to apply.
    """
    if Optimization.LOOKUPS in chosen:
        direct_sums.sum_from_tables(graph)


def _is_replaceable(update: kernels.RowUpdate) -> bool:
    """Returns whether an update has unique ids, no consumers, and is outside of control flow."""
    return (
        graph_surgery.control_flow_context(update.op) is None
        and kernels.are_unique(update.inputs["indices"])
        and not any(output.consumers() for output in update.op.outputs)
    )
