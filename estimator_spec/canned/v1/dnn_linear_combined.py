# SPDX-License-Identifier: Apache-2.0
"""Defines the wide and deep models of `tf.compat.v1.estimator`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from estimator_spec.canned import (
    column_state,
    graph_variables,
    hidden_layers,
    linear,
    optimizers,
)
from estimator_spec.canned.construction import ModelFn, with_head
from estimator_spec.canned.dnn import SCOPE
from estimator_spec.canned.dnn_linear_combined import LINEAR_LEARNING_RATE, Part, checked_parts
from estimator_spec.canned.hidden_layers import HiddenLayers
from estimator_spec.canned.v1 import dnn, partitioners
from estimator_spec.canned.v1.linear import linear_logit_fn_builder
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

_DNN_LEARNING_RATE = 0.001


def _make_model_fn(head: Any, parts: list[Part]) -> ModelFn:
    """Returns the model_fn of a combined model, whose loss is that of the parts' sum."""

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
        column_state.check_features(features)
        logits, trainers = [], []
        for logit_fn, part in parts:
            optimizer = optimizers.tf1_optimizer(part.optimizer, part.learning_rate)
            with graph_variables.collecting() as added:
                logits.append(logit_fn(features, mode, config))
            trainers.append((optimizer, added))

        def train_op_fn(loss: Any) -> Any:
            ops = [
                optimizer.minimize(loss, var_list=of_part.variables)
                for optimizer, of_part in trainers
            ]
            with tf.control_dependencies(ops):
                return tf1.assign_add(tf1.train.get_global_step(), 1).op

        return head.create_estimator_spec(
            features=features,
            mode=mode,
            labels=labels,
            train_op_fn=train_op_fn,
            logits=tf.add_n(logits, name="add"),
        )

    return model_fn


class DNNLinearCombinedEstimator(Estimator):
    """A wide and deep model with any head.

    Arguments not listed here are as in `estimator_spec.DNNLinearCombinedEstimator`.

    Args:
        head: a head of either generation.
        linear_optimizer: optimizer of the linear part, as in
            `estimator_spec.canned.v1.DNNEstimator`. By name, the learning rate is 0.005.
        dnn_optimizer: optimizer of the deep part, as `linear_optimizer`. By name, the learning rate
            is 0.001.
        input_layer_partitioner: as for `estimator_spec.canned.v1.DNNEstimator`.

    Raises:
        ValueError: there are no columns, or no hidden layers for those of the deep part; or as for
            `Estimator`.
    """

    def __init__(
        self,
        head: Any,
        model_dir: Any = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Iterable[int] | None = None,
        dnn_activation_fn: Any = tf.nn.relu,
        dnn_dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: RunConfig | None = None,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
        *,
        warm_start_from: str | WarmStartSettings | None = None,
    ) -> None:
        argument_rules.check("CannedEstimatorV1", locals())
        linear_columns, dnn_columns, hidden_units = checked_parts(
            linear_feature_columns, dnn_feature_columns, dnn_hidden_units
        )
        layers = HiddenLayers.of(hidden_units, dnn_activation_fn, dnn_dropout, batch_norm)
        units = head.logits_dimension

        def deep(features: Any, mode: str, config: Any) -> Any:
            partitioner = partitioners.for_columns(config, input_layer_partitioner)
            with tf1.variable_scope(SCOPE, partitioner=partitioners.for_layers(config)):
                return dnn.build(features, mode, units, layers, dnn_columns, partitioner)

        def wide(features: Any, mode: str, config: Any) -> Any:
            logit_fn = linear_logit_fn_builder(units, linear_columns, linear_sparse_combiner)
            partitioner = partitioners.for_columns(config, input_layer_partitioner)
            with tf1.variable_scope(linear.SCOPE, partitioner=partitioner):
                logits = logit_fn(features)
                hidden_layers.summarize(linear.SCOPE, logits)
            return logits

        rate, combiner = LINEAR_LEARNING_RATE, linear_sparse_combiner
        of_wide = ModelPart(linear.SCOPE, linear_optimizer, rate, linear_columns, combiner)
        of_deep = ModelPart(SCOPE, dnn_optimizer, _DNN_LEARNING_RATE, dnn_columns, layers=layers)
        both: list[Part] = [(deep, of_deep), (wide, of_wide)]
        parts = [(build, part) for build, part in both if part.columns]
        self.canned_model = CannedModel(head, tuple(part for _, part in parts), generation=1)
        model_fn = _make_model_fn(head, parts)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class DNNLinearCombinedClassifier(DNNLinearCombinedEstimator):
    """A wide and deep model of classes.

    `n_classes`, `weight_column`, `label_vocabulary` and `loss_reduction` are as in
    `estimator_spec.canned.v1.DNNClassifier`, the other arguments as in
    `estimator_spec.canned.v1.DNNLinearCombinedEstimator`.

    Raises:
        ValueError: as for `DNNLinearCombinedEstimator`, or an argument of the head is wrong.
    """

    def __init__(
        self,
        model_dir: Any = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Iterable[int] | None = None,
        dnn_activation_fn: Any = tf.nn.relu,
        dnn_dropout: float | None = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        input_layer_partitioner: Any = None,
        config: RunConfig | None = None,
        warm_start_from: str | WarmStartSettings | None = None,
        loss_reduction: str = tf1.losses.Reduction.SUM,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        super().__init__(**with_head(binary_logistic_or_multi_class_head, locals()))


class DNNLinearCombinedRegressor(DNNLinearCombinedEstimator):
    """A wide and deep model of numbers.

    `label_dimension`, `weight_column` and `loss_reduction` are as in
    `estimator_spec.canned.v1.DNNRegressor`, the other arguments as in
    `estimator_spec.canned.v1.DNNLinearCombinedEstimator`.

    Raises:
        ValueError: as for `DNNLinearCombinedEstimator`, or an argument of the head is wrong.
    """

    def __init__(
        self,
        model_dir: Any = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Iterable[int] | None = None,
        dnn_activation_fn: Any = tf.nn.relu,
        dnn_dropout: float | None = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        input_layer_partitioner: Any = None,
        config: RunConfig | None = None,
        warm_start_from: str | WarmStartSettings | None = None,
        loss_reduction: str = tf1.losses.Reduction.SUM,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        super().__init__(**with_head(regression_head, locals()))
