# SPDX-License-Identifier: Apache-2.0
"""Reads ids and weights from a legacy features dict as the legacy lookups do.

Columns read as on a CPU: strings through their vocabulary, -1 and '' of dense input left out,
negative ids and ids of weight <= 0 dropped (`use_safe_embedding_lookup`). With `Hardware.TPU`, and
in dict mode, features are read as an embedding core does: 0 of dense input is padding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.convert import checks
from estimator_spec.convert.resolved_spec import ResolvedSpec
from estimator_spec.core._tensorflow import private
from estimator_spec.core.cores import enqueue
from tpu_columns import categorical, lookup
from tpu_columns.invalid_ids import IdRule, rule_for_column
from tpu_columns.lookup_errors import IdOutOfRangeError
from tpu_columns.placement import Hardware


class Ids(NamedTuple):
    """Ids of one feature in one batch, without dropped ones.

    Attributes:
        ids: int64 SparseTensor [B, n]; [B, L, n] for a sequence with n ids a step.
        weights: float32 SparseTensor with the same indices, or None.
        lengths: steps of each sequence, int64 [B]; None if the feature is no sequence.
    """

    ids: tf.SparseTensor
    weights: tf.SparseTensor | None
    lengths: tf.Tensor | None


def read_ids(source: ResolvedSpec, batch: Any) -> dict[str, Ids]:
    """Reads the ids of all features of a spec.

    Args:
        source: the spec.
        batch: tensors (dense, sparse, ragged, or values that convert to one) by key.

    Returns:
        Ids by feature key.

    Raises:
        ValueError: a feature is missing, or of a kind that the legacy lookups don't support.
        IdOutOfRangeError: an id is outside of its table (in a graph: when it runs).
        TypeError: `batch` is no dict.
    """
    if not isinstance(batch, Mapping):
        raise TypeError(f"batch must be a dict of tensors by key, got {type(batch).__name__}.")
    needed = {*source.features, *(feature.weight_key for feature in source.features.values())}
    tensors = {key: _tensor(value) for key, value in batch.items() if key in needed}
    found = {}
    for key in sorted(source.features):
        if key not in tensors:
            there = sorted(map(str, batch))
            raise ValueError(f"Feature {key!r} is missing; the batch has {there}.")
        ids, weights = _ids_and_weights(source, key, tensors)
        if weights is not None:
            weights = checks.check_weights(key, ids, weights)
        rule = _rule(source, key)
        if rule is not None and not _reads_as_core(source, key, tensors):
            ids, weights = rule.apply(ids, weights)
        ids, weights = _reshape(ids, weights, source.features[key].max_sequence_length)
        lengths = None
        if source.features[key].max_sequence_length:
            lengths = lookup.sequence_lengths(ids)
            lengths = tf.ensure_shape(lengths, [ids.shape[0]])
        ids, weights = _drop_ids(source, key, ids, weights)
        ids = _checked(source, key, ids)
        found[key] = Ids(ids, weights, lengths)
    return found


def _tensor(value: Any) -> Any:
    if isinstance(value, tf.RaggedTensor):
        return value.to_sparse()
    if isinstance(value, tf.SparseTensor):
        return value
    if isinstance(value, tf.compat.v1.SparseTensorValue):
        return tf.SparseTensor(*value)
    return tf.convert_to_tensor(value)


def _reads_as_core(source: ResolvedSpec, key: str, tensors: dict[str, Any]) -> bool:
    """Returns whether a feature is read as an embedding core does, not as a column on a CPU."""
    if source.columns.get(key) is None:
        return True
    return source.hardware is Hardware.TPU and bool(tensors[key].dtype.is_integer)


def _rule(source: ResolvedSpec, key: str) -> IdRule | None:
    """Returns the rule for invalid ids of a feature's column, if it has a policy."""
    column = source.columns.get(key)
    return None if column is None else rule_for_column(column)


def _ids_and_weights(
    source: ResolvedSpec, key: str, tensors: dict[str, Any]
) -> tuple[tf.SparseTensor, tf.SparseTensor | None]:
    if not _reads_as_core(source, key, tensors):
        cache = private.feature_transformation_cache(tensors)
        column = source.columns[key]
        return categorical.ids_and_weights(column.categorical_column, cache, source.vocabularies)
    feature = source.features[key]
    table = source.tables[feature.table_id]
    taken = enqueue.take(key, feature, table, dict(tensors), _rule(source, key))
    ids = taken.ids.with_values(tf.cast(taken.ids.values, tf.int64))
    return ids, taken.weights


def _reshape(
    ids: tf.SparseTensor, weights: tf.SparseTensor | None, length: int
) -> tuple[tf.SparseTensor, tf.SparseTensor | None]:
    """Reshapes to [B, n], or [B, L, n] with the first L steps."""

    def shaped(tensor: tf.SparseTensor | None) -> tf.SparseTensor | None:
        if tensor is None:
            return None
        shape, batch = tensor.dense_shape, tensor.shape[0]
        if not length:
            flat = tf.stack([shape[0], tf.reduce_prod(shape[1:])])
            return tensor if tensor.shape.rank == 2 else tf.sparse.reshape(tensor, flat)
        last = tf.ones([], tf.int64) if tensor.shape.rank == 2 else tf.reduce_prod(shape[2:])
        steps = tf.sparse.reshape(tensor, tf.stack([shape[0], shape[1], last]))
        size = tf.stack([shape[0], tf.minimum(shape[1], length), last])
        cut = tf.sparse.slice(steps, [0, 0, 0], size)
        full = tf.stack([shape[0], tf.constant(length, tf.int64), last])
        padded = tf.SparseTensor(cut.indices, cut.values, full)
        if batch is not None and not tf.executing_eagerly():
            padded.set_shape([batch, length, None])
        return padded

    together = shaped(ids)
    assert together is not None
    return together, shaped(weights)


def _drop_ids(
    source: ResolvedSpec, key: str, ids: tf.SparseTensor, weights: tf.SparseTensor | None
) -> tuple[tf.SparseTensor, tf.SparseTensor | None]:
    """Drops the ids that a safe lookup on a CPU drops."""
    column = source.columns.get(key)
    if column is None or source.hardware is Hardware.TPU:
        return ids, weights
    # Sequence lookups are always safe.
    if not (column.use_safe_embedding_lookup or column.is_sequence_column()):
        return ids, weights
    keep = ids.values >= 0
    if weights is not None:
        if source.combiner(source.features[key].table_id) != "sum":
            keep = keep & (weights.values > 0)
        weights = tf.sparse.retain(weights, keep)
    return tf.sparse.retain(ids, keep), weights


def _checked(source: ResolvedSpec, key: str, ids: tf.SparseTensor) -> tf.SparseTensor:
    """Returns the ids after a range check, which some targets don't make."""
    rows = source.tables[source.features[key].table_id].vocabulary_size
    outside = (ids.values < 0) | (ids.values >= rows)
    message = (
        f"Feature {key!r} has an id outside of the vocabulary, whose size is {rows} (valid: 0 to "
        f"{rows - 1}). Correct the input, give the categorical column a default_value, or enlarge "
        "the table."
    )
    if not tf.executing_eagerly():
        bad = tf.boolean_mask(ids.values, outside)
        check = tf.debugging.Assert(tf.logical_not(tf.reduce_any(outside)), [message, bad])
        with tf.control_dependencies([check] if check is not None else []):
            return ids.with_values(tf.identity(ids.values))
    if bool(tf.reduce_any(outside)):
        bad = tf.boolean_mask(ids.values, outside)[0].numpy()
        raise IdOutOfRangeError(None, None, f"{message} The id: {bad}.")
    return ids
