# SPDX-License-Identifier: Apache-2.0
"""Initial values of large variables that are one number all over, made with less memory.

Optimizers start their slot variables from constants. A session keeps each constant for as long as
it lives, and a variable that was made from one shares its memory, so that the first update of
some of its rows copies it whole: a table of 1 GiB and its slot would take 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from estimator_spec._tensorflow import graph_surgery

tf1 = tf.compat.v1

_LARGE = 1 << 20  # bytes
_ASSIGN = frozenset({"Assign", "AssignVariableOp"})


def with_less_memory(graph: tf.Graph) -> None:
    """Changes how a graph's large variables get their initial values.

    Float32 variables of 1 MiB and more that begin as one number all over are filled when the
    session starts, in place of copying a constant that the session keeps.

    Args:
      graph: finished, but not yet in a session. Its ops are changed and added to.
    """
    for assign in list(_large(graph)):
        _fill_when_needed(graph, assign)


def _large(graph: tf.Graph) -> Iterator[Any]:
    """The ops that give large variables of floats their initial values."""
    for variable in graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES):
        assign = getattr(variable, "initializer", None)
        # A warm start puts something else there.
        if not isinstance(assign, tf.Operation) or assign.type not in _ASSIGN:
            continue
        value = assign.inputs[1]
        if value.dtype.base_dtype != tf.float32 or not value.shape.is_fully_defined():
            continue
        is_large = value.shape.num_elements() * tf.float32.size >= _LARGE
        if is_large and graph_surgery.control_flow_context(value.op) is None:
            yield assign


def _fill_when_needed(graph: tf.Graph, assign: Any) -> None:
    """Fills a variable that is one number all over when a session starts, and keeps nothing."""
    value = assign.inputs[1]
    name = tf1.name_scope(value.op.name + "_when_needed/")
    with graph.as_default(), name, tf1.device(value.op.device):
        number = _the_number(value)
        if number is not None:
            # If TensorFlow knew the dimensions beforehand, it would make a constant again. To it
            # the only integer from 0 to below 1 is a random one.
            no_axis = tf.constant([], tf.int32)
            zero = tf.raw_ops.RandomUniformInt(shape=no_axis, minval=0, maxval=1, seed=1, seed2=1)
            filled = tf.fill(value.shape.as_list() + zero, number)
            filled.set_shape(value.shape)
            graph_surgery.replace_input(assign, filled, 1)


def _the_number(value: Any) -> Any:
    """What a tensor is all over, as a scalar; None if it isn't known to be."""
    if value.op.type == "Fill":
        return value.op.inputs[1]
    if value.op.type == "Const":
        numbers = value.op.get_attr("value").float_val
        if len(numbers) == 1:  # It stands for all.
            return tf.constant(numbers[0], tf.float32)
    return None
