# SPDX-License-Identifier: Apache-2.0
"""Looks up features of a partial embedding, in plain and large tables alike."""

from __future__ import annotations

import re
from typing import Any

import tensorflow as tf

from estimator_spec.convert import checks
from tpu_columns import lookup
from tpu_columns.lookup_errors import IdOutOfRangeError


def look_up(key: str, table: Any, feature: Any, ids: Any, weights: Any = None) -> tf.Tensor:
    """Looks up one feature by its `FeatureConfig`; supports more inputs than TensorFlow's own.

    | ids                      | without max_sequence_length | with max_sequence_length = L     |
    |--------------------------|-----------------------------|----------------------------------|
    | dense [B, …]             | a row an id: [B, …, D]      | of [B, T]: [B, L, D], cut or     |
    |                          |                             | padded with zeros                |
    | dense [B, n] and weights | combined: [B, D]            | as sparse ones                   |
    | sparse [B, n] or ragged  | combined: [B, D]            | [B, L, D]                        |
    | sparse [B, T, n]         | combined: [B, T, D]         | combined by steps: [B, L, D]     |

    Args:
        key: the feature's name for messages.
        table: variable or tensor, [V, D].
        feature: `tf.tpu.experimental.embedding.FeatureConfig`.
        ids: integers.
        weights: weights of the same kind and shape, or None.

    Returns:
        Floats.

    Raises:
        ValueError: ids and weights are of different kinds, or ids aren't integers.
        IdOutOfRangeError: an id is outside of the table. (In a graph TensorFlow raises
            InvalidArgumentError when it runs; the node name contains the feature.)
    """
    if not hasattr(ids, "dtype"):
        ids = tf.convert_to_tensor(ids)
    if not tf.as_dtype(ids.dtype).is_integer:
        raise ValueError(
            f"Feature {key!r} has ids of type {tf.as_dtype(ids.dtype).name}, which must be "
            "integers. estimator_spec.convert.features_for turns what the legacy columns take "
            "into ids, strings too."
        )
    try:
        with tf.name_scope(re.sub(r"[^A-Za-z0-9_.]", "_", f"of_{key}")):
            return _look_up(key, table, feature, ids, weights)
    except tf.errors.InvalidArgumentError as error:
        found = re.search(r"= (-?\d+) is not in \[0, (\d+)\)", error.message or "")
        if found is None:
            raise
        message = (
            f"Feature {key!r} has the id {found[1]}, outside of {feature.table.name or 'its table'}"
            f" of {found[2]} rows (valid: 0 to {int(found[2]) - 1}). Correct the input, or enlarge "
            "the table."
        )
        raise IdOutOfRangeError(None, None, message) from None


def _look_up(key: str, table: Any, feature: Any, ids: Any, weights: Any) -> tf.Tensor:
    length = feature.max_sequence_length
    if weights is not None and kind_of(weights) != kind_of(ids):
        raise ValueError(
            f"Feature {key!r}: ids are {kind_of(ids)}, weights are {kind_of(weights)}. They must "
            "be of one kind."
        )
    if isinstance(ids, tf.RaggedTensor):
        if feature.output_shape.rank is not None and weights is None:
            return _with_output_shape(table, feature, ids)
        ids, weights = ids.to_sparse(), None if weights is None else weights.to_sparse()
    if not isinstance(ids, tf.SparseTensor):
        if weights is None and not length:
            return tf.nn.embedding_lookup(table, ids)
        ids, weights = _as_sparse(ids), None if weights is None else _as_sparse(weights)
    if ids.dtype != tf.int64:
        ids = tf.cast(ids, tf.int64)
    if weights is not None:
        weights = checks.check_weights(key, ids, tf.cast(weights, tf.float32))
    combiner = feature.table.combiner
    if length:
        return lookup.sequence_lookup(table, ids, weights, combiner, length)[0]
    safe = feature.validate_weights_and_indices or ids.shape.rank != 2
    return lookup.pooled_lookup(table, ids, weights, combiner, safe=safe)


def tensorflow_variable(variable: Any) -> Any:
    """Returns the TensorFlow variable of a Keras 3 variable; a TensorFlow variable as it is."""
    return variable if isinstance(variable, tf.Variable) else variable.value


def kind_of(value: Any) -> str:
    """Returns 'sparse', 'ragged' or 'dense'."""
    if isinstance(value, (tf.SparseTensor, tf.compat.v1.SparseTensorValue)):
        return "sparse"
    return "ragged" if isinstance(value, tf.RaggedTensor) else "dense"


def _as_sparse(value: Any) -> tf.SparseTensor:
    """Converts a dense [B, n] to a SparseTensor with all entries, including zeros."""
    value = tf.convert_to_tensor(value)
    indices = tf.where(tf.ones_like(value, tf.bool))
    sparse = tf.SparseTensor(indices, tf.reshape(value, [-1]), tf.shape(value, tf.int64))
    if not tf.executing_eagerly():
        sparse.set_shape(value.shape)
    return sparse


def _with_output_shape(table: Any, feature: Any, ids: tf.RaggedTensor) -> tf.Tensor:
    """Looks up ragged ids with an output shape of several axes by TensorFlow's own lookup."""
    return tf.tpu.experimental.embedding.serving_embedding_lookup(
        {"feature": ids}, None, {feature.table: table}, {"feature": feature}
    )["feature"]
