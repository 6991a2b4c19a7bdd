# SPDX-License-Identifier: Apache-2.0
"""Writes the ops between a feature and the numbers of a column as a Python function."""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.saved_models.graph import NodeGraph, UnknownPartError

# Ops that a numeric column has without a normalizer.
_OF_COLUMNS = ("Cast", "Identity", "Reshape", "ExpandDims", "Squeeze", "EnsureShape")
_PASSED = ("Identity", "CheckNumerics", "StopGradient", "EnsureShape", "Snapshot")
_OPERATORS = {
    "Add": "+",
    "AddV2": "+",
    "Sub": "-",
    "Mul": "*",
    "RealDiv": "/",
    "Div": "/",
    "Pow": "**",
    "FloorDiv": "//",
    "FloorMod": "%",
    "Greater": ">",
    "GreaterEqual": ">=",
    "Less": "<",
    "LessEqual": "<=",
}
_FUNCTIONS = {
    **{
        op: f"tf.math.{name}"
        for op, name in (
            *(("Log", "log"), ("Log1p", "log1p"), ("Exp", "exp"), ("Expm1", "expm1")),
            *(("Sqrt", "sqrt"), ("Rsqrt", "rsqrt"), ("Square", "square"), ("Abs", "abs")),
            *(("Sign", "sign"), ("Tanh", "tanh"), ("Sigmoid", "sigmoid"), ("Neg", "negative")),
            *(("Maximum", "maximum"), ("Minimum", "minimum"), ("Floor", "floor"), ("Ceil", "ceil")),
            *(("Sin", "sin"), ("Cos", "cos"), ("Reciprocal", "reciprocal"), ("Inv", "reciprocal")),
            *(("DivNoNan", "divide_no_nan"), ("IsNan", "is_nan"), ("IsFinite", "is_finite")),
            *(("LogicalNot", "logical_not"), ("LogicalAnd", "logical_and"), ("IsInf", "is_inf")),
            *(("LogicalOr", "logical_or"), ("Equal", "equal"), ("NotEqual", "not_equal")),
            *(("SquaredDifference", "squared_difference"), ("Asinh", "asinh"), ("Erf", "erf")),
            *(("Softplus", "softplus"),),
        )
    },
    "Round": "tf.round",
    "Select": "tf.where",
    "SelectV2": "tf.where",
    "ZerosLike": "tf.zeros_like",
    "OnesLike": "tf.ones_like",
    "ClipByValue": "tf.clip_by_value",
    "Relu": "tf.nn.relu",
    "Relu6": "tf.nn.relu6",
}
_LONGEST = 2000


def recover(graph: NodeGraph, source: str, tensor: str) -> Callable[[Any], Any] | None:
    """Returns the function that computes a tensor of a feature; None if it is the feature.

    Its source is there for `inspect`.

    Args:
        graph: the graph.
        source: the feature's tensor.
        tensor: the numbers.

    Raises:
        UnknownPartError: an op between them isn't known.
    """
    if graph.follow(tensor, dict.fromkeys(_OF_COLUMNS, 0)) == source:
        return None
    expression = _Writer(graph, source).write(tensor)
    text = f"lambda x: {expression}"
    # As for functions of an interpreter's prompt: `inspect` finds sources by the file's name.
    path = f"<normalizer_fn of {source} in {tensor}>"
    linecache.cache[path] = (len(text), None, [text + "\n"], path)
    function: Callable[[Any], Any] = eval(compile(text, path, "eval"), {"tf": tf})
    return function


class _Writer:
    """Writes the ops between a feature and a tensor as an expression of `x`."""

    def __init__(self, graph: NodeGraph, source: str) -> None:
        self._graph, self._source = graph, source
        self._length = 0

    def write(self, tensor: str) -> str:
        """Returns the expression of a tensor; one of operators has parentheses."""
        if tensor == self._source:
            return "x"
        value = self._graph.constant(tensor)
        if value is not None:
            return literal(value, tensor)
        node = self._graph.node(tensor)
        inputs = self._graph.inputs(node)
        self._length += 1
        if self._length > _LONGEST:
            raise UnknownPartError(f"{node.name}: a function of more than {_LONGEST} ops")
        if node.op in _PASSED:
            return self.write(inputs[0])
        if node.op == "Cast":
            dtype = tf.as_dtype(node.attr["DstT"].type).name
            return f"tf.cast({self.write(inputs[0])}, tf.{dtype})"
        if node.op in ("Reshape", "ExpandDims"):
            return self._shaped(node, inputs)
        arguments = [self.write(name) for name in inputs]
        if node.op in _OPERATORS:
            return f"({arguments[0]} {_OPERATORS[node.op]} {arguments[1]})"
        if node.op in _FUNCTIONS:
            return f"{_FUNCTIONS[node.op]}({', '.join(arguments)})"
        raise UnknownPartError(f"{node.name}: {node.op} in the numbers of a feature")

    def _shaped(self, node: Any, inputs: list[str]) -> str:
        shape = self._graph.constant(inputs[1])
        if shape is None:
            raise UnknownPartError(f"{node.name}: {node.op} by a computed shape")
        name = "tf.reshape" if node.op == "Reshape" else "tf.expand_dims"
        return f"{name}({self.write(inputs[0])}, {shape.tolist()})"


def literal(value: np.ndarray, tensor: str) -> str:
    """Returns Python's text of a constant: the shortest that is the same in its dtype."""
    if value.dtype.kind not in "fiub" or value.size > 1000:
        raise UnknownPartError(f"{tensor}: a constant of {value.dtype} and shape {value.shape}")
    if value.ndim:
        return f"[{', '.join(literal(each, tensor) for each in value)}]"
    if value.dtype.kind != "f":
        return repr(value.item())
    if not math.isfinite(value.item()):
        return f'float("{value.item()}")'
    return repr(float(str(value)))
