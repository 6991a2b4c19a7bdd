# SPDX-License-Identifier: Apache-2.0
"""Builds of today's ops what the ops of boosted trees compute; trees and quantiles are constants.

Those ops keep trees and quantiles in resources, which a SavedModel restores from its variables. A
repaired graph has the values of its variables' files, and restores nothing.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import message

from estimator_spec.canned import boosted_trees_model
from estimator_spec.checkpoints import boosted_trees as stored
from estimator_spec.saved_models.dead_ops.rewriting import (
    Body,
    Call,
    OpRule,
    RefusedError,
    change,
    data_inputs,
)
from estimator_spec.saved_models.graph import node_name

tf1 = tf.compat.v1

_ENSEMBLE = "BoostedTreesEnsembleResourceHandleOp"
_QUANTILES = "BoostedTreesQuantileStreamResourceHandleOp"
# The handle of the resource that an op restores.
_RESTORED = {
    "BoostedTreesDeserializeEnsemble": _ENSEMBLE,
    "BoostedTreesQuantileStreamResourceDeserialize": _QUANTILES,
}
_FORWARDING = ("Identity", "Enter", "Switch", "RefSwitch")


class StoredTrees:
    """Values of the resources of boosted trees in a model, in its variables' files.

    Args:
        graph: the body that restores them: the model's graph.
        prefix: path of the variables' files without '.index'.
    """

    def __init__(self, graph: Body, prefix: str) -> None:
        self._graph = graph
        self._prefix = prefix
        # Before any of these nodes is replaced.
        self._handles = {
            kind: [node.name for node in graph.nodes if node.op == kind]
            for kind in _RESTORED.values()
        }
        self._keys: dict[str, list[str]] = {}
        for node in graph.nodes:
            kind = _RESTORED.get(node.op)
            if kind is not None:
                handle, *values = data_inputs(node)
                with contextlib.suppress(RefusedError):
                    name = self._find_handle(kind, graph, handle)
                    self._keys[name] = [self._restored_key(value) for value in values]

    def ensemble(self, body: Body, handle: str) -> tuple[int, bytes]:
        """Returns the stamp and the serialized trees of an ensemble.

        Args:
            body: the graph or function that uses it.
            handle: the reference to its handle.
        """
        stamp, serialized = self._read(_ENSEMBLE, body, handle)
        return int(stamp), serialized

    def quantiles(self, body: Body, handle: str) -> list[np.ndarray]:
        """Returns the quantiles of each feature; see `ensemble`."""
        return list(self._read(_QUANTILES, body, handle))

    def _read(self, kind: str, body: Body, handle: str) -> list[Any]:
        name = self._find_handle(kind, body, handle)
        keys = self._keys.get(name)
        if not keys or not all(keys):
            raise RefusedError(f"the model doesn't restore {name!r} from its variables")
        try:
            return [self._reader.get_tensor(key) for key in keys]
        except (tf.errors.OpError, IndexError, ValueError, RuntimeError) as error:
            reason = str(error).splitlines()[0]
            raise RefusedError(f"{self._prefix} can't be read: {reason}") from None

    @functools.cached_property
    def _reader(self) -> Any:
        return tf.train.load_checkpoint(self._prefix)

    def _find_handle(self, kind: str, body: Body, reference: str) -> str:
        """Returns the name of the node that a reference to a handle comes from."""
        name = node_name(reference)
        node = body.by_name.get(name)
        while node is not None and node.op in _FORWARDING:
            name = node_name(data_inputs(node)[0])
            node = body.by_name.get(name)
        handles = self._handles[kind]
        if body is self._graph and name in handles:
            return name
        if len(handles) != 1:  # such as the argument of a function
            raise RefusedError(f"{name!r} may be any of {len(handles)} resources")
        return handles[0]

    def _restored_key(self, reference: str) -> str:
        """Returns the name in the checkpoint of an output of RestoreV2, or ''."""
        name, _, number = reference.partition(":")
        node = self._graph.by_name.get(name)
        while node is not None and node.op == "Identity":
            name, _, number = data_inputs(node)[0].partition(":")
            node = self._graph.by_name.get(name)
        if node is None or node.op != "RestoreV2":
            return ""
        names = self._graph.by_name[node_name(data_inputs(node)[1])]
        if names.op != "Const":
            return ""
        return str(tf.make_ndarray(names.attr["value"].tensor)[int(number or 0)].decode())


def _predict(call: Call) -> list[Any]:
    _, inputs = call.inputs
    width = call.node.attr["logits_dimension"].i
    _, serialized = call.trees.ensemble(call.body, data_inputs(call.node)[0])
    try:
        forest = stored.parse_forest(serialized)
    except (message.DecodeError, ValueError) as error:
        raise RefusedError(f"its trees can't be read: {error}") from None
    splits = forest.features >= 0
    if splits.any() and forest.features[splits].max() >= len(inputs):
        raise RefusedError(f"it has {len(inputs)} features, and its trees have more")
    if forest.roots.size and forest.values.shape[1] != width:
        raise RefusedError(f"it has {width} logits, and its trees have {forest.values.shape[1]}")
    # Only the elements of features that a tree splits by.
    pairs = np.stack([np.maximum(forest.features, 0), forest.dimensions], axis=1)
    used, columns = np.unique(np.concatenate([pairs, [[0, 0]]]), axis=0, return_inverse=True)
    rows = {feature: _as_matrix(inputs[feature]) for feature in used[:, 0]}
    matrix = tf.stack([rows[feature][:, element] for feature, element in used], axis=1)
    columns = columns.reshape(-1)[:-1].astype(np.int32)
    return [boosted_trees_model.sum_leaves(forest, matrix, columns, width)]


def _as_matrix(feature: Any) -> Any:
    """Returns a feature of shape [batch] or [batch, elements] as the latter."""
    shape = tf.concat([tf.shape(feature), [1]], axis=0)[:2]
    return tf.reshape(feature, shape)


def _bucketize(call: Call) -> Sequence[Any]:
    """Returns the number of the first boundary that isn't less, or of the last; 0 for NaN."""
    buckets = []
    for values, boundaries in zip(*call.inputs, strict=True):
        # As many values as there are rows: the kernel read no others.
        row = tf.reshape(values, [1, -1])[:, : tf.shape(values)[0]]
        # Some versions of LowerBound find NaN first, others last.
        row = tf.where(tf.math.is_nan(row), -float("inf"), row)
        ends = tf.reshape(boundaries, [1, -1])
        found = tf.raw_ops.LowerBound(sorted_inputs=ends, values=row, out_type=tf.int32)[0]
        buckets.append(tf.minimum(found, tf.maximum(tf.size(boundaries) - 1, 0)))
    return buckets


def _boundaries(call: Call) -> Sequence[Any]:
    quantiles = call.trees.quantiles(call.body, data_inputs(call.node)[0])
    return [tf.constant(each, tf.float32, [len(each)]) for each in quantiles]


def _serialize(call: Call) -> Sequence[Any]:
    stamp, serialized = call.trees.ensemble(call.body, data_inputs(call.node)[0])
    return [tf.constant(stamp, tf.int64), tf.constant(serialized)]


def _is_initialized(call: Call) -> Sequence[Any]:
    return [tf.constant(True)]


def _nothing(call: Call) -> None:
    change(call.node, "NoOp", [])


def _handle(call: Call) -> None:
    """Makes a handle one of a variable, which nothing reads: what forwards it stays."""
    attributes = {"dtype": tf1.AttrValue(type=tf.float32.as_datatype_enum)}
    attributes["shape"] = tf1.AttrValue(shape=tf.TensorShape([]).as_proto())
    change(call.node, "VarHandleOp", [], **attributes)


_STREAM = "BoostedTreesQuantileStreamResource"
RULES = {
    "BoostedTreesBucketize": OpRule(
        "num_features*float, num_features*float", "buckets: num_features*int32", _bucketize
    ),
    "BoostedTreesPredict": OpRule(
        "resource, num_bucketized_features*int32", "logits: float", _predict
    ),
    f"{_STREAM}GetBucketBoundaries": OpRule(
        "resource", "bucket_boundaries: num_features*float", _boundaries
    ),
    "BoostedTreesSerializeEnsemble": OpRule(
        "resource", "stamp_token: int64, tree_ensemble_serialized: string", _serialize
    ),
    "IsBoostedTreesEnsembleInitialized": OpRule(
        "resource", "is_initialized: bool", _is_initialized
    ),
    f"Is{_STREAM}Initialized": OpRule("resource", "is_initialized: bool", _is_initialized),
    _ENSEMBLE: OpRule("", "resource: resource", _handle, True, True),
    _QUANTILES: OpRule("", "resource: resource", _handle, True, True),
    "BoostedTreesCreateEnsemble": OpRule("resource, int64, string", "", _nothing, True),
    f"BoostedTreesCreate{_STREAM[12:]}": OpRule("resource, float, int64", "", _nothing, True),
    "BoostedTreesDeserializeEnsemble": OpRule("resource, int64, string", "", _nothing, True),
    f"{_STREAM}Deserialize": OpRule("resource, num_streams*float", "", _nothing, True),
}
