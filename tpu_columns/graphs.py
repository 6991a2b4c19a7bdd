# SPDX-License-Identifier: Apache-2.0
"""Walks graphs: what ops depend on, what depends on them, and the variables behind tensors."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any, TypeVar

import tensorflow as tf

from tpu_columns import storage

_Node = TypeVar("_Node")


def walk(starts: Iterable[_Node], following: Callable[[_Node], Iterable[_Node]]) -> Iterator[_Node]:
    """Yields nodes, and all that are reached from them, once each.

    >>> list(walk([1], lambda number: [2 * number, number + 3] if number < 5 else []))
    [1, 4, 7, 8, 2, 5]

    Args:
        starts: the nodes.
        following: returns those that a node leads to.
    """
    found: set[_Node] = set()
    todo = list(starts)
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            yield node
            todo += following(node)


def ancestors(
    ops: Iterable[Any], known: Container[Any] = (), through_controls: bool = True
) -> Iterator[Any]:
    """Yields ops, and all ops that they depend on, once each.

    Args:
        ops: the ops.
        known: ops that are left out, with those that only they depend on.
        through_controls: whether an op depends on its control inputs.
    """

    def before(op: Any) -> list[Any]:
        inputs = [value.op for value in op.inputs]
        inputs += op.control_inputs if through_controls else []
        return [each for each in inputs if each not in known]

    return walk([op for op in ops if op not in known], before)


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
