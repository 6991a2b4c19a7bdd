# SPDX-License-Identifier: Apache-2.0
"""Reads a tensor that depends on the global step, such as a learning rate, as Keras' operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.convert.keras_columns.expressions import Name, call

STEP = Name("step")

_OPERATIONS = {
    "Add": "add",
    "AddV2": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "RealDiv": "divide",
    "FloorDiv": "floor_divide",
    "FloorMod": "mod",
    "Pow": "power",
    "Neg": "negative",
    "Minimum": "minimum",
    "Maximum": "maximum",
    "Floor": "floor",
    "Ceil": "ceil",
    "Exp": "exp",
    "Log": "log",
    "Sqrt": "sqrt",
    "Rsqrt": "rsqrt",
    "Square": "square",
    "Cos": "cos",
    "Sin": "sin",
    "Less": "less",
    "LessEqual": "less_equal",
    "Equal": "equal",
    "Greater": "greater",
    "GreaterEqual": "greater_equal",
    "NotEqual": "not_equal",
    "LogicalAnd": "logical_and",
    "LogicalOr": "logical_or",
    "LogicalNot": "logical_not",
    "Select": "where",
    "SelectV2": "where",
}
_SAME = ("Identity", "ReadVariableOp")
_CONDITIONS = ("If", "StatelessIf")
_BRANCHES = ("then_branch", "else_branch")


def read(tensor: Any) -> Any:
    """Returns the expression of a tensor of a graph, in which `STEP` is the global step.

    Raises:
        ValueError: it depends on something else, or needs an operation that Keras doesn't have.
    """
    graph = tensor.graph.as_graph_def()
    functions = {function.signature.name: function for function in graph.library.function}
    return _Reader(graph.node, {}, functions).read(tensor.name)


class _Reader:
    """Reads the tensors of a graph, or of a function of it.

    Args:
        nodes: its nodes.
        given: expressions of a function's arguments by name.
        functions: all functions of the graph by name.
    """

    def __init__(self, nodes: Any, given: Mapping[str, Any], functions: Mapping[str, Any]) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._given = given
        self._functions = functions

    def read(self, tensor: str) -> Any:
        """Returns the expression of a tensor by its name, `NODE`, `NODE:0` or `NODE:output:0`."""
        name, _, output = tensor.partition(":")
        if name in self._given:
            return self._given[name]
        node = self._nodes[name]
        if name == tf.compat.v1.GraphKeys.GLOBAL_STEP:
            return STEP
        if node.op == "Const":
            return number(tf.make_ndarray(node.attr["value"].tensor))
        if node.op not in (*_OPERATIONS, *_SAME, *_CONDITIONS, "Cast"):
            raise ValueError(f"it needs {node.op} ({name}), which isn't a function of the step")
        inputs = [self.read(each) for each in node.input if not each.startswith("^")]
        if node.op in _SAME:
            return inputs[0]
        if node.op == "Cast":
            return call("keras.ops.cast", inputs[0], tf.as_dtype(node.attr["DstT"].type).name)
        if node.op in _CONDITIONS:
            index = int(output.rpartition(":")[2] or 0)
            branches = [
                self._call(node.attr[key].func.name, inputs[1:], index) for key in _BRANCHES
            ]
            return call("keras.ops.where", inputs[0], *branches)
        return call(f"keras.ops.{_OPERATIONS[node.op]}", *inputs)

    def _call(self, name: str, values: list[Any], index: int) -> Any:
        """Returns the expression of a function's result."""
        function = self._functions[name]
        names = [argument.name for argument in function.signature.input_arg]
        inner = _Reader(function.node_def, dict(zip(names, values, strict=True)), self._functions)
        return inner.read(function.ret[function.signature.output_arg[index].name])


def number(array: Any) -> Any:
    """Returns a number of NumPy's as Python's, without noise such as 0.10000000149.

    Raises:
        ValueError: it is an array of several.
    """
    if array.ndim:
        raise ValueError(f"it needs an array of shape {list(array.shape)}")
    return float(str(array)) if array.dtype.kind == "f" else array.item()
