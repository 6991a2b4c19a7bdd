# SPDX-License-Identifier: Apache-2.0
"""Defines the linear models of `tf.compat.v1.estimator`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_spec.canned import column_state, dnn, linear, linear_model, optimizers
from estimator_spec.canned.v1 import partitioners
from estimator_spec.config.run_config import RunConfig
from estimator_spec.driver.estimator import Estimator
from estimator_spec.heads import first_generation
from estimator_spec.model.warm_start import WarmStartSettings

tf1 = tf.compat.v1

_LEARNING_RATE = 0.2


def linear_logit_fn_builder(
    units: int, feature_columns: Any, sparse_combiner: str = "sum"
) -> Callable[[dict[str, Any]], Any]:
    """Returns a function that builds the logits of a linear model in the current variable scope.

    Args:
        units: number of logits.
        feature_columns: categorical and dense columns.
        sparse_combiner: 'sum', 'mean' or 'sqrtn', for several ids of a column and example.

    Returns:
        A function of features that returns logits, [batch, units].

    Raises:
        ValueError: `units` is no int.
    """
    dnn.check_units(units)

    def linear_logit_fn(features: dict[str, Any]) -> Any:
        output = linear_model.build(features, feature_columns, units, sparse_combiner)
        linear.summarize(output)
        return output.logits

    return linear_logit_fn


def make_model_fn(
    head: Any, feature_columns: Any, optimizer: Any, partitioner: Any, sparse_combiner: str
) -> Callable[..., Any]:
    """Returns the model_fn of a linear model, for the arguments of `LinearEstimator`."""

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
        column_state.check_features(features)
        trainer = optimizers.tf1_optimizer(optimizer, _LEARNING_RATE)
        columns_partitioner = partitioners.for_columns(config, partitioner)
        with tf1.variable_scope(linear.SCOPE, partitioner=columns_partitioner):
            logit_fn = linear_logit_fn_builder(
                head.logits_dimension, feature_columns, sparse_combiner
            )
            logits = logit_fn(features)
            # Within the scope, on which the names of slot variables depend.
            return head.create_estimator_spec(
                features=features, mode=mode, labels=labels, optimizer=trainer, logits=logits
            )

    return model_fn


class LinearEstimator(Estimator):
    """A linear model with any head.

    Args:
        head: a head of either generation.
        feature_columns: categorical and dense columns. A categorical column has a weight for each
            bucket, a dense one a weight for each element.
        model_dir: as for `Estimator`.
        optimizer: as for `DNNEstimator`. The learning rate of a name is 0.2.
        config: as for `Estimator`.
        partitioner: partitioner of the weights; None: tables of 64 MiB and more are partitioned
            over the parameter servers.
        sparse_combiner: 'sum', 'mean' or 'sqrtn', for several ids of a column and example.
        warm_start_from: as for `Estimator`.

    Raises:
        ValueError: as for `Estimator`. Columns, features and optimizer are checked when the model
            is built.
    """

    def __init__(
        self,
        head: Any,
        feature_columns: Any,
        model_dir: Any = None,
        optimizer: Any = "Ftrl",
        config: RunConfig | None = None,
        partitioner: Any = None,
        sparse_combiner: str = "sum",
        warm_start_from: str | WarmStartSettings | None = None,
    ) -> None:
        model_fn = make_model_fn(head, feature_columns, optimizer, partitioner, sparse_combiner)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class LinearClassifier(LinearEstimator):
    """A linear model of classes.

    Args:
        feature_columns: as for `LinearEstimator`.
        model_dir: as for `Estimator`.
        n_classes: as for `DNNClassifier`.
        weight_column: as for `DNNClassifier`.
        label_vocabulary: as for `DNNClassifier`.
        optimizer: as for `LinearEstimator`.
        config: as for `Estimator`.
        partitioner: as for `LinearEstimator`.
        warm_start_from: as for `Estimator`.
        loss_reduction: as for `DNNClassifier`.
        sparse_combiner: as for `LinearEstimator`.

    Raises:
        ValueError: as for `LinearEstimator`, or an argument of the head is wrong.
    """

    def __init__(
        self,
        feature_columns: Any,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        optimizer: Any = "Ftrl",
        config: RunConfig | None = None,
        partitioner: Any = None,
        warm_start_from: str | WarmStartSettings | None = None,
        loss_reduction: str = tf1.losses.Reduction.SUM,
        sparse_combiner: str = "sum",
    ) -> None:
        super().__init__(
            first_generation.binary_logistic_or_multi_class_head(
                n_classes, weight_column, label_vocabulary, loss_reduction
            ),
            feature_columns,
            model_dir,
            optimizer,
            config,
            partitioner,
            sparse_combiner,
            warm_start_from,
        )


class LinearRegressor(LinearEstimator):
    """A linear model of numbers.

    Args:
        feature_columns: as for `LinearEstimator`.
        model_dir: as for `Estimator`.
        label_dimension: as for `DNNRegressor`.
        weight_column: as for `DNNClassifier`.
        optimizer: as for `LinearEstimator`.
        config: as for `Estimator`.
        partitioner: as for `LinearEstimator`.
        warm_start_from: as for `Estimator`.
        loss_reduction: as for `DNNClassifier`.
        sparse_combiner: as for `LinearEstimator`.

    Raises:
        ValueError: as for `LinearEstimator`, or an argument of the head is wrong.
    """

    def __init__(
        self,
        feature_columns: Any,
        model_dir: Any = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Ftrl",
        config: RunConfig | None = None,
        partitioner: Any = None,
        warm_start_from: str | WarmStartSettings | None = None,
        loss_reduction: str = tf1.losses.Reduction.SUM,
        sparse_combiner: str = "sum",
    ) -> None:
        super().__init__(
            first_generation.regression_head(weight_column, label_dimension, loss_reduction),
            feature_columns,
            model_dir,
            optimizer,
            config,
            partitioner,
            sparse_combiner,
            warm_start_from,
        )
