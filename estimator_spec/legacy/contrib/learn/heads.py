# SPDX-License-Identifier: Apache-2.0
"""Defines the heads of `tf.contrib.learn`: the losses are those of `estimator_spec.heads`.

A training's loss is the mean over the batch of the weighted losses of its examples, an evaluation's
the weighted mean. Predictions and metrics have the names of `tf.contrib.learn`.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.heads import first_generation
from estimator_spec.legacy.contrib.learn.model_fn_ops import (
    MetricKey,
    ModeKeys,
    ModelFnOps,
    PredictionKey,
    ProblemType,
)

tf1 = tf.compat.v1

_MEAN = tf1.losses.Reduction.SUM_OVER_BATCH_SIZE


class Head(abc.ABC):
    """Loss, metrics and predictions of a model.

    Args:
        head: a head of the first generation, for labels and losses.
        head_name: name of the head, or None.
        label_name: name of the labels, if the input_fn returns several.
    """

    scope: str
    problem_type: ProblemType

    def __init__(self, head: Any, head_name: str | None = None, label_name: str | None = None):
        self._head = head
        self._head_name = head_name
        self._label_name = label_name

    @property
    def head_name(self) -> str | None:
        """Name of the head, or None."""
        return self._head_name

    @property
    def logits_dimension(self) -> int:
        """Number of logits."""
        return int(self._head.logits_dimension)

    @abc.abstractmethod
    def predictions(self, logits: Any) -> dict[str, Any]:
        """Returns the predictions by name.

        Args:
            logits: floats, [batch, logits_dimension].
        """

    def metrics(self, predictions: dict[str, Any], labels: Any, weights: Any) -> dict[str, Any]:
        """Returns the metrics by name, but for the loss: none, unless a class has some.

        Args:
            predictions: predictions by name.
            labels: labels as numbers, [batch, n].
            weights: weights of the examples, [batch, n], or None.
        """
        del predictions, labels, weights
        return {}

    def exported(self, predictions: dict[str, Any]) -> dict[str, Any]:
        """Returns the predictions of an export by name.

        Args:
            predictions: all predictions by name.
        """
        return predictions

    def create_model_fn_ops(
        self,
        features: Any,
        mode: str,
        labels: Any = None,
        train_op_fn: Callable[[Any], Any] | None = None,
        logits: Any = None,
        logits_input: Any = None,
        scope: Any = None,
    ) -> ModelFnOps:
        """Returns what a `model_fn` returns.

        Args:
            features: features by name; with the weights, if the head has a weight column.
            mode: one of `ModeKeys`.
            labels: labels; needed but for predictions.
            train_op_fn: function of the loss that returns the op of a training step; needed in
                training. `no_op_train_fn` trains nothing.
            logits: floats, [batch, logits_dimension].
            logits_input: input of a dense layer that makes the logits, instead of them.
            scope: ignored.

        Raises:
            ValueError: an argument is missing, or labels and logits don't fit.
        """
        del scope
        ModeKeys.validate(mode)
        with tf1.variable_scope(None, default_name=self._head_name or self.scope):
            logits = self._logits(logits, logits_input)
            predictions = self.predictions(logits)
            outputs = {self._head_name: (self.problem_type, self.exported(predictions))}
            if mode == ModeKeys.INFER:
                return ModelFnOps(mode, predictions, output_alternatives=outputs)
            batch = self._head.create_loss(
                features=features, mode=mode, logits=logits, labels=self._labels(labels)
            )
            weights = batch.weights if tf.is_tensor(batch.weights) else None
            mean = batch.training_loss
            if weights is not None:
                total = tf.reduce_sum(batch.unreduced_loss * weights)
                mean = tf.divide(total, tf.reduce_sum(weights * tf.ones_like(batch.unreduced_loss)))
            with tf1.name_scope(None):
                tf1.summary.scalar(self._named(MetricKey.LOSS), mean)
            if mode == ModeKeys.TRAIN:
                if train_op_fn is None:
                    raise ValueError("train_op_fn can not be None in TRAIN mode.")
                return ModelFnOps(
                    *(mode, predictions, batch.training_loss, train_op_fn(batch.training_loss)),
                    output_alternatives=outputs,
                )
            with tf1.name_scope(None, "metrics"):
                metrics = self.metrics(predictions, batch.processed_labels, weights)
            metrics = {self._named(name): metric for name, metric in metrics.items()}
            if self._head_name:
                metrics[self._named(MetricKey.LOSS)] = tf1.metrics.mean(mean)
            return ModelFnOps(
                *(mode, predictions, mean), eval_metric_ops=metrics, output_alternatives=outputs
            )

    def _named(self, key: str) -> str:
        return f"{key}/{self._head_name}" if self._head_name else key

    def _logits(self, logits: Any, logits_input: Any) -> Any:
        if (logits is None) == (logits_input is None):
            raise ValueError("Exactly one of logits and logits_input must be supplied.")
        if logits is not None:
            return tf.convert_to_tensor(logits)
        width = logits_input.shape[1]
        with tf1.variable_scope("logits"):
            initializer = tf1.glorot_uniform_initializer()
            weights = tf1.get_variable(
                "weights", [width, self.logits_dimension], tf.float32, initializer
            )
            zeros = tf1.zeros_initializer()
            biases = tf1.get_variable("biases", [self.logits_dimension], tf.float32, zeros)
            return tf.nn.bias_add(tf.matmul(logits_input, weights), biases)

    def _labels(self, labels: Any) -> Any:
        if isinstance(labels, Mapping):
            if self._label_name is None and len(labels) == 1:
                return next(iter(labels.values()))
            if self._label_name not in labels:
                raise ValueError(
                    f"label_name={self._label_name!r} of the head is none of the labels "
                    f"{sorted(labels)} of the input_fn."
                )
            return labels[self._label_name]
        if labels is None:
            raise ValueError("labels is None: the input_fn must return (features, labels).")
        return labels


class _Classes(Head):
    """Base of the classification heads."""

    def __init__(self, head: Any, label_keys: Any, *names: str | None) -> None:
        super().__init__(head, *names)
        self._label_keys = label_keys

    def predictions(self, logits: Any) -> dict[str, Any]:
        """See the base class; a single logit is that of the second of two classes."""
        key, found = PredictionKey, {PredictionKey.LOGITS: logits}
        with tf1.name_scope(None, "predictions"):
            scores = logits
            if self.logits_dimension == 1:
                scores = tf.concat([tf.zeros_like(logits), logits], 1)
                found[key.LOGISTIC] = tf.sigmoid(logits, name=key.LOGISTIC)
            found[key.PROBABILITIES] = tf.nn.softmax(scores, name=key.PROBABILITIES)
            found[key.CLASSES] = self._classes(scores)
        return found

    def metrics(self, predictions: dict[str, Any], labels: Any, weights: Any) -> dict[str, Any]:
        """See the base class."""
        return {MetricKey.ACCURACY: self._accuracy(predictions, labels, weights)}

    def _classes(self, logits: Any) -> Any:
        """Returns the likeliest class of each example, [batch]; a string if the labels are."""
        ids = tf.argmax(logits, 1, name=PredictionKey.CLASSES)
        if self._label_keys is None:
            return ids
        return tf.gather(tf.constant(list(self._label_keys)), ids)

    def exported(self, predictions: dict[str, Any]) -> dict[str, Any]:
        """See the base class: the probabilities, and the names of their classes."""
        probabilities = predictions[PredictionKey.PROBABILITIES]
        keys = self._label_keys or [str(index) for index in range(probabilities.shape[1])]
        names = tf.tile(tf.constant([list(keys)]), [tf.shape(probabilities)[0], 1])
        return {PredictionKey.PROBABILITIES: probabilities, PredictionKey.CLASSES: names}

    def _accuracy(self, predictions: dict[str, Any], labels: Any, weights: Any) -> Any:
        classes = predictions[PredictionKey.CLASSES]
        if self._label_keys is not None:
            labels = tf.gather(tf.constant(list(self._label_keys)), tf.cast(labels, tf.int64))
        else:
            classes = tf.cast(classes, labels.dtype)
        return tf1.metrics.accuracy(tf.reshape(labels, [-1]), classes, _flat(weights))


class BinaryHead(_Classes):
    """A classification head for two classes, with one logit."""

    scope = "binary_logistic_head"
    problem_type = ProblemType.LOGISTIC_REGRESSION

    def __init__(self, head: Any, label_keys: Any, thresholds: Any, *names: str | None) -> None:
        super().__init__(head, label_keys, *names)
        self._thresholds = tuple(thresholds or (0.5,))

    def metrics(self, predictions: dict[str, Any], labels: Any, weights: Any) -> dict[str, Any]:
        """See the base class."""
        logistic = predictions[PredictionKey.LOGISTIC]
        metrics, key = tf1.metrics, MetricKey
        found = {
            **super().metrics(predictions, labels, weights),
            key.PREDICTION_MEAN: metrics.mean(logistic, weights),
            key.LABEL_MEAN: metrics.mean(labels, weights),
            key.ACCURACY_BASELINE: metrics.mean(labels, weights),
            key.AUC: metrics.auc(labels, logistic, weights),
            key.AUC_PR: metrics.auc(labels, logistic, weights, curve="PR"),
        }
        for threshold in self._thresholds:
            reached = tf.cast(tf.greater_equal(logistic, threshold), labels.dtype)
            found[key.ACCURACY_MEAN % threshold] = metrics.accuracy(labels, reached, weights)
            for name, metric in (
                (key.PRECISION_MEAN, metrics.precision_at_thresholds),
                (key.RECALL_MEAN, metrics.recall_at_thresholds),
            ):
                value, update = metric(labels, logistic, [threshold], weights)
                found[name % threshold] = tf.squeeze(value), tf.squeeze(update)
        return found


class MultiClassHead(_Classes):
    """A classification head for more than two classes."""

    scope = "multi_class_head"
    problem_type = ProblemType.CLASSIFICATION


class RegressionHead(Head):
    """A regression head."""

    scope = "regression_head"
    problem_type = ProblemType.LINEAR_REGRESSION

    def __init__(self, head: Any, link_fn: Any, *names: str | None) -> None:
        super().__init__(head, *names)
        self._link_fn = link_fn

    def predictions(self, logits: Any) -> dict[str, Any]:
        """See the base class."""
        with tf1.name_scope(None, "predictions"):
            scores = tf.squeeze(logits, [1]) if self.logits_dimension == 1 else logits
            return {
                PredictionKey.SCORES: scores if self._link_fn is None else self._link_fn(scores)
            }


def _flat(weights: Any) -> Any:
    return None if weights is None else tf.reshape(weights, [-1])


def regression_head(
    label_name: str | None = None,
    weight_column_name: str | None = None,
    label_dimension: int = 1,
    enable_centered_bias: bool = False,
    head_name: str | None = None,
    link_fn: Callable[[Any], Any] | None = None,
) -> Head:
    """Returns the head of a regression with squared errors.

    Args:
        label_name: name of the labels, if the input_fn returns several.
        weight_column_name: feature that has the weights of examples, or None.
        label_dimension: numbers of an example.
        enable_centered_bias: must be False.
        head_name: name of the head, or None.
        link_fn: function of the logits that returns the predictions, or None.

    Raises:
        ValueError: an argument doesn't fit.
    """
    check_no_centered_bias(enable_centered_bias)
    head = first_generation.regression_head(weight_column_name, label_dimension, _MEAN)
    return RegressionHead(head, link_fn, head_name, label_name)


def multi_class_head(
    n_classes: int,
    label_name: str | None = None,
    weight_column_name: str | None = None,
    enable_centered_bias: bool = False,
    head_name: str | None = None,
    thresholds: Sequence[float] | None = None,
    metric_class_ids: Any = None,
    loss_fn: Any = None,
    label_keys: Sequence[str] | None = None,
) -> Head:
    """Returns the head of a classification.

    Args:
        n_classes: number of classes, 2 or more.
        label_name: as for `regression_head`.
        weight_column_name: as for `regression_head`.
        enable_centered_bias: must be False.
        head_name: as for `regression_head`.
        thresholds: probabilities at which two classes' accuracy, precision and recall are metrics.
        metric_class_ids: must be None.
        loss_fn: must be None.
        label_keys: the classes, if labels are strings.

    Raises:
        ValueError: an argument doesn't fit.
    """
    check_no_centered_bias(enable_centered_bias)
    if metric_class_ids is not None or loss_fn is not None:
        raise ValueError(
            "multi_class_head takes no metric_class_ids and no loss_fn here. Leave them out; give "
            "further metrics to evaluate(metrics=...), and write a loss of your own in a model_fn."
        )
    keys = None if label_keys is None else list(label_keys)
    head = first_generation.binary_logistic_or_multi_class_head(
        n_classes, weight_column_name, keys, _MEAN
    )
    if n_classes == 2:
        return BinaryHead(head, keys, thresholds, head_name, label_name)
    return MultiClassHead(head, keys, head_name, label_name)


def check_no_centered_bias(enable_centered_bias: Any) -> None:
    """Raises a ValueError if the bias with an optimizer of its own is asked for."""
    if enable_centered_bias:
        raise ValueError(
            "enable_centered_bias=True isn't restored. Leave it out: the logits' layer has a bias."
        )


def no_op_train_fn(loss: Any) -> Any:
    """Returns an op that trains nothing."""
    del loss
    return tf.no_op()
