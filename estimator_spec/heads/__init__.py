# SPDX-License-Identifier: Apache-2.0
"""Heads: loss, metrics, predictions and exported outputs of a model, from its logits.

A head is what a `model_fn` ends with, and what canned estimators are built around.
"""

from typing import TYPE_CHECKING

from tpu_columns import lazy_names

if TYPE_CHECKING:
    # isort: off
    from estimator_spec.heads.base import Head as Head
    from estimator_spec.heads.binary_class import BinaryClassHead as BinaryClassHead
    from estimator_spec.heads.keys import MetricKeys as MetricKeys, PredictionKeys as PredictionKeys
    from estimator_spec.heads.multi import MultiHead as MultiHead
    from estimator_spec.heads.multi_class import (
        MultiClassHead as MultiClassHead,
        binary_or_multi_class_head as binary_or_multi_class_head,
    )
    from estimator_spec.heads.multi_label import MultiLabelHead as MultiLabelHead
    from estimator_spec.heads.regression import (
        LogisticRegressionHead as LogisticRegressionHead,
        PoissonRegressionHead as PoissonRegressionHead,
        RegressionHead as RegressionHead,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names.attach(__name__)
