# SPDX-License-Identifier: Apache-2.0
"""Defines `MultiClassHead`; chooses the head of a classifier by its number of classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.heads import classes, inputs, losses
from estimator_spec.heads.base import Head
from estimator_spec.heads.binary_class import BinaryClassHead
from estimator_spec.heads.keys import MetricKeys, PredictionKeys
from estimator_spec.heads.metrics import HeadMetric
from estimator_spec.heads.single import SingleHead, make_chosen


class MultiClassHead(SingleHead):
    r"""Head of a classification with more than two classes, one of which each example has.

    $$l = -\ln \operatorname{softmax}(z)_y$$

    for a class id y and logits z. Labels have the shape `[D0, …, DN]` or `[D0, …, DN, 1]`: class
    ids, or strings of the vocabulary. Weights have the same shapes. Metrics are `average_loss` and
    `accuracy`.

    >>> head = MultiClassHead(n_classes=3)
    >>> float(head.loss([[1], [1]], [[10.0, 0.0, 0.0], [0.0, 10.0, 0.0]]))
    5.00009...

    Arguments not listed here are as in `BinaryClassHead`.

    Args:
        n_classes: number of classes, at least 3; for two use `BinaryClassHead`.
        label_vocabulary: the classes' labels, if labels are strings.
        loss_fn: function of `labels` and `logits`, and of any of `features` and `loss_reduction`,
            that returns the losses `[D0, …, DN, 1]`. Its labels are class ids.

    Raises:
        ValueError: an argument doesn't fit.
        TypeError: the weight column is something else.
    """

    prediction_keys = (
        PredictionKeys.LOGITS,
        PredictionKeys.PROBABILITIES,
        PredictionKeys.CLASS_IDS,
        PredictionKeys.CLASSES,
        PredictionKeys.ALL_CLASS_IDS,
        PredictionKeys.ALL_CLASSES,
    )

    def __init__(
        self,
        n_classes: int,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = losses.SUM_OVER_BATCH_SIZE,
        loss_fn: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> None:
        self._n_classes = classes.check_n_classes(n_classes)
        if self._n_classes <= 2:
            raise ValueError(f"n_classes must be > 2: {n_classes}. Use BinaryClassHead for two.")
        classes.check_vocabulary(label_vocabulary, self._n_classes)
        super().__init__(weight_column, loss_reduction, loss_fn, name)
        self._logits_dimension = n_classes
        self._label_vocabulary = label_vocabulary

    @property
    def logits_dimension(self) -> Any:
        """Size of the last dimension of the logits: `n_classes` as given, an int or a tensor."""
        return self._logits_dimension

    def _processed_labels(self, logits: Any, labels: Any) -> Any:
        """Returns class ids `[D0, …, DN, 1]`."""
        labels = inputs.dense_labels(labels, logits, 1)
        ids = classes.labels_to_ids(labels, self._label_vocabulary)
        return classes.check_range(
            ids, self._n_classes, self._label_vocabulary, self.words_of_range
        )

    def default_loss(self, labels: Any, logits: Any) -> Any:
        """Returns the cross entropies `[D0, …, DN, 1]`; see the class."""
        entropies = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.squeeze(labels, -1), logits=logits
        )
        return entropies[..., tf.newaxis]

    def compute_predictions(self, logits: Any, keys: Sequence[str]) -> dict[str, Any]:
        """Returns logits, probabilities and classes."""
        ids = tf.expand_dims(tf.argmax(logits, -1, name="class_ids"), -1)
        predictions = {
            PredictionKeys.LOGITS: lambda: logits,
            PredictionKeys.PROBABILITIES: lambda: tf.nn.softmax(logits, name="probabilities"),
            **classes.class_predictions(ids, logits, self._n_classes, self._label_vocabulary),
        }
        return make_chosen(predictions, keys)

    def export_outputs(self, predictions: dict[str, Any]) -> dict[str, Any]:
        """Returns an output of Classify requests under the default name and its own."""
        return classes.classify_outputs(predictions, self._n_classes, self._label_vocabulary)

    def metric_rows(self) -> list[HeadMetric]:
        """Returns the accuracy."""
        return [HeadMetric(MetricKeys.ACCURACY, "Accuracy", PredictionKeys.CLASS_IDS)]


def binary_or_multi_class_head(
    n_classes: int,
    weight_column: Any,
    label_vocabulary: Sequence[str] | None,
    loss_reduction: str = losses.SUM_OVER_BATCH_SIZE,
    loss_fn: Callable[..., Any] | None = None,
) -> Head:
    """Returns a `BinaryClassHead` for two classes, and a `MultiClassHead` for more.

    `n_classes` is the number of classes; the other arguments are as in the heads.
    """
    n_classes = classes.check_two_or_more(n_classes)
    if n_classes == 2:
        return BinaryClassHead(
            weight_column,
            label_vocabulary=label_vocabulary,
            loss_reduction=loss_reduction,
            loss_fn=loss_fn,
        )
    return MultiClassHead(n_classes, weight_column, label_vocabulary, loss_reduction, loss_fn)
