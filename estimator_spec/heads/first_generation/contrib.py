# SPDX-License-Identifier: Apache-2.0
"""Creates the heads of `tf.contrib.estimator`, whose losses are means over the batch."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.heads.first_generation import canned
from estimator_spec.heads.first_generation.base import HeadV1
from estimator_spec.heads.first_generation.multi import MultiHeadV1
from estimator_spec.heads.first_generation.wrapped import WrappedHead
from estimator_spec.heads.keys import PredictionKeys
from estimator_spec.heads.multi_label import MultiLabelHead
from estimator_spec.heads.regression import LogisticRegressionHead

MEAN = tf.compat.v1.losses.Reduction.SUM_OVER_BATCH_SIZE
_MULTI_LABEL_KEYS = (PredictionKeys.LOGITS, PredictionKeys.PROBABILITIES)
_LossFn = Callable[..., Any] | None


def _with_mean(make_head: Any, name: str) -> Any:
    """Returns a copy of a function that makes a head, whose default reduction is the mean."""
    defaults = tuple(MEAN if value == canned.SUM else value for value in make_head.__defaults__)
    copy = types.FunctionType(make_head.__code__, make_head.__globals__, name, defaults)
    copy.__doc__, copy.__annotations__ = make_head.__doc__, make_head.__annotations__
    copy.__module__, copy.__qualname__ = __name__, name
    return copy


binary_classification_head = _with_mean(
    canned.binary_logistic_head_with_sigmoid_cross_entropy_loss, "binary_classification_head"
)
multi_class_head = _with_mean(
    canned.multi_class_head_with_softmax_cross_entropy_loss, "multi_class_head"
)
regression_head = _with_mean(canned.regression_head, "regression_head")
poisson_regression_head = _with_mean(canned.poisson_regression_head, "poisson_regression_head")


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
    """Returns the head of a classification with any number of classes.

    Arguments are as in `MultiLabelHead`, but `loss_reduction` is a value of
    `tf.compat.v1.losses.Reduction`.
    """
    return WrappedHead(MultiLabelHead, locals(), _MULTI_LABEL_KEYS)


def logistic_regression_head(
    weight_column: Any = None, loss_reduction: str = MEAN, name: str | None = None
) -> HeadV1:
    """Returns the head of a logistic regression.

    Arguments are as in `LogisticRegressionHead`, but `loss_reduction` is a value of
    `tf.compat.v1.losses.Reduction`.
    """
    return WrappedHead(LogisticRegressionHead, locals())


def multi_head(heads: Sequence[HeadV1], head_weights: Sequence[float] | None = None) -> HeadV1:
    """Returns the head of a model with several objectives; see `MultiHead`.

    Args:
        heads: heads of TensorFlow 1, all with different names.
        head_weights: a factor for each head's loss; None stands for 1.
    """
    return MultiHeadV1(heads, head_weights)
