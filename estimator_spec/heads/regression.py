# SPDX-License-Identifier: Apache-2.0
"""Defines heads of regressions: linear, logistic and Poisson."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.core.common import argument_rules
from estimator_spec.core.export.export_outputs import RegressionOutput
from estimator_spec.heads import inputs, losses
from estimator_spec.heads.keys import (
    DEFAULT_SIGNATURE,
    REGRESS_SIGNATURE,
    MetricKeys,
    PredictionKeys,
)
from estimator_spec.heads.metrics import LABELS, HeadMetric
from estimator_spec.heads.single import SingleHead


def check_label_dimension(label_dimension: Any) -> int:
    """Returns the argument `label_dimension` of a head as an int.

    Raises:
        ValueError: it is below 1.
        TypeError: it is no whole number.
    """
    try:
        found = operator.index(label_dimension)
    except TypeError:
        raise TypeError(
            "label_dimension must be a whole number, an int of at least 1. Got "
            f"{label_dimension!r}, a {type(label_dimension).__name__}."
        ) from None
    if found < 1:
        raise ValueError(f"Invalid label_dimension {label_dimension}. It must be at least 1.")
    return found


class RegressionHead(SingleHead):
    r"""Head of a regression, whose loss is the squared error.

    $$l = (\text{label} - \text{logit})^2$$

    Labels are a numeric tensor `[D0, …, DN, label_dimension]`, or `[D0, …, DN]` if the dimension
    is 1. Weights have the shape `[D0, …, DN]`, `[D0, …, DN, 1]` or the labels' shape. Metrics are
    `average_loss`, `label/mean` and `prediction/mean`.

    >>> head = RegressionHead()
    >>> logits, labels = [[45.0], [41.0]], [[43], [44]]
    >>> float(head.loss(labels, logits))  # (2² + 3²) / 2
    6.5

    Arguments not listed here are as in `BinaryClassHead`.

    Args:
        label_dimension: number of values of a label; also the logits' last dimension.
        loss_fn: function of `labels` and `logits`, and of any of `features` and `loss_reduction`,
            that returns the losses `[D0, …, DN, label_dimension]`.
        inverse_link_fn: function from logits to predictions; None stands for the identity.

    Raises:
        ValueError: the dimension is below 1, or the reduction or the arguments of `loss_fn` don't
            fit.
        TypeError: the weight column, the dimension or a function is something else.
    """

    prediction_keys = (PredictionKeys.PREDICTIONS, PredictionKeys.LOGITS)
    weights_per_logit = True

    def __init__(
        self,
        label_dimension: int = 1,
        weight_column: Any = None,
        loss_reduction: str = losses.SUM_OVER_BATCH_SIZE,
        loss_fn: Callable[..., Any] | None = None,
        inverse_link_fn: Callable[[Any], Any] | None = None,
        name: str | None = None,
    ) -> None:
        argument_rules.check("Head", {"inverse_link_fn": inverse_link_fn})
        dimension = check_label_dimension(label_dimension)
        super().__init__(weight_column, loss_reduction, loss_fn, name)
        self._logits_dimension = dimension
        self._inverse_link_fn = inverse_link_fn

    @property
    def logits_dimension(self) -> int:
        """Size of the last dimension of the logits."""
        return self._logits_dimension

    def _processed_labels(self, logits: Any, labels: Any) -> Any:
        """Returns float labels of the logits' shape."""
        labels = inputs.dense_labels(labels, logits, self._logits_dimension)
        if labels.dtype == tf.string:
            raise ValueError(
                "Labels dtype should be a number's. Instead got string. Convert the labels in "
                "input_fn by tf.strings.to_number."
            )
        return tf.cast(labels, tf.float32)

    def default_loss(self, labels: Any, logits: Any) -> Any:
        """Returns the squared errors `[D0, …, DN, label_dimension]`."""
        return tf.math.squared_difference(logits, labels)

    def compute_predictions(self, logits: Any, keys: Sequence[str]) -> dict[str, Any]:
        """Returns the predicted values, and the logits too if there is an inverse link."""
        if self._inverse_link_fn is None:
            return {PredictionKeys.PREDICTIONS: logits}
        return {
            PredictionKeys.PREDICTIONS: self._inverse_link_fn(logits),
            PredictionKeys.LOGITS: logits,
        }

    def export_outputs(self, predictions: dict[str, Any]) -> dict[str, Any]:
        """Returns an output of Regress requests under the default name and its own."""
        output = RegressionOutput(value=predictions[PredictionKeys.PREDICTIONS])
        return {DEFAULT_SIGNATURE: output, REGRESS_SIGNATURE: output}

    def metric_rows(self) -> list[HeadMetric]:
        """Returns the means of predictions and labels."""
        return [
            HeadMetric(MetricKeys.PREDICTION_MEAN, "Mean", PredictionKeys.PREDICTIONS),
            HeadMetric(MetricKeys.LABEL_MEAN, "Mean", LABELS),
        ]


class PoissonRegressionHead(RegressionHead):
    r"""Head of a Poisson regression of counts, whose prediction is the exponential of the logit.

    $$l = e^{z} - z y + \left[y \ln y - y + \tfrac12 \ln(2\pi y)\right]$$

    for a label y and a logit z: the negative log-likelihood, with Stirling's approximation of
    $\ln y!$ in brackets (0 for y ≤ 1). Shapes and metrics are those of `RegressionHead`.

    `label_dimension` is as in `RegressionHead`, other arguments not listed here as in
    `BinaryClassHead`.

    Args:
        compute_full_loss: includes the term in brackets.

    Raises:
        ValueError, TypeError: as `RegressionHead`.
    """

    def __init__(
        self,
        label_dimension: int = 1,
        weight_column: Any = None,
        loss_reduction: str = losses.SUM_OVER_BATCH_SIZE,
        compute_full_loss: bool = True,
        name: str | None = None,
    ) -> None:
        argument_rules.check("Head", {"compute_full_loss": compute_full_loss})
        super().__init__(
            label_dimension, weight_column, loss_reduction, inverse_link_fn=tf.exp, name=name
        )
        self._compute_full_loss = compute_full_loss

    def default_loss(self, labels: Any, logits: Any) -> Any:
        """Returns the negative log-likelihoods; see the class."""
        return tf.nn.log_poisson_loss(labels, logits, compute_full_loss=self._compute_full_loss)


class LogisticRegressionHead(RegressionHead):
    r"""Head of a logistic regression, whose prediction is a probability.

    $$l = -y \ln \sigma(z) - (1 - y) \ln (1 - \sigma(z))$$

    for a label y in [0, 1] and a logit z. Labels have the shape `[D0, …, DN]` or `[D0, …, DN, 1]`.
    Metrics are those of `RegressionHead`. `BinaryClassHead` has the same loss for labels of two
    classes, and more metrics.

    Arguments are as in `BinaryClassHead`.

    Raises:
        ValueError, TypeError: as `RegressionHead`.
    """

    def __init__(
        self,
        weight_column: Any = None,
        loss_reduction: str = losses.SUM_OVER_BATCH_SIZE,
        name: str | None = None,
    ) -> None:
        super().__init__(1, weight_column, loss_reduction, inverse_link_fn=tf.sigmoid, name=name)

    def _processed_labels(self, logits: Any, labels: Any) -> Any:
        """Returns float labels of the logits' shape."""
        labels = super()._processed_labels(logits, labels)
        message = "Labels must be in range [0, 1]"
        return inputs.verified(
            labels,
            lambda: tf.debugging.assert_greater_equal(labels, 0.0, message=message),
            lambda: tf.debugging.assert_less_equal(labels, 1.0, message=message),
        )

    def default_loss(self, labels: Any, logits: Any) -> Any:
        """Returns the cross entropies; see the class."""
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
