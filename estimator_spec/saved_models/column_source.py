# SPDX-License-Identifier: Apache-2.0
"""Writes feature columns as the source text that makes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.convert.keras_columns.expressions import FunctionCall, Name, call
from estimator_spec.convert.keras_columns.kind import class_name, unknown_column

_V1 = "tf.compat.v1.feature_column"


class ColumnWriter:
    """Writes columns.

    Args:
        path_of: returns the expression of a vocabulary file's path.
    """

    def __init__(self, path_of: Callable[[str], Any] = str) -> None:
        self._path_of = path_of

    def expression(self, column: Any) -> Any:
        """Returns the call that makes a column, or a key of a cross.

        Raises:
            ValueError: the column is of an unknown class.
        """
        if isinstance(column, str):
            return column
        write = _WRITERS.get(class_name(column))
        if write is None:
            raise unknown_column(column)
        return write(self, column)

    def shared(self, group: Sequence[Any]) -> Any:
        """Returns the call that makes the columns of a shared table."""
        first = group[0]
        inner = [self.expression(column.categorical_column) for column in group]
        if class_name(first) == "_SharedEmbeddingColumn":
            dimension, function = first.dimension, f"{_V1}.shared_embedding_columns"
        else:
            creator = first.shared_embedding_column_creator
            dimension, function = creator.dimension, "fc.shared_embeddings"
        named = {"combiner": first.combiner, "shared_embedding_collection_name": table_of(first)}
        if first.max_norm is not None:
            named["max_norm"] = first.max_norm
        return call(function, inner, dimension, **named)

    def _numeric(self, column: Any) -> FunctionCall:
        named: dict[str, Any] = {}
        if tuple(column.shape) != (1,):
            named["shape"] = list(column.shape)
        if column.default_value is not None:
            named["default_value"] = _plain(column.default_value)
        if column.dtype != tf.float32:
            named["dtype"] = Name(f"tf.{column.dtype.name}")
        if column.normalizer_fn is not None:
            named["normalizer_fn"] = Name(inspect.getsource(column.normalizer_fn).strip())
        return call("fc.numeric_column", column.key, **named)

    def _bucketized(self, column: Any) -> FunctionCall:
        source = self.expression(column.source_column)
        return call("fc.bucketized_column", source, list(column.boundaries))

    def _identity(self, column: Any) -> FunctionCall:
        default = {} if column.default_value is None else {"default_value": column.default_value}
        size = column.number_buckets
        return call("fc.categorical_column_with_identity", column.key, size, **default)

    def _hashed(self, column: Any) -> FunctionCall:
        size, named = column.hash_bucket_size, _dtype(column)
        return call("fc.categorical_column_with_hash_bucket", column.key, size, **named)

    def _list(self, column: Any) -> FunctionCall:
        words, named = list(column.vocabulary_list), {**_dtype(column), **_others(column)}
        return call("fc.categorical_column_with_vocabulary_list", column.key, words, **named)

    def _file(self, column: Any) -> FunctionCall:
        size = int(column.vocabulary_size)
        named = {**_dtype(column), **_others(column)}
        path = self._path_of(column.vocabulary_file)
        return call("fc.categorical_column_with_vocabulary_file", column.key, path, size, **named)

    def _crossed(self, column: Any) -> FunctionCall:
        keys = [self.expression(key) for key in column.keys]
        named = {} if column.hash_key is None else {"hash_key": column.hash_key}
        return call("fc.crossed_column", keys, column.hash_bucket_size, **named)

    def _weighted(self, column: Any) -> FunctionCall:
        inner = self.expression(column.categorical_column)
        return call("fc.weighted_categorical_column", inner, column.weight_feature_key)

    def _indicator(self, column: Any) -> FunctionCall:
        return call("fc.indicator_column", self.expression(column.categorical_column))

    def _embedding(self, column: Any) -> FunctionCall:
        named: dict[str, Any] = {"combiner": column.combiner}
        if column.max_norm is not None:
            named["max_norm"] = column.max_norm
        inner = self.expression(column.categorical_column)
        return call("fc.embedding_column", inner, column.dimension, **named)

    def _shared(self, column: Any) -> FunctionCall:
        return self.shared([column])


_WRITERS: dict[str, Callable[[ColumnWriter, Any], FunctionCall]] = {
    "NumericColumn": ColumnWriter._numeric,
    "BucketizedColumn": ColumnWriter._bucketized,
    "IdentityCategoricalColumn": ColumnWriter._identity,
    "HashedCategoricalColumn": ColumnWriter._hashed,
    "VocabularyListCategoricalColumn": ColumnWriter._list,
    "VocabularyFileCategoricalColumn": ColumnWriter._file,
    "CrossedColumn": ColumnWriter._crossed,
    "WeightedCategoricalColumn": ColumnWriter._weighted,
    "IndicatorColumn": ColumnWriter._indicator,
    "EmbeddingColumn": ColumnWriter._embedding,
    "SharedEmbeddingColumn": ColumnWriter._shared,
    "_SharedEmbeddingColumn": ColumnWriter._shared,
}


def table_of(column: Any) -> str | None:
    """Returns the name of the table that a column shares; None if it shares none."""
    kind = class_name(column)
    if kind == "_SharedEmbeddingColumn":
        return str(column.shared_embedding_collection_name)
    if kind != "SharedEmbeddingColumn":
        return None
    with tf.Graph().as_default():  # the one public way to the name of the table
        return str(column.shared_embedding_column_creator.embedding_weights.op.name)


def _dtype(column: Any) -> dict[str, Any]:
    name = column.dtype.name
    return {} if name == "string" else {"dtype": Name(f"tf.{name}")}


def _others(column: Any) -> dict[str, Any]:
    """Returns the argument that says which ids other words have."""
    if column.num_oov_buckets:
        return {"num_oov_buckets": int(column.num_oov_buckets)}
    return {} if column.default_value == -1 else {"default_value": int(column.default_value)}


def _plain(value: Any) -> Any:
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else value
