# SPDX-License-Identifier: Apache-2.0
"""Defines baseline models, which ignore features and learn the labels' mean or frequencies."""

from __future__ import annotations

from typing import Any

from estimator_spec.canned import baseline_model
from estimator_spec.canned.construction import make_model_fn, with_head
from estimator_spec.core.common import argument_rules
from estimator_spec.core.driver.estimator import Estimator
from estimator_spec.core.run_config import RunConfig
from estimator_spec.heads import Head, RegressionHead, binary_or_multi_class_head, losses
from estimator_spec.heads.canned_model import CannedModel, ModelPart

_LEARNING_RATE = 0.3


class BaselineEstimator(Estimator):
    """A baseline model with any head.

    Args:
        head: a head of `estimator_spec.heads`; its loss, metrics and predictions are the model's.
        model_dir: as for `Estimator`.
        optimizer: as for `DNNEstimator`. By name, the learning rate is 0.3.
        config: as for `Estimator`.

    Raises:
        ValueError: as for `Estimator`. Features and optimizer are checked when the model is built.
    """

    def __init__(
        self,
        head: Head,
        model_dir: Any = None,
        optimizer: Any = "Ftrl",
        config: RunConfig | None = None,
    ) -> None:
        argument_rules.check("CannedEstimator", locals())

        def logit_fn(features: Any, mode: str) -> Any:
            return baseline_model.build(features, head.logits_dimension, use_resource=True)

        model_fn = make_model_fn(head, logit_fn, optimizer, _LEARNING_RATE)
        part = ModelPart(baseline_model.SCOPE, optimizer, _LEARNING_RATE)
        self.canned_model = CannedModel(head, (part,), generation=2)
        super().__init__(model_fn, model_dir, config)


class BaselineClassifier(BaselineEstimator):
    """A model that predicts the frequency of each class.

    `n_classes`, `weight_column`, `label_vocabulary` and `loss_reduction` are as in
    `estimator_spec.DNNClassifier`, the other arguments as in `estimator_spec.BaselineEstimator`.

    Raises:
        ValueError: as for `BaselineEstimator`, or an argument of the head is wrong.
    """

    def __init__(
        self,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        optimizer: Any = "Ftrl",
        config: RunConfig | None = None,
        loss_reduction: str = losses.SUM_OVER_BATCH_SIZE,
    ) -> None:
        super().__init__(**with_head(binary_or_multi_class_head, locals()))


class BaselineRegressor(BaselineEstimator):
    """A model that predicts the mean of the labels.

    `label_dimension`, `weight_column` and `loss_reduction` are as in `estimator_spec.DNNRegressor`,
    the other arguments as in `estimator_spec.BaselineEstimator`.

    Raises:
        ValueError: as for `BaselineEstimator`, or an argument of the head is wrong.
    """

    def __init__(
        self,
        model_dir: Any = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Ftrl",
        config: RunConfig | None = None,
        loss_reduction: str = losses.SUM_OVER_BATCH_SIZE,
    ) -> None:
        super().__init__(**with_head(RegressionHead, locals()))
