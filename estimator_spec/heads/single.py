# SPDX-License-Identifier: Apache-2.0
"""Defines what all heads with one loss share: weights, reduction, specs and metrics of the loss."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core.common import argument_rules
from estimator_spec.core.export.export_outputs import PredictOutput
from estimator_spec.core.user_functions.model_spec import ModeKeys, TPUEstimatorSpec
from estimator_spec.heads import inputs, losses, metrics, train_ops
from estimator_spec.heads.base import Head
from estimator_spec.heads.keys import PREDICT_SIGNATURE, MetricKeys, with_head_name
from estimator_spec.heads.metrics import HeadMetric, Metrics

tf1 = tf.compat.v1


class Losses(NamedTuple):
    """Losses of the examples of a batch.

    Attributes:
        unreduced: losses `[D0, …, DN, d]`, without weights.
        weights: weights `[D0, …, DN, 1]` or of the losses' shape, or 1.0.
        labels: labels as numbers, as the metrics take them.
    """

    unreduced: Any
    weights: Any
    labels: Any


class SingleHead(Head):
    """A head with one loss, whose subclasses define that loss, the predictions and their metrics.

    Arguments and errors are as in `BinaryClassHead`.
    """

    # Names of all predictions of the head, and whether each logit has a loss and may have a weight.
    prediction_keys: tuple[str, ...] = ()
    weights_per_logit = False
    # Beginning of the message of class ids out of range.
    words_of_range = "Labels must be"

    def __init__(
        self,
        weight_column: Any = None,
        loss_reduction: str = losses.SUM_OVER_BATCH_SIZE,
        loss_fn: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> None:
        losses.check_reduction(loss_reduction)
        argument_rules.check("Head", {"name": name})
        losses.check_loss_fn(loss_fn)
        inputs.check_weight_column(weight_column)
        self._weight_column = weight_column
        self._loss_reduction = loss_reduction
        self._loss_fn = loss_fn
        self._name = name

    @property
    def name(self) -> str | None:
        """Name of the head, or None."""
        return self._name

    @property
    def loss_reduction(self) -> str:
        """Reduction of the losses to a scalar."""
        return self._loss_reduction

    @abc.abstractmethod
    def _processed_labels(self, logits: Any, labels: Any) -> Any:
        """Returns labels as numbers of the logits' rank, after checks.

        Args:
            logits: checked logits.
            labels: labels in any accepted form.
        """

    @abc.abstractmethod
    def default_loss(self, labels: Any, logits: Any) -> Any:
        """Returns the losses of the examples, `[D0, …, DN, d]`, without a `loss_fn`.

        Args:
            labels: processed labels.
            logits: checked logits.
        """

    @abc.abstractmethod
    def compute_predictions(self, logits: Any, keys: Sequence[str]) -> dict[str, Any]:
        """Returns predictions by name.

        Args:
            logits: checked logits.
            keys: names of the wanted predictions.
        """

    @abc.abstractmethod
    def export_outputs(self, predictions: dict[str, Any]) -> dict[str, Any]:
        """Returns the outputs to export by name of their signature.

        Args:
            predictions: all predictions by name.
        """

    @abc.abstractmethod
    def metric_rows(self) -> list[HeadMetric]:
        """Returns the metrics of predictions and labels."""

    def metric_predictions(self, logits: Any) -> dict[str, Any]:
        """Returns the predictions that the metrics are of, by name.

        Args:
            logits: checked logits.
        """
        names = dict.fromkeys(row.values for row in self.metric_rows())
        return self.predictions(logits, [name for name in names if name != metrics.LABELS])

    def unreduced_loss(self, labels: Any, logits: Any, features: Any) -> Any:
        """Returns the losses of the examples, `[D0, …, DN, d]`, by the `loss_fn` if there is one.

        Args:
            labels: processed labels.
            logits: checked logits.
            features: tensors by name.
        """
        if self._loss_fn is None:
            return self.default_loss(labels, logits)
        dimension = self.logits_dimension if self.weights_per_logit else 1
        return losses.call_loss_fn(
            self._loss_fn, labels, logits, features, self._loss_reduction, dimension
        )

    def batch_losses(self, labels: Any, logits: Any, features: Any) -> Losses:
        """Returns losses, weights and processed labels of a batch.

        Args:
            labels: labels in any accepted form.
            logits: checked logits.
            features: tensors by name.
        """
        labels = self._processed_labels(logits, labels)
        unreduced, weights = self._unweighted_loss_and_weights(logits, labels, features)
        return Losses(unreduced, weights, labels)

    def _unweighted_loss_and_weights(self, logits: Any, labels: Any, features: Any) -> Any:
        """Returns the losses of the examples and their weights; TensorFlow's name and arguments."""
        unreduced = self.unreduced_loss(labels, logits, features)
        weights = inputs.example_weights(
            features, self._weight_column, logits, self.weights_per_logit
        )
        return unreduced, weights

    def loss(
        self,
        labels: Any,
        logits: Any,
        features: Any = None,
        mode: str | None = None,
        regularization_losses: Sequence[Any] | None = None,
    ) -> Any:
        """Returns the loss of a batch; see `Head.loss`."""
        with tf.name_scope("losses"):
            logits = inputs.check_logits(logits, self.logits_dimension)
            batch = self.batch_losses(labels, logits, features)
            loss = losses.weighted_loss(batch.unreduced, batch.weights, self._loss_reduction)
            return losses.regularized(loss, regularization_losses)

    def predictions(self, logits: Any, keys: Iterable[str] | None = None) -> dict[Any, Any]:
        """Returns predictions by name; see `Head.predictions`."""
        wanted = list(keys or self.prediction_keys)
        with tf.name_scope("predictions"):
            logits = inputs.check_logits(logits, self.logits_dimension)
            return self.compute_predictions(logits, wanted)

    def metrics(self, regularization_losses: Sequence[Any] | None = None) -> Metrics:
        """Creates the metrics of an evaluation; see `Head.metrics`."""
        with tf.name_scope("metrics"):
            rows = [metrics.mean(MetricKeys.LOSS_MEAN), *self.metric_rows()]
            if regularization_losses:
                rows.append(metrics.mean(MetricKeys.LOSS_REGULARIZATION))
            return metrics.create(rows, self._name)

    def update_metrics(  # type: ignore[override]  # as in TensorFlow, whose heads take no mode
        self,
        eval_metrics: Metrics,
        features: Any,
        logits: Any,
        labels: Any,
        regularization_losses: Sequence[Any] | None = None,
    ) -> Metrics:
        """Updates the metrics by a batch; see `Head.update_metrics`."""
        logits = inputs.check_logits(logits, self.logits_dimension)
        batch = self.batch_losses(labels, logits, features)

        def metric(key: str) -> Any:
            return eval_metrics[with_head_name(key, self._name)]

        metrics.update_mean(metric(MetricKeys.LOSS_MEAN), batch.unreduced, batch.weights)
        predictions = self.metric_predictions(logits)
        metrics.update(self.metric_rows(), metric, predictions, batch.labels, batch.weights)
        if regularization_losses:
            total = losses.regularization_loss(regularization_losses)
            metric(MetricKeys.LOSS_REGULARIZATION).update_state(values=total)
        return eval_metrics

    def _create_tpu_estimator_spec(
        self,
        features: Any,
        mode: str,
        logits: Any,
        labels: Any = None,
        optimizer: Any = None,
        trainable_variables: Sequence[Any] | None = None,
        train_op_fn: Callable[[Any], Any] | None = None,
        update_ops: Iterable[Any] | None = None,
        regularization_losses: Sequence[Any] | None = None,
    ) -> TPUEstimatorSpec:
        """Returns the model as a `TPUEstimatorSpec`; see `Head.create_estimator_spec`."""
        with tf1.name_scope(self._name, "head"):
            predictions = self.predictions(logits)
            if mode == ModeKeys.PREDICT:
                outputs = self.export_outputs(predictions)
                outputs[PREDICT_SIGNATURE] = PredictOutput(predictions)
                return TPUEstimatorSpec(mode, predictions=predictions, export_outputs=outputs)
            loss = self.loss(labels, logits, features, mode, regularization_losses)
            if mode == ModeKeys.EVAL:
                evaluated = self._eval_metrics(features, logits, labels, regularization_losses)
                return TPUEstimatorSpec(mode, predictions, loss, eval_metrics=evaluated)
            # An absolute scope: the names of a Keras optimizer's variables begin with it.
            with tf1.name_scope("training/"):
                train_op = train_ops.make_train_op(
                    loss,
                    optimizer,
                    train_op_fn,
                    update_ops,
                    trainable_variables,
                    self._loss_reduction,
                )
        add_loss_summaries(loss, regularization_losses, self._name)
        return TPUEstimatorSpec(mode, predictions, loss, train_op)

    def _eval_metrics(
        self, features: Any, logits: Any, labels: Any, regularization_losses: Any
    ) -> Any:
        """Returns a function that creates and updates the metrics, and its batch-major tensors.

        The tensors are what a TPU sends to its host: logits, labels and weights. Features and
        labels that are no tensors are read where they are.
        """
        tensors = {"logits": logits}
        if isinstance(labels, tf.Tensor):
            tensors["labels"] = labels
        key = inputs.weight_key(self._weight_column)
        if key is not None and isinstance(features.get(key), tf.Tensor):
            tensors["weights"] = features[key]
        total = losses.regularization_loss(regularization_losses)
        if total is not None:
            tensors["regularization_loss"] = tf.reshape(total, [1])

        def metric_fn(
            logits: Any, labels: Any = labels, weights: Any = None, regularization_loss: Any = None
        ) -> Metrics:
            given = features if weights is None else {**features, key: weights}
            regularization = None
            if regularization_loss is not None:
                # One entry of each core.
                regularization = [tf.reduce_mean(regularization_loss)]
            return self.update_metrics(
                self.metrics(regularization_losses=regularization),
                features=given,
                logits=logits,
                labels=labels,
                regularization_losses=regularization,
            )

        return metric_fn, tensors


def add_loss_summaries(
    loss: Any, regularization_losses: Any, head_name: str | None, mean_loss: Any = None
) -> None:
    """Adds summaries of the loss and of the regularization loss.

    Args:
        loss: a scalar.
        regularization_losses: scalars, or None.
        head_name: name of the head, or None.
        mean_loss: the weighted mean of the examples' losses, or None.
    """
    total = losses.regularization_loss(regularization_losses)
    values = {
        MetricKeys.LOSS: loss,
        MetricKeys.LOSS_MEAN: mean_loss,
        MetricKeys.LOSS_REGULARIZATION: total,
    }
    # Without the name scopes of the caller, whose names a tag would have.
    with tf1.name_scope(None):
        for key, value in values.items():
            if value is not None:
                tf1.summary.scalar(with_head_name(key, head_name), value)


def make_chosen(
    predictions: Mapping[str, Callable[[], Any]], keys: Sequence[str]
) -> dict[str, Any]:
    """Returns the predictions with some names.

    Args:
        predictions: functions that make the predictions, by name.
        keys: the names.

    Raises:
        ValueError: there is no prediction of a name.
    """
    for key in keys:
        if key not in predictions:
            raise ValueError(
                f"Prediction key must be in PredictionKeys, given: {key}. "
                f"Valid prediction keys include {list(predictions)}."
            )
    return {key: make() for key, make in predictions.items() if key in keys}
