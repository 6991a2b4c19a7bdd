# SPDX-License-Identifier: Apache-2.0
"""Nodes of a graph by name: what feeds what, values of constants, features that enter it."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from estimator_spec.saved_models.files import GraphFile

PARSERS = ("ParseExample", "ParseExampleV2")
_PLACEHOLDERS = ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault")
_MOST_ELEMENTS = 1 << 26  # of a constant that is computed
VARIABLES = ("VarHandleOp", "VariableV2", "Variable")


class UnknownPartError(ValueError):
    """A part of the graph is none that estimators make; names its node."""


@dataclasses.dataclass(frozen=True)
class GraphFeature:
    """A feature that enters a graph.

    Attributes:
        key: its key, as the columns have it.
        dtype: its `tf.DType`.
        shape: shape without the batch; None of a sparse one, or if it is unknown.
        default: of a parsed one, an array, or None.
        is_sparse: whether it is a SparseTensor.
        is_parsed: whether the graph parses it from a tf.Example.
        source: name of the signature's input, or its key in tf.Examples; '' if that is `key`.
    """

    key: str
    dtype: Any
    shape: tuple[Any, ...] | None
    default: np.ndarray | None = None
    is_sparse: bool = False
    is_parsed: bool = False
    source: str = ""

    @property
    def fed_as(self) -> str:
        """Name of the signature's input that it is fed as, or its key in tf.Examples."""
        return self.source or self.key


class StoredTensor(NamedTuple):
    """An input or output of a signature.

    Attributes:
        tensor: name of the tensor; of a sparse one, that of its values.
        dtype: its `tf.DType`.
        shape: its shape, None for an unknown size; None if the number of axes is unknown.
    """

    tensor: str
    dtype: Any
    shape: tuple[int | None, ...] | None


class GraphVariable(NamedTuple):
    """A variable of a graph.

    Attributes:
        shape: its shape.
        dtype: its `tf.DType`.
    """

    shape: tuple[int, ...]
    dtype: Any

    @property
    def num_bytes(self) -> int:
        """Number of bytes of its values."""
        return math.prod(size or 0 for size in self.shape) * int(self.dtype.size)


class GraphSignature(NamedTuple):
    """A signature of a SavedModel.

    Attributes:
        name: its key.
        method: its method, such as 'tensorflow/serving/predict'.
        inputs: inputs by key.
        outputs: outputs by key.
    """

    name: str
    method: str
    inputs: dict[str, StoredTensor]
    outputs: dict[str, StoredTensor]


class NodeGraph:
    """The nodes of a graph, by name.

    Args:
        file: the file with the graph.
        meta: the graph, a MetaGraphDef.

    Attributes:
        nodes: NodeDefs by name.
        users: nodes that read a node, by its name.
        signatures: signatures by name.
        variables: the nodes that are variables, by name.
        features: features by the tensor that holds them; of sparse ones their values.
    """

    def __init__(self, file: GraphFile, meta: Any) -> None:
        self._file, self._meta = file, meta
        self.nodes: dict[str, Any] = {node.name: node for node in meta.graph_def.node}
        self.users: dict[str, list[Any]] = {}
        for node in self.nodes.values():
            for name in dict.fromkeys(map(node_name, node.input)):
                self.users.setdefault(name, []).append(node)
        self.signatures = {
            name: GraphSignature(
                name, found.method_name, _stored(found.inputs), _stored(found.outputs)
            )
            for name, found in sorted(meta.signature_def.items())
        }
        self.variables = {
            name: GraphVariable(
                _shape(node.attr["shape"].shape), tf.as_dtype(node.attr["dtype"].type or 1)
            )
            for name, node in self.nodes.items()
            if node.op in VARIABLES
        }
        self.features = dict(self._placeholders())
        for node in self.nodes.values():
            if node.op in PARSERS:
                self.features.update(self._parsed(node))
        if not self.features:
            self.features.update(self._iterated())

    def inputs(self, node: Any) -> list[str]:
        """Returns the tensors that a node reads."""
        return [tensor_name(name) for name in node.input if not name.startswith("^")]

    def node(self, tensor: str) -> Any:
        """Returns the node of a tensor.

        Raises:
            UnknownPartError: the graph lacks it.
        """
        found = self.nodes.get(node_name(tensor))
        if found is None:
            raise UnknownPartError(f"{tensor}: the graph has no such node")
        return found

    def readers(self, name: str) -> Iterator[Any]:
        """Yields the nodes that read a node."""
        yield from self.users.get(name, ())

    def follow(self, tensor: str, places: Mapping[str, int]) -> str:
        """Returns the tensor that ops like Reshape got a tensor's values from.

        Args:
            tensor: the tensor.
            places: number of the input to go on with, by op.

        Raises:
            UnknownPartError: it leads back to itself.
        """
        seen = set()
        while tensor not in self.features:
            node = self.node(tensor)
            place = places.get(node.op)
            if place is None:
                return tensor
            if node.name in seen or place >= len(node.input):
                raise UnknownPartError(f"{node.name}: a loop, or an op without inputs")
            seen.add(node.name)
            tensor = self.inputs(node)[place]
        return tensor

    def constant(self, tensor: str) -> np.ndarray | None:
        """Returns a tensor's value, if it is made of constants alone; else None."""
        return self._constant(tensor_name(tensor), 0)

    def _constant(self, tensor: str, depth: int) -> Any:
        node = self.nodes.get(node_name(tensor))
        if node is None or depth > 20:
            return None
        if node.op == "Const":
            value = node.attr["value"].tensor
            too_large = math.prod(dim.size for dim in value.tensor_shape.dim) > _MOST_ELEMENTS
            return None if too_large else tf.make_ndarray(value)
        function = _FOLDED.get(node.op)
        if function is None:
            return None
        values = [self._constant(name, depth + 1) for name in self.inputs(node)]
        if not values or any(value is None for value in values):
            return None
        if node.op in ("Fill", "Range") and math.prod(values[0].ravel().tolist()) > _MOST_ELEMENTS:
            return None
        return np.asarray(function(node, *values))

    def asset(self, tensor: str) -> str | None:
        """Returns the path of the file that a tensor names; None if it isn't a constant."""
        name = self._assets.get(tensor_name(tensor))
        if name is not None:
            return os.path.join(self._file.directory, "assets", name)
        value = self.constant(tensor)
        return None if value is None else tf.compat.as_str_any(value.reshape(-1)[0])

    @functools.cached_property
    def _assets(self) -> dict[str, str]:
        """Names of asset files by tensor."""
        assets = list(self._meta.asset_file_def)
        # TensorFlow 1's exports have them in a collection.
        for packed in self._meta.collection_def["saved_model_assets"].any_list.value:
            info = type(self._meta)().asset_file_def.add()
            if packed.Unpack(info):
                assets.append(info)
        return {tensor_name(info.tensor_info.name): info.filename for info in assets}

    def _placeholders(self) -> Iterator[tuple[str, GraphFeature]]:
        """Yields the inputs of signatures that are placeholders.

        One that several signatures have comes last by its key in a signature of predictions: in
        others a single one is called 'inputs'.
        """
        for signature in sorted(
            self.signatures.values(), key=lambda each: each.method.endswith("/predict")
        ):
            for key, info in signature.inputs.items():
                node = self.nodes.get(node_name(info.tensor))
                if node is None or node.op not in _PLACEHOLDERS:
                    continue
                shape = info.shape[1:] if info.shape is not None else None
                is_sparse = info.tensor in self._sparse_inputs
                known = None if is_sparse or shape is None or None in shape else shape
                yield info.tensor, GraphFeature(key, info.dtype, known, None, is_sparse)

    @functools.cached_property
    def _sparse_inputs(self) -> set[str]:
        return {
            info.coo_sparse.values_tensor_name
            for signature in self._meta.signature_def.values()
            for info in signature.inputs.values()
            if info.WhichOneof("encoding") == "coo_sparse"
        }

    def _iterated(self) -> Iterator[tuple[str, GraphFeature]]:
        """Yields the features of a training, which a function of its dataset parses.

        The parts of `IteratorGetNext` are in the order of their keys, before the labels; labels
        that are parsed along are no features.
        """
        followers = [node for node in self.nodes.values() if node.op == "IteratorGetNext"]
        parsed = [
            read_parser(node, _constants_of(function, node))
            for function in self._meta.graph_def.library.function
            for node in function.node_def
            if node.op in PARSERS
        ]
        if len(followers) != 1 or len(parsed) != 1:
            return
        (node,), features = followers, sorted(parsed[0], key=lambda each: each.key)
        types = [tf.as_dtype(each) for each in node.attr["output_types"].list.type]
        labels = [label for label in features if len(features) == len(types)]
        orders = [[each for each in features if each is not label] for label in labels]
        orders = [features, *orders] if not orders or len(features) != len(types) else orders
        fitting = [
            order
            for order in orders
            if [tf.variant if f.is_sparse else f.dtype for f in order] == types[: len(order)]
        ]
        for place, feature in enumerate(fitting[0] if len(fitting) == 1 else ()):
            name = f"{node.name}:{place}"
            if feature.is_sparse:
                readers = [
                    f"{reader.name}:1"
                    for reader in self.readers(node.name)
                    if reader.op == "DeserializeSparse" and self.inputs(reader)[0] == name
                ]
                yield from ((reader, feature) for reader in readers)
            else:
                yield name, feature

    def _parsed(self, node: Any) -> Iterator[tuple[str, GraphFeature]]:
        """Yields what a node parses, by tensor."""
        parsed = read_parser(node, [self.constant(name) for name in self.inputs(node)])
        sparse = [feature for feature in parsed if feature.is_sparse]
        for number, feature in enumerate(sparse):
            yield f"{node.name}:{len(sparse) + number}", feature
        for number, feature in enumerate(parsed[len(sparse) :]):
            yield f"{node.name}:{3 * len(sparse) + number}", feature


def read_parser(node: Any, inputs: list[np.ndarray | None]) -> list[GraphFeature]:
    """Returns what a node parses from tf.Examples: sparse features, then dense ones.

    Args:
        node: a NodeDef of `PARSERS`.
        inputs: the values of its inputs, None where they aren't constants.
    """
    types = [tf.as_dtype(each) for each in node.attr["sparse_types"].list.type]
    dense_types = [tf.as_dtype(each) for each in node.attr["Tdense"].list.type]
    shapes = [_shape(shape) for shape in node.attr["dense_shapes"].list.shape]
    if node.op == "ParseExampleV2":
        keys, dense_keys = _texts(inputs[2]), _texts(inputs[3])
        defaults = inputs[5:]
    else:
        places = 2 + len(types), 2 + len(types) + len(dense_types)
        keys = [text for value in inputs[2 : places[0]] for text in _texts(value)]
        dense_keys = [text for value in inputs[places[0] : places[1]] for text in _texts(value)]
        defaults = inputs[places[1] :]
    found = [
        GraphFeature(key, dtype, None, None, is_sparse=True, is_parsed=True)
        for key, dtype in zip(keys, types, strict=True)
    ]
    for key, dtype, shape, default in zip(dense_keys, dense_types, shapes, defaults, strict=True):
        if default is not None and not default.size and 0 not in shape:
            default = None
        sizes = tuple(int(size) for size in shape)
        found.append(GraphFeature(key, dtype, sizes, default, is_parsed=True))
    return found


def _constants_of(function: Any, node: Any) -> list[np.ndarray | None]:
    """Returns the values of a node's inputs in a function, None where they aren't constants."""
    nodes = {each.name: each for each in function.node_def}
    sources = [nodes.get(node_name(name)) for name in node.input]
    return [
        tf.make_ndarray(source.attr["value"].tensor)
        if source is not None and source.op == "Const"
        else None
        for source in sources
    ]


def tensor_name(name: str) -> str:
    """Returns the name of a tensor with its number: 'a' is 'a:0'."""
    return name if ":" in name else f"{name}:0"


def node_name(name: str) -> str:
    """Returns the name of the node of a tensor, or of a control dependency."""
    return name.lstrip("^").partition(":")[0]


def _stored(infos: Mapping[str, Any]) -> dict[str, StoredTensor]:
    found = {}
    for key, info in sorted(infos.items()):
        sparse = info.WhichOneof("encoding") == "coo_sparse"
        name = info.coo_sparse.values_tensor_name if sparse else info.name
        shape = None if info.tensor_shape.unknown_rank else _shape(info.tensor_shape)
        found[key] = StoredTensor(name, tf.as_dtype(info.dtype or 1), shape)
    return found


def _shape(message: Any) -> tuple[Any, ...]:
    return tuple(None if dim.size < 0 else int(dim.size) for dim in message.dim)


def _texts(array: np.ndarray | None) -> list[str]:
    if array is None:
        raise UnknownPartError("a tf.Example's keys aren't constants")
    return [value.decode() for value in array.reshape(-1).tolist()]


_FOLDED: dict[str, Any] = {
    "Identity": lambda node, x: x,
    "Cast": lambda node, x: x.astype(tf.as_dtype(node.attr["DstT"].type).as_numpy_dtype),
    "Pack": lambda node, *x: np.stack(x, node.attr["axis"].i),
    "ConcatV2": lambda node, *x: np.concatenate(x[:-1], int(x[-1])),
    "ExpandDims": lambda node, x, axis: np.expand_dims(x, int(axis)),
    "Squeeze": lambda node, x: np.squeeze(x),
    "Range": lambda node, *x: np.arange(*x),
    "Reshape": lambda node, x, shape: x.reshape(shape),
    "Fill": lambda node, shape, x: np.full(shape, x),
    "Mul": lambda node, x, y: x * y,
    "Sub": lambda node, x, y: x - y,
    "Add": lambda node, x, y: x + y,
    "AddV2": lambda node, x, y: x + y,
}
