# SPDX-License-Identifier: Apache-2.0
"""Initializes large variables without keeping a constant of their size.

Optimizers initialize slot variables from constants. A session keeps each constant until it is
closed, and a variable that is initialized from one shares its memory, so that the first update of
some rows copies all of them: a table of 1 GiB and its slot variable would take 3 GiB.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import graph_surgery
from estimator_spec.core.cores import stacked_tables
from estimator_spec.core.updates import dependencies
from tpu_columns import initial_rows

LARGE = 1 << 20
"""Bytes from which a variable is large: its constant is replaced, and saves read it in place."""


def replace_large_constants(graph: tf.Graph) -> None:
    """Replaces constants that initialize large variables by ops that fill them.

    This concerns float32 variables of at least 1 MiB whose elements are all equal at first.

    Args:
        graph: the finished graph, before it has a session. Ops are added and changed.
    """
    for assign in list(_large_initializers(graph)):
        _replace_by_fill(graph, assign)


def _large_initializers(graph: tf.Graph) -> Iterator[Any]:
    """Yields the ops that initialize large float32 variables."""
    for variable, _ in stacked_tables.large_variables(graph, LARGE):
        assign = getattr(variable, "initializer", None)
        # A warm start replaces the initializer.
        if not isinstance(assign, tf.Operation) or assign.type not in dependencies.ASSIGNMENTS:
            continue
        value = assign.inputs[1]
        if value.dtype.base_dtype != tf.float32 or not value.shape.is_fully_defined():
            continue
        if graph_surgery.control_flow_context(value.op) is None:
            yield assign


def _replace_by_fill(graph: tf.Graph, assign: Any) -> None:
    """Replaces the input of an initializer by a fill op, if all its elements are equal."""
    value = assign.inputs[1]
    name = tf.compat.v1.name_scope(value.op.name + "_when_needed/")
    with graph.as_default(), name, tf.compat.v1.device(value.op.device):
        number = _uniform_element(value)
        if number is not None:
            shape = initial_rows.shape_when_needed(value.shape.as_list())
            filled = tf.fill(shape, number)
            filled.set_shape(value.shape)
            graph_surgery.replace_input(assign, filled, 1)


def _uniform_element(value: Any) -> Any:
    """Returns the element that all elements of a tensor equal, a scalar; None if unknown."""
    if value.op.type == "Fill":
        return value.op.inputs[1]
    if value.op.type == "Const":
        numbers = value.op.get_attr("value").float_val
        if len(numbers) == 1:  # the other elements equal it
            return tf.constant(numbers[0], tf.float32)
    return None
