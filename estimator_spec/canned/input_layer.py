# SPDX-License-Identifier: Apache-2.0
"""Builds the input of deep models: dense feature columns, concatenated."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from estimator_spec.canned import column_state
from estimator_spec.canned.column_state import ScopedState
from estimator_spec.core._tensorflow import private
from estimator_spec.core.driver import shared_tables
from estimator_spec.heads.feature_columns import scope_name, sorted_columns
from tpu_columns import categorical, column_lookup, column_types, native_lookup, tables
from tpu_columns.layer_inputs import (
    LayerInputs,
    check_features_of,
    convert_ragged,
    explain_feature_errors,
)

tf1 = tf.compat.v1

SCOPE = "input_from_feature_columns"
LAYER = "input_layer"


def build(features: dict[str, Any], feature_columns: Any, shared_scope: str | None = None) -> Any:
    """Returns the tensors of dense columns, concatenated in the order of the columns' names.

    Variables are named `<current scope>/input_layer/<column name>/embedding_weights`; a table of
    shared columns has their collection's name.

    Args:
        features: tensors by feature key.
        feature_columns: dense columns.
        shared_scope: variable scope of tables that columns share; None: the current one.

    Returns:
        Floats, [batch, sum of the columns' elements].

    Raises:
        ValueError: there is no column, two have the same name, one isn't dense, or a feature is
            missing.
    """
    if has_v1_columns(feature_columns):
        return tf1.feature_column.input_layer(features, feature_columns)
    columns = sorted_columns(feature_columns, (private.DenseColumn,), "DenseColumn")
    cache = private.feature_transformation_cache(features)
    state = ScopedState()
    tensors = []
    add_shared_tables(columns, shared_scope, LAYER)
    with tf1.variable_scope(LAYER):
        for column in columns:
            with tf1.variable_scope(scope_name(column)):
                # Only such a column returns its lookup as it is.
                joins = is_looked_up_fast(column)
                with native_lookup.deferring() if joins else contextlib.nullcontext():
                    tensors.append(dense_values(column, features, cache, state))
        return native_lookup.join(tensors)


def add_shared_tables(columns: Iterable[Any], scope: str | None, layer: str) -> None:
    """Creates the tables that columns share.

    Args:
        columns: the columns of a layer, in their order.
        scope: variable scope of the tables; None: the current one.
        layer: the layer's scope, in which former releases created a table of TensorFlow's columns.
    """
    around = tables.scope_named(scope)
    for column in columns:
        if isinstance(column, column_types.SharedEmbeddingColumn):
            name = column.shared_embedding_collection_name
            shape = column.get_embedding_table_size()
            tables.get_shared_table(name, shape, column.initializer, scope=scope)
            name = f"{around.name}/{name}" if around.name else name
            shared_tables.add(name, former_name=name)
        elif isinstance(column, private.SharedEmbeddingColumn):
            with tf1.variable_scope(around, auxiliary_name_scope=False):
                table = column.shared_embedding_column_creator.embedding_weights
            name = table.name.partition(":")[0]
            place = f"{tf1.get_variable_scope().name}/{layer}/{scope_name(column)}"
            shared_tables.add(name, former_name=f"{place}/{name.rpartition('/')[2]}")


def dense_values(column: Any, features: dict[str, Any], cache: Any, state: ScopedState) -> Any:
    """Returns the values of a dense column; creates its variables in the current scope.

    Embedding columns of TensorFlow are looked up as TPU embedding columns are: their own lookup
    copies the whole table in each step, from TensorFlow 2.16 on.

    Args:
        column: the column.
        features: tensors by feature key.
        cache: transformation cache over the features.
        state: owner of the column's variables.

    Returns:
        Floats, [batch, number of elements].
    """
    if is_looked_up_fast(column):
        return _look_up(column, features, cache, state)
    if not isinstance(column, column_types.TPUEmbeddingColumn):
        check_features_of(column, features)
    column.create_state(state)
    return column_state.flat(column.get_dense_tensor(cache, state), column)


def is_looked_up_fast(column: Any) -> bool:
    """Returns whether this project's lookup replaces that of a column.

    Args:
        column: any dense column. An embedding column whose rows have a maximum norm, or that reads
            a checkpoint, keeps its own.
    """
    return (
        type(column) is private.EmbeddingColumn
        and column.max_norm is None
        and column.ckpt_to_load_from is None
        and not categorical.read(column.categorical_column).is_sequence
    )


def _look_up(column: Any, features: dict[str, Any], cache: Any, state: ScopedState) -> Any:
    """Looks up an embedding column of TensorFlow, [batch, dimension]."""
    feature = categorical.read(column.categorical_column)
    table = tables.get_table(
        tables.WEIGHTS,
        (feature.num_buckets, column.dimension),
        column.initializer,
        column.trainable,
    )
    inputs = convert_ragged(LayerInputs(cache, state, lambda: table, features), feature)
    name = scope_name(column)
    with explain_feature_errors(inputs, column.name, feature):
        return column_lookup.look_up(
            name,
            column.categorical_column,
            feature,
            inputs,
            column.combiner,
            safe=column.use_safe_embedding_lookup,
        )


def has_v1_columns(feature_columns: Any) -> bool:
    """Returns whether a column has the protocol of TF1 only.

    `tf.compat.v1.feature_column.shared_embedding_columns` makes such columns, and other libraries
    have classes of their own.
    """
    return isinstance(feature_columns, (list, tuple)) and any(
        isinstance(column, private.FeatureColumnV1)
        and not isinstance(column, (private.DenseColumn, private.CategoricalColumn))
        for column in feature_columns
    )
