# SPDX-License-Identifier: Apache-2.0
"""Reads the trees of boosted trees estimators from checkpoints that TensorFlow 1.15 to 2.8 wrote.

Such a checkpoint stores all trees as one string, a serialized `TreeEnsemble`, and as floats the
quantiles of each element of the numeric columns: the thresholds at which trees may split.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

from estimator_spec.core.checkpoints.errors import DamagedCheckpointError
from estimator_spec.heads.tree_features import TreeFeature, TreeFeatureKind

_TREES = "boosted_trees:0_serialized"
_QUANTILES = "boosted_trees/QuantileAccumulator:0_bucket_boundaries_{}"

# The fields that are read here, of tensorflow/core/kernels/boosted_trees/boosted_trees.proto in
# TensorFlow 2.8.4; 2.9 and later don't have the file. Types are messages, or those of fields.
_SPLIT = "feature_id=1:INT32 {}=2:INT32 left_id=3:INT32 right_id=4:INT32 dimension_id=5:INT32"
_MESSAGES = {
    "TreeEnsemble": "trees=1:Tree* tree_weights=2:FLOAT*",
    "Tree": "nodes=1:Node*",
    "Node": (
        "leaf=1:Leaf bucketized_split=2:BucketizedSplit categorical_split=3:CategoricalSplit "
        "metadata=777:NodeMetadata"
    ),
    "NodeMetadata": "gain=1:FLOAT original_leaf=2:Leaf",
    "Leaf": "vector=1:Vector scalar=3:FLOAT",
    "Vector": "value=1:FLOAT*",
    "BucketizedSplit": _SPLIT.format("threshold"),
    "CategoricalSplit": _SPLIT.format("value"),
}
_FIELD = re.compile(r"(\w+)=(\d+):(\w+)(\*?)")


class Forest(NamedTuple):
    """The nodes of all trees, numbered consecutively.

    Attributes:
        roots: node of each tree at which it begins, ints [trees].
        features: feature by which each node splits, ints [nodes]; -1 for leaves.
        dimensions: element of the feature, ints [nodes].
        thresholds: an example goes to the left if its integer is at most this one, ints [nodes].
        is_equality: whether it goes to the left if its integer is equal instead, bools [nodes].
        left: nodes to the left, ints [nodes]; leaves have themselves.
        right: nodes to the right, as `left`.
        values: logits of leaves, and those that other nodes had as leaves, times the weight of the
            tree, floats [nodes, logits].
        gains: reduction of the loss by each split, times the weight of the tree, floats [nodes].
        depth: number of splits on the longest path.
    """

    roots: np.ndarray
    features: np.ndarray
    dimensions: np.ndarray
    thresholds: np.ndarray
    is_equality: np.ndarray
    left: np.ndarray
    right: np.ndarray
    values: np.ndarray
    gains: np.ndarray
    depth: int


class TrainedTrees(NamedTuple):
    """Trees and quantiles of a boosted trees model in a checkpoint.

    Attributes:
        forest: the trees.
        quantiles: those of each element of the numeric columns, sorted by the columns' names.
    """

    forest: Forest
    quantiles: tuple[np.ndarray, ...]


def read(prefix: str, features: Sequence[TreeFeature], logits_dimension: int) -> TrainedTrees:
    """Reads the trees of a model in a checkpoint.

    Args:
        prefix: the checkpoint, a path without '.index'.
        features: the model's features.
        logits_dimension: number of logits of the model's head.

    Raises:
        ValueError: it is a checkpoint of another model.
        DamagedCheckpointError: the trees can't be read.
    """
    reader = tf.train.load_checkpoint(prefix)
    if not reader.has_tensor(_TREES):
        names = sorted(reader.get_variable_to_shape_map())
        raise ValueError(
            f"The checkpoint {prefix!r} has no boosted trees, the string {_TREES!r}: it is of "
            f"another model, with {', '.join(names[:5])}{' …' if len(names) > 5 else ''}. Give one "
            "that a BoostedTreesClassifier or BoostedTreesRegressor of TensorFlow 1.15 to 2.8 "
            "has saved."
        )
    keys = itertools.takewhile(reader.has_tensor, map(_QUANTILES.format, itertools.count()))
    quantiles = [reader.get_tensor(key) for key in keys]
    try:
        trained = TrainedTrees(parse_forest(reader.get_tensor(_TREES)), tuple(quantiles))
    except (message.DecodeError, ValueError) as error:
        reason = f"its trees, {_TREES!r}, can't be read: {error}."
        raise DamagedCheckpointError(prefix, reason) from None
    misfit = _find_misfit(trained, features, logits_dimension)
    if misfit:
        raise ValueError(
            f"The checkpoint {prefix!r} is of another model: {misfit}. Make the estimator with "
            "the feature columns and the head that the trained one had."
        )
    return trained


def _find_misfit(
    trained: TrainedTrees, features: Sequence[TreeFeature], logits_dimension: int
) -> str:
    """Returns why trees aren't those of a model, or ''."""
    forest = trained.forest
    splits = forest.features >= 0
    used, dimensions = forest.features[splits], forest.dimensions[splits]
    numbers = sum(feature.kind is TreeFeatureKind.QUANTILE for feature in features)
    if numbers != len(trained.quantiles):
        return (
            f"it has quantiles of {len(trained.quantiles)} numbers, and the numeric columns have "
            f"{numbers}"
        )
    if used.size and used.max() >= len(features):
        return f"it splits by feature {used.max()}, and the columns have {len(features)} features"
    if np.any(dimensions >= np.asarray([feature.width for feature in features])[used]):
        return "it splits by more elements of a bucketized column than the column has"
    if forest.roots.size and forest.values.shape[1] != logits_dimension:
        return (
            f"it has {forest.values.shape[1]} logits, and the head takes {logits_dimension}: check "
            "n_classes or label_dimension"
        )
    return ""


def parse_forest(serialized: bytes) -> Forest:
    """Returns the trees of a serialized `TreeEnsemble`.

    Args:
        serialized: the message; an empty one has no trees.

    Raises:
        google.protobuf.message.DecodeError: it isn't one.
        ValueError: a tree has no nodes, a node is of an unknown kind, or leads nowhere.
    """
    ensemble = _message_class("TreeEnsemble")()
    ensemble.ParseFromString(serialized)
    rows: list[tuple[Any, ...]] = []
    roots = []
    for tree, weight in zip(ensemble.trees, ensemble.tree_weights, strict=True):
        roots.append(len(rows))
        rows += _rows(tree, np.float32(weight), first=len(rows))
    columns = list(zip(*rows, strict=True)) or [()] * 8
    *integers, values, gains = columns
    features, dimensions, thresholds, is_equality, left, right = map(_ints, integers)
    width = max((len(value) for value in values), default=1)
    matrix = np.zeros([len(rows), width], np.float32)
    for row, value in zip(matrix, values, strict=True):
        row[: len(value)] = value
    return Forest(
        *(_ints(roots), features, dimensions, thresholds, is_equality.astype(bool), left, right),
        *(matrix, np.asarray(gains, np.float64)),
        depth=_depth(roots, left, right),
    )


def _ints(values: Any) -> np.ndarray:
    return np.asarray(values, np.int32)


def _rows(tree: Any, weight: Any, first: int) -> Iterator[tuple[Any, ...]]:
    """Yields a node's integers as in `Forest`, its values and its gain, for each node of a tree.

    Args:
        tree: a `Tree`.
        weight: its weight, a float32.
        first: number of its first node.
    """
    count = len(tree.nodes)
    if not count:
        raise ValueError("a tree has no nodes")
    for number, node in enumerate(tree.nodes):
        kinds = ("bucketized_split", "categorical_split", "leaf")
        kind = next((kind for kind in kinds if node.HasField(kind)), None)
        if kind is None:
            raise ValueError("a node is neither a leaf nor a split by a bucket or a category")
        if kind == "leaf":
            place = first + number
            yield (-1, 0, 0, False, place, place, _logits(node.leaf) * weight, 0.0)
            continue
        split = getattr(node, kind)
        # Nodes are numbered from the root down.
        if not all(number < child < count for child in (split.left_id, split.right_id)):
            raise ValueError(f"node {number} of {count} leads to {split.left_id}, {split.right_id}")
        is_equality = kind == "categorical_split"
        yield (
            *(split.feature_id, split.dimension_id),
            *(split.value if is_equality else split.threshold, is_equality),
            *(first + split.left_id, first + split.right_id),
            *(_logits(node.metadata.original_leaf) * weight, node.metadata.gain * float(weight)),
        )


def _logits(leaf: Any) -> np.ndarray:
    """Returns the logits of a `Leaf`, which stores one as a scalar and several as a vector."""
    values = leaf.vector.value if leaf.HasField("vector") else [leaf.scalar]
    return np.asarray(values, np.float32)


def _depth(roots: list[int], left: np.ndarray, right: np.ndarray) -> int:
    """Returns the number of splits on the longest path from a root to a leaf."""
    depth, level = 0, np.unique(roots).astype(int)
    while True:
        level = np.unique(level[left[level] != level])
        if not level.size:
            return depth
        level = np.concatenate([left[level], right[level]])
        depth += 1


@functools.cache
def _message_class(name: str) -> Any:
    """Returns the class of a message."""
    package = "estimator_spec.boosted_trees"
    file = descriptor_pb2.FileDescriptorProto(
        name="estimator_spec/boosted_trees.proto", package=package, syntax="proto3"
    )
    for of, fields in _MESSAGES.items():
        described = file.message_type.add(name=of)
        for field, number, kind, repeated in _FIELD.findall(fields):
            added = described.field.add(name=field, number=int(number))
            added.label = added.LABEL_REPEATED if repeated else added.LABEL_OPTIONAL
            if kind in _MESSAGES:
                added.type, added.type_name = added.TYPE_MESSAGE, f".{package}.{kind}"
            else:
                added.type = getattr(added, f"TYPE_{kind}")
    # A pool of its own: no other file can have these names.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    descriptor = pool.FindMessageTypeByName(f"{package}.{name}")
    # protobuf 3.20, which TensorFlow 2.15 permits, has no such function yet.
    get_class = getattr(message_factory, "GetMessageClass", None)
    return (
        get_class(descriptor)
        if get_class
        else message_factory.MessageFactory(pool).GetPrototype(descriptor)
    )
