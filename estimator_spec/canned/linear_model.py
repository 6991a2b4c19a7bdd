# SPDX-License-Identifier: Apache-2.0
r"""Builds the logits of linear models: weights of the columns, and a bias.

With the columns' ids or values $x$, weights $w$ and bias $b$:

$$y = b + \sum_{c} x_c w_c$$

A categorical column's weights are a table of width `units`, looked up and updated as embedding
tables are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.canned import column_state, input_layer
from estimator_spec.core._tensorflow import private
from estimator_spec.heads.feature_columns import scope_name, sorted_columns
from tpu_columns import categorical, column_lookup, layer_inputs

tf1 = tf.compat.v1

LAYER = "linear_model"
WEIGHTS = "weights"
BIAS = "bias_weights"


class LinearOutput(NamedTuple):
    """Logits of a linear model, and its variables.

    Attributes:
        logits: floats, [batch, units].
        bias: the bias, [units].
        weights: the weights of each column, sorted by the columns' names.
    """

    logits: Any
    bias: Any
    weights: list[Any]


def build(
    features: dict[str, Any],
    feature_columns: Any,
    units: int,
    sparse_combiner: str,
    op_scope: str = "linear/linear_model/linear/linear_model",
    shared_scope: str | None = None,
) -> LinearOutput:
    """Builds a linear model.

    Variables are named `<current scope>/linear_model/<column name>/weights` and
    `<current scope>/linear_model/bias_weights`; all start at zero.

    Args:
        features: tensors by feature key.
        feature_columns: categorical and dense columns.
        units: number of logits.
        sparse_combiner: 'sum', 'mean' or 'sqrtn': how the weights of several ids of one column and
            example are combined.
        op_scope: what the names of ops have between the layer's and their own, as in TensorFlow.
        shared_scope: as for `input_layer.build`.

    Returns:
        Logits and variables.

    Raises:
        ValueError: there is no column, two have the same name, one is of another kind, or a feature
            is missing.
    """
    if input_layer.has_v1_columns(feature_columns):
        return _build_with_v1_columns(features, feature_columns, units, sparse_combiner)
    kinds = (private.CategoricalColumn, private.DenseColumn)
    columns = sorted_columns(feature_columns, kinds, "DenseColumn or CategoricalColumn")
    cache = private.feature_transformation_cache(features)
    state = column_state.ScopedState()
    sums: list[Any] = []
    weights: list[Any] = []
    input_layer.add_shared_tables(columns, shared_scope, LAYER)
    with tf1.variable_scope(LAYER), tf.name_scope(op_scope):
        for column in columns:
            with tf1.variable_scope(scope_name(column)):
                if isinstance(column, private.CategoricalColumn):
                    inputs = layer_inputs.LayerInputs(cache, state, lambda: weights[-1], features)
                    weights.append(_zeros(WEIGHTS, [column.num_buckets, units]))
                    sums.append(_categorical_sum(column, inputs, sparse_combiner))
                else:
                    values = input_layer.dense_values(column, features, cache, state)
                    weights.append(_zeros(WEIGHTS, [values.shape[1], units]))
                    sums.append(tf.matmul(values, weights[-1], name="weighted_sum"))
        bias = _zeros(BIAS, [units])
        total = tf.add_n(sums, name="weighted_sum_no_bias")
        logits = tf.nn.bias_add(total, bias, name="weighted_sum")
    return LinearOutput(logits, bias, weights)


def _build_with_v1_columns(
    features: dict[str, Any], feature_columns: Any, units: int, sparse_combiner: str
) -> LinearOutput:
    """Builds a linear model by TensorFlow's own layer, which takes columns of TF1's protocol."""
    variables: dict[Any, Any] = {}
    logits = tf1.feature_column.linear_model(
        features, feature_columns, units, sparse_combiner, cols_to_vars=variables
    )
    whole = {
        column: [tf.convert_to_tensor(variable) for variable in parts]
        for column, parts in variables.items()
    }
    (bias,) = whole.pop("bias")
    return LinearOutput(logits, bias, [weights for parts in whole.values() for weights in parts])


def _zeros(name: str, shape: list[Any]) -> Any:
    return tf1.get_variable(name, shape, tf.float32, tf1.zeros_initializer())


def _categorical_sum(column: Any, inputs: layer_inputs.LayerInputs, combiner: str) -> Any:
    """Returns the combined weights of a column's ids, [batch, units]."""
    feature = categorical.read(column)
    if feature.is_sequence:
        raise ValueError(
            f"In linear_model: {column.name}. categorical_column must not be of type "
            "SequenceCategoricalColumn. Use a categorical column without sequence_ in its name."
        )
    layer_inputs.check_features_of(
        column, inputs.features, (feature.feature_key, feature.weight_key)
    )
    inputs = layer_inputs.convert_ragged(inputs, feature)
    with layer_inputs.explain_feature_errors(inputs, column.name, feature):
        return column_lookup.look_up(scope_name(column), column, feature, inputs, combiner)
