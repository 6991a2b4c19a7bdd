# SPDX-License-Identifier: Apache-2.0
"""The one reader of categorical columns: what is looked up, under which keys, how many rows."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from tpu_columns import _tensorflow as private

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
class Lookup:
    """What a categorical column says about a lookup.

    Attributes:
      name: the categorical column's own name; an embedding column's name starts with it.
      feature_key: key of the ids in the features dict.
      weight_key: key of the weights there, or None.
      num_buckets: vocabulary size with out-of-vocabulary buckets; ids lie in [0, num_buckets).
      is_sequence: whether the order of a row's ids matters and each id gets its own embedding.
    """

    name: str
    feature_key: str
    weight_key: str | None
    num_buckets: int
    is_sequence: bool


def sequence_length_key(feature_key: str) -> str:
    """Returns the features key under which a TPU puts the sequence lengths of `feature_key`.

    >>> sequence_length_key("words")
    'words_seq_length_'
    """
    return f"{feature_key}_seq_length_"


def tensor_core_mask_key(feature_key: str) -> str:
    """Returns the features key of the mask (or weights) beside ids padded for the tensor core.

    >>> tensor_core_mask_key("words")
    'words__TENSOR_CORE_MASK'
    """
    return f"{feature_key}__TENSOR_CORE_MASK"


def check_supported(column: Any, caller: str) -> None:
    """Checks that a TPU embedding can be made over `column`.

    Args:
      column: what the user passed as categorical column.
      caller: name of the public function, for the message.

    Raises:
      TypeError: a hashed, bucketized or crossed column (the message says what to use instead), or
        no categorical column at all.
    """
    inner = column
    while isinstance(inner, (private.WeightedCategoricalColumn, private.SequenceCategoricalColumn)):
        inner = inner.categorical_column
    for kind, instead in _INSTEAD.items():
        if isinstance(inner, kind):
            raise TypeError(
                f"categorical_column for tpu {caller} must not be a {kind.__name__} (denylisted "
                "type), "
                f"got {getattr(column, 'name', column)!r}. {instead}"
            )
    if not isinstance(inner, private.CategoricalColumn):
        raise TypeError(
            f"categorical_column for tpu {caller} must be type CategoricalColumn, made by one of "
            f"{_SUPPORTED}; got {column!r} "
            f"that is a {type(column)}."
        )


def read(column: Any) -> Lookup:
    """Returns what a supported categorical column says.

    Args:
      column: a column that `check_supported` accepts; weights and sequence may wrap each other in
        either order.
    """
    weight_key = None
    is_sequence = False
    inner = column
    while True:
        if isinstance(inner, private.WeightedCategoricalColumn):
            weight_key = inner.weight_feature_key
        elif isinstance(inner, private.SequenceCategoricalColumn):
            is_sequence = True
        else:
            break
        inner = inner.categorical_column
    return Lookup(
        name=column.name,
        feature_key=inner.name,
        weight_key=weight_key,
        num_buckets=int(column.num_buckets),
        is_sequence=is_sequence,
    )


class _BuilderCache:
    """Lets categorical columns read from the builder that TF1's `input_layer` hands out."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder
        self._transformed: dict[Any, Any] = {}

    def get(self, key: Any, state_manager: Any, training: Any = None) -> Any:
        del training  # no categorical column reads it
        if isinstance(key, str):
            return self._builder.get(key)
        if key not in self._transformed:
            self._transformed[key] = key.transform_feature(self, state_manager)
        return self._transformed[key]


def cache_of(builder: Any) -> Any:
    """Returns a transformation cache over a TF1 feature builder.

    Args:
      builder: what `tf.compat.v1.feature_column.input_layer` passes to a column.
    """
    return _BuilderCache(builder)


# Columns that turn entries into ids one by one, whatever stands around them.
_ENTRY_BY_ENTRY = (
    private.IdentityCategoricalColumn,
    private.VocabularyFileCategoricalColumn,
    private.VocabularyListCategoricalColumn,
)


class _AllEntries:
    """A transformation cache that has one dense feature, as a sparse tensor of all its entries."""

    def __init__(self, entries: tf.Tensor) -> None:
        everywhere = tf.where(tf.ones_like(entries, tf.bool))
        shape = tf.shape(entries, out_type=tf.int64)
        self._entries = tf.SparseTensor(everywhere, tf.reshape(entries, [-1]), shape)

    def get(self, key: Any, state_manager: Any, training: Any = None) -> Any:
        del training
        return self._entries if isinstance(key, str) else key.transform_feature(self, state_manager)


def dense_ids(
    column: Any, cache: Any, state_manager: Any, most: int
) -> tuple[tf.Tensor, tf.Tensor] | None:
    """Returns the ids of a dense feature with few entries a row, without making it sparse.

    Args:
      column: a supported categorical column.
      cache: a transformation cache over the features dict.
      state_manager: owner of vocabulary tables, or None in a TF1 graph.
      most: how many entries a row are few.

    Returns:
      ids: int64, [batch, n], 0 where there is none.
      missing: bool, [batch, n], whether there is none: the entry is -1 or '', or the vocabulary
        doesn't know it.
      Or None, if the feature is of another kind.
    """
    if type(column) not in _ENTRY_BY_ENTRY:
        return None
    entries = cache.get(column.key, state_manager)
    if not isinstance(entries, tf.Tensor) or entries.shape.rank != 2:
        return None
    width = tf.compat.dimension_value(entries.shape[1])
    if width is None or not 0 < width <= most:
        return None
    ids = column.get_sparse_tensors(_AllEntries(entries), state_manager).id_tensor.values
    ids = tf.reshape(tf.cast(ids, tf.int64), [-1, width])
    missing = ids < 0
    # There -1 stays -1; elsewhere it may be in the vocabulary, or get the id of unknown entries.
    if _identity_without_default(column):
        return tf.maximum(ids, 0), missing
    ignored = "" if entries.dtype == tf.string else -1
    missing |= tf.equal(entries, tf.constant(ignored, entries.dtype))
    # The old form takes whole tensors: TF2's, which broadcasts, takes ten times as long.
    return tf.compat.v1.where(missing, tf.zeros_like(ids), ids), missing


def _identity_without_default(column: Any) -> bool:
    is_identity = isinstance(column, private.IdentityCategoricalColumn)
    return is_identity and column.default_value is None


def ids_and_weights(
    column: Any, cache: Any, state_manager: Any
) -> tuple[tf.SparseTensor, tf.SparseTensor | None]:
    """Returns ids (and weights) of a batch, strings already turned into ids by the vocabulary.

    Args:
      column: a supported categorical column.
      cache: a transformation cache over the features dict.
      state_manager: owner of vocabulary tables, or None in a TF1 graph.

    Returns:
      ids: int64, [batch, n], or [batch, time, n] for a sequence; -1 and '' are left out of dense
        input.
      weights: float32 with the same indices, or None.
    """
    pair = column.get_sparse_tensors(cache, state_manager)
    ids = pair.id_tensor
    if ids.dtype != tf.int64:
        ids = tf.cast(ids, tf.int64)
    return ids, pair.weight_tensor
