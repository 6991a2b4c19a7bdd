# SPDX-License-Identifier: Apache-2.0
"""Builds the metrics of heads of TensorFlow 1: pairs of a value and an update op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.heads.binary_class import BinaryClassHead
from estimator_spec.heads.keys import MetricKeys, PredictionKeys
from estimator_spec.heads.metrics import broadcast_weights
from estimator_spec.heads.multi_label import MultiLabelHead
from estimator_spec.heads.single import Losses, SingleHead

tf1 = tf.compat.v1

MetricOps = dict[str, tuple[Any, Any]]
# Returns the metrics of predictions and labels of a head, by name without the head's.
MetricFn = Callable[[Any, Any, Losses], MetricOps]


def mean(values: Any, weights: Any, name: str) -> tuple[Any, Any]:
    """Returns a weighted average of values.

    Args:
        values: tensor `[D0, …, DN, d]`.
        weights: tensor that can be broadcast to it, or a number.
        name: name of the metric's scope.
    """
    values = tf.cast(values, tf.float32)
    return tf1.metrics.mean(values, broadcast_weights(values, weights), name=name)


def areas_under_curves(labels: Any, probabilities: Any, weights: Any, *keys: str) -> MetricOps:
    """Returns the areas under the ROC curve and the precision-recall curve.

    Args:
        labels: tensor of 0 and 1.
        probabilities: tensor of the same shape.
        weights: tensor of the same shape.
        *keys: the two names.
    """
    return {
        key: tf1.metrics.auc(labels, probabilities, weights, curve=curve, name=key)
        for key, curve in zip(keys, ("ROC", "PR"), strict=True)
    }


def threshold_metrics(
    labels: Any, probabilities: Any, weights: Any, thresholds: Sequence[float]
) -> MetricOps:
    """Returns accuracy, precision and recall at each threshold.

    Args:
        labels: tensor of 0 and 1.
        probabilities: tensor of the same shape.
        weights: tensor of the same shape.
        thresholds: probabilities from which on an example counts as positive.
    """
    found: MetricOps = {}
    for threshold in thresholds:
        key = MetricKeys.ACCURACY_AT_THRESHOLD % threshold
        predicted = tf.cast(tf.greater_equal(probabilities, threshold), tf.float32)
        found[key] = tf1.metrics.accuracy(tf.cast(labels, tf.float32), predicted, weights, name=key)
        key = MetricKeys.PRECISION_AT_THRESHOLD % threshold
        found[key] = _first(
            tf1.metrics.precision_at_thresholds(
                labels, probabilities, [threshold], weights, name=key
            )
        )
        key = MetricKeys.RECALL_AT_THRESHOLD % threshold
        found[key] = _first(
            tf1.metrics.recall_at_thresholds(labels, probabilities, [threshold], weights, name=key)
        )
    return found


def _first(metric: tuple[Any, Any]) -> tuple[Any, Any]:
    """Returns the metric of the only threshold as scalars."""
    value, update = metric
    return tf.squeeze(value), tf.squeeze(update)


def binary_class_metrics(head: BinaryClassHead, logits: Any, batch: Losses) -> MetricOps:
    """Returns the metrics of a `BinaryClassHead`."""
    predictions = head.predictions(logits, [PredictionKeys.LOGISTIC, PredictionKeys.CLASS_IDS])
    logistic = predictions[PredictionKeys.LOGISTIC]
    ids, labels = predictions[PredictionKeys.CLASS_IDS], batch.labels
    weights = broadcast_weights(labels, batch.weights)
    metrics = tf1.metrics
    found: MetricOps = {
        MetricKeys.ACCURACY: metrics.accuracy(labels, ids, weights, name=MetricKeys.ACCURACY),
        MetricKeys.PRECISION: metrics.precision(labels, ids, weights, name=MetricKeys.PRECISION),
        MetricKeys.RECALL: metrics.recall(labels, ids, weights, name=MetricKeys.RECALL),
        MetricKeys.PREDICTION_MEAN: mean(logistic, weights, MetricKeys.PREDICTION_MEAN),
        MetricKeys.LABEL_MEAN: mean(labels, weights, MetricKeys.LABEL_MEAN),
    }
    # The accuracy of always predicting the class that is more frequent.
    label_mean = mean(labels, weights, MetricKeys.ACCURACY_BASELINE)
    found[MetricKeys.ACCURACY_BASELINE] = tuple(tf.maximum(m, 1 - m) for m in label_mean)
    found |= areas_under_curves(labels, logistic, weights, MetricKeys.AUC, MetricKeys.AUC_PR)
    return found | threshold_metrics(labels, logistic, weights, head.thresholds)


def multi_class_metrics(head: SingleHead, logits: Any, batch: Losses) -> MetricOps:
    """Returns the metrics of a `MultiClassHead`."""
    ids = head.predictions(logits, [PredictionKeys.CLASS_IDS])[PredictionKeys.CLASS_IDS]
    weights = broadcast_weights(batch.labels, batch.weights)
    key = MetricKeys.ACCURACY
    return {key: tf1.metrics.accuracy(batch.labels, ids, weights, name=key)}


def regression_metrics(head: SingleHead, logits: Any, batch: Losses) -> MetricOps:
    """Returns the metrics of a `RegressionHead`."""
    predicted = head.predictions(logits)[PredictionKeys.PREDICTIONS]
    return {
        MetricKeys.PREDICTION_MEAN: mean(predicted, batch.weights, MetricKeys.PREDICTION_MEAN),
        MetricKeys.LABEL_MEAN: mean(batch.labels, batch.weights, MetricKeys.LABEL_MEAN),
    }


def multi_label_metrics(head: MultiLabelHead, logits: Any, batch: Losses) -> MetricOps:
    """Returns the metrics of a `MultiLabelHead`."""
    key = PredictionKeys.PROBABILITIES
    probabilities = head.predictions(logits, [key])[key]
    weights = broadcast_weights(batch.labels, batch.weights)
    found = areas_under_curves(
        batch.labels, probabilities, weights, MetricKeys.AUC, MetricKeys.AUC_PR
    )
    found |= threshold_metrics(batch.labels, probabilities, weights, head.thresholds)
    for class_id in head.classes_with_metrics:
        probability, *areas = head.class_metric_keys(class_id)
        labels, values, shares = (
            tensor[..., class_id : class_id + 1]
            for tensor in (batch.labels, probabilities, weights)
        )
        found[probability] = mean(values, shares, probability)
        found |= areas_under_curves(labels, values, shares, *areas)
    return found
