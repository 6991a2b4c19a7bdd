# SPDX-License-Identifier: Apache-2.0
"""Metrics of heads as rows of a table, and the Keras 2 metrics of such rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core.common import legacy_keras
from estimator_spec.heads.keys import MetricKeys, with_head_name

Metrics = dict[str, Any]

# The labels of a batch, as `HeadMetric.values`.
LABELS = "labels"


class HeadMetric(NamedTuple):
    """A metric of the labels and predictions of a batch, in both generations of heads.

    Attributes:
        key: its name, without the head's.
        kind: name of a class of `tf.keras.metrics`: 'Mean' of the values, or another one of labels
            and values.
        values: name of the prediction, or `LABELS`.
        options: arguments of the class.
        class_id: the only class that it is about; None: all.
        is_baseline: whether it is max(m, 1 - m) for the mean m of the values, which is the row
            before.
    """

    key: str
    kind: str
    values: str
    options: dict[str, Any] = {}  # noqa: RUF012  # never changed
    class_id: int | None = None
    is_baseline: bool = False

    def chosen(self, *tensors: Any) -> Iterator[Any]:
        """Yields the columns of tensors `[D0, …, DN, d]` that the metric is about."""
        number = self.class_id
        for tensor in tensors:
            yield tensor if number is None else tensor[..., number : number + 1]


def areas(values: str, roc_key: str, pr_key: str, class_id: int | None = None) -> list[HeadMetric]:
    """Returns the areas under the ROC curve and the precision-recall curve."""
    return [
        HeadMetric(key, "AUC", values, {"curve": curve}, class_id)
        for key, curve in ((roc_key, "ROC"), (pr_key, "PR"))
    ]


def at_thresholds(thresholds: Iterable[float], values: str) -> list[HeadMetric]:
    """Returns accuracy, precision and recall at each threshold of the positive class."""
    return [
        HeadMetric(key % threshold, kind, values, {option: threshold})
        for threshold in thresholds
        for key, kind, option in (
            (MetricKeys.ACCURACY_AT_THRESHOLD, "BinaryAccuracy", "threshold"),
            (MetricKeys.PRECISION_AT_THRESHOLD, "Precision", "thresholds"),
            (MetricKeys.RECALL_AT_THRESHOLD, "Recall", "thresholds"),
        )
    ]


def create(rows: Iterable[HeadMetric], head_name: str | None) -> Metrics:
    """Creates the metrics of rows, by the names that they have in a head.

    Args:
        rows: the rows.
        head_name: name of the head, which is appended to those of its metrics; or None.
    """
    kinds = legacy_keras.keras_2().metrics
    found = {with_head_name(row.key, head_name): row for row in rows}
    return {name: getattr(kinds, row.kind)(name=name, **row.options) for name, row in found.items()}


def mean(key: str) -> HeadMetric:
    """Returns the row of an average that a head updates itself, such as that of losses."""
    return HeadMetric(key, "Mean", "")


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


def update(
    rows: Iterable[HeadMetric],
    metric_of: Callable[[str], Any],
    predictions: dict[str, Any],
    labels: Any,
    weights: Any,
) -> None:
    """Updates the metrics of rows by a batch.

    Args:
        rows: the rows.
        metric_of: function that returns the metric of a key.
        predictions: predictions by name.
        labels: processed labels `[D0, …, DN, d]`.
        weights: weights that can be broadcast to them, or a number.
    """
    weights = broadcast_weights(labels, weights)
    metric: Any = None
    change: Any = None
    for row in rows:
        before, metric = metric, metric_of(row.key)
        given = labels, predictions.get(row.values, labels), weights
        expected, values, shares = row.chosen(*given)
        if row.is_baseline:
            _update_baseline(metric, before, change)
        elif row.kind == "Mean":
            change = update_mean(metric, values, shares)
        else:
            metric.update_state(expected, values, sample_weight=shares)


def _update_baseline(baseline: Any, label_mean: Any, update: Any) -> None:
    """Updates the accuracy of always predicting the class that is more frequent so far.

    Args:
        baseline: a `Mean`, which then is max(m, 1 - m) for the mean m of all labels.
        label_mean: the mean of all labels.
        update: the op that updated it, in a graph.
    """
    with tf.control_dependencies([] if tf.executing_eagerly() else [update]):
        total, count, before, count_before = (
            tf.identity(variable)
            for variable in (label_mean.total, label_mean.count, baseline.total, baseline.count)
        )
    # A Mean adds value times weight to its total, and the weight to its count.
    weight = count - count_before
    change = tf.maximum(total, count - total) - before
    baseline.update_state(tf.math.divide_no_nan(change, weight), sample_weight=weight)
