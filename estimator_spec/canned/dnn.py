# SPDX-License-Identifier: Apache-2.0
"""Defines deep models: embeddings and other dense columns, followed by fully connected layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from estimator_spec.canned import hidden_layers, input_layer
from estimator_spec.canned.construction import make_model_fn, with_head
from estimator_spec.canned.hidden_layers import HiddenLayers
from estimator_spec.core.common import argument_rules
from estimator_spec.core.driver.estimator import Estimator
from estimator_spec.core.run_config import RunConfig
from estimator_spec.core.user_functions.warm_start import WarmStartSettings
from estimator_spec.heads import Head, RegressionHead, binary_or_multi_class_head, losses
from estimator_spec.heads.canned_model import CannedModel, ModelPart

SCOPE = "dnn"

LogitFn = Callable[[dict[str, Any], str], Any]


def dnn_logit_fn_builder(
    units: int,
    hidden_units: Iterable[int],
    feature_columns: Any,
    activation_fn: Any,
    dropout: float | None,
    batch_norm: bool,
) -> LogitFn:
    """Returns a function that builds the logits of a deep model.

    Args:
        units: number of logits.
        hidden_units: number of units of each hidden layer.
        feature_columns: dense columns.
        activation_fn: activation function of the hidden layers.
        dropout: probability that an output of a hidden layer is set to zero in training, or None.
        batch_norm: whether to normalize the outputs of hidden layers.

    Returns:
        A function of (features, mode) that returns logits, [batch, units].

    Raises:
        ValueError: `units` is no int.
    """
    check_units(units)
    layers = HiddenLayers.of(hidden_units, activation_fn, dropout, batch_norm)

    def dnn_logit_fn(features: dict[str, Any], mode: str) -> Any:
        with tf.compat.v1.variable_scope(SCOPE, use_resource=True):
            with tf.compat.v1.variable_scope(input_layer.SCOPE):
                inputs = input_layer.build(features, feature_columns, shared_scope="")
            return hidden_layers.build(layers, inputs, units, mode)

    return dnn_logit_fn


def check_units(units: Any) -> None:
    """Checks that a number of logits is an int, or raises a ValueError."""
    if not isinstance(units, int):
        raise ValueError(f"units must be an int. Given type: {type(units)}")


class DNNEstimator(Estimator):
    """A deep model with any head.

    >>> import estimator_spec
    >>> words = tf.feature_column.categorical_column_with_identity('words', 1000)
    >>> estimator = estimator_spec.DNNEstimator(
    ...     head=estimator_spec.heads.MultiLabelHead(n_classes=3),
    ...     hidden_units=[64, 32],
    ...     feature_columns=[tf.feature_column.embedding_column(words, 16)])

    Args:
        head: a head of `estimator_spec.heads`; its loss, metrics and predictions are the model's.
        hidden_units: number of units of each hidden layer.
        feature_columns: dense columns: numeric, embedding, indicator and bucketized ones, and TPU
            embedding columns.
        model_dir: as for `Estimator`.
        optimizer: 'Adagrad', 'Adam', 'Ftrl', 'RMSProp' or 'SGD', with its default learning rate; a
            `tf.keras.optimizers.legacy.Optimizer`; or a function without arguments that returns
            one, called in the model's graph.
        activation_fn: activation function of the hidden layers.
        dropout: probability that an output of a hidden layer is set to zero in training, or None.
        config: as for `Estimator`.
        warm_start_from: as for `Estimator`.
        batch_norm: whether to normalize the outputs of hidden layers.

    Raises:
        ValueError: as for `Estimator`. Columns, features and optimizer are checked when the model
            is built.
    """

    def __init__(
        self,
        head: Head,
        hidden_units: Iterable[int],
        feature_columns: Any,
        model_dir: Any = None,
        optimizer: Any = "Adagrad",
        activation_fn: Any = tf.nn.relu,
        dropout: float | None = None,
        config: RunConfig | None = None,
        warm_start_from: str | WarmStartSettings | None = None,
        batch_norm: bool = False,
    ) -> None:
        argument_rules.check("CannedEstimator", locals())
        units = head.logits_dimension
        layers = HiddenLayers.of(hidden_units, activation_fn, dropout, batch_norm)
        logit_fn = dnn_logit_fn_builder(
            units, layers.units, feature_columns, activation_fn, dropout, batch_norm
        )
        part = ModelPart(SCOPE, optimizer, None, feature_columns, layers=layers)
        self.canned_model = CannedModel(head, (part,), generation=2)
        model_fn = make_model_fn(head, logit_fn, optimizer)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class DNNClassifier(DNNEstimator):
    """A deep model of classes.

    Arguments not listed here are as in `estimator_spec.DNNEstimator`.

    Args:
        n_classes: number of classes. The labels are ids in [0, n_classes), or strings of
            `label_vocabulary`.
        weight_column: name of the feature with the weight of each example, or its numeric column;
            None: weights of 1.
        label_vocabulary: strings of the classes, in the order of their ids; None: labels are ids.
        loss_reduction: a `tf.keras.losses.Reduction`; how the losses of a batch become one.

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
        config: RunConfig | None = None,
        warm_start_from: str | WarmStartSettings | None = None,
        loss_reduction: str = losses.SUM_OVER_BATCH_SIZE,
        batch_norm: bool = False,
    ) -> None:
        super().__init__(**with_head(binary_or_multi_class_head, locals()))


class DNNRegressor(DNNEstimator):
    """A deep model of numbers.

    `weight_column` and `loss_reduction` are as in `estimator_spec.DNNClassifier`, other arguments
    not listed here as in `estimator_spec.DNNEstimator`.

    Args:
        label_dimension: number of values of a label, [batch, label_dimension].

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
        config: RunConfig | None = None,
        warm_start_from: str | WarmStartSettings | None = None,
        loss_reduction: str = losses.SUM_OVER_BATCH_SIZE,
        batch_norm: bool = False,
    ) -> None:
        super().__init__(**with_head(RegressionHead, locals()))
