# SPDX-License-Identifier: Apache-2.0
"""Defines the deep models of `tf.compat.v1.estimator`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from estimator_spec.canned import column_state, dnn, hidden_layers, input_layer, optimizers
from estimator_spec.canned.hidden_layers import HiddenLayers
from estimator_spec.canned.v1 import partitioners
from estimator_spec.config.run_config import RunConfig
from estimator_spec.driver.estimator import Estimator
from estimator_spec.heads import first_generation
from estimator_spec.model.warm_start import WarmStartSettings

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

    Args:
        units: as for `estimator_spec.canned.dnn.dnn_logit_fn_builder`.
        hidden_units: as there.
        feature_columns: as there.
        activation_fn: as there.
        dropout: as there.
        input_layer_partitioner: partitioner of the columns' variables, or None.
        batch_norm: as there.

    Returns:
        A function of (features, mode) that returns logits, [batch, units].

    Raises:
        ValueError: `units` is no int.
    """
    dnn.check_units(units)
    layers = HiddenLayers.of(hidden_units, activation_fn, dropout, batch_norm)

    def dnn_logit_fn(features: dict[str, Any], mode: str) -> Any:
        with tf1.variable_scope(input_layer.SCOPE, partitioner=input_layer_partitioner):
            inputs = input_layer.build(features, feature_columns)
        return hidden_layers.build(layers, inputs, units, mode, f"{dnn.SCOPE}/")

    return dnn_logit_fn


def build(
    features: dict[str, Any],
    mode: str,
    config: Any,
    units: int,
    layers: HiddenLayers,
    feature_columns: Any,
    input_layer_partitioner: Any,
) -> Any:
    """Builds the logits of a deep model in the current variable scope.

    Args:
        features: tensors by feature key.
        mode: one of `ModeKeys`.
        config: a `RunConfig`; its parameter servers decide the partitions.
        units: number of logits.
        layers: the hidden layers.
        feature_columns: dense columns.
        input_layer_partitioner: partitioner of the columns' variables; None: by `config`.

    Returns:
        Logits, [batch, units].
    """
    logit_fn = dnn_logit_fn_builder(
        units,
        layers.units,
        feature_columns,
        layers.activation_fn,
        layers.dropout,
        partitioners.for_columns(config, input_layer_partitioner),
        layers.batch_norm,
    )
    return logit_fn(features, mode)


def make_model_fn(
    head: Any,
    hidden_units: Iterable[int],
    feature_columns: Any,
    optimizer: Any,
    activation_fn: Any,
    dropout: float | None,
    input_layer_partitioner: Any,
    batch_norm: bool,
) -> Callable[..., Any]:
    """Returns the model_fn of a deep model, for the arguments of `DNNEstimator`."""
    layers = HiddenLayers.of(hidden_units, activation_fn, dropout, batch_norm)

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
        column_state.check_features(features)
        trainer = optimizers.tf1_optimizer(optimizer, _LEARNING_RATE)
        # The optimizer, too, is called within the scope: names of slot variables depend on it.
        with tf1.variable_scope(dnn.SCOPE, partitioner=partitioners.for_layers(config)):
            logits = build(
                features,
                mode,
                config,
                head.logits_dimension,
                layers,
                feature_columns,
                input_layer_partitioner,
            )
            return head.create_estimator_spec(
                features=features, mode=mode, labels=labels, optimizer=trainer, logits=logits
            )

    return model_fn


class DNNEstimator(Estimator):
    """A deep model with any head.

    Variables are named as in `tf.compat.v1.estimator`, such as `dnn/hiddenlayer_0/kernel`; in the
    graph they are partitioned (`part_0`).

    Args:
        head: a head of either generation.
        hidden_units: number of units of each hidden layer.
        feature_columns: dense columns: numeric, embedding, indicator and bucketized ones, and TPU
            embedding columns.
        model_dir: as for `Estimator`.
        optimizer: 'Adagrad', 'Adam', 'Ftrl', 'RMSProp' or 'SGD', with learning rate 0.05; a
            `tf.compat.v1.train.Optimizer`; or a function without arguments that returns one, called
            in the model's graph.
        activation_fn: activation function of the hidden layers.
        dropout: probability that an output of a hidden layer is set to zero in training, or None.
        input_layer_partitioner: partitioner of the columns' variables; None: tables of 64 MiB and
            more are partitioned over the parameter servers.
        config: as for `Estimator`.
        warm_start_from: as for `Estimator`.
        batch_norm: whether to normalize the outputs of hidden layers.

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
        model_fn = make_model_fn(
            head,
            hidden_units,
            feature_columns,
            optimizer,
            activation_fn,
            dropout,
            input_layer_partitioner,
            batch_norm,
        )
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class DNNClassifier(DNNEstimator):
    """A deep model of classes.

    Args:
        hidden_units: as for `DNNEstimator`.
        feature_columns: as for `DNNEstimator`.
        model_dir: as for `Estimator`.
        n_classes: number of classes. The labels are ids in [0, n_classes), or strings of
            `label_vocabulary`.
        weight_column: name of the feature with the weight of each example, or its numeric column;
            None: weights of 1.
        label_vocabulary: strings of the classes, in the order of their ids; None: labels are ids.
        optimizer: as for `DNNEstimator`.
        activation_fn: as for `DNNEstimator`.
        dropout: as for `DNNEstimator`.
        input_layer_partitioner: as for `DNNEstimator`.
        config: as for `Estimator`.
        warm_start_from: as for `Estimator`.
        loss_reduction: a `tf.compat.v1.losses.Reduction`; how the losses of a batch become one.
        batch_norm: as for `DNNEstimator`.

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
        super().__init__(
            first_generation.binary_logistic_or_multi_class_head(
                n_classes, weight_column, label_vocabulary, loss_reduction
            ),
            hidden_units,
            feature_columns,
            model_dir,
            optimizer,
            activation_fn,
            dropout,
            input_layer_partitioner,
            config,
            warm_start_from,
            batch_norm,
        )


class DNNRegressor(DNNEstimator):
    """A deep model of numbers.

    Args:
        hidden_units: as for `DNNEstimator`.
        feature_columns: as for `DNNEstimator`.
        model_dir: as for `Estimator`.
        label_dimension: number of values of a label, [batch, label_dimension].
        weight_column: as for `DNNClassifier`.
        optimizer: as for `DNNEstimator`.
        activation_fn: as for `DNNEstimator`.
        dropout: as for `DNNEstimator`.
        input_layer_partitioner: as for `DNNEstimator`.
        config: as for `Estimator`.
        warm_start_from: as for `Estimator`.
        loss_reduction: as for `DNNClassifier`.
        batch_norm: as for `DNNEstimator`.

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
        super().__init__(
            first_generation.regression_head(weight_column, label_dimension, loss_reduction),
            hidden_units,
            feature_columns,
            model_dir,
            optimizer,
            activation_fn,
            dropout,
            input_layer_partitioner,
            config,
            warm_start_from,
            batch_norm,
        )
