# SPDX-License-Identifier: Apache-2.0
"""Looks up the ids of a categorical column in a table on a CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tpu_columns import categorical, lookup, lookup_errors, optimizations
from tpu_columns.categorical import CategoricalFeature
from tpu_columns.invalid_ids import IdRule
from tpu_columns.layer_inputs import LayerInputs
from tpu_columns.optimizations import Optimization
from tpu_columns.placement import updates_tables


def look_up(
    column_name: str,
    categorical_column: Any,
    feature: CategoricalFeature,
    inputs: LayerInputs,
    combiner: str | None,
    *,
    safe: bool = True,
    rule: IdRule | None = None,
) -> tf.Tensor:
    """Looks up each row's ids and combines their rows of the table to one vector.

    Args:
        column_name: name of the column that owns the table, for names of ops and errors.
        categorical_column: the column of the ids (and weights).
        feature: its metadata.
        inputs: features and table.
        combiner: as in `lookup.pooled_lookup`.
        safe: as in `lookup.pooled_lookup`.
        rule: the policy for invalid ids, or None.

    Returns:
        Floats, [batch, width of the table].
    """
    if safe and optimizations.is_used(Optimization.LOOKUPS):
        dense = categorical.dense_ids(
            categorical_column, inputs.cache, inputs.state_manager, lookup.MAX_DENSE_WIDTH, rule
        )
        if dense is not None:
            variable = inputs.table()
            with lookup_scope(column_name, feature):
                return lookup.dense_lookup(variable, dense, combiner, unique=updates_tables())
    ids, weights = ids_and_weights(column_name, categorical_column, feature, inputs, rule)
    # As in TensorFlow, only matrices of ids are looked up without checks.
    safe = safe or ids.shape.rank not in (1, 2)
    variable = inputs.table()
    with lookup_scope(column_name, feature):
        return lookup.pooled_lookup(
            variable, ids, weights, combiner, safe=safe, unique=updates_tables()
        )


def look_up_sequence(
    column_name: str,
    categorical_column: Any,
    feature: CategoricalFeature,
    inputs: LayerInputs,
    combiner: str | None,
    max_sequence_length: int,
    *,
    rule: IdRule | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Looks up every step of sequences.

    Args:
        column_name: name of the column that owns the table, for names of ops and errors.
        categorical_column: the column of the ids (and weights).
        feature: its metadata.
        inputs: features and table.
        combiner: as in `lookup.pooled_lookup`.
        max_sequence_length: as in `lookup.sequence_lookup`.
        rule: the policy for invalid ids, or None.

    Returns:
        Floats, [batch, max_sequence_length, width of the table], and int64 lengths, [batch].
    """
    if rule is None and optimizations.is_used(Optimization.LOOKUPS):
        dense = categorical.dense_sequence_ids(
            categorical_column, inputs.cache, inputs.state_manager, lookup.MAX_DENSE_WIDTH
        )
        if dense is not None:
            variable = inputs.table()
            with lookup_scope(column_name, feature):
                return lookup.dense_sequence_lookup(
                    variable, *dense, max_sequence_length, unique=updates_tables()
                )
    ids, weights = ids_and_weights(column_name, categorical_column, feature, inputs, rule)
    variable = inputs.table()
    with lookup_scope(column_name, feature):
        return lookup.sequence_lookup(
            variable, ids, weights, combiner, max_sequence_length, unique=updates_tables()
        )


def ids_and_weights(
    column_name: str,
    categorical_column: Any,
    feature: CategoricalFeature,
    inputs: LayerInputs,
    rule: IdRule | None = None,
) -> tuple[tf.SparseTensor, tf.SparseTensor | None]:
    """Returns the ids (and weights) of a batch, after a check of their numbers.

    Args:
        column_name: name of the column that owns the table, for errors.
        categorical_column: the column of the ids.
        feature: its metadata.
        inputs: the features.
        rule: the policy for invalid ids, or None.

    Raises:
        WeightCountError: ids and weights differ in number.
    """
    ids, weights = categorical.ids_and_weights(
        categorical_column, inputs.cache, inputs.state_manager
    )
    lookup_errors.check_counts(column_name, feature.feature_key, ids, weights, feature.weight_key)
    return (ids, weights) if rule is None else rule.apply(ids, weights)


@contextlib.contextmanager
def lookup_scope(column_name: str, feature: CategoricalFeature) -> Iterator[None]:
    """Enters the name scope of a column's lookup; records it for errors of bad ids.

    Args:
        column_name: name of the column that owns the table.
        feature: metadata of its ids.
    """
    with tf.name_scope(f"{column_name}_weights") as scope:
        lookup_errors.record_site(
            scope,
            column_name,
            feature.feature_key,
            feature.num_buckets,
            weight_key=feature.weight_key,
        )
        yield
