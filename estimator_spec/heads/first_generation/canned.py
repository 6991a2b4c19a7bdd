# SPDX-License-Identifier: Apache-2.0
"""Creates the heads that canned estimators of TensorFlow 1 are built around."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.heads import classes
from estimator_spec.heads.binary_class import BinaryClassHead
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

    Arguments are as in `BinaryClassHead`, but `loss_reduction` is a value of
    `tf.compat.v1.losses.Reduction`.

    Raises:
        ValueError, TypeError: as `BinaryClassHead`.
    """
    return WrappedHead(BinaryClassHead, locals())


def multi_class_head_with_softmax_cross_entropy_loss(
    n_classes: int,
    weight_column: Any = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = SUM,
    loss_fn: _LossFn = None,
    name: str | None = None,
) -> HeadV1:
    """Returns the head of a classification with more than two classes.

    Arguments are as in `MultiClassHead`, but `loss_reduction` is a value of
    `tf.compat.v1.losses.Reduction`.

    Raises:
        ValueError, TypeError: as `MultiClassHead`.
    """
    return WrappedHead(MultiClassHead, locals())


def binary_logistic_or_multi_class_head(
    n_classes: int,
    weight_column: Any,
    label_vocabulary: Sequence[str] | None,
    loss_reduction: str,
    loss_fn: _LossFn = None,
) -> HeadV1:
    """Returns the head of a classifier, by its number of classes.

    Arguments are as in `estimator_spec.heads.binary_or_multi_class_head`, but `loss_reduction` is a
    value of `tf.compat.v1.losses.Reduction`.
    """
    n_classes = classes.check_two_or_more(n_classes)
    if n_classes == 2:
        return binary_logistic_head_with_sigmoid_cross_entropy_loss(
            weight_column, None, label_vocabulary, loss_reduction, loss_fn
        )
    return multi_class_head_with_softmax_cross_entropy_loss(
        n_classes, weight_column, label_vocabulary, loss_reduction, loss_fn
    )


def regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: str = SUM,
    loss_fn: _LossFn = None,
    inverse_link_fn: Callable[[Any], Any] | None = None,
    name: str | None = None,
) -> HeadV1:
    """Returns the head of a regression.

    Arguments are as in `RegressionHead`, but `loss_reduction` is a value of
    `tf.compat.v1.losses.Reduction`.

    Raises:
        ValueError, TypeError: as `RegressionHead`.
    """
    return WrappedHead(RegressionHead, locals())


def poisson_regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: str = SUM,
    compute_full_loss: bool = True,
    name: str | None = None,
) -> HeadV1:
    """Returns the head of a Poisson regression.

    Arguments are as in `PoissonRegressionHead`, but `loss_reduction` is a value of
    `tf.compat.v1.losses.Reduction`.

    Raises:
        ValueError, TypeError: as `PoissonRegressionHead`.
    """
    return WrappedHead(PoissonRegressionHead, locals())
