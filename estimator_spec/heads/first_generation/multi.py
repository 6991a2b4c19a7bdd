# SPDX-License-Identifier: Apache-2.0
"""Defines `MultiHeadV1`, the head of TensorFlow 1 of a model with several objectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.core.user_functions.model_spec import EstimatorSpec, ModeKeys
from estimator_spec.heads import losses, multi, train_ops
from estimator_spec.heads.first_generation.base import HeadV1, LossSpec
from estimator_spec.heads.keys import MetricKeys, with_head_name
from estimator_spec.heads.single import add_loss_summaries

tf1 = tf.compat.v1


class MultiHeadV1(HeadV1):
    """Head of a model with several objectives, each of which has a head of its own.

    Args:
        heads: the heads, all with different names.
        head_weights: a factor for each head's loss; None stands for 1.

    Raises:
        ValueError, TypeError: as `estimator_spec.heads.MultiHead`.
    """

    def __init__(
        self, heads: Sequence[HeadV1], head_weights: Sequence[float] | None = None
    ) -> None:
        self._heads, self._head_weights = multi.check_heads(heads, head_weights, HeadV1)

    @property
    def name(self) -> str:
        """The heads' names, joined by underscores."""
        return "_".join(str(head.name) for head in self._heads)

    @property
    def logits_dimension(self) -> int:
        """The sum of the heads' dimensions."""
        return sum(head.logits_dimension for head in self._heads)

    def create_loss(self, features: Any, mode: str, logits: Any, labels: Any) -> LossSpec:
        """Returns the weighted sum of the heads' losses, and the parts by name of the head."""
        labels = multi.check_labels(labels, self._heads)
        parts = multi.split_logits(logits, self._heads)
        specs = {
            head.name: head.create_loss(features, mode, parts[head.name], labels[head.name])
            for head in self._heads
        }
        total = multi.weighted_sum(
            [spec.training_loss for spec in specs.values()], self._head_weights
        )
        return LossSpec(
            total,
            {name: spec.unreduced_loss for name, spec in specs.items()},
            {name: spec.weights for name, spec in specs.items()},
            {name: spec.processed_labels for name, spec in specs.items()},
        )

    def create_estimator_spec(
        self,
        features: Any,
        mode: str,
        logits: Any,
        labels: Any = None,
        optimizer: Any = None,
        train_op_fn: Callable[[Any], Any] | None = None,
        regularization_losses: Sequence[Any] | None = None,
    ) -> EstimatorSpec:
        """Returns what a `model_fn` returns; see `HeadV1.create_estimator_spec`."""
        parts = multi.split_logits(logits, self._heads)
        if mode != ModeKeys.PREDICT:
            multi.check_labels(labels, self._heads)
        specs = {
            str(head.name): head.create_estimator_spec(
                features=features,
                mode=mode,
                logits=parts[head.name],
                labels=labels[head.name] if mode != ModeKeys.PREDICT else None,
                # The heads' losses are minimized as one sum.
                train_op_fn=lambda loss: tf.no_op(),
            )
            for head in self._heads
        }
        predictions = {
            (name, key): tensor
            for name, spec in specs.items()
            for key, tensor in spec.predictions.items()
        }
        if mode == ModeKeys.PREDICT:
            outputs = {name: spec.export_outputs for name, spec in specs.items()}
            merged = multi.merge_export_outputs(outputs)
            return EstimatorSpec(mode, predictions=predictions, export_outputs=merged)
        of_each = [spec.loss for spec in specs.values()]
        total = multi.weighted_sum(of_each, self._head_weights)
        loss = losses.regularized(total, regularization_losses)
        if mode == ModeKeys.EVAL:
            metrics = self._metric_ops(specs, regularization_losses)
            return EstimatorSpec(mode, predictions, loss, eval_metric_ops=metrics)
        update_ops = tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)
        train_op = train_ops.make_train_op(
            loss, optimizer, train_op_fn, update_ops, takes_any_minimize=True
        )
        add_loss_summaries(loss, regularization_losses, None)
        return EstimatorSpec(mode, predictions, loss, train_op)

    def _metric_ops(
        self, specs: dict[str, EstimatorSpec], regularization_losses: Any
    ) -> dict[str, Any]:
        """Returns the metrics of all heads, the mean of each one's loss and of regularization."""
        found: dict[str, Any] = {}
        total = losses.regularization_loss(regularization_losses)
        if total is not None:
            key = MetricKeys.LOSS_REGULARIZATION
            found[key] = tf1.metrics.mean(total, name=key)
        for name, spec in specs.items():
            key = with_head_name(MetricKeys.LOSS, name)
            found[key] = tf1.metrics.mean(spec.loss, name=key)
            found |= spec.eval_metric_ops
        return found
