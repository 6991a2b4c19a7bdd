# SPDX-License-Identifier: Apache-2.0
"""Defines the wide and deep models of `tf.compat.v1.estimator`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from estimator_spec.canned import (
    column_state,
    dnn_linear_combined,
    graph_variables,
    hidden_layers,
    linear,
    optimizers,
)
from estimator_spec.canned.dnn import SCOPE
from estimator_spec.canned.hidden_layers import HiddenLayers
from estimator_spec.canned.v1 import dnn, partitioners
from estimator_spec.canned.v1.linear import linear_logit_fn_builder
from estimator_spec.config.run_config import RunConfig
from estimator_spec.driver.estimator import Estimator
from estimator_spec.heads import first_generation
from estimator_spec.model.warm_start import WarmStartSettings

tf1 = tf.compat.v1

_DNN_LEARNING_RATE = 0.001
_LINEAR_LEARNING_RATE = 0.005


def make_model_fn(
    head: Any,
    linear_feature_columns: Any,
    linear_optimizer: Any,
    dnn_feature_columns: Any,
    dnn_optimizer: Any,
    dnn_hidden_units: Iterable[int] | None,
    dnn_activation_fn: Any,
    dnn_dropout: float | None,
    input_layer_partitioner: Any,
    batch_norm: bool,
    linear_sparse_combiner: str,
) -> Callable[..., Any]:
    """Returns the model_fn of a combined model, for the arguments of `DNNLinearCombinedEstimator`.

    Each part has an optimizer of its own for its own variables; the loss is that of the sum.
    """
    linear_columns = list(linear_feature_columns or [])
    dnn_columns = list(dnn_feature_columns or [])
    dnn_linear_combined.check_parts(linear_columns, dnn_columns, dnn_hidden_units)
    layers = HiddenLayers.of(dnn_hidden_units or (), dnn_activation_fn, dnn_dropout, batch_norm)
    units = head.logits_dimension

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
        column_state.check_features(features)
        partitioner = partitioners.for_columns(config, input_layer_partitioner)
        logits, trainers = [], []
        if dnn_columns:
            optimizer = optimizers.tf1_optimizer(dnn_optimizer, _DNN_LEARNING_RATE)
            with (
                graph_variables.collecting() as deep,
                tf1.variable_scope(SCOPE, partitioner=partitioners.for_layers(config)),
            ):
                logits.append(
                    dnn.build(features, mode, config, units, layers, dnn_columns, partitioner)
                )
            trainers.append((optimizer, deep))
        if linear_columns:
            optimizer = optimizers.tf1_optimizer(linear_optimizer, _LINEAR_LEARNING_RATE)
            logit_fn = linear_logit_fn_builder(units, linear_columns, linear_sparse_combiner)
            with (
                graph_variables.collecting() as wide,
                tf1.variable_scope(linear.SCOPE, partitioner=partitioner),
            ):
                logits.append(logit_fn(features))
                hidden_layers.summarize(linear.SCOPE, logits[-1])
            trainers.append((optimizer, wide))

        def train_op_fn(loss: Any) -> Any:
            ops = [
                optimizer.minimize(loss, var_list=part.variables) for optimizer, part in trainers
            ]
            with tf.control_dependencies(ops):
                return tf1.assign_add(tf1.train.get_global_step(), 1).op

        return head.create_estimator_spec(
            features=features,
            mode=mode,
            labels=labels,
            train_op_fn=train_op_fn,
            logits=tf.add_n(logits),
        )

    return model_fn


class DNNLinearCombinedEstimator(Estimator):
    """A wide and deep model with any head.

    Args:
        head: a head of either generation.
        model_dir: as for `Estimator`.
        linear_feature_columns: columns of the linear part, or None.
        linear_optimizer: optimizer of the linear part, as for `DNNEstimator`. By name, the learning
            rate is 0.005.
        dnn_feature_columns: columns of the deep part, or None.
        dnn_optimizer: optimizer of the deep part, as for `DNNEstimator`. By name, the learning rate
            is 0.001.
        dnn_hidden_units: number of units of each hidden layer.
        dnn_activation_fn: as for `DNNEstimator`.
        dnn_dropout: as for `DNNEstimator`.
        input_layer_partitioner: as for `DNNEstimator`.
        config: as for `Estimator`.
        batch_norm: as for `DNNEstimator`.
        linear_sparse_combiner: as `sparse_combiner` of `LinearEstimator`.
        warm_start_from: as for `Estimator`.

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
        model_fn = make_model_fn(
            head,
            linear_feature_columns,
            linear_optimizer,
            dnn_feature_columns,
            dnn_optimizer,
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            input_layer_partitioner,
            batch_norm,
            linear_sparse_combiner,
        )
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class DNNLinearCombinedClassifier(DNNLinearCombinedEstimator):
    """A wide and deep model of classes.

    Args:
        model_dir: as for `Estimator`.
        linear_feature_columns: as for `DNNLinearCombinedEstimator`.
        linear_optimizer: as for `DNNLinearCombinedEstimator`.
        dnn_feature_columns: as for `DNNLinearCombinedEstimator`.
        dnn_optimizer: as for `DNNLinearCombinedEstimator`.
        dnn_hidden_units: as for `DNNLinearCombinedEstimator`.
        dnn_activation_fn: as for `DNNEstimator`.
        dnn_dropout: as for `DNNEstimator`.
        n_classes: as for `DNNClassifier`.
        weight_column: as for `DNNClassifier`.
        label_vocabulary: as for `DNNClassifier`.
        input_layer_partitioner: as for `DNNEstimator`.
        config: as for `Estimator`.
        warm_start_from: as for `Estimator`.
        loss_reduction: as for `DNNClassifier`.
        batch_norm: as for `DNNEstimator`.
        linear_sparse_combiner: as for `DNNLinearCombinedEstimator`.

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
        super().__init__(
            first_generation.binary_logistic_or_multi_class_head(
                n_classes, weight_column, label_vocabulary, loss_reduction
            ),
            model_dir,
            linear_feature_columns,
            linear_optimizer,
            dnn_feature_columns,
            dnn_optimizer,
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            input_layer_partitioner,
            config,
            batch_norm,
            linear_sparse_combiner,
            warm_start_from=warm_start_from,
        )


class DNNLinearCombinedRegressor(DNNLinearCombinedEstimator):
    """A wide and deep model of numbers.

    Args:
        model_dir: as for `Estimator`.
        linear_feature_columns: as for `DNNLinearCombinedEstimator`.
        linear_optimizer: as for `DNNLinearCombinedEstimator`.
        dnn_feature_columns: as for `DNNLinearCombinedEstimator`.
        dnn_optimizer: as for `DNNLinearCombinedEstimator`.
        dnn_hidden_units: as for `DNNLinearCombinedEstimator`.
        dnn_activation_fn: as for `DNNEstimator`.
        dnn_dropout: as for `DNNEstimator`.
        label_dimension: as for `DNNRegressor`.
        weight_column: as for `DNNClassifier`.
        input_layer_partitioner: as for `DNNEstimator`.
        config: as for `Estimator`.
        warm_start_from: as for `Estimator`.
        loss_reduction: as for `DNNClassifier`.
        batch_norm: as for `DNNEstimator`.
        linear_sparse_combiner: as for `DNNLinearCombinedEstimator`.

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
        super().__init__(
            first_generation.regression_head(weight_column, label_dimension, loss_reduction),
            model_dir,
            linear_feature_columns,
            linear_optimizer,
            dnn_feature_columns,
            dnn_optimizer,
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            input_layer_partitioner,
            config,
            batch_norm,
            linear_sparse_combiner,
            warm_start_from=warm_start_from,
        )
