# SPDX-License-Identifier: Apache-2.0
"""Heads of TensorFlow 1, for `tf.compat.v1.estimator` and `tf.contrib.estimator`.

Labels, losses, predictions and exported outputs are those of `estimator_spec.heads`. The
reductions are those of `tf.compat.v1.losses`; metrics are pairs of a value and an update op.
"""

from __future__ import annotations

from estimator_spec.heads.first_generation.base import HeadV1, LossSpec
from estimator_spec.heads.first_generation.canned import (
    binary_logistic_head_with_sigmoid_cross_entropy_loss,
    binary_logistic_or_multi_class_head,
    multi_class_head_with_softmax_cross_entropy_loss,
    poisson_regression_head,
    regression_head,
)
from estimator_spec.heads.first_generation.multi import MultiHeadV1
from tpu_columns.lazy_names import public_dir

__all__ = [
    "HeadV1",
    "LossSpec",
    "MultiHeadV1",
    "binary_logistic_head_with_sigmoid_cross_entropy_loss",
    "binary_logistic_or_multi_class_head",
    "multi_class_head_with_softmax_cross_entropy_loss",
    "poisson_regression_head",
    "regression_head",
]

__dir__ = public_dir(__name__)
