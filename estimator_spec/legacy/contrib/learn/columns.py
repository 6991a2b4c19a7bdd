# SPDX-License-Identifier: Apache-2.0
"""Makes the feature columns of `tf.contrib.layers`, from checked arguments."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import tensorflow as tf

from estimator_spec.legacy.contrib.learn.column_checks import (
    check_checkpoint,
    check_combiner,
    check_count,
    check_dtype,
    check_ids,
)
from estimator_spec.legacy.contrib.learn.column_types import (
    BucketizedColumn,
    CrossedColumn,
    EmbeddingColumn,
    IdLookup,
    OneHotColumn,
    RealValuedColumn,
    SparseColumn,
    SparseColumnHashed,
    SparseColumnIntegerized,
    SparseColumnKeys,
    SparseColumnVocabulary,
    WeightedSparseColumn,
)
from tpu_columns.checks import is_int

tf1 = tf.compat.v1

# The key of crosses' hashes that newer programs of TensorFlow 1 gave, and today's default.
SPARSE_FEATURE_CROSS_DEFAULT_HASH_KEY = 0xDECAFCAFFE


def sparse_column_with_integerized_feature(
    column_name: str, bucket_size: int, combiner: str = "sum", dtype: Any = tf.int64
) -> SparseColumn:
    """Returns a column of integers of a feature, whose ids are their remainders.

    Args:
        column_name: the feature.
        bucket_size: number of ids.
        combiner: how the weights of several ids are combined: 'sum', 'mean' or 'sqrtn'.
        dtype: an integer type.

    Raises:
        ValueError: the number of ids, the dtype or the combiner is wrong.
    """
    check_count(column_name, "bucket_size", bucket_size)
    if not tf.as_dtype(dtype).is_integer:
        raise ValueError(f"dtype must be an integer. dtype: {dtype}, column_name: {column_name}")
    check_combiner(column_name, combiner)
    return SparseColumnIntegerized(column_name, True, bucket_size, None, combiner, dtype)


def sparse_column_with_hash_bucket(
    column_name: str, hash_bucket_size: int, combiner: str = "sum", dtype: Any = tf.string
) -> SparseColumn:
    """Returns a column of strings or integers of a feature, whose ids are hashes.

    Args:
        column_name: the feature.
        hash_bucket_size: number of ids.
        combiner: as for `sparse_column_with_integerized_feature`.
        dtype: `tf.string` or an integer type.

    Raises:
        ValueError: as for `sparse_column_with_integerized_feature`.
    """
    check_count(column_name, "hash_bucket_size", hash_bucket_size)
    check_dtype(column_name, dtype)
    check_combiner(column_name, combiner)
    return SparseColumnHashed(column_name, False, hash_bucket_size, None, combiner, dtype)


def sparse_column_with_keys(
    column_name: str,
    keys: Iterable[Any],
    default_value: int = -1,
    combiner: str = "sum",
    dtype: Any = tf.string,
) -> SparseColumn:
    """Returns a column whose ids are positions in a list of keys.

    Args:
        column_name: the feature.
        keys: strings or integers.
        default_value: id of other values; -1 leaves them out.
        combiner: as for `sparse_column_with_integerized_feature`.
        dtype: `tf.string` or an integer type.

    Raises:
        ValueError: as for `sparse_column_with_integerized_feature`.
    """
    keys = tuple(keys)
    check_count(column_name, "the number of keys", len(keys))
    check_dtype(column_name, dtype)
    check_combiner(column_name, combiner)
    lookup = IdLookup(keys=keys, vocab_size=len(keys), default_value=default_value)
    return SparseColumnKeys(column_name, False, None, lookup, combiner, dtype)


def sparse_column_with_vocabulary_file(
    column_name: str,
    vocabulary_file: str,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    combiner: str = "sum",
    dtype: Any = tf.string,
) -> SparseColumn:
    """Returns a column whose ids are lines of a file.

    Args:
        column_name: the feature.
        vocabulary_file: the file, one key a line.
        num_oov_buckets: ids after the file's, for hashes of other values.
        vocab_size: number of lines to use.
        default_value: id of other values, without such buckets; -1 leaves them out.
        combiner: as for `sparse_column_with_integerized_feature`.
        dtype: `tf.string` or an integer type.

    Raises:
        ValueError: there is no file or number, or as for `sparse_column_with_integerized_feature`.
    """
    if not vocabulary_file:
        raise ValueError(f"vocabulary_file cannot be empty. column_name: {column_name}")
    if vocab_size is None:
        raise ValueError(
            f"vocab_size must be specified: the number of lines to use. column_name: {column_name}"
        )
    check_count(column_name, "vocab_size", vocab_size)
    check_dtype(column_name, dtype)
    check_combiner(column_name, combiner)
    lookup = IdLookup(vocabulary_file, None, num_oov_buckets, vocab_size, default_value)
    return SparseColumnVocabulary(column_name, False, None, lookup, combiner, dtype)


def weighted_sparse_column(
    sparse_id_column: Any, weight_column_name: str, dtype: Any = tf.float32
) -> WeightedSparseColumn:
    """Returns a sparse column whose ids have the weights of another feature.

    Args:
        sparse_id_column: the column of ids.
        weight_column_name: the feature of the weights.
        dtype: dtype of the weights.
    """
    return WeightedSparseColumn(sparse_id_column, weight_column_name, dtype)


def one_hot_column(sparse_id_column: Any) -> OneHotColumn:
    """Returns a dense column of counts of a sparse column's ids, for deep models.

    Args:
        sparse_id_column: the column of ids.
    """
    check_ids("one_hot_column", sparse_id_column)
    return OneHotColumn(sparse_id_column)


def embedding_column(
    sparse_id_column: Any,
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
) -> EmbeddingColumn:
    """Returns a dense column of embeddings of a sparse column's ids.

    Args:
        sparse_id_column: the column of ids.
        dimension: width of the embeddings.
        combiner: how those of several ids are combined: 'mean', 'sqrtn' or 'sum'.
        initializer: initializer of the table. None: truncated normal with the standard deviation
            1/√(number of ids).
        ckpt_to_load_from: checkpoint whose `tensor_name_in_ckpt` initializes the table, or None.
        tensor_name_in_ckpt: the variable's name there.
        max_norm: largest norm of an embedding, or None.
        trainable: whether the table is trained.

    Raises:
        ValueError: the dimension, combiner or initializer is wrong, or one of the two arguments of
            a checkpoint is missing.
    """
    check_ids("embedding_column", sparse_id_column)
    return _embedding(
        *(sparse_id_column, dimension, combiner, initializer, ckpt_to_load_from),
        *(tensor_name_in_ckpt, None, None, max_norm, trainable),
    )


def shared_embedding_columns(
    sparse_id_columns: Sequence[Any],
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    shared_embedding_name: str | None = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
) -> list[EmbeddingColumn]:
    """Returns a dense column of embeddings for each sparse column, with one table.

    Args:
        sparse_id_columns: the columns of ids, with equal numbers of ids.
        dimension: as for `embedding_column`, as the arguments below.
        combiner: see there.
        initializer: see there.
        shared_embedding_name: name of the table. None: that of the columns.
        ckpt_to_load_from: see there.
        tensor_name_in_ckpt: see there.
        max_norm: see there.
        trainable: see there.

    Raises:
        ValueError: as for `embedding_column`, or there are no columns, or they differ in length.
    """
    columns = list(sparse_id_columns)
    if not columns:
        raise ValueError("The input sparse_id_columns must not be empty.")
    for column in columns:
        check_ids("shared_embedding_columns", column)
    lengths = {column.length for column in columns}
    if len(lengths) > 1:
        raise ValueError(
            "The input sparse id columns are not compatible: they have different numbers of ids, "
            f"{ {column.name: column.length for column in columns} }."
        )
    if shared_embedding_name is None:
        names = sorted(column.name for column in columns)
        rest = f"_and_{len(names) - 2}_others" if len(names) > 2 else ""
        shared_embedding_name = f"{'_'.join(names[:2])}{rest}_shared_embedding"
    return [
        _embedding(
            *(column, dimension, combiner, initializer, ckpt_to_load_from, tensor_name_in_ckpt),
            *(shared_embedding_name, lengths.copy().pop(), max_norm, trainable),
        )
        for column in columns
    ]


def real_valued_column(
    column_name: str,
    dimension: int = 1,
    default_value: Any = None,
    dtype: Any = tf.float32,
    normalizer: Any = None,
) -> RealValuedColumn:
    """Returns a dense column of a numeric feature.

    Args:
        column_name: the feature; '' if an input_fn returns one tensor.
        dimension: elements of an example.
        default_value: number, or list of numbers, for missing values of parsed examples.
        dtype: dtype of parsed examples.
        normalizer: function of the feature's tensor that returns the column's, or None.

    Raises:
        TypeError: the dimension is no int, or the normalizer not callable.
        ValueError: the dimension is less than 1, or the default doesn't fit.
    """
    if not is_int(dimension):
        raise TypeError(
            f"dimension must be an integer. dimension: {dimension}, column_name: {column_name}. "
            "For values of any number use a FixedLenFeature with padding."
        )
    check_count(column_name, "dimension", dimension)
    if normalizer is not None and not callable(normalizer):
        raise TypeError(f"normalizer must be a callable. Given: {normalizer!r}")
    if default_value is not None:
        is_list = isinstance(default_value, (list, tuple))
        default_value = tuple(default_value) if is_list else (default_value,) * dimension
        if len(default_value) != dimension:
            raise ValueError(
                f"The length of default_value must be equal to dimension. default_value: "
                f"{default_value}, dimension: {dimension}, column_name: {column_name}"
            )
    return RealValuedColumn(column_name, dimension, default_value, dtype, normalizer)


def bucketized_column(source_column: Any, boundaries: Sequence[float]) -> BucketizedColumn:
    """Returns a column of the intervals that a numeric column's values are in.

    Args:
        source_column: a `real_valued_column`.
        boundaries: increasing numbers; an interval has its lower one.

    Raises:
        TypeError: the source is another column.
        ValueError: there are no boundaries, or they don't increase.
    """
    if not isinstance(source_column, RealValuedColumn):
        raise TypeError(
            "source_column must be an instance of _RealValuedColumn. source_column: "
            f"{source_column}"
        )
    given = tuple(boundaries)
    if not given or list(given) != sorted(given):
        raise ValueError(
            f"boundaries must be a sorted list. boundaries: {given}, column: {source_column.name}"
        )
    return BucketizedColumn(source_column, tuple(dict.fromkeys(given)))


def crossed_column(
    columns: Iterable[Any],
    hash_bucket_size: int,
    combiner: str = "sum",
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    hash_key: int | None = None,
) -> CrossedColumn:
    """Returns a column of combinations of values, whose ids are hashes.

    TensorFlow 1.15 hashed without a `hash_key` by an op that TensorFlow 2 doesn't have. Without
    one, ids are those of the default key: a checkpoint of such a column must be trained again.

    Args:
        columns: two or more sparse, bucketized or crossed columns.
        hash_bucket_size: number of ids.
        combiner: as for `sparse_column_with_integerized_feature`.
        ckpt_to_load_from: as for `embedding_column`, in linear models.
        tensor_name_in_ckpt: as for `embedding_column`, in linear models.
        hash_key: an int; `SPARSE_FEATURE_CROSS_DEFAULT_HASH_KEY` gives TensorFlow 1.15's ids.

    Raises:
        TypeError: a column is of another kind.
        ValueError: there is one column only, or the number of ids or the combiner is wrong.
    """
    found = sorted(set(columns), key=lambda column: column.name)
    if len(found) < 2:
        raise ValueError(f"columns must contain at least 2 elements. columns: {found}")
    for column in found:
        if not isinstance(column, (SparseColumn, BucketizedColumn, CrossedColumn)):
            raise TypeError(
                "columns must be a set of _SparseColumn, _CrossedColumn, or _BucketizedColumn "
                f"instances. {column!r} is none."
            )
    name = "_X_".join(column.name for column in found)
    check_count(name, "hash_bucket_size", hash_bucket_size)
    check_combiner(name, combiner)
    check_checkpoint(name, ckpt_to_load_from, tensor_name_in_ckpt)
    if hash_key is None:
        tf1.logging.warning(
            "crossed_column %s has no hash_key. TensorFlow 1 hashed it by an op that TensorFlow 2 "
            "doesn't have: train the model here, rather than load a checkpoint of TensorFlow 1.",
            name,
        )
    return CrossedColumn(
        tuple(found), hash_bucket_size, hash_key, combiner, ckpt_to_load_from, tensor_name_in_ckpt
    )


def scattered_embedding_column(column_name: str, *args: Any, **kwargs: Any) -> NoReturn:
    """Raises an error: the hashed embeddings of `tf.contrib.layers` aren't restored.

    Raises:
        NotImplementedError: always.
    """
    del args, kwargs
    raise NotImplementedError(
        f"scattered_embedding_column of {column_name!r} isn't restored: its hash is an op that "
        "TensorFlow 2 doesn't have. Use embedding_column(sparse_column_with_hash_bucket(...))."
    )


def _embedding(*values: Any) -> EmbeddingColumn:
    """Returns a checked embedding column; the values are its fields."""
    column = EmbeddingColumn(*values)
    check_count(column.name, "dimension", column.dimension)
    check_combiner(column.name, column.combiner)
    check_checkpoint(column.name, column.ckpt_to_load_from, column.tensor_name_in_ckpt)
    if column.initializer is not None and not callable(column.initializer):
        raise ValueError(
            f"initializer must be callable if specified. Embedding of column_name: {column.name}"
        )
    if column.initializer is None:
        deviation = 1 / math.sqrt(column.length)
        normal = tf1.truncated_normal_initializer(0.0, deviation)
        return dataclasses.replace(column, initializer=normal)
    return column
