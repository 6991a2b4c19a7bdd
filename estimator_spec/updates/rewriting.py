# SPDX-License-Identifier: Apache-2.0
"""Finds the updates of a finished graph, and puts faster ones in their place.

What is done to an update of rows leaves the numbers as they are, but for the last digit:

    values, ids ─▶ Unique ─▶ UnsortedSegmentSum ─▶ SparseApply…       what an optimizer makes
    values, unique ids ──────────────────────────▶ SparseApply…       ids that a lookup made unique
    values, ids ─▶ Unique ─▶ product of matrices ─▶ SparseApply…      where that is faster
    values, unique ids ─▶ gather ─▶ formula ─▶ scatter                where that is faster

An optimizer that changes whole tables is another matter (see `adam.py`), and so are the model's way
back from its loss (`merging.py`), from there to the gradients of its columns (`splitting.py`), and
what reads tables (`reading.py`, `gathering.py`).
The ops that were replaced stay in the graph, but nothing runs them, unless a program asks for one.
What it was to wait for, and who else writes a table, is looked at in `order.py`.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec import environment
from estimator_spec._tensorflow import graph_surgery
from estimator_spec.updates import (
    adam,
    backward_pass,
    dependencies,
    direct_sums,
    gathers,
    gradient_slices,
    kernel_choice,
    kernels,
)
from tpu_columns import combining

tf1 = tf.compat.v1

# Ops that hand ids on as they are.
_SAME_IDS = frozenset({"Reshape", "Identity"})
# Their second versions may take whole rows for what is unique.
_UNIQUE = frozenset({"Unique", "UniqueWithCounts"})


def wanted(argument: bool | None) -> bool:
    """Whether updates shall be made faster.

    Args:
      argument: what the program says; None leaves it to the environment, whose default is yes.

    Raises:
      ValueError: the environment says something else than yes or no.
    """
    return environment.is_on(environment.FAST_UPDATES) if argument is None else argument


def made_faster(
    graph: tf.Graph, train_op: Any, session_config: Any = None, gradient_ops: Sequence[Any] = ()
) -> Any:
    """Makes the updates of a graph faster.

    Args:
      graph: of a training step, finished. Its ops are changed and added to.
      train_op: an op, or anything else.
      session_config: of the session that will train, a `ConfigProto`.
      gradient_ops: from the loss to what an embedding core trains; see `merging.py`.

    Returns:
      What to run instead of `train_op`: another op only if it was itself replaced.
    """
    step = dependencies.run_with(train_op)
    merged = backward_pass.with_earlier_ops(graph, gradient_ops, step)
    if merged:
        tf1.logging.info("%d ops of gradients are made once instead of twice.", merged)
    gradient_slices.by_slices(graph)
    replaced = adam.in_one_op(graph, step)
    updates = [
        op
        for op in graph.get_operations()
        if kernels.of(op) and op not in replaced and _is_ours_to_change(op)
    ]
    for op in updates:
        if not _without_second_search(op):
            _summed_by_a_product(graph, op, session_config)
        _without_reshaping(op)
    for op in updates:
        if _is_alone(op, step) and kernel_choice.formula_is_faster(op, session_config):
            replaced[op] = _by_formula(graph, op)
            kernels.leave_nothing_to_do(op, replaced[op])
    if replaced:
        tf1.logging.info("%d updates of tables are done by faster ops.", len(replaced))
    _wait_for_replacements(graph, replaced, gathers.lookups_by_rows(graph))
    return replaced.get(train_op, train_op)


def made_to_read_faster(graph: tf.Graph) -> None:
    """Makes the lookups of a graph that writes no table faster.

    Args:
      graph: of an evaluation or a prediction, finished. Its ops are changed and added to.
    """
    direct_sums.straight_from_tables(graph)
    _wait_for_replacements(graph, {}, gathers.lookups_by_rows(graph))


def _wait_for_replacements(graph: tf.Graph, updates: dict[Any, Any], reads: dict[Any, Any]) -> None:
    """Makes what waits for replaced ops wait for the others; replaced reads may still be run."""
    replaced = updates | reads
    if replaced:
        for op in graph.get_operations():
            if op not in updates:
                graph_surgery.redirect_control_inputs(op, replaced)


def _is_ours_to_change(op: Any) -> bool:
    """Whether ids are unique, and nothing but the order of ops depends on this one."""
    return (
        graph_surgery.control_flow_context(op) is None
        and _are_unique(kernels.inputs(op)["indices"])
        and not any(output.consumers() for output in op.outputs)
    )


def _is_alone(op: Any, step: Container[Any]) -> bool:
    """Whether nothing else writes what it does: a kernel changes rows, a formula replaces them."""
    found, kernel = kernels.inputs(op), kernels.of(op)
    assert kernel is not None
    return not dependencies.others_write([found[name] for name in kernel.variables], [op], step)


def _without_second_search(op: Any) -> bool:
    """Takes gradients from before an optimizer's summing, if their ids are unique already."""
    summed = _sum_over_repeated_ids(op)
    if summed is None:
        return False
    ids = kernels.inputs(op)["indices"].op
    if not _are_unique(ids.inputs[0]):
        return False
    _take_earlier(op, grad=summed.inputs[0], indices=ids.inputs[0])
    return True


def _summed_by_a_product(graph: tf.Graph, op: Any, session_config: Any) -> None:
    """Sums the gradients of repeated ids in a faster way, if it is one here."""
    summed = _sum_over_repeated_ids(op)
    if summed is None or not kernel_choice.product_is_faster(summed.inputs[0], session_config):
        return
    values, segments, count = summed.inputs
    with (
        graph.as_default(),
        tf1.name_scope(summed.name + "_by_product/"),
        tf1.device(op.device),
        tf.control_dependencies(summed.control_inputs),
    ):
        places = tf.range(tf.size(segments, out_type=tf.int64))
        sums = combining.sum_rows(values, places, tf.cast(segments, tf.int64), count)
    kernels.replace_input(op, "grad", sums)


def _without_reshaping(op: Any) -> None:
    """Takes a gradient from before a reshaping to the shape that it has: five ops less."""
    reshaped = kernels.inputs(op)["grad"]
    if reshaped.op.type == "Reshape":
        before = reshaped.op.inputs[0]
        shapes = (before.shape, reshaped.shape)
        if all(shape.rank == 2 and shape[1] for shape in shapes) and shapes[0][1] == shapes[1][1]:
            _take_earlier(op, grad=before)


def _sum_over_repeated_ids(op: Any) -> Any:
    """The op that an optimizer sums gradients of the same id with, or None."""
    found = kernels.inputs(op)
    summed, ids = found["grad"].op, found["indices"].op
    is_one = ids.type == "Unique" and summed.type == "UnsortedSegmentSum"
    return summed if is_one and summed.inputs[1].op is ids else None


def _take_earlier(op: Any, **inputs: Any) -> None:
    """Makes an op read what its inputs were made of, and wait for what they waited for."""
    found = kernels.inputs(op)
    waits = dependencies.waits_between([found[name] for name in inputs], inputs.values())
    for name, value in inputs.items():
        kernels.replace_input(op, name, value)
    for other in waits:
        graph_surgery.add_control_input(op, other)


def _are_unique(ids: Any) -> bool:
    ids = _origin(ids)
    return ids.op.type in _UNIQUE and ids.value_index == 0


def _origin(ids: Any) -> Any:
    while ids.op.type in _SAME_IDS:
        ids = ids.op.inputs[0]
    return ids


def _by_formula(graph: tf.Graph, op: Any) -> Any:
    """Returns an op that does the same as `op` by reading, computing and writing rows."""
    with (
        graph.as_default(),
        tf1.name_scope(op.name + "_by_formula/"),
        tf1.device(op.device),
        tf.control_dependencies(op.control_inputs),
    ):
        found = kernels.inputs(op)
        return kernels.by_formula(op, found, _rows_read_before(found))


def _rows_read_before(found: dict[str, Any]) -> Any:
    """The rows that a lookup of the same ids read in the same step; nothing else writes them."""
    table, ids = found["var"], _origin(found["indices"])
    if table.dtype != tf.resource:
        return None
    for user in table.consumers():
        if user.type != "ResourceGather" or graph_surgery.control_flow_context(user) is not None:
            continue
        places = user.inputs[1]
        if places.shape.rank == 1 and _origin(places).name == ids.name:
            # One that waits for an update may wait for this one, or for one that waits for this.
            waits = any(map(kernels.of, dependencies.run_with(user)))
            return None if waits else user.outputs[0]
    return None
