# SPDX-License-Identifier: Apache-2.0
"""Builds of today's ops what ops compute that TensorFlow has no more."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_spec.saved_models.dead_ops import tree_rules
from estimator_spec.saved_models.dead_ops.rewriting import (
    Call,
    OpRule,
    RefusedError,
    change,
    data_inputs,
)
from estimator_spec.saved_models.graph import node_name

tf1 = tf.compat.v1


def _bucketize_with_boundaries(call: Call) -> list[Any]:
    """Returns how many boundaries are at most each value; all of them, for NaN."""
    (values,), (boundaries,) = call.inputs
    if values.dtype.is_floating:
        # Some versions of UpperBound find NaN first, others last.
        infinity = tf.constant(float("inf"), values.dtype)
        values = tf.where(tf.math.is_nan(values), infinity, values)
    # The op had read its boundaries as values of the input's type.
    ends = tf.reshape(tf.cast(boundaries, values.dtype), [1, -1])
    found = tf.raw_ops.UpperBound(
        sorted_inputs=ends, values=tf.reshape(values, [1, -1]), out_type=tf.int32
    )
    return [tf.reshape(found, tf.shape(values))]


def _pack_comparisons(call: Call) -> list[Any]:
    """Returns a byte for each eight comparisons of the last dimension, the first the highest bit.

    There is no shift of bytes on all devices: the sum of bits is one of integers.
    """
    (values,), (threshold,) = call.inputs
    if values.dtype == tf.bool:
        raise RefusedError("it packs booleans")
    bits = tf.cast(values > threshold, tf.int32)
    shape = tf.shape(values)
    shape = tf.concat([shape[:-1], [shape[-1] // 8, 8]], axis=0)
    weights = tf.constant([128, 64, 32, 16, 8, 4, 2, 1])
    return [tf.cast(tf.reduce_sum(tf.reshape(bits, shape) * weights, axis=-1), tf.uint8)]


def _sum(call: Call) -> list[Any]:
    return [tf.add_n(call.inputs[0])]


def _cross(call: Call) -> None:
    """Makes an op of tf.contrib.layers the core's, which has the same arguments."""
    node = call.node
    if node.op == "SparseFeatureCross":
        if node.attr["hashed_output"].b:
            raise RefusedError(
                "the hash of crosses without a hash_key is contrib's own, which no op has"
            )
        node.attr["hash_key"].i = 0  # of hashed crosses
    node.op = "SparseCross"


def _rotate_or_scale(call: Call) -> list[Any]:
    (images,), (transforms,) = call.inputs
    return [
        tf.raw_ops.ImageProjectiveTransformV2(
            images=images,
            transforms=transforms,
            output_shape=tf.shape(images)[1:3],
            interpolation=call.node.attr["interpolation"].s.decode() or "NEAREST",
        )
    ]


def _identity(call: Call) -> None:
    """Makes the first input of an op of one replica its output."""
    node = call.node
    number = max(node.attr["N"].i, node.attr["num_replicas"].i, node.attr["num_splits"].i)
    if number > 1:
        raise RefusedError(f"it is of {number} replicas")
    change(node, "Identity", data_inputs(node)[:1], T=node.attr["T"])


def _sum_over_replicas(call: Call) -> None:
    groups = call.body.by_name.get(node_name(data_inputs(call.node)[1]))
    if groups is None or groups.op != "Const":
        raise RefusedError("the number of its replicas isn't known")
    if tf.make_ndarray(groups.attr["value"].tensor).size != 1:
        raise RefusedError("it adds the values of several replicas")
    _identity(call)


def _nothing(call: Call) -> None:
    number = call.node.attr["num_replicas"].i
    if number > 1:
        raise RefusedError(f"it is of {number} replicas")
    change(call.node, "NoOp", [])


def _first_device(call: Call) -> list[Any]:
    return [tf.constant(0)]


def _no_error(call: Call) -> list[Any]:
    """Returns a message without an error, which is empty."""
    return [tf.constant("")]


def _call_function(call: Call) -> None:
    """Calls the function of a TPU's part of the model where the graph runs."""
    node = call.node
    attributes = {key: node.attr[key] for key in ("Tin", "Tout", "f")}
    change(node, "StatefulPartitionedCall", data_inputs(node)[:-1], **attributes)


_CROSS = "N*int64, sparse_types, N*int64, dense_types"
_CROSSED = "output_indices: int64, output_values: out_type, output_shape: int64"

# The device of TPU ops isn't there: `repair` removes it from graphs that have one of these.
TPU_RULES = {
    "TPUPartitionedCall": OpRule("Tin, int32", "output: Tout", _call_function, True),
    "TPUReplicatedInput": OpRule("N*T", "output: T", _identity, True),
    "TPUReplicatedOutput": OpRule("T", "outputs: num_replicas*T", _identity, True),
    "TPUPartitionedInput": OpRule("N*T", "output: T", _identity, True),
    "TPUPartitionedOutput": OpRule("T", "output: num_splits*T", _identity, True),
    "CrossReplicaSum": OpRule("T, int32", "output: T", _sum_over_replicas, True),
    "TPUReplicateMetadata": OpRule("", "", _nothing, True),
    "TPUOrdinalSelector": OpRule("", "device_ordinals: int32", _first_device),
    "TPUCompilationResult": OpRule("", "output: string", _no_error),
}
RULES = {
    **TPU_RULES,
    **tree_rules.RULES,
    "AccumulateNV2": OpRule("N*T", "sum: T", _sum),
    "BucketizeWithInputBoundaries": OpRule("T, float", "output: int32", _bucketize_with_boundaries),
    "CompareAndBitpack": OpRule("T, T", "output: uint8", _pack_comparisons),
    "ImageProjectiveTransform": OpRule(
        "dtype, float", "transformed_images: dtype", _rotate_or_scale
    ),
    "SparseFeatureCross": OpRule(_CROSS, _CROSSED, _cross, True, True),
    "SparseFeatureCrossV2": OpRule(_CROSS, _CROSSED, _cross, True, True),
}
