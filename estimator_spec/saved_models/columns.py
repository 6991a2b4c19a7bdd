# SPDX-License-Identifier: Apache-2.0
"""Recovers feature columns from the ops between the features and the variables of a graph.

What a column is, is read from ops and their constants, not from names: `StringToHashBucketFast` has
the number of buckets, `Bucketize` the boundaries, the initializer of a table the words.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.saved_models import categorical, normalizers
from estimator_spec.saved_models.graph import (
    GraphVariable,
    NodeGraph,
    UnknownPartError,
    node_name,
)
from tpu_columns.partition import unsharded_name
from tpu_columns.storage import SCALE

fc = tf.feature_column

_GATHERS = ("ResourceGather", "GatherV2", "Gather")
# What is between the gathered rows and the op that combines them: parts of a partitioned table,
# rows of repeated ids, clipped norms.
_ROWS = (
    *("Identity", "Cast", "Reshape", "GatherV2", "Gather", "Mul", "RealDiv", "Maximum"),
    *("DynamicStitch", "ParallelDynamicStitch", "ResourceGather", "Sqrt", "Sum", "Square"),
    *("Select", "SelectV2", "ConcatV2"),
)
_READS = dict.fromkeys(("Identity", "ReadVariableOp", "ConcatV2", "Reshape", "StopGradient"), 0)
_DENSE = dict.fromkeys(("Reshape", "Identity", "Squeeze", "ExpandDims"), 0)
_SEGMENTS = {"SparseSegmentMean": "mean", "SparseSegmentSqrtN": "sqrtn", "SparseSegmentSum": "sum"}
_WEIGHTED_SUMS = ("SegmentSum", "SegmentSumV2", "UnsortedSegmentSum")
_DIVISIONS = ("RealDiv", "DivNoNan", "Div")
# Sums of exports of `TPUEstimator`: a sparse matrix of 0 and 1, or of weights, by the rows.
_PRODUCT = "SparseTensorDenseMatMul"
_SUMMED = ("SplitV", "Identity")


@dataclasses.dataclass(frozen=True)
class RecoveredColumn:
    """A column of a model.

    Attributes:
        column: the column, of `tf.feature_column`.
        tensor: what it returns in the graph: its values, or of a linear model its weights' sum.
        variable: name of its variable, or None.
    """

    column: Any
    tensor: str
    variable: str | None


class Combination(NamedTuple):
    """Combiner and weights of a lookup.

    Attributes:
        combiner: 'sum', 'mean' or 'sqrtn'; None of an id an example, where they are the same.
        weights: key of the feature with the ids' weights, or None.
        max_norm: the rows are clipped to this norm, or None.
        tensor: the combined rows.
        drops_invalid: whether negative ids, and those of weights that aren't positive, are dropped.
    """

    combiner: str | None
    weights: str | None
    max_norm: float | None
    tensor: str
    drops_invalid: bool = False


class TableLookup(NamedTuple):
    """A lookup of a variable's rows.

    Attributes:
        variable: name of the variable, without that of its part.
        ids: the tensor of its ids.
        node: the node that gathers the rows.
    """

    variable: str
    ids: str
    node: Any


class ColumnReader:
    """Reads the columns of a graph.

    Args:
        graph: the graph.

    Attributes:
        variables: variables by name; those in parts are whole.
    """

    def __init__(self, graph: NodeGraph) -> None:
        self._graph = graph
        self._ids = categorical.CategoricalReader(graph, self.numeric)
        self.variables: dict[str, GraphVariable] = {}
        for name, part in sorted(graph.variables.items()):
            base = unsharded_name(name)
            known = self.variables.get(base)
            if known is not None and part.shape:
                rows = known.shape[0] + part.shape[0]
                part = part._replace(shape=(rows, *part.shape[1:]))
            self.variables[base] = part

    # Dense columns.

    def dense(self, tensor: str) -> Any:
        """Returns the dense column whose values a tensor holds."""
        graph = self._graph
        tensor = graph.follow(tensor, _DENSE)
        if tensor in graph.features:
            return self.numeric(tensor)
        node = graph.node(tensor)
        inputs = graph.inputs(node)
        if node.op == "Sum" and graph.node(inputs[0]).op == "OneHot":
            node = graph.node(inputs[0])
            ids, depth = graph.inputs(node)[:2]
            return fc.indicator_column(self._of_size(ids, self._size(depth)))
        if node.op == "OneHot":
            return self._ids.read(inputs[0], None)  # a bucketized column
        if node.op in ("ScatterNd", "SparseToDense"):
            return fc.indicator_column(self._merged(node))
        lookup = self.lookup_below(node.name)
        if lookup is not None:
            return self.embedding(lookup)
        return self.numeric(tensor)

    def numeric(self, tensor: str) -> Any:
        """Returns the numeric column of a tensor of numbers."""
        graph = self._graph
        sources = sorted(graph_sources(graph, tensor))
        keys = sorted({graph.features[name].key for name in sources})
        if len(sources) != 1:
            raise UnknownPartError(f"{tensor}: numbers of {keys or 'no feature'}, not of one")
        feature = graph.features[sources[0]]
        if feature.is_sparse or not (feature.dtype.is_floating or feature.dtype.is_integer):
            raise UnknownPartError(
                f"{tensor}: numbers computed of the {feature.dtype.name} feature {feature.key!r}"
            )
        default = feature.default
        return fc.numeric_column(
            feature.key,
            feature.shape or (1,),
            None if default is None else default.reshape(feature.shape or (1,)).tolist(),
            feature.dtype,
            normalizers.recover(graph, sources[0], tensor),
        )

    def embedding(self, lookup: TableLookup) -> Any:
        """Returns the embedding column of a lookup."""
        column, combination = self.looked_up(lookup)
        dimension = self.variables[lookup.variable].shape[1]
        ids = walk_up(self._graph, lookup.ids)
        return fc.embedding_column(
            column,
            dimension,
            combination.combiner or "mean",
            max_norm=combination.max_norm,
            use_safe_embedding_lookup=combination.drops_invalid
            or any(self._fills_rows(name) for name in ids),
        )

    def _fills_rows(self, tensor: str) -> bool:
        """Returns whether examples without ids get one, for rows of zeros after the lookup."""
        graph = self._graph
        return tensor not in graph.features and graph.node(tensor).op == "SparseFillEmptyRows"

    def looked_up(self, lookup: TableLookup) -> tuple[Any, Combination]:
        """Returns the categorical column of a lookup, and how its rows are combined."""
        rows = self.variables[lookup.variable].shape[0]
        column = self._of_size(lookup.ids, rows)
        combination = self._combination(lookup.node)
        if combination.weights is not None:
            column = fc.weighted_categorical_column(column, combination.weights)
        return column, combination

    def _of_size(self, ids: str, size: int) -> Any:
        """Returns the categorical column of ids, which must have as many as there is room for."""
        column = self._ids.read(ids, size)
        if column.num_buckets != size:
            raise UnknownPartError(
                f"{ids}: ids from 0 to {size - 1}, of which the graph computes those below "
                f"{column.num_buckets} from {column.name!r}: no column of a feature does so"
            )
        return column

    def _size(self, tensor: str) -> int:
        value = self._graph.constant(tensor)
        if value is None:
            raise UnknownPartError(f"{tensor}: the size of an indicator isn't a constant")
        return int(value)

    def _merged(self, node: Any) -> Any:
        """Returns the column of `sparse_merge(ids, weights)`: the ids are in its indices."""
        graph = self._graph
        inputs = graph.inputs(node)
        indices, values = (inputs[0], inputs[1] if node.op == "ScatterNd" else inputs[2])
        weights = self._weights(values)
        size = None
        for user in graph.readers(node.name):
            shape = graph.inputs(user)[1] if user.op == "Reshape" else None
            packed = graph.node(shape) if shape else None
            if packed is not None and packed.op == "Pack":
                last = graph.constant(graph.inputs(packed)[-1])
                size = None if last is None else int(last)
        for tensor in walk_up(graph, indices, categorical.BEGINNINGS):
            if self._ids.begins(tensor):
                column = self._ids.read(tensor, size)
                return fc.weighted_categorical_column(column, weights)
        raise UnknownPartError(f"{node.name}: the ids of an indicator aren't found")

    # Lookups.

    def lookup_below(self, name: str) -> TableLookup | None:
        """Returns the lookup of a variable that a node is computed of; the nearest one."""
        graph = self._graph
        for tensor in walk_up(graph, name):
            node = graph.node(tensor)
            if node.op in (*_GATHERS, _PRODUCT):
                lookup = self.lookup_of(node)
                if lookup is not None:
                    return lookup
        return None

    def lookup_of(self, node: Any) -> TableLookup | None:
        """Returns the lookup that a node is; None if it gathers rows of no variable."""
        inputs = self._graph.inputs(node)
        rows, ids = (inputs[3], self._columns_of(inputs[0])) if node.op == _PRODUCT else inputs[:2]
        variable = self.variable_of(rows)
        if variable is None or self.is_scale(variable):
            return None
        return TableLookup(variable, ids, node)

    def is_scale(self, variable: str) -> bool:
        """Returns whether a variable has the scales of a table that is exported as int8."""
        table = self.variables.get(variable.removesuffix(SCALE))
        return variable.endswith(SCALE) and table is not None and table.dtype == tf.int8

    def _columns_of(self, indices: str) -> str:
        """Returns the ids that the indices of a product's matrix are packed of."""
        graph = self._graph
        for tensor in walk_up(graph, indices, ("LeftShift",)):
            node = graph.node(tensor)
            if node.op == "LeftShift":
                # Clipped to the rows of the table, since a product checks no indices.
                return graph.follow(graph.inputs(node)[0], {"Maximum": 0, "Minimum": 0})
        return indices

    def variable_of(self, tensor: str) -> str | None:
        """Returns the name of the variable that a tensor is the value of."""
        node = self._graph.node(self._graph.follow(tensor, _READS))
        return unsharded_name(node.name) if node.name in self._graph.variables else None

    def _combination(self, lookup: Any) -> Combination:
        graph, max_norm, sums, selected = self._graph, None, [], None
        if lookup.op == _PRODUCT:
            return self._of_product(lookup, None)
        for node in self._after(lookup.name):
            if node.op == _PRODUCT:
                return self._of_product(node, max_norm)
            if (
                node.op in categorical.SELECTIONS
                and graph.node(graph.inputs(node)[1]).op == "ZerosLike"
            ):
                selected = node
            if node.op in _SEGMENTS:
                return Combination(_SEGMENTS[node.op], None, max_norm, node.name)
            if node.op in _WEIGHTED_SUMS:
                sums.append(node)
            limit = graph.constant(graph.inputs(node)[1]) if node.op == "Maximum" else None
            max_norm = max_norm if limit is None else categorical.shortest(float(limit))
        for node in sums:
            weights = self._factor(node, lookup)
            if weights is None:
                continue
            for user in graph.readers(node.name):
                if user.op in _DIVISIONS and node_name(user.input[0]) == node.name:
                    below = walk_up(graph, user.input[1], _WEIGHTED_SUMS)
                    ops = {graph.node(name).op for name in below}
                    combiner = "sqrtn" if "Sqrt" in ops else "mean"
                    return Combination(combiner, weights, max_norm, user.name)
            return Combination("sum", weights, max_norm, node.name)
        if selected is not None and not sums:  # an id an example, or none
            return Combination(None, None, max_norm, selected.name, drops_invalid=True)
        raise UnknownPartError(f"{lookup.name}: how its rows are combined isn't found")

    def _of_product(self, node: Any, max_norm: float | None) -> Combination:
        """Returns how a product combines rows: it sums them, and a division may follow."""
        graph = self._graph
        values = graph.inputs(node)[1]
        masked = graph.node(values)
        if masked.op in categorical.SELECTIONS:  # 0 for weights of ids that are dropped
            values = graph.inputs(masked)[1]
        is_weighted = graph.node(values).op not in ("Cast", "Fill", "OnesLike")
        weights = self._weights(values) if is_weighted else None
        drops_invalid = any(each.op == "SplitV" for each in graph.readers(node.name))
        todo = [node]
        for each in todo:  # which grows
            for user in graph.readers(each.name):
                if user.op in _DIVISIONS and node_name(user.input[0]) == each.name:
                    below = graph.node(graph.follow(user.input[1], {"Identity": 0, "Cast": 0}))
                    combiner = "sqrtn" if below.op == "Sqrt" else "mean"
                    return Combination(combiner, weights, max_norm, user.name, drops_invalid)
                if user.op in _SUMMED:
                    todo.append(user)
        return Combination("sum", weights, max_norm, todo[-1].name, drops_invalid)

    def _after(self, name: str) -> Iterator[Any]:
        """Yields the nodes that gathered rows go through, up to those that combine them."""
        todo, seen = [name], set()
        while todo:
            for node in self._graph.readers(todo.pop(0)):
                if node.name in seen:
                    continue
                seen.add(node.name)
                yield node
                if node.op in _ROWS:
                    todo.append(node.name)

    def _factor(self, node: Any, lookup: Any) -> str | None:
        """Returns the key of the weights in a sum of rows times weights."""
        graph = self._graph
        product = graph.node(graph.inputs(node)[0])
        if product.op != "Mul":
            return None
        for tensor in graph.inputs(product):
            above = set(map(node_name, walk_up(graph, tensor)))
            if lookup.name not in above:
                return self._weights(tensor)
        return None

    def _weights(self, tensor: str) -> str:
        """Returns the key of the feature with the weights of ids, a sparse or dense one."""
        graph = self._graph
        start = categorical.first_source(graph, tensor)
        feature = graph.features.get(start)
        if feature is None or not feature.dtype.is_floating:
            node = graph.node(start)
            raise UnknownPartError(f"{node.name}: weights of ids by {node.op}, not a feature")
        return feature.key


def graph_sources(graph: NodeGraph, tensor: str) -> set[str]:
    """Returns the tensors of features that a tensor is made of."""
    return {name for name in walk_up(graph, tensor) if name in graph.features}


def walk_up(graph: NodeGraph, tensor: str, ends: Collection[str] = ()) -> Iterator[str]:
    """Yields what a tensor is made of, itself first, the nearest tensors first; up to features.

    Args:
        graph: the graph.
        tensor: where to begin.
        ends: ops of which the inputs aren't wanted.
    """
    todo, seen = [tensor], {tensor}
    for name in todo:  # which grows
        yield name
        if name in graph.features:
            continue
        node = graph.node(name)
        if node.op == "Shape" or node.op in ends:
            continue
        for each in graph.inputs(node):
            if each not in seen:
                seen.add(each)
                todo.append(each)
