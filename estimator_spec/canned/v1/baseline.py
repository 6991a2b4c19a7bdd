# SPDX-License-Identifier: Apache-2.0
"""Defines the baseline models of `tf.compat.v1.estimator`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_spec.canned import baseline_model, column_state, optimizers
from estimator_spec.config.run_config import RunConfig
from estimator_spec.driver.estimator import Estimator
from estimator_spec.heads import first_generation

tf1 = tf.compat.v1

_LEARNING_RATE = 0.3


def make_model_fn(head: Any, optimizer: Any) -> Callable[..., Any]:
    """Returns the model_fn of a baseline model, for the arguments of `BaselineEstimator`."""

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
        del config
        column_state.check_features(features)
        trainer = optimizers.tf1_optimizer(optimizer, _LEARNING_RATE)
        logits = baseline_model.build(features, head.logits_dimension)
        return head.create_estimator_spec(
            features=features, mode=mode, labels=labels, optimizer=trainer, logits=logits
        )

    return model_fn


class BaselineEstimator(Estimator):
    """A baseline model with any head.

    Args:
        head: a head of either generation.
        model_dir: as for `Estimator`.
        optimizer: as for `DNNEstimator`. By name, the learning rate is 0.3.
        config: as for `Estimator`.

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
        super().__init__(make_model_fn(head, optimizer), model_dir, config)


class BaselineClassifier(BaselineEstimator):
    """A model that predicts the frequency of each class.

    Args:
        model_dir: as for `Estimator`.
        n_classes: as for `DNNClassifier`.
        weight_column: as for `DNNClassifier`.
        label_vocabulary: as for `DNNClassifier`.
        optimizer: as for `BaselineEstimator`.
        config: as for `Estimator`.
        loss_reduction: as for `DNNClassifier`.

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
        loss_reduction: str = tf1.losses.Reduction.SUM,
    ) -> None:
        head = first_generation.binary_logistic_or_multi_class_head(
            n_classes, weight_column, label_vocabulary, loss_reduction
        )
        super().__init__(head, model_dir, optimizer, config)


class BaselineRegressor(BaselineEstimator):
    """A model that predicts the mean of the labels.

    Args:
        model_dir: as for `Estimator`.
        label_dimension: as for `DNNRegressor`.
        weight_column: as for `DNNClassifier`.
        optimizer: as for `BaselineEstimator`.
        config: as for `Estimator`.
        loss_reduction: as for `DNNClassifier`.

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
        loss_reduction: str = tf1.losses.Reduction.SUM,
    ) -> None:
        head = first_generation.regression_head(weight_column, label_dimension, loss_reduction)
        super().__init__(head, model_dir, optimizer, config)
