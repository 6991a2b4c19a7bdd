# SPDX-License-Identifier: Apache-2.0
"""Decides what looks up and updates tables: the kernels, or TensorFlow's ops and why.

    switches, library ─▶ of_process ─▶ of_mode ─▶ of_graph ─┬▶ of_lookup   of a column
                                                            └▶ of_tables   of an embedding core
                                                               of_update   by an optimizer

The log of a training has the reasons at level DEBUG. `kernels.libraries.describe_engine` tells
`doctor` and `plan`, which don't start TensorFlow, what `of_process` will find.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, NamedTuple

import tensorflow as tf

from tpu_columns import _tensorflow as private
from tpu_columns import graphs, optimizations, placement, shared_state
from tpu_columns.kernels import devices, libraries, loading
from tpu_columns.optimizations import Optimization


class EngineChoice(NamedTuple):
    """Choice between the kernels and TensorFlow's ops, for lookups or updates of tables.

    Attributes:
        reason: why TensorFlow's ops are used; empty: the kernels are.
    """

    reason: str = ""

    @property
    def is_native(self) -> bool:
        """Whether the kernels are used."""
        return not self.reason

    def log(self, what: str, table: str) -> None:
        """Logs the reason, if there is one.

        Args:
            what: what the ops do: 'look up', for example.
            table: name of the table.
        """
        if self.reason:
            tf.compat.v1.logging.debug("TensorFlow's ops %s %s: %s.", what, table, self.reason)


ON_GPU = EngineChoice("it is on the GPU")


def of_process(chosen: Container[Optimization]) -> EngineChoice:
    """Returns the engine of tables that nothing else keeps from the kernels.

    Args:
        chosen: the optimizations that are used.
    """
    if Optimization.NATIVE_KERNELS not in chosen:
        return EngineChoice(libraries.TURNED_OFF)
    return EngineChoice(
        "" if loading.load() is not None else "this process has no library of kernels"
    )


def of_mode(mode: placement.Mode, chosen: Container[Optimization]) -> EngineChoice:
    """Returns the engine of the driver's graphs of a mode.

    Args:
        mode: the mode.
        chosen: the optimizations that are used.
    """
    if mode is placement.Mode.SERVE:
        return EngineChoice("programs without kernels load exported graphs")
    return of_process(chosen)


def of_graph() -> EngineChoice:
    """Returns the engine of the default graph, at the place where ops are built."""
    graph = tf.compat.v1.get_default_graph()
    current = placement.current()
    if tf.executing_eagerly() or current is None:
        # Others' graphs may be saved, and loaded where our ops aren't registered.
        return EngineChoice("the graph isn't the driver's")
    if graph.building_function and graph not in graph.get_collection(shared_state.LOOP_BODIES):
        return EngineChoice("the lookup is in a function")
    if private.control_flow_context(graph) is not None:
        return EngineChoice("the lookup is in a condition or loop")
    return of_mode(current.mode, optimizations.current())


def of_lookup(table: Any, weights: tf.SparseTensor | None) -> EngineChoice:
    """Returns the engine of a lookup in the default graph.

    Args:
        table: as in `lookup.pooled_lookup`.
        weights: as in `lookup.pooled_lookup`.
    """
    found = of_graph()
    if found.is_native:
        found = _of_variable(table)
    if found.is_native and weights is not None:
        behind = graphs.ancestors([weights.values.op], through_controls=False)
        if any(map(graphs.is_variable, behind)):
            found = EngineChoice("its weights have a gradient")  # which the op hasn't
    if placement.current() is not None:
        found.log("look up", getattr(table, "name", "a table"))
    return found


def _of_variable(table: Any) -> EngineChoice:
    if not isinstance(table, tf.Variable) or table.dtype.base_dtype != tf.float32:
        return EngineChoice("it is no float32 variable")
    if table.shape.rank != 2 or not table.shape.is_fully_defined():
        return EngineChoice("its shape isn't known")
    if devices.is_of_another_task(table.op):
        return EngineChoice("it is on another task")
    return EngineChoice() if devices.is_on_cpu(table.op) else ON_GPU


def of_tables(
    found: EngineChoice,
    *,
    have_rules: bool,
    on_servers: bool = False,
    in_turns: bool = False,
    quantized: bool = False,
) -> EngineChoice:
    """Returns the engine of an embedding core's tables.

    Args:
        found: `of_graph()`, or `of_process` for objects that belong to no graph.
        have_rules: whether the kernels have the update rules of those that are trained.
        on_servers: whether they are looked up on parameter servers.
        in_turns: whether replicas update them one after the other.
        quantized: whether their values are rounded.
    """
    if not found.is_native:
        return found
    if on_servers:
        return EngineChoice("their rows come from parameter servers")
    if in_turns:
        return EngineChoice("replicas update them in turns")
    if quantized:
        return EngineChoice("they are quantized")
    return EngineChoice("" if have_rules else "the kernels don't have their optimizer")


def of_update(op: Any, table: Any, gradient: Any) -> EngineChoice:
    """Returns the engine of an optimizer's update of a table, where the kernels are used at all.

    Args:
        op: the op that updates rows.
        table: the table's handle or reference.
        gradient: gradient of the rows.
    """
    if not devices.is_on_cpu(graphs.captured_from(table).op, op):
        return ON_GPU
    is_supported = gradient.dtype == tf.float32 and gradient.shape.rank == 2
    return EngineChoice("" if is_supported else "its rows are no float32 vectors")


def found_in(graph: tf.Graph) -> str:
    """Returns what looks up and updates the tables of a graph: 'kernels' or 'TensorFlow'."""
    all_graphs = [graph, *graph.get_collection(shared_state.LOOP_BODIES)]
    types = (op.type for each in all_graphs for op in each.get_operations())
    return "kernels" if any(each.startswith(loading.PREFIX) for each in types) else "TensorFlow"


def record_loop_body() -> None:
    """Records that the default graph is the body of the driver's own training loop."""
    graph = tf.compat.v1.get_default_graph()
    # Both, as a function's graph begins with copies of the collections around it.
    for each in (graph, graph.outer_graph):
        each.get_collection_ref(shared_state.LOOP_BODIES).append(graph)
