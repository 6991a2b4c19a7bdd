# SPDX-License-Identifier: Apache-2.0
"""Defines `MultiLabelHead`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.heads import classes, inputs, losses, metrics
from estimator_spec.heads.binary_class import check_thresholds
from estimator_spec.heads.keys import MetricKeys, PredictionKeys
from estimator_spec.heads.metrics import HeadMetric
from estimator_spec.heads.single import SingleHead, make_chosen


class MultiLabelHead(SingleHead):
    r"""Head of a classification in which an example has any number of classes.

    $$l = \frac1n \sum_{c=1}^n -y_c \ln \sigma(z_c) - (1 - y_c) \ln (1 - \sigma(z_c))$$

    for logits z and labels y of 0 and 1. Labels are such a tensor `[D0, …, DN, n_classes]`, or a
    `tf.SparseTensor` of class ids, or of strings of the vocabulary. Weights have the shape
    `[D0, …, DN]` or `[D0, …, DN, 1]`. Metrics are `average_loss`, `auc`, `auc_precision_recall`,
    those at each threshold, and those of `classes_for_class_based_metrics`.

    >>> head = MultiLabelHead(n_classes=2)
    >>> float(head.loss([[1, 0], [1, 1]], [[0.0, 0.0], [0.0, 0.0]]))  # ln 2
    0.6931471824645996

    Arguments not listed here are as in `BinaryClassHead`.

    Args:
        n_classes: number of classes, at least 2.
        thresholds: probabilities between 0 and 1 at which accuracy, precision and recall over all
            classes become metrics.
        label_vocabulary: the classes' labels, if labels are strings.
        loss_fn: function of `labels` and `logits`, and of any of `features` and `loss_reduction`,
            that returns the losses `[D0, …, DN, 1]`. Its labels are 0 and 1.
        classes_for_class_based_metrics: class ids, or labels of the vocabulary, for each of which
            the mean probability and both areas under curves become metrics.

    Raises:
        ValueError: an argument doesn't fit.
        TypeError: the weight column is something else.
    """

    prediction_keys = (
        PredictionKeys.LOGITS,
        PredictionKeys.PROBABILITIES,
        PredictionKeys.CLASSES,
    )

    def __init__(
        self,
        n_classes: int,
        weight_column: Any = None,
        thresholds: Iterable[float] | None = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = losses.SUM_OVER_BATCH_SIZE,
        loss_fn: Callable[..., Any] | None = None,
        classes_for_class_based_metrics: Sequence[Any] | None = None,
        name: str | None = None,
    ) -> None:
        self._n_classes = classes.check_n_classes(n_classes)
        if self._n_classes < 2:
            raise ValueError(
                f"n_classes must be > 1 for multi-label classification. Given: {n_classes}"
            )
        super().__init__(weight_column, loss_reduction, loss_fn, name)
        self.thresholds = check_thresholds(thresholds)
        classes.check_vocabulary(label_vocabulary, n_classes)
        self._label_vocabulary = label_vocabulary
        self.classes_with_metrics = class_metric_ids(
            classes_for_class_based_metrics, n_classes, label_vocabulary
        )

    @property
    def logits_dimension(self) -> int:
        """Size of the last dimension of the logits, the number of classes."""
        return self._n_classes

    def _processed_labels(self, logits: Any, labels: Any) -> Any:
        """Returns labels of 0 and 1 `[D0, …, DN, n_classes]`."""
        inputs.check_labels_given(labels)
        if isinstance(labels, tf.compat.v1.SparseTensorValue):
            labels = tf.SparseTensor.from_value(labels)
        if isinstance(labels, tf.SparseTensor):
            labels = self._indicators(labels)
        else:
            labels = tf.convert_to_tensor(labels)
            if labels.dtype == tf.bool:
                labels = tf.cast(labels, tf.int64)
            if labels.dtype == tf.string:
                raise ValueError(
                    "String labels of a MultiLabelHead must be a tf.SparseTensor, and the head "
                    "needs a label_vocabulary. A dense labels tensor holds 0 and 1 for each class."
                )
        labels = inputs.dense_labels(labels, logits, self._n_classes)
        message = "labels must be an integer indicator Tensor with values in [0, 1]"
        zero, one = tf.constant(0, labels.dtype), tf.constant(1, labels.dtype)
        return inputs.verified(
            labels,
            lambda: tf.debugging.assert_greater_equal(labels, zero, message=message),
            lambda: tf.debugging.assert_less_equal(labels, one, message=message),
        )

    def _indicators(self, labels: Any) -> Any:
        """Returns a tensor of 0 and 1 from a sparse tensor of class ids or strings."""
        values = labels.values
        if self._label_vocabulary is not None and values.dtype == tf.string:
            values = classes.labels_to_ids(values, self._label_vocabulary)
        if not values.dtype.is_integer:
            raise ValueError(
                "Labels dtype should be integer, or string if there is a vocabulary. "
                f"Instead got {values.dtype}."
            )
        message = f"labels must be an integer SparseTensor with values in [0, {self._n_classes})"
        values = tf.cast(values, tf.int64)
        n_classes = tf.constant(self._n_classes, tf.int64)
        values = inputs.verified(
            values,
            lambda: tf.debugging.assert_less(values, n_classes, message=message),
            lambda: tf.debugging.assert_non_negative(values, message=message),
        )
        ids = tf.SparseTensor(labels.indices, values, labels.dense_shape)
        return tf.cast(tf.sparse.to_indicator(ids, self._n_classes), tf.int64)

    def default_loss(self, labels: Any, logits: Any) -> Any:
        """Returns the mean cross entropies `[D0, …, DN, 1]`; see the class."""
        entropies = tf.nn.sigmoid_cross_entropy_with_logits(
            labels=tf.cast(labels, tf.float32), logits=logits
        )
        return tf.reduce_mean(entropies, -1, keepdims=True)

    def compute_predictions(self, logits: Any, keys: Sequence[str]) -> dict[str, Any]:
        """Returns logits and probabilities of all classes."""

        def all_classes() -> Any:
            names = classes.class_strings(self._n_classes, self._label_vocabulary)
            return classes.repeated_for_each_example(names, logits)

        predictions = {
            PredictionKeys.LOGITS: lambda: logits,
            PredictionKeys.PROBABILITIES: lambda: tf.sigmoid(logits, name="probabilities"),
            PredictionKeys.CLASSES: all_classes,
        }
        return make_chosen(predictions, keys)

    def export_outputs(self, predictions: dict[str, Any]) -> dict[str, Any]:
        """Returns an output of Classify requests under the default name and its own."""
        return classes.classify_outputs(predictions, self._n_classes, self._label_vocabulary)

    def metric_rows(self) -> list[HeadMetric]:
        """Returns the metrics of the class docstring."""
        of = PredictionKeys.PROBABILITIES
        rows = metrics.areas(of, MetricKeys.AUC, MetricKeys.AUC_PR)
        rows += metrics.at_thresholds(self.thresholds, of)
        for class_id in self.classes_with_metrics:
            probability, roc, pr = self.class_metric_keys(class_id)
            rows.append(HeadMetric(probability, "Mean", of, class_id=class_id))
            rows += metrics.areas(of, roc, pr, class_id)
        return rows

    def class_metric_keys(self, class_id: int) -> tuple[str, str, str]:
        """Returns the names of a class' metrics: mean probability, and areas under two curves."""
        if self._label_vocabulary is None:
            return (
                MetricKeys.PROBABILITY_MEAN_AT_CLASS % class_id,
                MetricKeys.AUC_AT_CLASS % class_id,
                MetricKeys.AUC_PR_AT_CLASS % class_id,
            )
        label = self._label_vocabulary[class_id]
        return (
            MetricKeys.PROBABILITY_MEAN_AT_NAME % label,
            MetricKeys.AUC_AT_NAME % label,
            MetricKeys.AUC_PR_AT_NAME % label,
        )


def class_metric_ids(
    wanted: Sequence[Any] | None, n_classes: int, label_vocabulary: Sequence[str] | None
) -> tuple[int, ...]:
    """Returns the ids of the classes that have metrics of their own, after a check.

    Args:
        wanted: class ids or labels, or None.
        n_classes: number of classes.
        label_vocabulary: the classes' labels, or None.

    Raises:
        ValueError: a class doesn't exist, or a label is given without a vocabulary.
    """
    found = []
    for given in wanted or ():
        class_id = given
        if isinstance(given, str):
            if label_vocabulary is None:
                raise ValueError(
                    "label_vocabulary must be provided when classes_for_class_based_metrics are "
                    f"strings. Given: {given!r}"
                )
            if given not in label_vocabulary:
                raise ValueError(
                    f"classes_for_class_based_metrics: {given!r} isn't in label_vocabulary."
                )
            class_id = list(label_vocabulary).index(given)
        if not 0 <= class_id < n_classes:
            raise ValueError(
                f"All classes_for_class_based_metrics must be in range [0, {n_classes - 1}]. "
                f"Given: {given}"
            )
        found.append(class_id)
    return tuple(found)
