# SPDX-License-Identifier: Apache-2.0
"""Builds layers over the feature columns of `tf.contrib.layers`, and infers columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.legacy.contrib.learn import arrays
from estimator_spec.legacy.contrib.learn import columns as constructors
from estimator_spec.legacy.contrib.learn.column_types import (
    BucketizedColumn,
    EmbeddingColumn,
    FeatureColumn,
    OneHotColumn,
    RealValuedColumn,
)
from estimator_spec.legacy.contrib.learn.column_values import ColumnValues
from tpu_columns import lookup, shared_state

tf1 = tf.compat.v1


def sorted_columns(feature_columns: Any) -> list[FeatureColumn]:
    """Returns columns, each once, in the order of a layer.

    Raises:
        TypeError: one is no column of `tf.contrib.layers`.
        ValueError: there is none.
    """
    found = set(feature_columns)
    for column in found:
        if not isinstance(column, FeatureColumn):
            raise TypeError(
                f"{column!r} is no column of tf.contrib.layers. A layer takes these, or those of "
                "tf.feature_column, but not both."
            )
    if not found:
        raise ValueError("feature_columns must not be empty.")
    return sorted(found, key=lambda column: column.key)


def input_from_feature_columns(
    columns_to_tensors: Mapping[str, Any],
    feature_columns: Iterable[Any],
    weight_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Any:
    """Returns the tensors of dense columns, concatenated.

    Tables are named `<scope>/<column name>/weights`.

    Args:
        columns_to_tensors: features by name.
        feature_columns: real valued, bucketized, one-hot and embedding columns.
        weight_collections: graph collections for the variables, too.
        trainable: whether the variables are trainable.
        scope: variable scope. None: 'input_from_feature_columns'.

    Returns:
        Floats, [batch, elements of all columns].

    Raises:
        ValueError: a feature is missing or has another size, or there are no columns.
        TypeError: a column is none, or no dense one.
    """
    values = ColumnValues(columns_to_tensors)
    with tf1.variable_scope(scope, "input_from_feature_columns"):
        tensors = []
        for column in sorted_columns(feature_columns):
            with tf1.variable_scope(None, column.name):
                tensors.append(_dense_input(column, values, weight_collections, trainable))
        return tf.concat(tensors, 1)


def _dense_input(column: Any, values: ColumnValues, collections: Any, trainable: bool) -> Any:
    """Returns a column's input of a deep model, [batch, elements]."""
    if isinstance(column, EmbeddingColumn):
        table = _table(column, collections, trainable and column.trainable)
        return _look_up(column.sparse_id_column, table, values, column.combiner, column.max_norm)
    if isinstance(column, (RealValuedColumn, BucketizedColumn, OneHotColumn)):
        return values.dense(column)
    raise TypeError(
        f"Error creating input layer for column: {column.name}. A {type(column).__name__} is an "
        "input of linear models. Wrap it by embedding_column or one_hot_column."
    )


def _table(column: EmbeddingColumn, collections: Any, trainable: bool) -> Any:
    """Returns the table of an embedding column."""
    shared = shared_state.graph_dict(tf1.get_default_graph(), shared_state.CONTRIB_TABLES)
    name = column.shared_embedding_name
    if name in shared:
        return shared[name]
    shape = [column.length, column.dimension]
    table = _variable(name or "weights", shape, column.initializer, collections, trainable)
    if name is not None:
        shared[name] = table
    _initialize_from_checkpoint(column, table)
    return table


def weighted_sum_from_feature_columns(
    columns_to_tensors: Mapping[str, Any],
    feature_columns: Iterable[Any],
    num_outputs: int,
    weight_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> tuple[Any, dict[Any, list[Any]], Any]:
    """Returns the sums of a linear model.

    Weights are named `<scope>/<column name>/weights`, those of real valued columns
    `<scope>/<column name>/weight`, and the bias `<scope>/bias_weight`; all start at zero.

    Args:
        columns_to_tensors: features by name.
        feature_columns: sparse, weighted, crossed, bucketized, real valued and one-hot columns.
        num_outputs: number of sums.
        weight_collections: graph collections for the variables, too.
        trainable: whether the variables are trainable.
        scope: variable scope. None: 'weighted_sum_from_feature_columns'.

    Returns:
        (sums, [batch, num_outputs]; a list of weights by column; the bias).

    Raises:
        ValueError: a feature is missing or has another size, or there are no columns.
        TypeError: a column is none, or an embedding.
    """
    values = ColumnValues(columns_to_tensors)
    sums, weights_by_column = [], {}
    with tf1.variable_scope(scope, "weighted_sum_from_feature_columns"):
        for column in sorted_columns(feature_columns):
            if isinstance(column, EmbeddingColumn):
                raise TypeError(
                    f"Error creating weighted sum for column: {column.name}. An embedding is an "
                    "input of deep models. Give the sparse column itself."
                )
            with tf1.variable_scope(None, column.name):
                zeros = tf1.zeros_initializer()
                is_dense = isinstance(column, (RealValuedColumn, OneHotColumn))
                if is_dense:
                    dense = values.dense(column)
                    shape = [dense.shape[1], num_outputs]
                    weights = _variable("weight", shape, zeros, weight_collections, trainable)
                    sums.append(tf.matmul(dense, weights, name="matmul"))
                else:
                    rows = values.number_of_ids(column)
                    shape = [rows, num_outputs]
                    weights = _variable("weights", shape, zeros, weight_collections, trainable)
                    combiner = getattr(column, "combiner", "sum")
                    sums.append(_look_up(column, weights, values, combiner))
                    _initialize_from_checkpoint(column, weights)
                weights_by_column[column] = [weights]
        bias = _variable(
            "bias_weight", [num_outputs], tf1.zeros_initializer(), weight_collections, trainable
        )
        return tf.nn.bias_add(tf.add_n(sums), bias), weights_by_column, bias


def _look_up(
    column: Any, table: Any, values: ColumnValues, combiner: str, max_norm: float | None = None
) -> Any:
    """Returns the combined rows of a table for the ids of each example, [batch, width]."""
    ids, weights = values.ids(column), values.id_weights(column)
    if max_norm is not None:
        return tf1.nn.safe_embedding_lookup_sparse(
            table, ids, weights, combiner=combiner, max_norm=max_norm
        )
    return lookup.pooled_lookup(table, ids, weights, combiner)


def _variable(name: str, shape: Any, initializer: Any, collections: Any, trainable: bool) -> Any:
    keys = tf1.GraphKeys
    given = [keys.GLOBAL_VARIABLES, keys.MODEL_VARIABLES, *(collections or ())]
    return tf1.get_variable(
        *(name, shape, tf.float32, initializer),
        trainable=trainable,
        collections=list(dict.fromkeys(given)),
    )


def _initialize_from_checkpoint(column: Any, variable: Any) -> None:
    """Initializes a column's variable from its checkpoint, if it has one."""
    path = getattr(column, "ckpt_to_load_from", None)
    if path is not None:
        tf1.train.init_from_checkpoint(path, {column.tensor_name_in_ckpt: variable})


def create_feature_spec_for_parsing(feature_columns: Iterable[Any]) -> dict[str, Any]:
    """Returns the specification of columns' features for `tf.io.parse_example`.

    Args:
        feature_columns: columns.

    Returns:
        `FixedLenFeature` and `VarLenFeature` by feature.
    """
    spec: dict[str, Any] = {}
    for column in sorted_columns(feature_columns):
        spec.update(column.config)
    return spec


def make_place_holder_tensors_for_base_features(feature_columns: Iterable[Any]) -> dict[str, Any]:
    """Returns placeholders for the features of columns, by name.

    Args:
        feature_columns: columns.
    """
    return {
        name: tf1.sparse_placeholder(spec.dtype)
        if isinstance(spec, tf.io.VarLenFeature)
        else tf1.placeholder(spec.dtype, [None, *spec.shape])
        for name, spec in create_feature_spec_for_parsing(feature_columns).items()
    }


def parse_feature_columns_from_examples(
    serialized: Any,
    feature_columns: Iterable[Any],
    name: str | None = None,
    example_names: Any = None,
) -> dict[str, Any]:
    """Returns the features of serialized examples, by name.

    Args:
        serialized: strings, [batch].
        feature_columns: columns of the features.
        name: name of the op, or None.
        example_names: names of the examples for errors, or None.
    """
    spec = create_feature_spec_for_parsing(feature_columns)
    return tf1.parse_example(serialized, spec, name=name, example_names=example_names)  # type: ignore[no-any-return]


def infer_real_valued_columns(features: Any) -> list[RealValuedColumn]:
    """Returns a real valued column for each feature.

    Args:
        features: a tensor, or tensors by name: [batch, elements].

    Raises:
        ValueError: a feature's number of elements isn't known, or it is no number.
    """
    if not isinstance(features, Mapping):
        features = {"": features}
    return [_infer(name, feature) for name, feature in features.items()]


def _infer(name: str, feature: Any) -> RealValuedColumn:
    shape = feature.shape
    is_number = feature.dtype.is_integer or feature.dtype.is_floating
    if isinstance(feature, tf.SparseTensor) or not is_number:
        raise ValueError(f"Feature {name!r} can't be a real valued column: it is {feature}.")
    if shape.rank != 2 or shape[1] is None:
        raise ValueError(
            f"Feature {name!r} must have the shape [batch, elements], with a known number of "
            f"elements. It has {shape}."
        )
    return constructors.real_valued_column(name, shape[1], dtype=feature.dtype)


def infer_real_valued_columns_from_input_fn(input_fn: Callable[[], Any]) -> list[RealValuedColumn]:
    """Returns a real valued column for each feature of an input_fn.

    Args:
        input_fn: function that returns (features, labels), called in a graph of its own.

    Raises:
        ValueError: a feature isn't [batch, elements], or no number.
    """
    with tf.Graph().as_default():
        result = input_fn()
        if isinstance(result, tf.data.Dataset):
            result = tf1.data.make_one_shot_iterator(result).get_next()
        features = result[0] if isinstance(result, (tuple, list)) else result
        return infer_real_valued_columns(features)


def infer_real_valued_columns_from_input(x: Any) -> list[RealValuedColumn]:
    """Returns a real valued column for each feature of arrays.

    Args:
        x: an array [examples, elements], or arrays by name.

    Raises:
        ValueError: an array has another shape, or no numbers.
    """
    return infer_real_valued_columns_from_input_fn(arrays.input_fn_of(x))


def is_contrib(feature_columns: Iterable[Any]) -> bool:
    """Returns whether all columns are those of `tf.contrib.layers`."""
    return all(isinstance(column, FeatureColumn) for column in feature_columns)
