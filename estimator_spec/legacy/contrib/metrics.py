# SPDX-License-Identifier: Apache-2.0
"""Reimplements metrics of `tensorflow.contrib.metrics`.

Most are those of `tf.compat.v1.metrics` with `predictions` before `labels`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1

_NEW_NAMES = {
    "sparse_average_precision_at_k": "average_precision_at_k",
    "sparse_precision_at_k": "precision_at_k",
    "sparse_recall_at_k": "recall_at_k",
}


def __getattr__(name: str) -> Callable[..., Any]:
    """Returns a `streaming_*` metric, which takes predictions before labels."""
    prefix, _, rest = name.partition("streaming_")
    metric = None if prefix else getattr(tf1.metrics, _NEW_NAMES.get(rest, rest), None)
    if metric is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    @functools.wraps(metric)
    def streaming(predictions: Any, labels: Any, *args: Any, **kwargs: Any) -> Any:
        return metric(labels, predictions, *args, **kwargs)

    globals()[name] = streaming
    return streaming


def accuracy(predictions: Any, labels: Any, weights: Any = None, name: str | None = None) -> Any:
    """Returns the share of predictions in this batch that equal their labels.

    Args:
        predictions: integers, booleans or strings.
        labels: the expected values, of the same dtype and shape.
        weights: weight of each element, or None.
        name: name of the scope, or None.

    Raises:
        ValueError: dtypes or shapes differ, or the dtype is a float.
    """
    with tf.name_scope(name or "accuracy"):
        predictions, labels = tf.convert_to_tensor(predictions), tf.convert_to_tensor(labels)
        if predictions.dtype != labels.dtype or labels.dtype.is_floating:
            raise ValueError(
                "accuracy needs labels and predictions of one dtype that is not a float; got "
                f"{labels.dtype.name} and {predictions.dtype.name}."
            )
        predictions.shape.assert_is_compatible_with(labels.shape)
        correct = tf.cast(tf.equal(predictions, labels), tf.float32)
        if weights is None:
            return tf.reduce_mean(correct)
        weights = tf.cast(weights, tf.float32)
        return tf.reduce_sum(correct * weights) / tf.reduce_sum(weights * tf.ones_like(correct))


def streaming_recall_at_k(
    predictions: Any,
    labels: Any,
    k: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Computes the share of examples whose label is among the k largest predictions.

    Args:
        predictions: floats of shape [batch size, number of classes].
        labels: class ids of shape [batch size].
        k: how many predictions count.
        weights: weight of each example, or None.
        metrics_collections: graph collections for the value.
        updates_collections: graph collections for the update op.
        name: name of the scope; None: 'recall_at_k'.

    Returns:
        The value and the update op.
    """
    in_top_k = tf.cast(tf.math.in_top_k(labels, predictions, k), tf.float32)
    return tf1.metrics.mean(
        in_top_k, weights, metrics_collections, updates_collections, name or "recall_at_k"
    )


def aggregate_metrics(*value_update_tuples: Any) -> tuple[list[Any], list[Any]]:
    """Splits (value, update op) pairs into a list of values and a list of update ops.

    Raises:
        ValueError: there is no pair.
    """
    if not value_update_tuples:
        raise ValueError("Expected at least one value_tensor/update_op pair")
    values, updates = zip(*value_update_tuples, strict=True)
    return list(values), list(updates)


def aggregate_metric_map(
    names_to_tuples: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits (value, update op) pairs by name into values by name and update ops by name."""
    values = {name: value for name, (value, _) in names_to_tuples.items()}
    return values, {name: update for name, (_, update) in names_to_tuples.items()}
