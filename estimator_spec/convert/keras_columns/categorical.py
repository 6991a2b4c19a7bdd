# SPDX-License-Identifier: Apache-2.0
"""Reads the ids of categorical columns: `CATEGORICAL` has a row for each kind."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from estimator_spec.convert.keras_columns import vocabularies
from estimator_spec.convert.keras_columns.expressions import FunctionCall, Name, call
from estimator_spec.convert.keras_columns.kind import (
    ColumnIds,
    ColumnKind,
    class_name,
    count,
    unknown_column,
)
from estimator_spec.convert.keras_columns.plan import ModelPlan, feature


def read_ids(column: Any, plan: ModelPlan) -> ColumnIds:
    """Returns how the ids of a categorical column are read.

    Raises:
        ValueError: this kind of column can't move, or isn't categorical.
    """
    kind = CATEGORICAL.get(class_name(column))
    if kind is None:
        raise unknown_column(column)
    ids: ColumnIds = kind.convert(column, plan)
    return ids


def read_numbers(column: Any, plan: ModelPlan) -> FunctionCall:
    """Returns the expression of a numeric column's numbers, [B, k]."""
    default = column.default_value
    shape = [int(axis) for axis in column.shape]
    plan.examples[column.key] = tf.io.FixedLenFeature(shape, column.dtype, default)
    arguments: list[Any] = [feature(column.key), count(shape)]
    if column.normalizer_fn is not None:
        arguments.append(plan.normalizer(column))
    return call("numbers", *arguments)


def bucket_boundaries(column: Any) -> list[float]:
    """Returns the boundaries of a bucketized column as Python numbers."""
    return [float(value) for value in column.boundaries]


def _identity(column: Any, plan: ModelPlan) -> ColumnIds:
    default = () if column.default_value is None else (int(column.default_value),)
    values = _values(column.key, tf.int64, plan)
    if column.default_value is None:
        plan.differ(
            column.key,
            "ids beyond the vocabulary",
            "an error with both on the TensorFlow backend; JAX and torch may return NaN or stop",
            of_keras=True,
        )
    ids = call("identity_ids", values, int(column.number_buckets), *default)
    return ColumnIds(column.name, "categories", ids, int(column.number_buckets))


def _hashed(column: Any, plan: ModelPlan) -> ColumnIds:
    size = int(column.hash_bucket_size)
    ids = call("hash_ids", _values(column.key, column.dtype, plan), size)
    return ColumnIds(column.name, "categories", ids, size)


def _vocabulary(column: Any, plan: ModelPlan) -> ColumnIds:
    table = plan.identifier(f"{column.key}_VOCABULARY".upper(), ("vocabulary", column))
    options: dict[str, Any] = {}
    if column.num_oov_buckets:
        options["oov_buckets"] = int(column.num_oov_buckets)
    elif column.default_value != -1:
        options["default"] = int(column.default_value)
        plan.differ(
            column.key,
            "default_value",
            "the row of the default id trains for other words, too, as in the column",
        )
    initializer = vocabularies.initializer_of(column, plan)
    plan.constants[table] = call("vocabulary_table", initializer, **options)
    ids = call("vocabulary_ids", _values(column.key, column.dtype, plan), Name(table))
    return ColumnIds(column.name, "categories", ids, int(column.num_buckets))


def _bucketized(column: Any, plan: ModelPlan) -> ColumnIds:
    boundaries = bucket_boundaries(column)
    buckets = call("buckets_of", read_numbers(column.source_column, plan), boundaries)
    size = len(boundaries) + 1
    ids = call("bucket_ids", buckets, size)
    return ColumnIds(column.name, "buckets", ids, size * count(column.source_column.shape))


def _crossed(column: Any, plan: ModelPlan) -> ColumnIds:
    size = int(column.hash_bucket_size)
    parts = [_part(key, plan) for key in _leaves(column)]
    hash_key = () if column.hash_key is None else (int(column.hash_key),)
    return ColumnIds(column.name, "crosses", call("cross_ids", parts, size, *hash_key), size)


def _leaves(column: Any) -> list[Any]:
    """Returns the keys of a crossed column, with those of crossed columns among them."""
    leaves: list[Any] = []
    for key in column.keys:
        leaves += _leaves(key) if class_name(key) == "CrossedColumn" else [key]
    return leaves


def _part(key: Any, plan: ModelPlan) -> Any:
    if isinstance(key, str):
        plan.examples.setdefault(key, tf.io.VarLenFeature(tf.string))
        plan.crossed.add(key)
        return feature(key)
    if hasattr(key, "key"):
        plan.crossed.add(key.key)
    ids = read_ids(key, plan)
    if ids.weights is not None:
        raise ValueError(
            f"crossed_column does not support weight_tensor, but the column {key.name!r} has one. "
            "Cross the column without its weights."
        )
    return ids.expression


def _weighted(column: Any, plan: ModelPlan) -> ColumnIds:
    plan.examples[column.weight_feature_key] = tf.io.VarLenFeature(column.dtype)
    inner = read_ids(column.categorical_column, plan)
    weights = feature(column.weight_feature_key)
    plan.differ(
        column.name,
        "dense weights",
        "the column fails, or shifts the weights, unless they are 0 exactly where ids are missing; "
        "here each id has the weight at its place",
    )
    return dataclasses.replace(inner, name=column.name, weights=weights)


def _sequence(column: Any, plan: ModelPlan) -> ColumnIds:
    inner = read_ids(column.categorical_column, plan)
    return dataclasses.replace(inner, name=column.name, group="sequences", is_sequence=True)


def _values(key: str, dtype: Any, plan: ModelPlan) -> FunctionCall:
    """Returns the expression of a categorical feature as a sparse tensor."""
    plan.examples[key] = tf.io.VarLenFeature(tf.string if dtype == tf.string else tf.int64)
    plan.typed.add(key)
    return call("to_sparse", feature(key))


CATEGORICAL: dict[str, ColumnKind] = {
    "IdentityCategoricalColumn": ColumnKind(
        "categorical_column_with_identity",
        "`identity_ids`",
        "",
        "ids beyond the vocabulary without a `default_value`: on JAX and torch no error",
        _identity,
    ),
    "HashedCategoricalColumn": ColumnKind(
        "categorical_column_with_hash_bucket",
        "`hash_ids` (`tf.strings.to_hash_bucket_fast`)",
        "",
        "",
        _hashed,
    ),
    "VocabularyListCategoricalColumn": ColumnKind(
        "categorical_column_with_vocabulary_list",
        "`vocabulary_ids` (`tf.lookup`, the column's order of ids)",
        "",
        "",
        _vocabulary,
    ),
    "VocabularyFileCategoricalColumn": ColumnKind(
        "categorical_column_with_vocabulary_file",
        "`vocabulary_ids` of a copy of the file",
        "",
        "",
        _vocabulary,
    ),
    "BucketizedColumn": ColumnKind(
        "bucketized_column",
        "`buckets_of` (`tf.raw_ops.Bucketize`)",
        '`CategoryEncoding(n, "one_hot")`, `Flatten` for several numbers',
        "",
        _bucketized,
        "`layers.one_hot(buckets, n)`",
    ),
    "CrossedColumn": ColumnKind(
        "crossed_column",
        "`cross_ids` (`tf.sparse.cross_hashed`)",
        "",
        "",
        _crossed,
    ),
    "WeightedCategoricalColumn": ColumnKind(
        "weighted_categorical_column",
        "`weights_of` the ids, for `mean` and `sqrtn` the positive ones",
        "",
        "dense weights, where the column fails",
        _weighted,
        differs_in_torch="dense weights, where the column fails",
    ),
    "SequenceCategoricalColumn": ColumnKind(
        "sequence_categorical_column_with_…",
        "`padded_steps` of the column's ids",
        "",
        "",
        _sequence,
    ),
}
