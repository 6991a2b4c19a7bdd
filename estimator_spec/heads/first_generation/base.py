# SPDX-License-Identifier: Apache-2.0
"""Defines `HeadV1`, the interface of heads of TensorFlow 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from estimator_spec.core.user_functions.model_spec import EstimatorSpec, TPUEstimatorSpec
from estimator_spec.heads.base import spec_by_tpu_spec


class LossSpec(NamedTuple):
    """Losses of a batch, returned by `HeadV1.create_loss`.

    Attributes:
        training_loss: the reduced loss, a scalar.
        unreduced_loss: losses of the examples, without weights.
        weights: weights of the examples, or 1.0.
        processed_labels: labels as numbers, of the logits' rank.
    """

    training_loss: Any
    unreduced_loss: Any
    weights: Any
    processed_labels: Any


class HeadV1:
    """Loss, metrics, predictions and exported outputs of a model in a TF1 graph, from its logits.

    Subclasses define `name`, `logits_dimension`, `create_loss`, and `_create_tpu_estimator_spec` or
    instead of it `create_estimator_spec`; what they don't define raises a NotImplementedError.
    """

    @property
    def name(self) -> str | None:
        """Name of the head, which is appended to the names of its metrics; or None."""
        raise NotImplementedError("The head must define its name.")

    @property
    def logits_dimension(self) -> int:
        """Size of the last dimension of the logits."""
        raise NotImplementedError("The head must define its logits_dimension.")

    def create_loss(self, features: Any, mode: str, logits: Any, labels: Any) -> LossSpec:
        """Returns the losses of a batch.

        Args:
            features: tensors by name; with the weights, if the head has a weight column.
            mode: one of `ModeKeys`.
            logits: tensor `[D0, …, DN, logits_dimension]`.
            labels: labels of the examples; each head has its own forms.
        """
        raise NotImplementedError("The head must define create_loss.")

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
        """Returns the model as a `TPUEstimatorSpec`; see `create_estimator_spec`.

        Raises:
            NotImplementedError: the head has no such form.
        """
        raise NotImplementedError("TPUEstimatorSpec not available for this model head.")

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
        """Returns what a `model_fn` returns.

        Arguments, result and errors are as in `estimator_spec.heads.Head`. The optimizer is a
        `tf.compat.v1.train.Optimizer`.
        """
        return spec_by_tpu_spec(HeadV1, "_Head", **locals())
