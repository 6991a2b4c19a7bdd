# SPDX-License-Identifier: Apache-2.0
"""Defines linear models over categorical and dense columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_spec.canned import dnn, linear_model
from estimator_spec.canned.construction import make_model_fn, with_head
from estimator_spec.canned.linear_model import LinearOutput
from estimator_spec.core.common import argument_rules
from estimator_spec.core.driver.estimator import Estimator
from estimator_spec.core.run_config import RunConfig
from estimator_spec.core.user_functions.warm_start import WarmStartSettings
from estimator_spec.heads import Head, RegressionHead, binary_or_multi_class_head, losses
from estimator_spec.heads.canned_model import CannedModel, ModelPart

tf1 = tf.compat.v1

SCOPE = "linear"
_LEARNING_RATE = 0.2


def linear_logit_fn_builder(
    units: int, feature_columns: Any, sparse_combiner: str = "sum"
) -> Callable[[dict[str, Any]], Any]:
    """Returns a function that builds the logits of a linear model.

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
        with tf1.variable_scope(SCOPE, use_resource=True):
            output = linear_model.build(
                features, feature_columns, units, sparse_combiner, shared_scope=""
            )
        summarize(output)
        return output.logits

    return linear_logit_fn


def learning_rate(optimizer: Any, feature_columns: Any) -> float:
    """Returns the learning rate of an optimizer by name, or of None, which stands for 'Ftrl'."""
    if optimizer is not None:
        return _LEARNING_RATE
    return min(_LEARNING_RATE, len(feature_columns) ** -0.5)


def summarize(output: LinearOutput) -> None:
    """Writes summaries of a linear model: its bias, and how many weights are zero."""
    if output.bias.shape.num_elements() == 1:
        tf1.summary.scalar("bias", tf.reshape(output.bias, []))
    else:
        tf1.summary.histogram("bias", output.bias)
    zeros = [tf.reduce_sum(tf.cast(tf.equal(w, 0), tf.float32)) for w in output.weights]
    sizes = [float(weights.shape.num_elements()) for weights in output.weights]
    tf1.summary.scalar("fraction_of_zero_weights", tf.add_n(zeros) / sum(sizes))


class LinearEstimator(Estimator):
    """A linear model with any head.

    >>> import estimator_spec
    >>> words = tf.feature_column.categorical_column_with_hash_bucket('words', 1_000_000)
    >>> estimator = estimator_spec.LinearEstimator(
    ...     head=estimator_spec.heads.PoissonRegressionHead(), feature_columns=[words])

    Args:
        head: a head of `estimator_spec.heads`; its loss, metrics and predictions are the model's.
        feature_columns: categorical and dense columns. A categorical column has a weight for each
            bucket, a dense one a weight for each element.
        model_dir: as for `Estimator`.
        optimizer: as for `DNNEstimator`. The learning rate of a name is 0.2. None: Ftrl, with a
            lower rate from 26 columns on, 1/√(number of columns).
        config: as for `Estimator`.
        sparse_combiner: 'sum', 'mean' or 'sqrtn', for several ids of a column and example.
        warm_start_from: as for `Estimator`.

    Raises:
        ValueError: as for `Estimator`. Columns, features and optimizer are checked when the model
            is built.
    """

    def __init__(
        self,
        head: Head,
        feature_columns: Any,
        model_dir: Any = None,
        optimizer: Any = "Ftrl",
        config: RunConfig | None = None,
        sparse_combiner: str = "sum",
        warm_start_from: str | WarmStartSettings | None = None,
    ) -> None:
        argument_rules.check("CannedEstimator", locals())
        logits = linear_logit_fn_builder(head.logits_dimension, feature_columns, sparse_combiner)
        rate = learning_rate(optimizer, feature_columns)
        optimizer = "Ftrl" if optimizer is None else optimizer
        model_fn = make_model_fn(head, lambda features, mode: logits(features), optimizer, rate)
        part = ModelPart(SCOPE, optimizer, rate, feature_columns, sparse_combiner)
        self.canned_model = CannedModel(head, (part,), generation=2)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class LinearClassifier(LinearEstimator):
    """A linear model of classes.

    `n_classes`, `weight_column`, `label_vocabulary` and `loss_reduction` are as in
    `estimator_spec.DNNClassifier`, the other arguments as in `estimator_spec.LinearEstimator`.

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
        warm_start_from: str | WarmStartSettings | None = None,
        loss_reduction: str = losses.SUM_OVER_BATCH_SIZE,
        sparse_combiner: str = "sum",
    ) -> None:
        super().__init__(**with_head(binary_or_multi_class_head, locals()))


class LinearRegressor(LinearEstimator):
    """A linear model of numbers.

    `label_dimension`, `weight_column` and `loss_reduction` are as in `estimator_spec.DNNRegressor`,
    the other arguments as in `estimator_spec.LinearEstimator`.

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
        warm_start_from: str | WarmStartSettings | None = None,
        loss_reduction: str = losses.SUM_OVER_BATCH_SIZE,
        sparse_combiner: str = "sum",
    ) -> None:
        super().__init__(**with_head(RegressionHead, locals()))
