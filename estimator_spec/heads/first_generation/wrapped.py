# SPDX-License-Identifier: Apache-2.0
"""Turns heads of TensorFlow 2 into heads of TensorFlow 1, which differ in reduction and metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.core.export.export_outputs import PredictOutput
from estimator_spec.core.user_functions.model_spec import ModeKeys, TPUEstimatorSpec
from estimator_spec.heads import losses, train_ops
from estimator_spec.heads.first_generation.base import HeadV1, LossSpec
from estimator_spec.heads.first_generation.metrics import MetricOps, mean, metric_ops
from estimator_spec.heads.inputs import check_logits
from estimator_spec.heads.keys import PREDICT_SIGNATURE, MetricKeys, with_head_name
from estimator_spec.heads.metrics import broadcast_weights
from estimator_spec.heads.single import SingleHead, add_loss_summaries

tf1 = tf.compat.v1


def check_reduction(loss_reduction: Any) -> None:
    """Checks the argument `loss_reduction` of a head: its loss must be a scalar.

    Raises:
        ValueError: it isn't a value of `tf.compat.v1.losses.Reduction`, or is 'none'.
    """
    reductions = tf1.losses.Reduction
    known = sorted(set(reductions.all()) - {reductions.NONE})
    if loss_reduction not in known:
        raise ValueError(
            f"Invalid loss_reduction: {loss_reduction}. It must be one of {', '.join(known)}, "
            "values of tf.compat.v1.losses.Reduction."
        )


class WrappedHead(HeadV1):
    """A head of TensorFlow 1 with the labels, losses and predictions of one of TensorFlow 2.

    Args:
        kind: class of the head of TensorFlow 2.
        arguments: those of the class, with a `tf.compat.v1.losses.Reduction`.
        prediction_keys: names of the predictions; None: those of `kind`.

    Attributes:
        prediction_keys: names of the predictions.

    Raises:
        ValueError, TypeError: an argument doesn't fit.
    """

    def __init__(
        self,
        kind: Callable[..., SingleHead],
        arguments: dict[str, Any],
        prediction_keys: Sequence[str] | None = None,
    ) -> None:
        losses.check_loss_fn(arguments.get("loss_fn"), first_generation=True)
        # Its reduction isn't used.
        self._head = kind(**{**arguments, "loss_reduction": losses.SUM})
        self._head.words_of_range = "Labels must"  # as TensorFlow 1's heads say it
        self._loss_reduction = arguments["loss_reduction"]
        check_reduction(self._loss_reduction)
        self.prediction_keys = prediction_keys or self._head.prediction_keys

    @property
    def wrapped(self) -> SingleHead:
        """The head of TensorFlow 2, whose labels, losses and predictions this one has."""
        return self._head

    @property
    def loss_reduction(self) -> str:
        """Reduction of the losses to a scalar, a value of `tf.compat.v1.losses.Reduction`."""
        return self._loss_reduction

    @property
    def name(self) -> str | None:
        """Name of the head, or None."""
        return self._head.name

    @property
    def logits_dimension(self) -> int:
        """Size of the last dimension of the logits."""
        return self._head.logits_dimension

    def create_loss(self, features: Any, mode: str, logits: Any, labels: Any) -> LossSpec:
        """Returns the losses of a batch; see `HeadV1.create_loss`."""
        logits = check_logits(logits, self.logits_dimension)
        batch = self._head.batch_losses(labels, logits, features)
        loss = tf1.losses.compute_weighted_loss(
            batch.unreduced, weights=batch.weights, reduction=self._loss_reduction
        )
        return LossSpec(loss, batch.unreduced, batch.weights, batch.labels)

    def _create_tpu_estimator_spec(
        self,
        features: Any,
        mode: str,
        logits: Any,
        labels: Any = None,
        optimizer: Any = None,
        train_op_fn: Callable[[Any], Any] | None = None,
        regularization_losses: Sequence[Any] | None = None,
    ) -> TPUEstimatorSpec:
        """Returns the model as a `TPUEstimatorSpec`; see `HeadV1.create_estimator_spec`."""
        with tf1.name_scope(self.name, "head"):
            predictions = self._head.predictions(logits, self.prediction_keys)
            if mode == ModeKeys.PREDICT:
                outputs = self._head.export_outputs(predictions)
                outputs[PREDICT_SIGNATURE] = PredictOutput(predictions)
                return TPUEstimatorSpec(mode, predictions=predictions, export_outputs=outputs)
            batch = self.create_loss(features=features, mode=mode, logits=logits, labels=labels)
            loss = losses.regularized(batch.training_loss, regularization_losses)
            if mode == ModeKeys.EVAL:
                metrics = self._eval_metrics(logits, batch, regularization_losses)
                return TPUEstimatorSpec(mode, predictions, loss, eval_metrics=metrics)
            update_ops = tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)
            train_op = train_ops.make_train_op(
                loss, optimizer, train_op_fn, update_ops, takes_any_minimize=True
            )
            mean_loss = None
            if self._loss_reduction == tf1.losses.Reduction.SUM:
                total = tf.reduce_sum(batch.unreduced_loss * batch.weights)
                weights = broadcast_weights(batch.unreduced_loss, batch.weights)
                # Programs log it by this name, such as `dnn/head/truediv`.
                mean_loss = tf.math.divide_no_nan(total, tf.reduce_sum(weights), "truediv")
        add_loss_summaries(loss, regularization_losses, self.name, mean_loss)
        return TPUEstimatorSpec(mode, predictions, loss, train_op)

    def _eval_metrics(self, logits: Any, batch: LossSpec, regularization_losses: Any) -> Any:
        """Returns the function of the metrics, and its batch-major tensors."""
        tensors = {
            "logits": logits,
            "labels": batch.processed_labels,
            "unreduced_loss": batch.unreduced_loss,
        }
        if tf.is_tensor(batch.weights):
            tensors["weights"] = batch.weights
        total = losses.regularization_loss(regularization_losses)
        if total is not None:
            # A TPU concatenates the tensors of its cores.
            tensors["regularization_loss"] = tf.reshape(total, [1])
        return self.eval_metric_ops, tensors

    def eval_metric_ops(
        self,
        logits: Any,
        labels: Any,
        unreduced_loss: Any,
        weights: Any = 1.0,
        regularization_loss: Any = None,
    ) -> MetricOps:
        """Returns the metrics by name.

        Args:
            logits: tensor `[D0, …, DN, logits_dimension]`.
            labels: processed labels.
            unreduced_loss: losses of the examples.
            weights: weights of the examples, or 1.0.
            regularization_loss: tensor of one entry or more, whose average is a metric; or None.
        """
        with tf1.name_scope(None, "metrics"):
            logits = check_logits(logits, self.logits_dimension)
            key = MetricKeys.LOSS_MEAN
            found: MetricOps = {key: mean(unreduced_loss, weights, key)}
            found |= metric_ops(self._head, logits, labels, weights)
            if regularization_loss is not None:
                key = MetricKeys.LOSS_REGULARIZATION
                found[key] = tf1.metrics.mean(regularization_loss, name=key)
        return {with_head_name(key, self.name): metric for key, metric in found.items()}
