# SPDX-License-Identifier: Apache-2.0
"""Creates the heads that canned estimators of TensorFlow 1 are built around."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.heads import losses
from estimator_spec.heads.binary_class import BinaryClassHead
from estimator_spec.heads.first_generation import metrics
from estimator_spec.heads.first_generation.base import HeadV1
from estimator_spec.heads.first_generation.wrapped import WrappedHead
from estimator_spec.heads.multi_class import MultiClassHead
from estimator_spec.heads.regression import PoissonRegressionHead, RegressionHead

SUM = tf.compat.v1.losses.Reduction.SUM
_LossFn = Callable[..., Any] | None


def binary_logistic_head_with_sigmoid_cross_entropy_loss(
    weight_column: Any = None,
    thresholds: Sequence[float] | None = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = SUM,
    loss_fn: _LossFn = None,
    name: str | None = None,
) -> HeadV1:
    """Returns the head of a classification with two classes, by one logit.

    Args:
        weight_column: as in `BinaryClassHead`.
        thresholds: as in `BinaryClassHead`.
        label_vocabulary: as in `BinaryClassHead`.
        loss_reduction: a value of `tf.compat.v1.losses.Reduction`.
        loss_fn: as in `BinaryClassHead`.
        name: name of the head, or None.

    Raises:
        ValueError, TypeError: as `BinaryClassHead`.
    """
    losses.check_loss_fn(loss_fn, first_generation=True)
    head = BinaryClassHead(
        weight_column,
        thresholds,
        label_vocabulary,
        losses.SUM,
        loss_fn,
        name,
    )
    return WrappedHead(head, loss_reduction, metrics.binary_class_metrics)


def multi_class_head_with_softmax_cross_entropy_loss(
    n_classes: int,
    weight_column: Any = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = SUM,
    loss_fn: _LossFn = None,
    name: str | None = None,
) -> HeadV1:
    """Returns the head of a classification with more than two classes.

    Args:
        n_classes: number of classes, at least 3.
        weight_column: as in `MultiClassHead`.
        label_vocabulary: as in `MultiClassHead`.
        loss_reduction: a value of `tf.compat.v1.losses.Reduction`.
        loss_fn: as in `MultiClassHead`.
        name: name of the head, or None.

    Raises:
        ValueError, TypeError: as `MultiClassHead`.
    """
    losses.check_loss_fn(loss_fn, first_generation=True)
    head = MultiClassHead(
        n_classes,
        weight_column,
        label_vocabulary,
        losses.SUM,
        loss_fn,
        name,
    )
    return WrappedHead(head, loss_reduction, metrics.multi_class_metrics)


def binary_logistic_or_multi_class_head(
    n_classes: int,
    weight_column: Any,
    label_vocabulary: Sequence[str] | None,
    loss_reduction: str,
    loss_fn: _LossFn = None,
) -> HeadV1:
    """Returns the head of a classifier, by its number of classes.

    Args:
        n_classes: number of classes.
        weight_column: as in the heads.
        label_vocabulary: as in the heads.
        loss_reduction: a value of `tf.compat.v1.losses.Reduction`.
        loss_fn: as in the heads.
    """
    options = {
        "weight_column": weight_column,
        "label_vocabulary": label_vocabulary,
        "loss_reduction": loss_reduction,
        "loss_fn": loss_fn,
    }
    if n_classes == 2:
        return binary_logistic_head_with_sigmoid_cross_entropy_loss(**options)
    return multi_class_head_with_softmax_cross_entropy_loss(n_classes, **options)


def regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: str = SUM,
    loss_fn: _LossFn = None,
    inverse_link_fn: Callable[[Any], Any] | None = None,
    name: str | None = None,
) -> HeadV1:
    """Returns the head of a regression.

    Args:
        weight_column: as in `RegressionHead`.
        label_dimension: as in `RegressionHead`.
        loss_reduction: a value of `tf.compat.v1.losses.Reduction`.
        loss_fn: as in `RegressionHead`.
        inverse_link_fn: as in `RegressionHead`.
        name: name of the head, or None.

    Raises:
        ValueError, TypeError: as `RegressionHead`.
    """
    losses.check_loss_fn(loss_fn, first_generation=True)
    head = RegressionHead(
        label_dimension,
        weight_column,
        losses.SUM,
        loss_fn,
        inverse_link_fn,
        name,
    )
    return WrappedHead(head, loss_reduction, metrics.regression_metrics)


def poisson_regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: str = SUM,
    compute_full_loss: bool = True,
    name: str | None = None,
) -> HeadV1:
    """Returns the head of a Poisson regression.

    Args:
        weight_column: as in `PoissonRegressionHead`.
        label_dimension: as in `PoissonRegressionHead`.
        loss_reduction: a value of `tf.compat.v1.losses.Reduction`.
        compute_full_loss: as in `PoissonRegressionHead`.
        name: name of the head, or None.

    Raises:
        ValueError, TypeError: as `PoissonRegressionHead`.
    """
    head = PoissonRegressionHead(
        label_dimension, weight_column, losses.SUM, compute_full_loss, name
    )
    return WrappedHead(head, loss_reduction, metrics.regression_metrics)
