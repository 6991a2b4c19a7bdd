# SPDX-License-Identifier: Apache-2.0
"""Defines `BinaryClassHead`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.core.common import argument_rules
from estimator_spec.core.export.export_outputs import RegressionOutput
from estimator_spec.heads import classes, inputs, losses, metrics
from estimator_spec.heads.keys import REGRESS_SIGNATURE, MetricKeys, PredictionKeys
from estimator_spec.heads.metrics import HeadMetric
from estimator_spec.heads.single import SingleHead, make_chosen
from tpu_columns.checks import check_rule


def check_thresholds(thresholds: Iterable[float] | None) -> tuple[float, ...]:
    """Returns thresholds of the positive class, after a check.

    Raises:
        ValueError: one isn't between 0 and 1, both excluded.
        TypeError: they aren't numbers in a list.
    """
    found: Any = tuple(thresholds) if isinstance(thresholds, Iterable) else thresholds
    argument_rules.check("Head", {"thresholds": found})
    for each in found or ():
        check_rule(argument_rules.THRESHOLD, "thresholds", each)
    return found or ()


class BinaryClassHead(SingleHead):
    r"""Head of a classification with two classes, by one logit.

    $$l = -y \ln \sigma(z) - (1 - y) \ln (1 - \sigma(z))$$

    for a class id y and a logit z. Labels have the shape `[D0, …, DN]` or `[D0, …, DN, 1]`: class
    ids, floats of these values, or strings of the vocabulary. As in TensorFlow, a fraction is taken
    for the probability of class 1, but accuracy, precision and recall count whole ids; weights,
    which have the same shapes, may be negative.
    Predictions are those of `PredictionKeys` without `predictions`; metrics `average_loss`,
    `accuracy`, `precision`, `recall`, `accuracy_baseline`, `auc`, `auc_precision_recall`,
    `label/mean`, `prediction/mean`, and accuracy, precision and recall at each threshold.

    >>> head = BinaryClassHead()
    >>> float(head.loss([[1], [0]], [[0.0], [0.0]]))  # ln 2
    0.6931471824645996

    Args:
        weight_column: name of the feature with the examples' weights, or a numeric column; None
            stands for weights of 1.
        thresholds: probabilities of class 1, between 0 and 1, for more metrics.
        label_vocabulary: the two classes' labels, if labels are strings.
        loss_reduction: reduction of the losses to a scalar, a value of
            `tf.keras.losses.Reduction`.
        loss_fn: function of `labels` and `logits`, and of any of `features` and `loss_reduction`,
            that returns the losses `[D0, …, DN, 1]`. Its labels are class ids as floats.
        name: name of the head, or None.

    Raises:
        ValueError: an argument doesn't fit.
        TypeError: the weight column is something else.
    """

    prediction_keys = (
        PredictionKeys.LOGITS,
        PredictionKeys.LOGISTIC,
        PredictionKeys.PROBABILITIES,
        PredictionKeys.CLASS_IDS,
        PredictionKeys.CLASSES,
        PredictionKeys.ALL_CLASS_IDS,
        PredictionKeys.ALL_CLASSES,
    )

    def __init__(
        self,
        weight_column: Any = None,
        thresholds: Iterable[float] | None = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = losses.SUM_OVER_BATCH_SIZE,
        loss_fn: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> None:
        classes.check_vocabulary(label_vocabulary, 2)
        super().__init__(weight_column, loss_reduction, loss_fn, name)
        self.thresholds = check_thresholds(thresholds)
        self._label_vocabulary = label_vocabulary

    @property
    def logits_dimension(self) -> int:
        """Size of the last dimension of the logits, 1."""
        return 1

    def _processed_labels(self, logits: Any, labels: Any) -> Any:
        """Returns class ids as floats `[D0, …, DN, 1]`."""
        labels = inputs.dense_labels(labels, logits, 1)
        if self._label_vocabulary is not None or labels.dtype == tf.string:
            labels = classes.labels_to_ids(labels, self._label_vocabulary)
        ids = tf.cast(labels, tf.float32)
        return classes.check_range(ids, 2, self._label_vocabulary, self.words_of_range)

    def default_loss(self, labels: Any, logits: Any) -> Any:
        """Returns the cross entropies `[D0, …, DN, 1]`; see the class."""
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)

    def compute_predictions(self, logits: Any, keys: Sequence[str]) -> dict[str, Any]:
        """Returns logits, probability of class 1, probabilities of both classes, and classes."""
        both = tf.concat([tf.zeros_like(logits), logits], -1, name="two_class_logits")
        ids = tf.expand_dims(tf.argmax(both, -1, name="class_ids"), -1)
        predictions = {
            PredictionKeys.LOGITS: lambda: logits,
            PredictionKeys.LOGISTIC: lambda: tf.sigmoid(logits, name="logistic"),
            PredictionKeys.PROBABILITIES: lambda: tf.nn.softmax(both, name="probabilities"),
            **classes.class_predictions(ids, logits, 2, self._label_vocabulary),
        }
        return make_chosen(predictions, keys)

    def export_outputs(self, predictions: dict[str, Any]) -> dict[str, Any]:
        """Returns outputs of Classify requests (the default) and of Regress requests."""
        outputs = classes.classify_outputs(predictions, 2, self._label_vocabulary)
        regress = RegressionOutput(value=predictions[PredictionKeys.LOGISTIC])
        return {**outputs, REGRESS_SIGNATURE: regress}

    def metric_rows(self) -> list[HeadMetric]:
        """Returns the metrics of the class docstring."""
        logistic, ids = PredictionKeys.LOGISTIC, PredictionKeys.CLASS_IDS
        return [
            HeadMetric(MetricKeys.ACCURACY, "Accuracy", ids),
            HeadMetric(MetricKeys.PRECISION, "Precision", ids),
            HeadMetric(MetricKeys.RECALL, "Recall", ids),
            HeadMetric(MetricKeys.PREDICTION_MEAN, "Mean", logistic),
            HeadMetric(MetricKeys.LABEL_MEAN, "Mean", metrics.LABELS),
            HeadMetric(MetricKeys.ACCURACY_BASELINE, "Mean", metrics.LABELS, is_baseline=True),
            *metrics.areas(logistic, MetricKeys.AUC, MetricKeys.AUC_PR),
            *metrics.at_thresholds(self.thresholds, logistic),
        ]
