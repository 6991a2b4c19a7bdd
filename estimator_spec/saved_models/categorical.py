# SPDX-License-Identifier: Apache-2.0
"""Recovers categorical columns from the ops that compute their ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_spec.saved_models.graph import NodeGraph, UnknownPartError, node_name

fc = tf.feature_column

_HASHES = ("StringToHashBucketFast",)
_LOOKUPS = ("LookupTableFindV2", "LookupTableFind")
_CROSSES = ("SparseCross", "SparseCrossV2", "SparseCrossHashed")
SELECTIONS = ("Select", "SelectV2")
BEGINNINGS = (*_HASHES, *_LOOKUPS, *_CROSSES, *SELECTIONS, "Bucketize")
"""Ops that make ids of features."""
_INITIALIZERS = (
    *("LookupTableImportV2", "LookupTableImport"),
    *("InitializeTableV2", "InitializeTable"),
    *("InitializeTableFromTextFileV2", "InitializeTableFromTextFile"),
)
# Ops that pass ids on: which of their inputs has them.
_PASSED = {
    **dict.fromkeys(
        (
            *("Identity", "Reshape", "Cast", "GatherV2", "Gather", "GatherNd", "Unique"),
            *("ExpandDims", "Squeeze", "StridedSlice", "Slice", "StopGradient", "Switch", "Merge"),
            *("EnsureShape", "CheckNumerics", "PlaceholderWithDefault"),
        ),
        0,
    ),
    **dict.fromkeys(
        ("SparseFillEmptyRows", "SparseReorder", "SparseSlice", "If", "StatelessIf"), 1
    ),
    "SparseToDense": 2,
}
_ARITHMETIC = {
    **dict.fromkeys(("FloorMod", "FloorDiv", "Sub", "Maximum", "Mod"), 0),
    **dict.fromkeys(SELECTIONS, 1),
}
# A table of a file's lines and their numbers.
_LINES_AND_NUMBERS = (-2, -1)
# What crossed_column has for no key of its own.
_DEFAULT_HASH_KEY = 0xDECAFCAFFE
# An identity column that is only crossed: its size is neither in the graph nor needed.
_ANY_SIZE = 2**31


def first_source(graph: NodeGraph, tensor: str) -> str:
    """Returns the tensor that ops like Reshape got a tensor's values from."""
    while True:
        tensor = graph.follow(tensor, _PASSED)
        if tensor in graph.features:
            return tensor
        node = graph.node(tensor)
        if node.op == "DynamicPartition":
            # The ids of a partitioned lookup, before those of each part are computed.
            tensor = graph.follow(graph.inputs(node)[0], _ARITHMETIC)
        elif node.op == "Maximum" and _is_masked(graph, node):
            tensor = graph.inputs(node)[0]
        else:
            return tensor


def _is_masked(graph: NodeGraph, node: Any) -> bool:
    """Returns whether an op replaces negative ids by 0 that another op has marked as missing."""
    ids, least = graph.inputs(node)
    marks = [each for each in graph.readers(node_name(ids)) if each.op == "Less"]
    return graph.constant(least) == 0 and any(
        graph.inputs(each)[0] == ids and graph.constant(graph.inputs(each)[1]) == 0
        for each in marks
    )


class CategoricalReader:
    """Reads categorical columns.

    Args:
        graph: the graph.
        numeric: returns the numeric column of a tensor.
    """

    def __init__(self, graph: NodeGraph, numeric: Callable[[str], Any]) -> None:
        self._graph, self._numeric = graph, numeric

    def begins(self, tensor: str) -> bool:
        """Returns whether a tensor has ids of a column: an op that makes some, or a feature."""
        feature = self._graph.features.get(tensor)
        if feature is not None:
            return bool(feature.dtype.is_integer)
        return self._graph.node(tensor).op in BEGINNINGS

    def read(self, tensor: str, size: int | None) -> Any:
        """Returns the categorical column whose ids a tensor holds.

        Args:
            tensor: the ids.
            size: rows of the variable that they index, or None.
        """
        graph = self._graph
        tensor = first_source(graph, tensor)
        feature = graph.features.get(tensor)
        if feature is not None:
            if not feature.dtype.is_integer:
                raise UnknownPartError(f"{tensor}: ids that are {feature.dtype.name} features")
            return fc.categorical_column_with_identity(feature.key, size or _ANY_SIZE)
        node = graph.node(tensor)
        for ops, read in _READERS.items():
            if node.op in ops:
                return read(self, node, size)
        raise UnknownPartError(f"{node.name}: ids by {node.op}")

    def _feature(self, tensor: str) -> Any:
        """Returns the feature whose values a tensor has, perhaps as text."""
        graph = self._graph
        tensor = first_source(graph, tensor)
        if tensor not in graph.features and graph.node(tensor).op == "AsString":
            tensor = first_source(graph, graph.inputs(graph.node(tensor))[0])
        feature = graph.features.get(tensor)
        if feature is None:
            node = graph.node(tensor)
            raise UnknownPartError(f"{node.name}: {node.op} between a feature and its ids")
        return feature

    def _hashed(self, node: Any, size: int | None) -> Any:
        feature = self._feature(self._graph.inputs(node)[0])
        buckets = int(node.attr["num_buckets"].i)
        return fc.categorical_column_with_hash_bucket(feature.key, buckets, feature.dtype)

    def _looked_up(self, node: Any, size: int | None) -> Any:
        default = self._graph.constant(self._graph.inputs(node)[2])
        return self._vocabulary(node, 0, -1 if default is None else int(default))

    def _selected(self, node: Any, size: int | None) -> Any:
        """Returns a vocabulary with buckets for other words, or ids with one for wrong ones.

        Exports of `TPUEstimator` also select an id that another entry has for those that a lookup
        drops, and -1 for empty entries of dense features.
        """
        graph = self._graph
        _, first, second = graph.inputs(node)
        other = graph.node(second)
        if other.op == "Fill" and graph.constant(graph.inputs(other)[1]) is None:
            return self.read(first, size)
        filled = graph.node(first_source(graph, first))
        if filled.op == "Fill":
            default = graph.constant(graph.inputs(filled)[1])
            if default == -1:
                return self.read(second, size)
            if default is not None:
                return self._identity(second, self._limit(node) or size, int(default))
        found: dict[str, Any] = {}
        for tensor in (first, second):
            start = graph.node(first_source(graph, tensor))
            if start.op in ("Add", "AddV2"):
                start = next(
                    (
                        each
                        for name in graph.inputs(start)
                        if (each := graph.node(first_source(graph, name))).op in _HASHES
                    ),
                    start,
                )
            found[start.op] = start
        lookup = next((found[op] for op in _LOOKUPS if op in found), None)
        hashed = next((found[op] for op in _HASHES if op in found), None)
        if lookup is None or hashed is None:
            raise UnknownPartError(f"{node.name}: ids selected from {sorted(found)}")
        return self._vocabulary(lookup, int(hashed.attr["num_buckets"].i), -1)

    def _identity(self, tensor: str, size: int | None, default: int) -> Any:
        """Returns the column of ids with another one for those out of range.

        Ids that the graph computes of words, as receivers with tf.Transform's ops do, are those of
        a column of the words.
        """
        start = first_source(self._graph, tensor)
        feature = self._graph.features.get(start)
        if feature is not None:
            return fc.categorical_column_with_identity(feature.key, size, default)
        column = self.read(start, size)
        if getattr(column, "num_oov_buckets", None) == 0 and column.default_value == -1:
            return column._replace(default_value=default)
        return column

    def _limit(self, node: Any) -> int | None:
        """Returns the size that ids are compared with before a default takes their place."""
        graph = self._graph
        condition = graph.node(graph.inputs(node)[0])
        for tensor in graph.inputs(condition):
            compared = graph.node(tensor)
            if compared.op == "GreaterEqual":
                value = graph.constant(graph.inputs(compared)[1])
                return None if value is None else int(value)
        return None

    def _vocabulary(self, node: Any, buckets: int, default: int) -> Any:
        graph = self._graph
        feature = self._feature(graph.inputs(node)[1])
        # Either one says what other words get.
        others = {"num_oov_buckets": buckets} if buckets else {"default_value": default}
        table = self.initializer(graph.inputs(node)[0])
        inputs = graph.inputs(table)
        if "TextFile" in table.op:
            path = graph.asset(inputs[1])
            if (table.attr["key_index"].i, table.attr["value_index"].i) != _LINES_AND_NUMBERS:
                raise UnknownPartError(f"{table.name}: words of {path} that aren't its lines")
            size = int(table.attr["vocab_size"].i)
            if path is None or not tf.io.gfile.exists(path):
                raise UnknownPartError(
                    f"{table.name}: the vocabulary file {path} of {feature.key!r} is missing"
                )
            return fc.categorical_column_with_vocabulary_file(
                feature.key, path, size if size > 0 else None, dtype=feature.dtype, **others
            )
        keys, ids = graph.constant(inputs[1]), graph.constant(inputs[2])
        if keys is None or ids is None:
            raise UnknownPartError(f"{table.name}: the words of {feature.key!r} aren't constants")
        words = [word for _, word in sorted(zip(ids.tolist(), keys.tolist(), strict=True))]
        if feature.dtype == tf.string:
            words = list(map(_as_text, words))
        return fc.categorical_column_with_vocabulary_list(
            feature.key, words, feature.dtype, **others
        )

    def initializer(self, handle: str) -> Any:
        """Returns the node that fills a table; of one with the same shared name if need be."""
        graph = self._graph
        table = graph.node(graph.follow(handle, {"Identity": 0}))
        shared = table.attr["shared_name"].s
        same = [node for node in graph.nodes.values() if node.op == table.op]
        same = [node for node in same if shared and node.attr["shared_name"].s == shared]
        for node in [table, *same]:
            for user in graph.readers(node.name):
                if user.op in _INITIALIZERS and node_name(user.input[0]) == node.name:
                    return user
        raise UnknownPartError(f"{table.name}: nothing fills this table of words")

    def _added(self, node: Any, size: int | None) -> Any:
        """Returns a bucketized column of several numbers: buckets + their number * position."""
        graph = self._graph
        for name in graph.inputs(node):
            found = graph.node(first_source(graph, name))
            if found.op == "Bucketize":
                return self._bucketized(found, size)
        raise UnknownPartError(f"{node.name}: ids added by {node.op}")

    def _bucketized(self, node: Any, size: int | None) -> Any:
        source = self._numeric(self._graph.inputs(node)[0])
        boundaries = [shortest(value) for value in node.attr["boundaries"].list.f]
        return fc.bucketized_column(source, boundaries)

    def _crossed(self, node: Any, size: int | None) -> Any:
        graph = self._graph
        if node.op != "SparseCross" or not node.attr["hashed_output"].b:
            raise UnknownPartError(f"{node.name}: a cross by {node.op} without hashed ids")
        number = node.attr["N"].i
        inputs = graph.inputs(node)
        keys = [self._key(name, is_dense=False) for name in inputs[number : 2 * number]]
        keys += [self._key(name, is_dense=True) for name in inputs[3 * number :]]
        hash_key = int(node.attr["hash_key"].i)
        return fc.crossed_column(
            keys,
            int(node.attr["num_buckets"].i),
            None if hash_key == _DEFAULT_HASH_KEY else hash_key,
        )

    def _key(self, tensor: str, is_dense: bool) -> Any:
        """Returns a part of a cross: the key of a feature that is taken as it is, or a column."""
        feature = self._graph.features.get(first_source(self._graph, tensor))
        if feature is not None and (feature.is_sparse or is_dense or feature.dtype == tf.string):
            return feature.key
        return self.read(tensor, None)


_READERS = {
    _HASHES: CategoricalReader._hashed,
    _LOOKUPS: CategoricalReader._looked_up,
    SELECTIONS: CategoricalReader._selected,
    ("Add", "AddV2"): CategoricalReader._added,
    ("Bucketize",): CategoricalReader._bucketized,
    _CROSSES: CategoricalReader._crossed,
}


def shortest(value: float) -> float:
    """Returns the shortest number that is the same float32.

    >>> shortest(0.10000000149011612)
    0.1
    """
    return float(str(tf.float32.as_numpy_dtype(value)))


def _as_text(word: bytes) -> Any:
    """Returns a word as text, or as it is where it isn't UTF-8."""
    try:
        return word.decode()
    except UnicodeDecodeError:
        return word
