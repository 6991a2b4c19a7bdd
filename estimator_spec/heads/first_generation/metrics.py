# SPDX-License-Identifier: Apache-2.0
"""Builds the metrics of heads of TensorFlow 1: pairs of a value and an update op."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_spec.heads.metrics import HeadMetric, broadcast_weights
from estimator_spec.heads.single import SingleHead

tf1 = tf.compat.v1

MetricOps = dict[str, tuple[Any, Any]]


def mean(values: Any, weights: Any, name: str) -> tuple[Any, Any]:
    """Returns a weighted average of values.

    Args:
        values: tensor `[D0, …, DN, d]`.
        weights: tensor that can be broadcast to it, or a number.
        name: name of the metric's scope.
    """
    values = tf.cast(values, tf.float32)
    return tf1.metrics.mean(values, broadcast_weights(values, weights), name=name)


def metric_ops(head: SingleHead, logits: Any, labels: Any, weights: Any) -> MetricOps:
    """Returns the metrics of predictions and labels, by name without the head's.

    Args:
        head: the head of TensorFlow 2 that has the metrics.
        logits: checked logits.
        labels: processed labels.
        weights: weights that can be broadcast to them, or a number.
    """
    predictions = head.metric_predictions(logits)
    weights = broadcast_weights(labels, weights)
    return {
        row.key: _metric_op(row, *row.chosen(labels, predictions.get(row.values, labels), weights))
        for row in head.metric_rows()
    }


def _metric_op(row: HeadMetric, labels: Any, values: Any, weights: Any) -> tuple[Any, Any]:
    """Returns the metric of a row, as `tf.compat.v1.metrics` computes it."""
    metrics, name = tf1.metrics, row.key
    if row.is_baseline:
        value, update = mean(values, weights, name)
        return tf.maximum(value, 1 - value), tf.maximum(update, 1 - update)
    if row.kind == "Mean":
        return mean(values, weights, name)
    if row.kind == "AUC":
        return metrics.auc(labels, values, weights, curve=row.options["curve"], name=name)
    if row.kind == "BinaryAccuracy":
        reached = tf.cast(tf.greater_equal(values, row.options["threshold"]), tf.float32)
        return metrics.accuracy(tf.cast(labels, tf.float32), reached, weights, name=name)
    if row.options:
        functions = {
            "Precision": metrics.precision_at_thresholds,
            "Recall": metrics.recall_at_thresholds,
        }
        function = functions[row.kind]
        value, update = function(labels, values, [row.options["thresholds"]], weights, name=name)
        return tf.squeeze(value), tf.squeeze(update)
    return getattr(metrics, row.kind.lower())(labels, values, weights, name=name)
