# SPDX-License-Identifier: Apache-2.0
"""Rewrites updates and reads of tables in a finished graph.

The rewrites of an update keep its values up to rounding:

    values, ids ─▶ Unique ─▶ UnsortedSegmentSum ─▶ SparseApply…       as built by an optimizer
    values, unique ids ──────────────────────────▶ SparseApply…       if the lookup's ids are unique
    values, ids ─▶ Unique ─▶ sparse matrix product ─▶ SparseApply…    if that is faster
    values, unique ids ─▶ gather ─▶ formula ─▶ scatter                if that is faster

Other modules rewrite optimizers that update whole tables (`adam`) and reads of tables
(`direct_sums`, `gathers`). Replaced ops stay in the graph, but nothing runs them unless a program
fetches one. `dependencies` finds the control edges and other writers to preserve.
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
    gathers,
    graph_defs,
    kernel_choice,
    kernels,
    native_ops,
)
from tpu_columns import combining, storage
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
        if not _skip_second_search(op):
            _sum_by_product(op)
        _skip_reshapes(op)
    use_native = Optimization.NATIVE_KERNELS in chosen and loading.load() is not None
    native = native_ops.replace_updates(updates, step) if use_native else {}
    original_inputs = {op: tuple(op.inputs) for op in native}
    for op, new in native.items():
        kernels.disable_update(op, new)
    replaced |= native
    before_updates: set[Any] = set()
    for op in updates if Optimization.UPDATE_FORMULAS in chosen else ():
        if op in native:
            continue
        if _is_only_writer(op, step) and kernel_choice.formula_is_faster(op):
            replaced[op] = _replace_by_formula(op, before_updates)
            kernels.disable_update(op, replaced[op])
    if replaced:
        tf1.logging.info("Replaced %d ops that update tables by faster ones.", len(replaced))
    reads = native_ops.replace_lookups(graph) if use_native else {}
    if native or reads:
        graph_defs.write_original_ops(graph, native | reads, original_inputs)
    if Optimization.GATHERS in chosen:
        reads |= gathers.replace_gathers(graph, reads)
    _redirect_control_inputs(graph, replaced, reads)
    return replaced.get(train_op, train_op)


def optimize_inference_graph(
    graph: tf.Graph, chosen: Container[Optimization] = _TENSORFLOW_OPS_ONLY
) -> None:
    """Replaces lookups in a graph that writes no table by faster ops.

    Args:
        graph: a finished graph for evaluation or prediction; it is changed.
        chosen: the optimizations to apply.
    """
    if Optimization.DIRECT_SUMS in chosen:
        direct_sums.sum_from_tables(graph)
    if Optimization.GATHERS in chosen:
        _redirect_control_inputs(graph, {}, gathers.replace_gathers(graph))


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


def _is_only_writer(op: Any, step: Container[Any]) -> bool:
    """Returns whether no other op writes the variables of an update.

    A formula writes whole rows, and would overwrite the change of another op.
    """
    inputs, kernel = kernels.inputs_by_name(op), kernels.find_kernel(op)
    assert kernel is not None
    written = [inputs[name] for name in kernel.variables]
    return not dependencies.has_other_writers(written, [op], step)


def _skip_second_search(op: Any) -> bool:
    """Bypasses the optimizer's search for repeated ids, if a lookup has made the ids unique.

    Returns:
        Whether it was bypassed.
    """
    summed = _find_segment_sum(op)
    if summed is None:
        return False
    unique = kernels.inputs_by_name(op)["indices"].op
    if not _are_unique(unique.inputs[0]):
        return False
    _bypass(op, grad=summed.inputs[0], indices=unique.inputs[0])
    return True


def _sum_by_product(op: Any) -> None:
    """Sums the gradients of repeated ids by a sparse matrix product, if that is faster."""
    summed = _find_segment_sum(op)
    if summed is None or not kernel_choice.product_is_faster(summed.inputs[0]):
        return
    values, segments, count = summed.inputs
    with dependencies.replacing(summed, "_by_product"):
        row_indices = tf.range(tf.size(segments, out_type=tf.int64))
        sums = combining.sum_rows(values, row_indices, tf.cast(segments, tf.int64), count)
    kernels.replace_input(op, "grad", sums)


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
    is_sum = unique.type == "Unique" and summed.type == "UnsortedSegmentSum"
    return summed if is_sum and summed.inputs[1].op is unique else None


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


def _replace_by_formula(op: Any, before_updates: set[Any]) -> Any:
    """Returns an op that updates rows as `op` does, by reading, computing and writing them."""
    with dependencies.replacing(op, "_by_formula"):
        inputs = kernels.inputs_by_name(op)
        return kernels.apply_formula(op, inputs, _find_gathered_rows(inputs, before_updates))


def _find_gathered_rows(inputs: dict[str, Any], before_updates: set[Any]) -> Any:
    """Returns the rows of an update's ids that a lookup reads in the same step, or None."""
    ids = _origin(inputs["indices"])
    for user in gathers.find_gathers(inputs["var"]):
        if graph_surgery.control_flow_context(user) is not None:
            continue
        gathered_ids = user.inputs[1]
        if gathered_ids.shape.rank == 1 and _origin(gathered_ids).name == ids.name:
            return None if kernels.may_follow_an_update(user, before_updates) else user.outputs[0]
    return None
