# SPDX-License-Identifier: Apache-2.0
"""Creates and updates the Keras 2 metrics of heads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from estimator_spec.core.common import legacy_keras
from estimator_spec.heads.keys import MetricKeys, with_head_name

Metrics = dict[str, Any]


class MetricFactory:
    """Creates metrics by the names that they have in a head.

    Args:
        head_name: name of the head, which is appended to those of its metrics; or None.
    """

    def __init__(self, head_name: str | None) -> None:
        self._head_name = head_name
        self.created: Metrics = {}

    def add(self, kind: str, key: str, **arguments: Any) -> None:
        """Adds a metric.

        Args:
            kind: name of a class of `tf.keras.metrics`.
            key: name of the metric, without the head's.
            **arguments: of the class.
        """
        name = with_head_name(key, self._head_name)
        metrics = legacy_keras.keras_2().metrics
        self.created[name] = getattr(metrics, kind)(name=name, **arguments)

    def add_means(self, *keys: str) -> None:
        """Adds averages."""
        for key in keys:
            self.add("Mean", key)

    def add_areas(self, roc_key: str, pr_key: str) -> None:
        """Adds the areas under the ROC curve and the precision-recall curve."""
        self.add("AUC", roc_key, curve="ROC")
        self.add("AUC", pr_key, curve="PR")

    def add_thresholds(self, thresholds: Iterable[float]) -> None:
        """Adds accuracy, precision and recall at each threshold of the positive class."""
        for threshold in thresholds:
            self.add(
                "BinaryAccuracy", MetricKeys.ACCURACY_AT_THRESHOLD % threshold, threshold=threshold
            )
            self.add(
                "Precision", MetricKeys.PRECISION_AT_THRESHOLD % threshold, thresholds=threshold
            )
            self.add("Recall", MetricKeys.RECALL_AT_THRESHOLD % threshold, thresholds=threshold)


def broadcast_weights(values: Any, weights: Any) -> Any:
    """Returns weights of the values' shape.

    Args:
        values: tensor `[D0, …, DN, d]`.
        weights: tensor `[D0, …, DN, 1]` or of the values' shape, or a number.
    """
    return tf.broadcast_to(tf.cast(weights, tf.float32), tf.shape(values))


def update_mean(metric: Any, values: Any, weights: Any) -> Any:
    """Updates a weighted average of values, and returns the op in a graph.

    Args:
        metric: a `Mean`.
        values: tensor `[D0, …, DN, d]`.
        weights: tensor that can be broadcast to it, or a number.
    """
    values = tf.cast(values, tf.float32)
    return metric.update_state(values=values, sample_weight=broadcast_weights(values, weights))


def update_areas_and_thresholds(
    metric: Callable[[str], Any],
    labels: Any,
    probabilities: Any,
    weights: Any,
    thresholds: Iterable[float],
) -> None:
    """Updates the areas under both curves, and the metrics at each threshold.

    Args:
        metric: function that returns the metric of a key.
        labels: tensor of 0 and 1.
        probabilities: tensor of the same shape.
        weights: tensor of the same shape.
        thresholds: probabilities of the positive class.
    """
    keys = [MetricKeys.AUC, MetricKeys.AUC_PR]
    for threshold in thresholds:
        keys.append(MetricKeys.ACCURACY_AT_THRESHOLD % threshold)
        keys.append(MetricKeys.PRECISION_AT_THRESHOLD % threshold)
        keys.append(MetricKeys.RECALL_AT_THRESHOLD % threshold)
    for key in keys:
        metric(key).update_state(labels, probabilities, sample_weight=weights)
