# SPDX-License-Identifier: Apache-2.0
"""Defines the deep models of `tf.compat.v1.estimator`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from estimator_spec.canned import dnn, hidden_layers, input_layer
from estimator_spec.canned.construction import make_model_fn_v1, with_head
from estimator_spec.canned.hidden_layers import HiddenLayers
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

_LEARNING_RATE = 0.05


def dnn_logit_fn_builder(
    units: int,
    hidden_units: Iterable[int],
    feature_columns: Any,
    activation_fn: Any,
    dropout: float | None,
    input_layer_partitioner: Any,
    batch_norm: bool,
) -> dnn.LogitFn:
    """Returns a function that builds the logits of a deep model.

    `input_layer_partitioner` is the partitioner of the columns' variables, or None; the other
    arguments are as in `estimator_spec.canned.dnn_logit_fn_builder`.

    Returns:
        A function of (features, mode) that returns logits, [batch, units].

    Raises:
        ValueError: `units` is no int.
    """
    dnn.check_units(units)
    layers = HiddenLayers.of(hidden_units, activation_fn, dropout, batch_norm)

    def dnn_logit_fn(features: dict[str, Any], mode: str) -> Any:
        return build(features, mode, units, layers, feature_columns, input_layer_partitioner)

    return dnn_logit_fn


def build(
    features: dict[str, Any],
    mode: str,
    units: int,
    layers: HiddenLayers,
    feature_columns: Any,
    input_layer_partitioner: Any,
) -> Any:
    """Builds the logits of a deep model in the current variable scope, [batch, units]."""
    dnn.check_units(units)
    with tf1.variable_scope(input_layer.SCOPE, partitioner=input_layer_partitioner):
        inputs = input_layer.build(features, feature_columns)
    return hidden_layers.build(layers, inputs, units, mode, f"{dnn.SCOPE}/")


class DNNEstimator(Estimator):
    """A deep model with any head.

    Variables are named as in `tf.compat.v1.estimator`, such as `dnn/hiddenlayer_0/kernel`; in the
    graph they are partitioned (`part_0`).

    Arguments not listed here are as in `estimator_spec.DNNEstimator`.

    Args:
        head: a head of either generation.
        optimizer: 'Adagrad', 'Adam', 'Ftrl', 'RMSProp' or 'SGD', with learning rate 0.05; a
            `tf.compat.v1.train.Optimizer`; or a function without arguments that returns one, called
            in the model's graph.
        input_layer_partitioner: partitioner of the columns' variables; None: tables of 64 MiB and
            more are partitioned over the parameter servers.

    Raises:
        ValueError: as for `Estimator`. Columns, features and optimizer are checked when the model
            is built.
    """

    def __init__(
        self,
        head: Any,
        hidden_units: Iterable[int],
        feature_columns: Any,
        model_dir: Any = None,
        optimizer: Any = "Adagrad",
        activation_fn: Any = tf.nn.relu,
        dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: RunConfig | None = None,
        warm_start_from: str | WarmStartSettings | None = None,
        batch_norm: bool = False,
    ) -> None:
        argument_rules.check("CannedEstimatorV1", locals())
        layers = HiddenLayers.of(hidden_units, activation_fn, dropout, batch_norm)

        def logit_fn(features: Any, mode: str, config: Any) -> Any:
            partitioner = partitioners.for_columns(config, input_layer_partitioner)
            units = head.logits_dimension
            return build(features, mode, units, layers, feature_columns, partitioner)

        def scope(config: Any) -> Any:
            return tf1.variable_scope(dnn.SCOPE, partitioner=partitioners.for_layers(config))

        model_fn = make_model_fn_v1(head, logit_fn, optimizer, _LEARNING_RATE, scope)
        part = ModelPart(dnn.SCOPE, optimizer, _LEARNING_RATE, feature_columns, layers=layers)
        self.canned_model = CannedModel(head, (part,), generation=1)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class DNNClassifier(DNNEstimator):
    """A deep model of classes.

    `n_classes`, `weight_column` and `label_vocabulary` are as in `estimator_spec.DNNClassifier`,
    other arguments not listed here as in `estimator_spec.canned.v1.DNNEstimator`.

    Args:
        loss_reduction: a `tf.compat.v1.losses.Reduction`; how the losses of a batch become one.

    Raises:
        ValueError: as for `DNNEstimator`, or an argument of the head is wrong.
    """

    def __init__(
        self,
        hidden_units: Iterable[int],
        feature_columns: Any,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        optimizer: Any = "Adagrad",
        activation_fn: Any = tf.nn.relu,
        dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: RunConfig | None = None,
        warm_start_from: str | WarmStartSettings | None = None,
        loss_reduction: str = tf1.losses.Reduction.SUM,
        batch_norm: bool = False,
    ) -> None:
        super().__init__(**with_head(binary_logistic_or_multi_class_head, locals()))


class DNNRegressor(DNNEstimator):
    """A deep model of numbers.

    `label_dimension` and `weight_column` are as in `estimator_spec.DNNRegressor`, other arguments
    not listed here as in `estimator_spec.canned.v1.DNNEstimator`.

    Args:
        loss_reduction: a `tf.compat.v1.losses.Reduction`; how the losses of a batch become one.

    Raises:
        ValueError: as for `DNNEstimator`, or an argument of the head is wrong.
    """

    def __init__(
        self,
        hidden_units: Iterable[int],
        feature_columns: Any,
        model_dir: Any = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Adagrad",
        activation_fn: Any = tf.nn.relu,
        dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: RunConfig | None = None,
        warm_start_from: str | WarmStartSettings | None = None,
        loss_reduction: str = tf1.losses.Reduction.SUM,
        batch_norm: bool = False,
    ) -> None:
        super().__init__(**with_head(regression_head, locals()))
