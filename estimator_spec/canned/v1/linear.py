# SPDX-License-Identifier: Apache-2.0
"""Defines the linear models of `tf.compat.v1.estimator`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_spec.canned import dnn, linear, linear_model
from estimator_spec.canned.construction import make_model_fn_v1, with_head
from estimator_spec.canned.v1 import partitioners
from estimator_spec.core.common import argument_rules
from estimator_spec.core.driver.estimator import Estimator
from estimator_spec.core.run_config import RunConfig
from estimator_spec.core.user_functions.warm_start import WarmStartSettings
from estimator_spec.heads.canned_model import CannedModel, ModelPart
from estimator_spec.heads.first_generation import (
    binary_logistic_or_multi_class_head,
    regression_head,
)

tf1 = tf.compat.v1


def linear_logit_fn_builder(
    units: int, feature_columns: Any, sparse_combiner: str = "sum"
) -> Callable[[dict[str, Any]], Any]:
    """Returns a function that builds the logits of a linear model in the current variable scope.

    The arguments are those of `estimator_spec.canned.linear_logit_fn_builder`.

    Returns:
        A function of features that returns logits, [batch, units].

    Raises:
        ValueError: `units` is no int.
    """
    dnn.check_units(units)

    def linear_logit_fn(features: dict[str, Any]) -> Any:
        output = linear_model.build(
            features, feature_columns, units, sparse_combiner, op_scope="linear_model/linear_model"
        )
        linear.summarize(output)
        return output.logits

    return linear_logit_fn


class LinearEstimator(Estimator):
    """A linear model with any head.

    Arguments not listed here are as in `estimator_spec.LinearEstimator`.

    Args:
        head: a head of either generation.
        optimizer: as for `estimator_spec.canned.v1.DNNEstimator`. The learning rate of a name is
            0.2. None: as for `estimator_spec.LinearEstimator`.
        partitioner: partitioner of the weights; None: tables of 64 MiB and more are partitioned
            over the parameter servers.

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
        argument_rules.check("CannedEstimatorV1", locals())

        def logit_fn(features: Any, mode: str, config: Any) -> Any:
            units = head.logits_dimension
            return linear_logit_fn_builder(units, feature_columns, sparse_combiner)(features)

        def scope(config: Any) -> Any:
            return tf1.variable_scope(
                linear.SCOPE, partitioner=partitioners.for_columns(config, partitioner)
            )

        rate = linear.learning_rate(optimizer, feature_columns)
        optimizer = "Ftrl" if optimizer is None else optimizer
        model_fn = make_model_fn_v1(head, logit_fn, optimizer, rate, scope)
        part = ModelPart(linear.SCOPE, optimizer, rate, feature_columns, sparse_combiner)
        self.canned_model = CannedModel(head, (part,), generation=1)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class LinearClassifier(LinearEstimator):
    """A linear model of classes.

    `n_classes`, `weight_column`, `label_vocabulary` and `loss_reduction` are as in
    `estimator_spec.canned.v1.DNNClassifier`, the other arguments as in
    `estimator_spec.canned.v1.LinearEstimator`.

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
        super().__init__(**with_head(binary_logistic_or_multi_class_head, locals()))


class LinearRegressor(LinearEstimator):
    """A linear model of numbers.

    `label_dimension`, `weight_column` and `loss_reduction` are as in
    `estimator_spec.canned.v1.DNNRegressor`, the other arguments as in
    `estimator_spec.canned.v1.LinearEstimator`.

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
        super().__init__(**with_head(regression_head, locals()))
