# SPDX-License-Identifier: Apache-2.0
"""Replaces nodes of a stored graph, or of a function in it, by what TensorFlow builds.

A replaced node keeps its name, its control inputs and the numbers of its outputs, so that readers,
signatures and colocations find it. New nodes are called `<its name>/repaired/...`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.saved_models.graph import node_name

tf1 = tf.compat.v1

_NEW = "repaired"
# Types by their names in registrations.
_TYPES = {
    "bool": tf.bool,
    "float": tf.float32,
    "int32": tf.int32,
    "int64": tf.int64,
    "resource": tf.resource,
    "string": tf.string,
    "uint8": tf.uint8,
}


class RefusedError(ValueError):
    """A node can't be replaced by one that computes the same; the text says why."""


@dataclasses.dataclass
class Call:
    """A node to be replaced.

    Attributes:
        node: the NodeDef.
        inputs: its data inputs by argument, as tensors of the graph that its replacement is built
            in; empty where the node itself is changed.
        trees: the values of the model's resources of boosted trees.
        body: the graph or function that has the node.
    """

    node: Any
    inputs: list[list[Any]]
    trees: Any
    body: Body


class OpRule(NamedTuple):
    """Replacement of an op by today's ops.

    Attributes:
        inputs: types of its inputs, in the words of its registration: `N*float, T`.
        outputs: names and types of its outputs: `sum: T`.
        build: builds the replacement in the default graph, and returns its outputs; or, if
            `changes_node`, changes the node itself.
        changes_node: what `build` does.
        same_outputs: whether the outputs of a changed node have their old names; else they are one
            argument, `output`.
    """

    inputs: str
    outputs: str
    build: Callable[[Call], Any]
    changes_node: bool = False
    same_outputs: bool = False


class Body:
    """The nodes of a graph or of a function, by name.

    Args:
        nodes: its NodeDefs.
        function: the FunctionDef; None for a graph.
    """

    def __init__(self, nodes: Any, function: Any = None) -> None:
        self.nodes = nodes
        self.function = function
        self.by_name = {node.name: node for node in nodes}
        self._scopes = {scope for node in nodes for scope in _scopes(node.name)}
        self._offsets: dict[str, int] = {}

    @property
    def name(self) -> str:
        """The function's name; '' for a graph."""
        return "" if self.function is None else self.function.signature.name

    def new_scope(self, name: str) -> str:
        """Returns a scope of a node that no node is in."""
        scope, number = f"{name}/{_NEW}", 0
        while scope in self._scopes:
            number += 1
            scope = f"{name}/{_NEW}_{number}"
        self._scopes.add(scope)
        return scope

    def note_renamed(self, name: str, outputs: Sequence[tuple[str, Sequence[Any]]]) -> None:
        """Notes that a node's outputs became one argument, `output`."""
        offset = 0
        for argument, types in outputs:
            self._offsets[f"{name}:{argument}"] = offset
            offset += len(types)

    def rename_references(self) -> None:
        """Changes the references to outputs that have other names now; graphs have numbers."""
        if self.function is None or not self._offsets:
            return
        for node in self.nodes:
            if any(self._renamed(name) != name for name in node.input):
                node.input[:] = [self._renamed(name) for name in node.input]
        for key, name in list(self.function.ret.items()):
            self.function.ret[key] = self._renamed(name)

    def _renamed(self, reference: str) -> str:
        output, _, number = reference.rpartition(":")
        offset = self._offsets.get(output)
        return reference if offset is None else f"{node_name(output)}:output:{offset + int(number)}"


def _scopes(name: str) -> Iterator[str]:
    parts = name.split("/")
    return ("/".join(parts[:end]) for end in range(1, len(parts) + 1))


def data_inputs(node: Any) -> list[str]:
    """Returns a node's inputs without the control inputs."""
    return [name for name in node.input if not name.startswith("^")]


def control_inputs(node: Any) -> list[str]:
    """Returns a node's control inputs, with their '^'."""
    return [name for name in node.input if name.startswith("^")]


def change(node: Any, op: str, inputs: Sequence[str], **attributes: Any) -> None:
    """Makes a node another op; its name, device and control inputs stay.

    Args:
        node: the NodeDef.
        op: its new op.
        inputs: its new data inputs.
        **attributes: its attributes, as AttrValue messages.
    """
    controls = control_inputs(node)
    node.op = op
    node.input[:] = [*inputs, *controls]
    values = {key: tf1.AttrValue.FromString(v.SerializeToString()) for key, v in attributes.items()}
    node.attr.clear()
    for key, value in values.items():
        node.attr[key].CopyFrom(value)


def replace(body: Body, node: Any, rule: OpRule, trees: Any) -> None:
    """Replaces a node; references to it in functions change by `Body.rename_references`.

    Args:
        body: the graph or function that has the node.
        node: the NodeDef.
        rule: the one of its op.
        trees: the values of the model's resources of boosted trees.

    Raises:
        RefusedError: this node can't be replaced; nothing has changed.
    """
    outputs = list(_arguments(rule.outputs, node.attr))
    if rule.changes_node:
        rule.build(Call(node, [], trees, body))
        if not rule.same_outputs:
            body.note_renamed(node.name, outputs)
        return
    with tf.Graph().as_default():
        inputs = [
            [tf1.placeholder(dtype, name="input") for dtype in types]
            for _, types in _arguments(rule.inputs, node.attr)
        ]
        names = [tensor.op.name for tensors in inputs for tensor in tensors]
        if len(names) != len(data_inputs(node)):
            raise RefusedError(f"it has {len(data_inputs(node))} inputs instead of {len(names)}")
        origins = dict(zip(names, data_inputs(node), strict=True))
        results = list(rule.build(Call(node, inputs, trees, body)))
    if [tensor.dtype for tensor in results] != [dtype for _, types in outputs for dtype in types]:
        raise RefusedError("its outputs aren't those that TensorFlow had registered")
    _splice(body, node, results, origins)
    body.note_renamed(node.name, outputs)


def _arguments(registered: str, attr: Any) -> Iterator[tuple[str, list[tf.DType]]]:
    """Yields names and dtypes of arguments in the words of an op's registration.

    Raises:
        RefusedError: the node lacks an attribute that they depend on.
    """
    for argument in filter(None, registered.split(", ")):
        name, _, kind = argument.rpartition(": ")
        count, _, kind = kind.rpartition("*")
        if count and count not in attr:
            raise RefusedError(f"it has no attribute {count!r}")
        if kind in attr:
            value = attr[kind]
            types = value.list.type if value.WhichOneof("value") == "list" else [value.type]
        elif kind in _TYPES:
            types = [_TYPES[kind]]
        else:
            raise RefusedError(f"it has no attribute {kind!r}")
        yield name, [tf.as_dtype(each) for each in types] * (attr[count].i if count else 1)


def _splice(body: Body, node: Any, results: Sequence[Any], origins: Mapping[str, str]) -> None:
    """Adds the ops that tensors need to a graph, and makes a node the identity of the tensors.

    Ops without inputs wait for the first input of the node: in a loop or a branch of TensorFlow 1
    they would be outside of it otherwise.

    Args:
        body: the graph or function.
        node: the NodeDef.
        results: tensors of another graph.
        origins: what the placeholders of that graph stand for, by their names.
    """
    scope = body.new_scope(node.name)
    waits_for = [f"^{scope}/{name}" for name in list(origins)[:1]] or control_inputs(node)

    def reference(tensor: Any) -> str:
        name = f"{scope}/{tensor.op.name}"
        if body.function is None:
            return name if tensor.value_index == 0 else f"{name}:{tensor.value_index}"
        return f"{name}:{_output_name(tensor.op, tensor.value_index)}"

    graph = results[0].graph
    needed = {tensor.op for tensor in results}
    needed |= {graph.get_operation_by_name(name) for name in list(origins)[:1]}
    waiting = list(needed)
    while waiting:
        op = waiting.pop()
        before = {tensor.op for tensor in op.inputs} | set(op.control_inputs)
        waiting += before - needed
        needed |= before
    for op in graph.get_operations():
        if op not in needed:
            continue
        new = body.nodes.add()
        new.CopyFrom(op.node_def)
        new.name, new.device = f"{scope}/{op.name}", node.device
        if op.name in origins:
            change(new, "Identity", [origins[op.name]], T=op.node_def.attr["dtype"])
            continue
        inputs = [reference(tensor) for tensor in op.inputs]
        controls = [f"^{scope}/{other.name}" for other in op.control_inputs]
        new.input[:] = [*inputs, *controls] or waits_for
        for attribute in op.op_def.attr:
            # Values that today's op takes where there are none; an older reader may not know them.
            has_default = attribute.HasField("default_value")
            if has_default and new.attr[attribute.name] == attribute.default_value:
                del new.attr[attribute.name]
    types = tf1.AttrValue()
    types.list.type.extend(tensor.dtype.as_datatype_enum for tensor in results)
    if len(results) == 1:
        change(node, "Identity", [reference(results[0])], T=tf1.AttrValue(type=types.list.type[0]))
    else:
        change(node, "IdentityN", [reference(tensor) for tensor in results], T=types)


def _output_name(op: Any, index: int) -> str:
    """Returns the name of an op's output in a function, `output:0`."""
    for argument in op.op_def.output_arg:
        count = 1
        if argument.number_attr:
            count = op.get_attr(argument.number_attr)
        elif argument.type_list_attr:
            count = len(op.get_attr(argument.type_list_attr))
        if index < count:
            return f"{argument.name}:{index}"
        index -= count
    raise IndexError(f"{op.name} has no output {index}")
