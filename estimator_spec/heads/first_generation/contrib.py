# SPDX-License-Identifier: Apache-2.0
"""Creates the heads of `tf.contrib.estimator`, whose losses are means over the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.heads import losses
from estimator_spec.heads.first_generation import canned, metrics
from estimator_spec.heads.first_generation.base import HeadV1
from estimator_spec.heads.first_generation.multi import MultiHeadV1
from estimator_spec.heads.first_generation.wrapped import WrappedHead
from estimator_spec.heads.keys import PredictionKeys
from estimator_spec.heads.multi_label import MultiLabelHead
from estimator_spec.heads.regression import LogisticRegressionHead

MEAN = tf.compat.v1.losses.Reduction.SUM_OVER_BATCH_SIZE
_LossFn = Callable[..., Any] | None


def binary_classification_head(
    weight_column: Any = None,
    thresholds: Sequence[float] | None = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = MEAN,
    loss_fn: _LossFn = None,
    name: str | None = None,
) -> HeadV1:
    """Returns the head of a classification with two classes; see `BinaryClassHead`.

    Args:
        weight_column: as there.
        thresholds: as there.
        label_vocabulary: as there.
        loss_reduction: a value of `tf.compat.v1.losses.Reduction`.
        loss_fn: as there.
        name: name of the head, or None.
    """
    return canned.binary_logistic_head_with_sigmoid_cross_entropy_loss(
        weight_column, thresholds, label_vocabulary, loss_reduction, loss_fn, name
    )


def multi_class_head(
    n_classes: int,
    weight_column: Any = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = MEAN,
    loss_fn: _LossFn = None,
    name: str | None = None,
) -> HeadV1:
    """Returns the head of a classification with more than two classes; see `MultiClassHead`.

    Args:
        n_classes: as there.
        weight_column: as there.
        label_vocabulary: as there.
        loss_reduction: a value of `tf.compat.v1.losses.Reduction`.
        loss_fn: as there.
        name: name of the head, or None.
    """
    return canned.multi_class_head_with_softmax_cross_entropy_loss(
        n_classes, weight_column, label_vocabulary, loss_reduction, loss_fn, name
    )


def multi_label_head(
    n_classes: int,
    weight_column: Any = None,
    thresholds: Sequence[float] | None = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = MEAN,
    loss_fn: _LossFn = None,
    classes_for_class_based_metrics: Sequence[Any] | None = None,
    name: str | None = None,
) -> HeadV1:
    """Returns the head of a classification with any number of classes; see `MultiLabelHead`.

    Args:
        n_classes: as there.
        weight_column: as there.
        thresholds: as there.
        label_vocabulary: as there.
        loss_reduction: a value of `tf.compat.v1.losses.Reduction`.
        loss_fn: as there.
        classes_for_class_based_metrics: as there.
        name: name of the head, or None.
    """
    losses.check_loss_fn(loss_fn, first_generation=True)
    head = MultiLabelHead(
        n_classes,
        weight_column,
        thresholds,
        label_vocabulary,
        losses.SUM,
        loss_fn,
        classes_for_class_based_metrics,
        name,
    )
    keys = [PredictionKeys.LOGITS, PredictionKeys.PROBABILITIES]
    return WrappedHead(head, loss_reduction, metrics.multi_label_metrics, keys)


def regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: str = MEAN,
    loss_fn: _LossFn = None,
    inverse_link_fn: Callable[[Any], Any] | None = None,
    name: str | None = None,
) -> HeadV1:
    """Returns the head of a regression; see `RegressionHead`.

    Args:
        weight_column: as there.
        label_dimension: as there.
        loss_reduction: a value of `tf.compat.v1.losses.Reduction`.
        loss_fn: as there.
        inverse_link_fn: as there.
        name: name of the head, or None.
    """
    return canned.regression_head(
        weight_column, label_dimension, loss_reduction, loss_fn, inverse_link_fn, name
    )


def poisson_regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: str = MEAN,
    compute_full_loss: bool = True,
    name: str | None = None,
) -> HeadV1:
    """Returns the head of a Poisson regression; see `PoissonRegressionHead`.

    Args:
        weight_column: as there.
        label_dimension: as there.
        loss_reduction: a value of `tf.compat.v1.losses.Reduction`.
        compute_full_loss: as there.
        name: name of the head, or None.
    """
    return canned.poisson_regression_head(
        weight_column, label_dimension, loss_reduction, compute_full_loss, name
    )


def logistic_regression_head(
    weight_column: Any = None, loss_reduction: str = MEAN, name: str | None = None
) -> HeadV1:
    """Returns the head of a logistic regression; see `LogisticRegressionHead`.

    Args:
        weight_column: as there.
        loss_reduction: a value of `tf.compat.v1.losses.Reduction`.
        name: name of the head, or None.
    """
    head = LogisticRegressionHead(weight_column, losses.SUM, name)
    return WrappedHead(head, loss_reduction, metrics.regression_metrics)


def multi_head(heads: Sequence[HeadV1], head_weights: Sequence[float] | None = None) -> HeadV1:
    """Returns the head of a model with several objectives; see `MultiHead`.

    Args:
        heads: heads of TensorFlow 1, all with different names.
        head_weights: a factor for each head's loss; None stands for 1.
    """
    return MultiHeadV1(heads, head_weights)
