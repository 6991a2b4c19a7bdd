# SPDX-License-Identifier: Apache-2.0
"""Writes training graphs without native kernels to `.meta` files and summaries.

Other programs read these files, and have not loaded the kernels. So the graph's `GraphDef` has the
TensorFlow ops that the kernels replaced, which are still in the graph. Those of the host core
replaced none, and stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from estimator_spec._tensorflow import graph_surgery


def write_original_ops(
    graph: tf.Graph, replaced: Mapping[Any, Any], update_inputs: Mapping[Any, Iterable[Any]]
) -> None:
    """Makes `graph.as_graph_def` return the original ops in place of native ones.

    TensorFlow's savers and summary writers get a graph by this method; sessions do not.

    Args:
        graph: the graph. Its method is replaced, and may be called at any time.
        replaced: the native op that replaces each original op. If several have the same native op,
            the outputs of the first replace its outputs.
        update_inputs: the inputs that replaced updates had, by original op.
    """
    names: dict[str, str] = {}
    for original, native in replaced.items():
        names.setdefault(native.name, original.name)
    inputs = {op.name: [value.name for value in values] for op, values in update_inputs.items()}
    as_graph_def = graph.as_graph_def

    def as_original_graph_def(*args: Any, **kwargs: Any) -> Any:
        graph_def = as_graph_def(*args, **kwargs)
        changed = {*names, *inputs}
        for native in names:
            users = graph_surgery.find_users(graph.get_operation_by_name(native))
            changed |= {user.name for user in users}
        for node in graph_def.node:
            if node.name in changed:
                _restore(node, names, inputs)
        return graph_def

    graph.as_graph_def = as_original_graph_def


def _restore(node: Any, names: dict[str, str], inputs: dict[str, list[str]]) -> None:
    """Changes a node of a `GraphDef` to what it would be without native ops."""
    if node.name in names:
        # Removing it would copy the list of nodes. A program may run it by its name.
        node.op = "NoOp"
        node.attr.clear()
        node.input[:] = [f"^{names[node.name]}"]
        return
    found = list(node.input)
    if node.name in inputs:
        found = inputs[node.name] + [value for value in found if value.startswith("^")]
    del node.input[:]
    for value in found:
        control = "^" if value.startswith("^") else ""
        name, colon, output = value.removeprefix("^").partition(":")
        name = names.get(name, name)
        if not (control and name == node.name):  # the original update waited for its replacement
            node.input.append(f"{control}{name}{colon}{output}")
