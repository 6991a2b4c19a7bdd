# SPDX-License-Identifier: Apache-2.0
r"""Builds the logits of boosted trees, and what each feature contributes to a prediction.

A tree maps an example to one of its leaves: at each split to the left if the example's integer of
the split's feature is at most the threshold. With the leaves' values $v_t$, times the weights of
the trees, the logits are

$$z = \sum_t v_t$$

(J. Friedman, 2001, Greedy function approximation: a gradient boosting machine). The trees are
constants of the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.canned import column_state
from estimator_spec.checkpoints.boosted_trees import Forest
from estimator_spec.core._tensorflow import private
from estimator_spec.heads.tree_features import TreeFeature, TreeFeatureKind
from tpu_columns.layer_inputs import check_features_of


def build_inputs(
    tensors: Mapping[str, Any], features: Sequence[TreeFeature], quantiles: Iterable[np.ndarray]
) -> Any:
    """Returns the integers of all features, int32 [batch, sum of the features' widths].

    Args:
        tensors: input by feature key.
        features: the model's features.
        quantiles: those of each feature that has quantiles.

    Raises:
        ValueError: an input is missing or doesn't fit its column.
    """
    column_state.check_features(tensors)
    cache = private.feature_transformation_cache(tensors)
    state = column_state.ScopedState()
    remaining = iter(quantiles)
    parts = []
    for column, kind in dict.fromkeys((feature.column, feature.kind) for feature in features):
        check_features_of(column, tensors)
        column.create_state(state)
        values = cache.get(column, state)
        if kind is TreeFeatureKind.QUANTILE:
            values = column_state.flat(values, column)
            count = sum(feature.column == column for feature in features)
            values = _intervals(values, [next(remaining) for _ in range(count)])
        elif kind is TreeFeatureKind.ID:
            # As in TensorFlow, an example without an id has the first one.
            values = tf.pad(tf.sparse.to_dense(values), [[0, 0], [0, 1]])[:, :1]
        parts.append(tf.cast(values, tf.int32))
    return tf.concat(parts, axis=1)


def _intervals(values: Any, quantiles: list[np.ndarray]) -> Any:
    """Returns the numbers of the intervals of values, [batch, elements].

    An interval ends with the quantile that it includes, and the last with infinity; NaN is in the
    first.

    Args:
        values: floats, [batch, elements].
        quantiles: of each element.
    """
    width = max(2, *(len(of_element) for of_element in quantiles)) - 1
    ends = np.full([len(quantiles), width], np.inf, np.float32)
    for row, of_element in zip(ends, quantiles, strict=True):
        inner = of_element[:-1]
        row[: len(inner)] = inner
    values = tf.cast(tf.transpose(values), tf.float32)
    # searchsorted itself finds NaN first up to TensorFlow 2.21, and last in nightly builds of 2.23.
    values = tf.where(tf.math.is_nan(values), -np.inf, values)
    return tf.transpose(tf.searchsorted(tf.constant(ends), values, side="left"))


def _input_columns(forest: Forest, features: Sequence[TreeFeature]) -> np.ndarray:
    """Returns the column of the inputs that each node splits by, ints [nodes]."""
    starts = np.cumsum([0, *(feature.width for feature in features)])
    columns = starts[np.maximum(forest.features, 0)] + forest.dimensions
    return columns.astype(np.int32)


def build_paths(forest: Forest, inputs: Any, columns: np.ndarray) -> list[Any]:
    """Returns the nodes that examples come to, the roots first: int32 [batch, trees] each.

    Args:
        forest: trees; at least one.
        inputs: the integers that nodes split by, int32 [batch, columns].
        columns: the column that each node splits by, int32 [nodes].
    """
    columns, thresholds, is_equality, left, right = (
        tf.constant(array)
        for array in (
            columns,
            forest.thresholds,
            forest.is_equality,
            forest.left,
            forest.right,
        )
    )
    paths = [tf.tile(tf.constant(forest.roots[np.newaxis]), [tf.shape(inputs)[0], 1])]
    for _ in range(forest.depth):
        node = paths[-1]
        value = tf.gather(inputs, tf.gather(columns, node), batch_dims=1)
        threshold = tf.gather(thresholds, node)
        to_left = value <= threshold
        if forest.is_equality.any():
            equal = tf.equal(value, threshold)
            to_left = tf.where(tf.gather(is_equality, node), equal, to_left)
        paths.append(tf.where(to_left, tf.gather(left, node), tf.gather(right, node)))
    return paths


def build_logits(
    forest: Forest, inputs: Any, features: Sequence[TreeFeature], logits_dimension: int
) -> Any:
    """Returns the logits, floats [batch, logits_dimension]; without trees they are 0.

    Args:
        forest: the trees.
        inputs: the integers of the features; see `build_inputs`.
        features: the model's features.
        logits_dimension: number of logits.
    """
    columns = _input_columns(forest, features)
    return sum_leaves(forest, inputs, columns, logits_dimension)


def sum_leaves(forest: Forest, inputs: Any, columns: np.ndarray, logits_dimension: int) -> Any:
    """Returns the sums of the leaves that examples come to; see `build_paths`, `build_logits`."""
    if not forest.roots.size:
        return tf.zeros([tf.shape(inputs)[0], logits_dimension])
    leaves = build_paths(forest, inputs, columns)[-1]
    logits = tf.reduce_sum(tf.gather(tf.constant(forest.values), leaves), axis=1)
    return tf.ensure_shape(logits, [None, logits_dimension])


def build_contributions(
    forest: Forest, inputs: Any, features: Sequence[TreeFeature], is_classification: bool
) -> tuple[Any, Any]:
    """Returns what each feature contributes to the predictions of a model with one logit.

    Each split moves the prediction from what it was with the node's own value to what it is with
    the value of the node below; the changes are added up by the splits' features (A. Palczewska et
    al., 2013, Interpreting random forest models using a feature contribution method).

    Args:
        forest: trees; at least one, the first of which begins with the bias.
        inputs: the integers of the features; see `build_inputs`.
        features: the model's features.
        is_classification: whether predictions are probabilities instead of logits.

    Returns:
        bias: the prediction without features, float64 [batch].
        contributions: float64 [batch, features].
    """
    nodes = tf.stack(
        build_paths(forest, inputs, _input_columns(forest, features)), axis=1
    )  # [batch, level, tree]
    values = tf.gather(tf.constant(forest.values[:, 0]), nodes)
    # Trees but the first that are only a root don't count here.
    is_counted = tf.not_equal(nodes[:, -1], nodes[:, 0]) | tf.equal(tf.range(len(forest.roots)), 0)
    leaves = tf.where(is_counted, values[:, -1], 0.0)
    before = tf.cumsum(leaves, axis=1, exclusive=True)
    # A tree begins with the prediction of those before it, and not with its root's value.
    bias = values[:, :1, :1]
    starts = before[:, tf.newaxis]
    first = tf.concat([bias, starts[:, :, 1:]], axis=2)
    logits = tf.concat([first, starts + values[:, 1:]], axis=1)
    predictions = tf.cast(logits, tf.float64)
    if is_classification:
        predictions = tf.sigmoid(predictions)
    moves = tf.not_equal(nodes[:, 1:], nodes[:, :-1])
    changes = tf.where(moves, predictions[:, 1:] - predictions[:, :-1], 0.0)
    of_splits = tf.gather(tf.constant(forest.features), nodes[:, :-1])
    one_hot = tf.one_hot(of_splits, len(features), dtype=tf.float64)
    return predictions[:, 0, 0], tf.reduce_sum(changes[..., tf.newaxis] * one_hot, axis=[1, 2])
