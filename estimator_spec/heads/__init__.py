# SPDX-License-Identifier: Apache-2.0
"""Heads: loss, metrics, predictions and exported outputs of a model, from its logits.

A head is what a `model_fn` ends with, and what canned estimators are built around.
"""

from __future__ import annotations

from estimator_spec.heads.base import Head
from estimator_spec.heads.binary_class import BinaryClassHead
from estimator_spec.heads.keys import MetricKeys, PredictionKeys
from estimator_spec.heads.multi import MultiHead
from estimator_spec.heads.multi_class import MultiClassHead, binary_or_multi_class_head
from estimator_spec.heads.multi_label import MultiLabelHead
from estimator_spec.heads.regression import (
    LogisticRegressionHead,
    PoissonRegressionHead,
    RegressionHead,
)
from tpu_columns.lazy_names import public_dir

__all__ = [
    "BinaryClassHead",
    "Head",
    "LogisticRegressionHead",
    "MetricKeys",
    "MultiClassHead",
    "MultiHead",
    "MultiLabelHead",
    "PoissonRegressionHead",
    "PredictionKeys",
    "RegressionHead",
    "binary_or_multi_class_head",
]

__dir__ = public_dir(__name__)
