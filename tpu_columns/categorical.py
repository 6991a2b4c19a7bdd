# SPDX-License-Identifier: Apache-2.0
"""Reads TensorFlow's categorical columns: feature keys, vocabulary sizes, ids and weights."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from tpu_columns import _tensorflow as private
from tpu_columns.invalid_ids import IdRule

_INSTEAD = {
    private.HashedCategoricalColumn: (
        "Hash in the input_fn (tf.strings.to_hash_bucket_fast(values, num_buckets)) and use "
        "tf.feature_column.categorical_column_with_identity(key, num_buckets)."
    ),
    private.BucketizedColumn: (
        "Bucketize in the input_fn (tf.searchsorted(boundaries, values, side='right')) and use "
        "tf.feature_column.categorical_column_with_identity(key, len(boundaries) + 1)."
    ),
    private.CrossedColumn: (
        "Cross in the input_fn (tf.sparse.cross_hashed(inputs, num_buckets)) and use "
        "tf.feature_column.categorical_column_with_identity(key, num_buckets)."
    ),
}
_SUPPORTED = (
    "categorical_column_with_identity, categorical_column_with_vocabulary_list, "
    "categorical_column_with_vocabulary_file, "
    "weighted_categorical_column and the sequence_ forms of the first three"
)


@dataclasses.dataclass(frozen=True)
class CategoricalFeature:
    """Metadata of a categorical column.

    Attributes:
        name: name of the categorical column; the embedding column's name starts with it.
        feature_key: key of the ids in the features dict.
        weight_key: key of the weights in the features dict, or None.
        weight_dtype: dtype that the column declares for its weights, or None.
        num_buckets: vocabulary size with out-of-vocabulary buckets; ids are in [0, num_buckets).
        is_sequence: whether each id of a row gets its own embedding.
    """

    name: str
    feature_key: str
    weight_key: str | None
    weight_dtype: tf.DType | None
    num_buckets: int
    is_sequence: bool


def sequence_length_key(feature_key: str) -> str:
    """Returns the key of the sequence lengths of `feature_key` in a TPU's features dict.

    >>> sequence_length_key("words")
    'words_seq_length_'
    """
    return f"{feature_key}_seq_length_"


def tensor_core_mask_key(feature_key: str) -> str:
    """Returns the key of the mask (or weights) of ids that are padded for the tensor core.

    >>> tensor_core_mask_key("words")
    'words__TENSOR_CORE_MASK'
    """
    return f"{feature_key}__TENSOR_CORE_MASK"


def check_supported(column: Any, caller: str) -> None:
    """Checks that TPU embeddings support a categorical column.

    Args:
        column: the user's argument.
        caller: name of the public function, for error messages.

    Raises:
        TypeError: a hashed, bucketized or crossed column (the message says what to use instead),
            or an object that is no categorical column.
    """
    inner = column
    while isinstance(inner, (private.WeightedCategoricalColumn, private.SequenceCategoricalColumn)):
        inner = inner.categorical_column
    for kind, instead in _INSTEAD.items():
        if isinstance(inner, kind):
            raise TypeError(
                f"categorical_column for tpu {caller} must not be a {kind.__name__} (denylisted "
                f"type), got {getattr(column, 'name', column)!r}. {instead}"
            )
    if not isinstance(inner, private.CategoricalColumn):
        raise TypeError(
            f"categorical_column for tpu {caller} must be type CategoricalColumn, made by one of "
            f"{_SUPPORTED}; got {column!r} that is a {type(column)}."
        )


def read(column: Any) -> CategoricalFeature:
    """Returns the metadata of a categorical column.

    Args:
        column: a column that `check_supported` accepts; weighted and sequence columns may wrap
            each other in either order.
    """
    weight_key = weight_dtype = None
    is_sequence = False
    inner = column
    while True:
        if isinstance(inner, private.WeightedCategoricalColumn):
            weight_key, weight_dtype = inner.weight_feature_key, inner.dtype
        elif isinstance(inner, private.SequenceCategoricalColumn):
            is_sequence = True
        else:
            break
        inner = inner.categorical_column
    return CategoricalFeature(
        name=column.name,
        feature_key=inner.name,
        weight_key=weight_key,
        weight_dtype=weight_dtype,
        num_buckets=int(column.num_buckets),
        is_sequence=is_sequence,
    )


class BuilderCache:
    """Transformation cache over the builder that TF1's `input_layer` passes to columns."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder
        self._transformed: dict[Any, Any] = {}

    def get(self, key: Any, state_manager: Any, training: Any = None) -> Any:
        """Returns a feature, or the transformed feature of a column."""
        if isinstance(key, str):
            return self._feature(key, state_manager)
        if key not in self._transformed:
            self._transformed[key] = key.transform_feature(self, state_manager)
        return self._transformed[key]

    def _feature(self, key: str, state_manager: Any) -> Any:
        return self._builder.get(key)


# Columns that map each entry to its id independently of other entries.
_ELEMENTWISE = (
    private.IdentityCategoricalColumn,
    private.VocabularyFileCategoricalColumn,
    private.VocabularyListCategoricalColumn,
)


class _AllEntries:
    """Transformation cache of one dense feature, as a sparse tensor of all its entries."""

    def __init__(self, entries: tf.Tensor) -> None:
        indices = tf.where(tf.ones_like(entries, tf.bool))
        shape = tf.shape(entries, out_type=tf.int64)
        self._entries = tf.SparseTensor(indices, tf.reshape(entries, [-1]), shape)

    def get(self, key: Any, state_manager: Any, training: Any = None) -> Any:
        return self._entries if isinstance(key, str) else key.transform_feature(self, state_manager)


def dense_ids(
    column: Any, cache: Any, state_manager: Any, max_width: int, rule: IdRule | None = None
) -> tf.Tensor | None:
    """Returns the ids of a dense feature with few entries per row, without making it sparse.

    Args:
        column: a supported categorical column.
        cache: transformation cache over the features dict.
        state_manager: owner of vocabulary tables, or None in a TF1 graph.
        max_width: maximum number of entries per row.
        rule: the policy for invalid ids, or None.

    Returns:
        int64, [batch, n]; negative where the entry is -1 or '', or not in the vocabulary (without a
        rule), or an id that the rule drops. None if the feature is sparse, wider or weighted.
    """
    if type(column) not in _ELEMENTWISE:
        return None
    entries = cache.get(column.key, state_manager)
    if not isinstance(entries, tf.Tensor) or entries.shape.rank != 2:
        return None
    width = tf.compat.dimension_value(entries.shape[1])
    if width is None or not 0 < width <= max_width:
        return None
    if rule is not None:
        ids = _map_entries(column, entries, state_manager)
        return rule.apply_dense(ids, tf.equal(entries, _ignored_entry(entries)))
    return negative_if_missing(column, entries, state_manager)


def dense_sequence_ids(
    column: Any, cache: Any, state_manager: Any, max_steps: int
) -> tuple[tf.Tensor, tf.Tensor] | None:
    """Returns the ids of a dense feature with few steps per row, without making it sparse.

    Args:
        column: a supported sequence column.
        cache: transformation cache over the features dict.
        state_manager: owner of vocabulary tables, or None in a TF1 graph.
        max_steps: maximum number of steps.

    Returns:
        ids: int64, [batch, time]; negative where the entry is -1 or '', or not in the vocabulary.
        steps: bool, [batch, time]; false where the entry is -1 or ''.
        None instead of both, if the feature is sparse, longer or weighted, or has several ids a
        step.
    """
    if not isinstance(column, private.SequenceCategoricalColumn):
        return None
    inner = column.categorical_column
    found = dense_ids(inner, cache, state_manager, max_steps)
    if found is None:
        return None
    entries = cache.get(inner.key, state_manager)
    return found, tf.not_equal(entries, _ignored_entry(entries))


def negative_if_missing(column: Any, entries: tf.Tensor, state_manager: Any) -> tf.Tensor:
    """Returns the id of each entry, or a negative number for an entry without one.

    Args:
        column: one of `_ELEMENTWISE`.
        entries: the feature, [batch, n].
        state_manager: owner of vocabulary tables, or None in a TF1 graph.

    Returns:
        int64, [batch, n]; negative where the entry is -1 or '', or not in the vocabulary.
    """
    ids = _map_entries(column, entries, state_manager)
    if _keeps_entries(column):
        return ids
    # Other columns may have -1 in their vocabulary, or map it to the id of unknown entries.
    ignored = tf.equal(entries, _ignored_entry(entries))
    # TF2's `where` broadcasts, which takes ten times as long.
    return tf.compat.v1.where(ignored, tf.fill(tf.shape(ids), tf.constant(-1, tf.int64)), ids)


def _keeps_entries(column: Any) -> bool:
    """Returns whether ids are the entries themselves, -1 included."""
    return isinstance(column, private.IdentityCategoricalColumn) and column.default_value is None


def _map_entries(column: Any, entries: tf.Tensor, state_manager: Any) -> tf.Tensor:
    """Returns the ids of entries; -1 for those not in the vocabulary, if the column says so."""
    if _keeps_entries(column) and entries.dtype.is_integer:
        return tf.cast(entries, tf.int64)
    ids = column.get_sparse_tensors(_AllEntries(entries), state_manager).id_tensor.values
    width = tf.compat.dimension_value(entries.shape[1])
    return tf.reshape(tf.cast(ids, tf.int64), [-1, width])


def _ignored_entry(entries: tf.Tensor) -> tf.Tensor:
    """Returns the entry of dense input that isn't an id."""
    return tf.constant("" if entries.dtype == tf.string else -1, entries.dtype)


def ids_and_weights(
    column: Any, cache: Any, state_manager: Any
) -> tuple[tf.SparseTensor, tf.SparseTensor | None]:
    """Returns the ids (and weights) of a batch; a vocabulary has mapped strings to ids.

    Args:
        column: a supported categorical column.
        cache: transformation cache over the features dict.
        state_manager: owner of vocabulary tables, or None in a TF1 graph.

    Returns:
        ids: int64, [batch, n], or [batch, time, n] for a sequence; without the entries -1 and ''
            of dense input.
        weights: float32 with the same indices, or None.
    """
    pair = column.get_sparse_tensors(cache, state_manager)
    ids = pair.id_tensor
    if ids.dtype != tf.int64:
        ids = tf.cast(ids, tf.int64)
    return ids, pair.weight_tensor
