# SPDX-License-Identifier: Apache-2.0
"""Recovers hidden layers: their widths, activation and batch normalization."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.saved_models.columns import ColumnReader, walk_up
from estimator_spec.saved_models.graph import NodeGraph, UnknownPartError, node_name

_KERNEL = re.compile(r"dnn/hiddenlayer_(\d+)/kernel")
_LOGITS_KERNEL = "dnn/logits/kernel"
# A layer's output before its activation, or what is of no layer.
_ENDS = ("BiasAdd", "MatMul", "Const", "VarHandleOp", "ReadVariableOp")
ACTIVATIONS = {
    "Relu": tf.nn.relu,
    "Relu6": tf.nn.relu6,
    "Tanh": tf.nn.tanh,
    "Sigmoid": tf.nn.sigmoid,
    "Elu": tf.nn.elu,
    "Selu": tf.nn.selu,
    "Softplus": tf.nn.softplus,
    "Exp": tf.exp,
    "Softsign": tf.nn.softsign,
    "LeakyRelu": tf.nn.leaky_relu,
}
"""Activation functions by the op that they are."""


class RecoveredLayers(NamedTuple):
    """The hidden layers of a deep model.

    Attributes:
        units: widths.
        activation: the function, or None for linear layers.
        batch_norm: whether outputs are normalized.
        inputs: the tensors that the first layer's input is concatenated of.
    """

    units: tuple[int, ...]
    activation: Any
    batch_norm: bool
    inputs: tuple[str, ...]


def recover(graph: NodeGraph, columns: ColumnReader) -> RecoveredLayers | None:
    """Returns the hidden layers of a graph; None if it has none.

    Raises:
        UnknownPartError: an activation isn't known.
    """
    kernels = {}
    for name, variable in columns.variables.items():
        match = _KERNEL.fullmatch(name)
        if match:
            kernels[int(match[1])] = (name, variable.shape)
    if not kernels:
        return None
    names = [kernels[number][0] for number in sorted(kernels)]
    products = {name: _product(graph, columns, name) for name in (*names, _LOGITS_KERNEL)}
    first = graph.node(graph.follow(graph.inputs(products[names[0]])[0], {"Identity": 0}))
    is_concatenated = first.op == "ConcatV2" and node_name(first.name) not in graph.features
    inputs = graph.inputs(first)[:-1] if is_concatenated else graph.inputs(products[names[0]])[:1]
    return RecoveredLayers(
        tuple(int(kernels[number][1][1]) for number in sorted(kernels)),
        _activation(graph, products[names[0]], products[(*names, _LOGITS_KERNEL)[1]]),
        any(re.match(r"dnn/.*batchnorm_\d+/", name) for name in columns.variables),
        tuple(inputs),
    )


def _product(graph: NodeGraph, columns: ColumnReader, kernel: str) -> Any:
    """Returns the node that multiplies with a kernel, outside of gradients."""
    for node in graph.nodes.values():
        if node.op == "MatMul" and columns.variable_of(graph.inputs(node)[1]) == kernel:
            return node
    raise UnknownPartError(f"{kernel}: no layer multiplies with it")


def _activation(graph: NodeGraph, layer: Any, following: Any) -> Any:
    """Returns the activation function between two layers, or None."""
    between = [graph.node(tensor) for tensor in walk_up(graph, graph.inputs(following)[0], _ENDS)]
    sums = [node for node in between if node.op == "BiasAdd"]
    ops = {
        node.op
        for node in between
        if node.op in ACTIVATIONS
        or node.op in ("Erf", "Maximum", "Minimum", "Pow", "ConcatV2", "Softmax", "Sign", "Abs")
    }
    # silu is a product of the sum and its sigmoid.
    factors = {name for node in between if node.op == "Mul" for name in graph.inputs(node)}
    if not sums:
        raise UnknownPartError(f"{layer.name}: no bias is added to the layer")
    if ops == {"Sigmoid"} and f"{sums[0].name}:0" in factors:
        return tf.nn.silu
    if ops == {"Erf"}:
        return tf.nn.gelu
    if len(ops) > 1 or ops - set(ACTIVATIONS):
        raise UnknownPartError(f"{sums[0].name}: an activation of the ops {', '.join(sorted(ops))}")
    (op,) = ops or {None}
    found = [node for node in between if node.op == "LeakyRelu"]
    if any("alpha" in node.attr and abs(node.attr["alpha"].f - 0.2) > 1e-6 for node in found):
        raise UnknownPartError(f"{found[0].name}: a leaky_relu whose alpha isn't 0.2")
    return None if op is None else ACTIVATIONS[op]
