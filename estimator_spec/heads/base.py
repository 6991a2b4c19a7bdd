# SPDX-License-Identifier: Apache-2.0
"""Defines `Head`, the interface of heads."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from estimator_spec.core.user_functions.model_spec import EstimatorSpec, TPUEstimatorSpec
from estimator_spec.heads.keys import with_head_name


class Head(abc.ABC):
    """Loss, metrics, predictions and exported outputs of a model, from its logits.

    A `model_fn` computes logits, and returns what its head makes of them:

    ```python
    def model_fn(features, labels, mode):
        logits = network(features, mode)
        return head.create_estimator_spec(
            features, mode, logits, labels, optimizer=tf.compat.v1.train.AdagradOptimizer(0.1)
        )
    ```

    Subclasses define the abstract members, and `_create_tpu_estimator_spec`, or instead of it
    `create_estimator_spec`.
    """

    @property
    @abc.abstractmethod
    def name(self) -> str | None:
        """Name of the head, which is appended to the names of its metrics; or None."""

    @property
    @abc.abstractmethod
    def logits_dimension(self) -> int:
        """Size of the last dimension of the logits."""

    @property
    @abc.abstractmethod
    def loss_reduction(self) -> str:
        """Reduction of the examples' losses, a value of `tf.keras.losses.Reduction`."""

    @abc.abstractmethod
    def loss(
        self,
        labels: Any,
        logits: Any,
        features: Any = None,
        mode: str | None = None,
        regularization_losses: Sequence[Any] | None = None,
    ) -> Any:
        """Returns the loss of a batch, regularization losses included.

        Args:
            labels: labels of the examples; each head has its own forms.
            logits: tensor `[D0, …, DN, logits_dimension]`.
            features: tensors by name; with the weights, if the head has a weight column.
            mode: one of `ModeKeys`.
            regularization_losses: scalars to add to the loss.

        Returns:
            A scalar.
        """

    @abc.abstractmethod
    def predictions(self, logits: Any, keys: Iterable[str] | None = None) -> dict[Any, Any]:
        """Returns predictions by name.

        Args:
            logits: tensor `[D0, …, DN, logits_dimension]`.
            keys: names of the wanted predictions; None stands for all.

        Returns:
            Tensors by name.
        """

    @abc.abstractmethod
    def metrics(self, regularization_losses: Sequence[Any] | None = None) -> dict[str, Any]:
        """Creates the metrics of an evaluation.

        Args:
            regularization_losses: scalars of the loss, whose average is a metric; or None.

        Returns:
            Keras metrics by name.
        """

    @abc.abstractmethod
    def update_metrics(
        self,
        eval_metrics: dict[str, Any],
        features: Any,
        logits: Any,
        labels: Any,
        mode: str | None = None,
        regularization_losses: Sequence[Any] | None = None,
    ) -> dict[str, Any]:
        """Updates the metrics of an evaluation by a batch.

        Args:
            eval_metrics: the result of `metrics`.
            features: as in `loss`.
            logits: as in `loss`.
            labels: as in `loss`.
            mode: as in `loss`.
            regularization_losses: as in `loss`.

        Returns:
            The updated metrics by name.
        """

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
        trainable_variables: Sequence[Any] | None = None,
        train_op_fn: Callable[[Any], Any] | None = None,
        update_ops: Iterable[Any] | None = None,
        regularization_losses: Sequence[Any] | None = None,
    ) -> EstimatorSpec:
        """Returns what a `model_fn` returns.

        Args:
            features: tensors by name.
            mode: one of `ModeKeys`.
            logits: tensor `[D0, …, DN, logits_dimension]`; some heads take tensors by name.
            labels: labels of the examples; training and evaluation need them.
            optimizer: a `tf.compat.v1.train.Optimizer` or `tf.keras.optimizers.legacy.Optimizer`.
            trainable_variables: variables that the optimizer moves; a Keras optimizer needs them.
            train_op_fn: function of the loss that returns the train op, instead of an optimizer.
            update_ops: ops to run in each training step beside the optimizer's.
            regularization_losses: scalars to add to the loss.

        Returns:
            An `EstimatorSpec`.

        Raises:
            ValueError: training gets both an optimizer and a `train_op_fn`, or neither; or labels
                or logits have another shape than the head expects.
        """
        return spec_by_tpu_spec(Head, "Head", **locals())

    def _summary_key(self, key: str) -> str:
        """Returns the name of a metric or summary of this head."""
        return str(with_head_name(key, self.name))


def spec_by_tpu_spec(interface: Any, name: str, self: Any, **arguments: Any) -> EstimatorSpec:
    """Returns what `create_estimator_spec` does of a head that makes a `TPUEstimatorSpec`.

    Args:
        interface: base class of the head.
        name: its name in TensorFlow.
        self: the head.
        **arguments: of `_create_tpu_estimator_spec`.

    Raises:
        NotImplementedError: the head makes none.
    """
    if type(self)._create_tpu_estimator_spec is interface._create_tpu_estimator_spec:
        raise NotImplementedError(
            f"Subclasses of {name} must implement `create_estimator_spec()` or "
            "_create_tpu_estimator_spec()."
        )
    return self._create_tpu_estimator_spec(**arguments).as_estimator_spec()  # type: ignore[no-any-return]
