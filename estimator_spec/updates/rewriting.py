# SPDX-License-Identifier: Apache-2.0
"""Rewrites updates and reads of tables in a finished graph.

The rewrites of an update keep its values up to rounding:

    values, ids ─▶ Unique ─▶ UnsortedSegmentSum ─▶ SparseApply…       as built by an optimizer
    values, unique ids ──────────────────────────▶ SparseApply…       if the lookup's ids are unique
    values, unique ids ──────────────────────────▶ Update             with native kernels

Other modules rewrite optimizers that update whole tables (`adam`) and reads of tables
(`direct_sums`, `native_ops`). Replaced ops stay in the graph, but nothing runs them unless a
program fetches one. `dependencies` finds the control edges and other writers to preserve.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import tensorflow as tf

from estimator_spec._tensorflow import graph_surgery
from estimator_spec.updates import (
    adam,
    dependencies,
    direct_sums,
    graph_defs,
    kernels,
    native_ops,
)
from tpu_columns import storage
from tpu_columns.kernels import loading
from tpu_columns.optimizations import REWRITES, Optimization

tf1 = tf.compat.v1

# Ops that don't change ids.
_SAME_IDS = frozenset({"Reshape", "Identity"})
# UniqueV2 and UniqueWithCountsV2 may compare whole rows.
_UNIQUE = frozenset({"Unique", "UniqueWithCounts", "TpuColumnsUnique"})
# Whether a process can run native kernels is for the driver to decide.
_TENSORFLOW_OPS_ONLY = REWRITES - {Optimization.NATIVE_KERNELS}


def optimize_training_graph(
    graph: tf.Graph, train_op: Any, chosen: Container[Optimization] = _TENSORFLOW_OPS_ONLY
) -> Any:
    """Replaces updates and reads of tables in a training graph by faster ops.

    Args:
        graph: the finished graph; it is changed.
        train_op: an op, or any other object.
        chosen: the optimizations to apply.

    Returns:
        The op to run instead of `train_op`: another op only if `train_op` itself was replaced.
    """
    step = dependencies.collect_ancestors(train_op)
    replaced: dict[Any, Any] = {}
    if Optimization.FUSED_ADAM in chosen:
        replaced |= adam.fuse_adam(graph, step)
    updates = [
        op
        for op in graph.get_operations()
        if kernels.find_kernel(op) and op not in replaced and _is_replaceable(op)
    ]
    for op in updates if Optimization.GRADIENT_SUMS in chosen else ():
        _skip_second_search(op)
        _skip_reshapes(op)
    use_native = Optimization.NATIVE_KERNELS in chosen and loading.load() is not None
    native = native_ops.replace_updates(updates, step) if use_native else {}
    original_inputs = {op: tuple(op.inputs) for op in native}
    for op, new in native.items():
        kernels.disable_update(op, new)
    replaced |= native
    if replaced:
        tf1.logging.info("Replaced %d ops that update tables by faster ones.", len(replaced))
    if use_native and updates and not any(map(native_ops.is_of_a_table_on_cpu, updates)):
        tf1.logging.info(
            "All tables are on the GPU. Kernels on the CPU may be several times as fast: make the "
            'feature layer within tf.device("/cpu:0"); see docs/gpu.md.'
        )
    reads = native_ops.replace_lookups(graph) if use_native else {}
    if native or reads:
        graph_defs.write_original_ops(graph, native | reads, original_inputs)
    _redirect_control_inputs(graph, replaced, reads)
    return replaced.get(train_op, train_op)


def optimize_inference_graph(
    graph: tf.Graph, chosen: Container[Optimization] = _TENSORFLOW_OPS_ONLY
) -> None:
    """Replaces lookups in a graph that writes no table by faster ops.

    Args:
        graph: a finished graph for evaluation, prediction or export; it is changed.
        chosen: the optimizations to apply.
    """
    if Optimization.DIRECT_SUMS in chosen:
        direct_sums.sum_from_tables(graph)


def _redirect_control_inputs(
    graph: tf.Graph, updates: dict[Any, Any], reads: dict[Any, Any]
) -> None:
    """Replaces control inputs that were replaced, except those of replaced updates."""
    replaced = updates | reads
    if replaced:
        for op in graph.get_operations():
            if op not in updates:
                graph_surgery.redirect_control_inputs(op, replaced)


def _is_replaceable(op: Any) -> bool:
    """Returns whether an update has unique ids, no consumers, and is outside of control flow."""
    return (
        graph_surgery.control_flow_context(op) is None
        and _are_unique(kernels.inputs_by_name(op)["indices"])
        and not any(output.consumers() for output in op.outputs)
    )


def _skip_second_search(op: Any) -> None:
    """Bypasses the optimizer's search for repeated ids, if a lookup has made the ids unique."""
    summed = _find_segment_sum(op)
    if summed is None:
        return
    unique = kernels.inputs_by_name(op)["indices"].op
    if _are_unique(unique.inputs[0]):
        _bypass(op, grad=summed.inputs[0], indices=unique.inputs[0])


def _skip_reshapes(op: Any) -> None:
    """Bypasses reshapes of the gradient and the ids to the shapes that they have already.

    That is five ops fewer; and a parameter server gets the ids once, for lookup and update.
    """
    ids = kernels.inputs_by_name(op)["indices"]
    if ids.op.type == "Reshape" and ids.op.inputs[0].shape.rank == ids.shape.rank == 1:
        _bypass(op, indices=ids.op.inputs[0])
    reshaped = kernels.inputs_by_name(op)["grad"]
    if reshaped.op.type == "Reshape":
        before = reshaped.op.inputs[0]
        shapes = (before.shape, reshaped.shape)
        if all(shape.rank == 2 and shape[1] for shape in shapes) and shapes[0][1] == shapes[1][1]:
            _bypass(op, grad=before)


def _find_segment_sum(op: Any) -> Any:
    """Returns the op by which an optimizer sums the gradients of equal ids, or None."""
    inputs = kernels.inputs_by_name(op)
    summed, unique = inputs["grad"].op, inputs["indices"].op
    is_sum = kernels.is_sum_of_equal_ids(summed) and summed.inputs[1].op is unique
    return summed if is_sum else None


def _bypass(op: Any, **earlier: Any) -> None:
    """Replaces inputs by tensors they are computed from; keeps the control inputs in between.

    Args:
        op: an op that `kernels.find_kernel` supports.
        **earlier: the new inputs, by canonical name.
    """
    inputs = kernels.inputs_by_name(op)
    replaced = [inputs[name] for name in earlier]
    waits = dependencies.collect_control_inputs(replaced, earlier.values())
    for name, value in earlier.items():
        kernels.replace_input(op, name, value)
    for other in waits:
        graph_surgery.add_control_input(op, other)


def _are_unique(ids: Any) -> bool:
    ids = _origin(ids)
    return (ids.op.type in _UNIQUE and ids.value_index == 0) or storage.has_unique_ids(ids)


def _origin(ids: Any) -> Any:
    while ids.op.type in _SAME_IDS:
        ids = ids.op.inputs[0]
    return ids
