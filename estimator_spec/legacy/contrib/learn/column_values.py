# SPDX-License-Identifier: Apache-2.0
"""Computes the ids and numbers of the feature columns of `tf.contrib.layers`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.legacy.contrib.learn.column_types import (
    BucketizedColumn,
    CrossedColumn,
    OneHotColumn,
    RealValuedColumn,
    SparseColumn,
    SparseColumnHashed,
    SparseColumnIntegerized,
    WeightedSparseColumn,
)
from estimator_spec.legacy.contrib.learn.columns import SPARSE_FEATURE_CROSS_DEFAULT_HASH_KEY

tf1 = tf.compat.v1


class ColumnValues:
    """Values of columns of one layer, each computed once.

    Args:
        features: tensors by feature.
    """

    def __init__(self, features: Mapping[str, Any]) -> None:
        self._features = features
        self._ids: dict[Any, Any] = {}

    def _feature(self, name: str) -> Any:
        if name not in self._features:
            raise ValueError(
                f"Feature {name!r} of a column is not in the features of the input_fn, which has "
                f"{sorted(map(str, self._features))}."
            )
        return self._features[name]

    def _sparse_feature(self, name: str) -> Any:
        """Returns a feature as a `SparseTensor`: '' and -1 stand for missing values."""
        feature = self._feature(name)
        if isinstance(feature, tf.SparseTensor):
            return feature
        dense = _matrix(tf.convert_to_tensor(feature))
        missing = tf.constant("" if dense.dtype == tf.string else -1, dense.dtype)
        return _sparse(dense, missing)

    def ids(self, column: Any) -> Any:
        """Returns the ids of a column, an int64 `SparseTensor` [batch, ids of an example].

        Args:
            column: a sparse, weighted, crossed or bucketized column.
        """
        if column not in self._ids:
            self._ids[column] = self._compute_ids(column)
        return self._ids[column]

    def _compute_ids(self, column: Any) -> Any:
        if isinstance(column, WeightedSparseColumn):
            return self.ids(column.sparse_id_column)
        if isinstance(column, BucketizedColumn):
            return self._interval_ids(column)
        if isinstance(column, CrossedColumn):
            return self._crossed_ids(column)
        given = self._sparse_feature(column.column_name)
        return tf.SparseTensor(given.indices, _ids_of(column, given.values), given.dense_shape)

    def number_of_ids(self, column: Any) -> int:
        """Returns the number of ids that a column has."""
        elements = column.source_column.dimension if isinstance(column, BucketizedColumn) else 1
        return int(column.length * elements)

    def id_weights(self, column: Any) -> Any:
        """Returns the weights of a column's ids, a `SparseTensor`, or None."""
        if not isinstance(column, WeightedSparseColumn):
            return None
        weights = self._feature(column.weight_column_name)
        if not isinstance(weights, tf.SparseTensor):
            weights = _matrix(tf.convert_to_tensor(weights))
            weights = _sparse(weights, tf.zeros([], weights.dtype))
        return tf.cast(weights, tf.float32)

    def dense(self, column: Any) -> Any:
        """Returns the numbers of a column, floats [batch, elements].

        Args:
            column: a real valued, bucketized or one-hot column.
        """
        if isinstance(column, RealValuedColumn):
            return self._numbers(column)
        if isinstance(column, BucketizedColumn):
            ones = tf.one_hot(tf.cast(self._intervals(column), tf.int64), column.length)
            return tf.reshape(ones, [-1, column.length * column.source_column.dimension])
        return self._counts(column)

    def _numbers(self, column: RealValuedColumn) -> Any:
        feature = self._feature(column.column_name)
        if isinstance(feature, tf.SparseTensor):
            feature = tf.sparse.to_dense(feature)
        if column.normalizer is not None:
            feature = column.normalizer(feature)
        matrix = _matrix(tf.cast(feature, tf.float32))
        if matrix.shape[1] not in (None, column.dimension):
            raise ValueError(
                f"Column {column.name!r} has dimension={column.dimension}, but its feature has "
                f"{matrix.shape[1]} elements in an example: its shape is {feature.shape}."
            )
        return tf.reshape(matrix, [-1, column.dimension])

    def _intervals(self, column: BucketizedColumn) -> Any:
        numbers = self._numbers(column.source_column)
        return tf.raw_ops.Bucketize(input=numbers, boundaries=list(column.boundaries))

    def _interval_ids(self, column: BucketizedColumn) -> Any:
        """Returns ids of intervals; the intervals of each element have ids of their own."""
        intervals = tf.cast(self._intervals(column), tf.int64)
        elements = column.source_column.dimension
        ids = intervals + column.length * tf.range(elements, dtype=tf.int64)
        places = tf.where(tf.ones_like(ids, tf.bool))
        return tf.SparseTensor(places, tf.reshape(ids, [-1]), tf.shape(ids, tf.int64))

    def _crossed_ids(self, column: CrossedColumn) -> Any:
        inputs = [
            self._sparse_feature(part.column_name)
            if isinstance(part, SparseColumn)
            else self.ids(part)
            for part in column.columns
        ]
        key = SPARSE_FEATURE_CROSS_DEFAULT_HASH_KEY if column.hash_key is None else column.hash_key
        return tf.sparse.cross_hashed(inputs, column.hash_bucket_size, key)

    def _counts(self, column: OneHotColumn) -> Any:
        ids, weights = self.ids(column.sparse_id_column), self.id_weights(column.sparse_id_column)
        ones = tf.one_hot(tf.sparse.to_dense(ids, -1), column.length)
        if weights is not None:
            by_id = tf.SparseTensor(ids.indices, weights.values, ids.dense_shape)
            ones *= tf.expand_dims(tf.sparse.to_dense(by_id), -1)
        counts = tf.reduce_sum(ones, 1)
        counts.set_shape([None, column.length])
        return counts


def _ids_of(column: SparseColumn, values: Any) -> Any:
    """Returns the ids of a feature's values, [number of values]."""
    if isinstance(column, SparseColumnIntegerized):
        return tf.cast(
            tf.math.floormod(values, tf.constant(column.bucket_size, values.dtype)), tf.int64
        )
    if isinstance(column, SparseColumnHashed):
        strings = values if values.dtype == tf.string else tf.strings.as_string(values)
        return tf.strings.to_hash_bucket_fast(strings, column.bucket_size)
    vocabulary = column.lookup_config
    assert vocabulary is not None
    dtype = tf.as_dtype(column.dtype)
    key_dtype = tf.string if dtype == tf.string else tf.int64
    if key_dtype == tf.int64:
        values = tf.cast(values, tf.int64)
    if vocabulary.vocabulary_file is None:
        keys = tf.constant(vocabulary.keys, key_dtype)
        ids = tf.range(len(vocabulary.keys or ()), dtype=tf.int64)
        initializer: Any = tf.lookup.KeyValueTensorInitializer(keys, ids)
    else:
        initializer = tf.lookup.TextFileInitializer(
            vocabulary.vocabulary_file,
            *(key_dtype, tf.lookup.TextFileIndex.WHOLE_LINE),
            *(tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER),
            vocab_size=vocabulary.vocab_size,
        )
    if vocabulary.num_oov_buckets:
        table: Any = tf1.lookup.StaticVocabularyTable(initializer, vocabulary.num_oov_buckets)
    else:
        table = tf1.lookup.StaticHashTable(initializer, vocabulary.default_value)
    return table.lookup(values)


def _matrix(tensor: Any) -> Any:
    """Returns a tensor [batch, elements]; numbers of examples get an axis, more axes are joined."""
    rank = tensor.shape.rank
    if rank == 1:
        return tf.expand_dims(tensor, -1)
    if rank is not None and rank > 2:
        size = tensor.shape[1:].num_elements()
        return tf.reshape(tensor, [tf.shape(tensor)[0], -1 if size is None else size])
    return tensor


def _sparse(dense: Any, missing: Any) -> Any:
    """Returns a matrix as a `SparseTensor`, without the elements that equal `missing`."""
    places = tf.where(tf.not_equal(dense, missing))
    values = tf.gather_nd(dense, places)
    return tf.SparseTensor(places, values, tf.shape(dense, out_type=tf.int64))
