# SPDX-License-Identifier: Apache-2.0
"""Defines the baseline models of `tf.compat.v1.estimator`."""

from __future__ import annotations

import contextlib
from typing import Any

import tensorflow as tf

from estimator_spec.canned import baseline_model
from estimator_spec.canned.construction import make_model_fn_v1, with_head
from estimator_spec.core.common import argument_rules
from estimator_spec.core.driver.estimator import Estimator
from estimator_spec.core.run_config import RunConfig
from estimator_spec.heads.canned_model import CannedModel, ModelPart
from estimator_spec.heads.first_generation import (
    binary_logistic_or_multi_class_head,
    regression_head,
)

_LEARNING_RATE = 0.3


class BaselineEstimator(Estimator):
    """A baseline model with any head.

    Arguments not listed here are as in `estimator_spec.BaselineEstimator`.

    Args:
        head: a head of either generation.
        optimizer: as for `estimator_spec.canned.v1.DNNEstimator`. By name, the learning rate is
            0.3.

    Raises:
        ValueError: as for `Estimator`. Features and optimizer are checked when the model is built.
    """

    def __init__(
        self,
        head: Any,
        model_dir: Any = None,
        optimizer: Any = "Ftrl",
        config: RunConfig | None = None,
    ) -> None:
        argument_rules.check("CannedEstimatorV1", locals())

        def logit_fn(features: Any, mode: str, config: Any) -> Any:
            return baseline_model.build(features, head.logits_dimension)

        def scope(config: Any) -> Any:
            return contextlib.nullcontext()

        model_fn = make_model_fn_v1(head, logit_fn, optimizer, _LEARNING_RATE, scope)
        part = ModelPart(baseline_model.SCOPE, optimizer, _LEARNING_RATE)
        self.canned_model = CannedModel(head, (part,), generation=1)
        super().__init__(model_fn, model_dir, config)


class BaselineClassifier(BaselineEstimator):
    """A model that predicts the frequency of each class.

    `n_classes`, `weight_column`, `label_vocabulary` and `loss_reduction` are as in
    `estimator_spec.canned.v1.DNNClassifier`, the other arguments as in
    `estimator_spec.canned.v1.BaselineEstimator`.

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
        loss_reduction: str = tf.compat.v1.losses.Reduction.SUM,
    ) -> None:
        super().__init__(**with_head(binary_logistic_or_multi_class_head, locals()))


class BaselineRegressor(BaselineEstimator):
    """A model that predicts the mean of the labels.

    `label_dimension`, `weight_column` and `loss_reduction` are as in
    `estimator_spec.canned.v1.DNNRegressor`, the other arguments as in
    `estimator_spec.canned.v1.BaselineEstimator`.

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
        loss_reduction: str = tf.compat.v1.losses.Reduction.SUM,
    ) -> None:
        super().__init__(**with_head(regression_head, locals()))
