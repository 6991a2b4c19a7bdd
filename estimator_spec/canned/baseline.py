# SPDX-License-Identifier: Apache-2.0
"""Defines baseline models, which ignore features and learn the labels' mean or frequencies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from estimator_spec.canned import (
    baseline_model,
    column_state,
    graph_variables,
    optimizers,
)
from estimator_spec.config.run_config import RunConfig
from estimator_spec.driver.estimator import Estimator
from estimator_spec.heads import Head, RegressionHead, binary_or_multi_class_head, losses

_LEARNING_RATE = 0.3


def make_model_fn(head: Head, optimizer: Any) -> Callable[..., Any]:
    """Returns the model_fn of a baseline model, for the arguments of `BaselineEstimator`."""

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
        del config
        column_state.check_features(features)
        trainer = optimizers.keras_training_optimizer(optimizer, mode, _LEARNING_RATE)
        with graph_variables.collecting() as added:
            logits = baseline_model.build(features, head.logits_dimension, use_resource=True)
        return head.create_estimator_spec(
            features=features,
            mode=mode,
            labels=labels,
            optimizer=trainer,
            logits=logits,
            trainable_variables=added.variables,
            update_ops=added.update_ops,
        )

    return model_fn


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
        loss_reduction: str = losses.SUM_OVER_BATCH_SIZE,
    ) -> None:
        head = binary_or_multi_class_head(
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
        loss_reduction: str = losses.SUM_OVER_BATCH_SIZE,
    ) -> None:
        head = RegressionHead(label_dimension, weight_column, loss_reduction)
        super().__init__(head, model_dir, optimizer, config)
