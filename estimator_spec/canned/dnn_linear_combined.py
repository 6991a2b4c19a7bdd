# SPDX-License-Identifier: Apache-2.0
"""Defines wide and deep models: the logits of a linear and a deep model, added."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from estimator_spec.canned import (
    column_state,
    dnn,
    graph_variables,
    hidden_layers,
    linear,
    optimizers,
)
from estimator_spec.config.run_config import RunConfig
from estimator_spec.driver.estimator import Estimator
from estimator_spec.heads import (
    Head,
    RegressionHead,
    binary_or_multi_class_head,
    losses,
    train_ops,
)
from estimator_spec.model.model_spec import ModeKeys
from estimator_spec.model.warm_start import WarmStartSettings

_LINEAR_LEARNING_RATE = 0.005


def check_parts(linear_feature_columns: Any, dnn_feature_columns: Any, hidden_units: Any) -> None:
    """Checks that there are columns, and hidden layers for those of the deep part.

    Raises:
        ValueError: something is missing.
    """
    if not linear_feature_columns and not dnn_feature_columns:
        raise ValueError(
            "Either linear_feature_columns or dnn_feature_columns must be defined. Pass the "
            "columns of at least one part."
        )
    if dnn_feature_columns and not hidden_units:
        raise ValueError(
            "dnn_hidden_units must be defined when dnn_feature_columns is specified, for instance "
            "dnn_hidden_units=[100, 50]."
        )


def make_model_fn(
    head: Head,
    linear_feature_columns: Any,
    linear_optimizer: Any,
    dnn_feature_columns: Any,
    dnn_optimizer: Any,
    dnn_hidden_units: Iterable[int] | None,
    dnn_activation_fn: Any,
    dnn_dropout: float | None,
    batch_norm: bool,
    linear_sparse_combiner: str,
) -> Callable[..., Any]:
    """Returns the model_fn of a combined model, for the arguments of `DNNLinearCombinedEstimator`.

    Each part has an optimizer of its own for its own variables; the loss is that of the sum.
    """
    linear_columns = list(linear_feature_columns or [])
    dnn_columns = list(dnn_feature_columns or [])
    check_parts(linear_columns, dnn_columns, dnn_hidden_units)
    units = head.logits_dimension
    deep_fn = dnn.dnn_logit_fn_builder(
        units, dnn_hidden_units or (), dnn_columns, dnn_activation_fn, dnn_dropout, batch_norm
    )
    wide_fn = linear.linear_logit_fn_builder(units, linear_columns, linear_sparse_combiner)

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
        del config
        column_state.check_features(features)
        logits, trainers = [], []
        if dnn_columns:
            optimizer = optimizers.keras_training_optimizer(dnn_optimizer, mode)
            with graph_variables.collecting() as deep:
                logits.append(deep_fn(features, mode))
            trainers.append((optimizer, deep))
        if linear_columns:
            optimizer = optimizers.keras_training_optimizer(
                linear_optimizer, mode, _LINEAR_LEARNING_RATE, counts_steps=not dnn_columns
            )
            others = [variable for _, part in trainers for variable in part.variables]
            with graph_variables.collecting(others) as wide:
                logits.append(wide_fn(features))
            hidden_layers.summarize(linear.SCOPE, logits[-1])
            trainers.append((optimizer, wide))

        def train_op_fn(loss: Any) -> Any:
            ops: list[Any] = []
            loss = train_ops.divide_by_replicas(loss, head.loss_reduction)
            for optimizer, added in trainers:
                ops += optimizer.get_updates(loss, added.variables)
                ops += added.update_ops
            return tf.group(*ops)

        return head.create_estimator_spec(
            features=features,
            mode=mode,
            labels=labels,
            train_op_fn=train_op_fn if mode == ModeKeys.TRAIN else None,
            logits=tf.add_n(logits),
        )

    return model_fn


class DNNLinearCombinedEstimator(Estimator):
    """A wide and deep model with any head.

    >>> import estimator_spec
    >>> words = tf.feature_column.categorical_column_with_hash_bucket('words', 10_000)
    >>> estimator = estimator_spec.DNNLinearCombinedEstimator(
    ...     head=estimator_spec.heads.BinaryClassHead(),
    ...     linear_feature_columns=[words],
    ...     dnn_feature_columns=[tf.feature_column.embedding_column(words, 16)],
    ...     dnn_hidden_units=[64, 32])

    Args:
        head: a head of `estimator_spec.heads`; its loss, metrics and predictions are the model's.
        model_dir: as for `Estimator`.
        linear_feature_columns: columns of the linear part, or None.
        linear_optimizer: optimizer of the linear part, as for `DNNEstimator`. By name, the learning
            rate is 0.005.
        dnn_feature_columns: columns of the deep part, or None.
        dnn_optimizer: optimizer of the deep part, as for `DNNEstimator`.
        dnn_hidden_units: number of units of each hidden layer.
        dnn_activation_fn: as for `DNNEstimator`.
        dnn_dropout: as for `DNNEstimator`.
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
        head: Head,
        model_dir: Any = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Iterable[int] | None = None,
        dnn_activation_fn: Any = tf.nn.relu,
        dnn_dropout: float | None = None,
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
        config: RunConfig | None = None,
        warm_start_from: str | WarmStartSettings | None = None,
        loss_reduction: str = losses.SUM_OVER_BATCH_SIZE,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        super().__init__(
            binary_or_multi_class_head(n_classes, weight_column, label_vocabulary, loss_reduction),
            model_dir,
            linear_feature_columns,
            linear_optimizer,
            dnn_feature_columns,
            dnn_optimizer,
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
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
        config: RunConfig | None = None,
        warm_start_from: str | WarmStartSettings | None = None,
        loss_reduction: str = losses.SUM_OVER_BATCH_SIZE,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        super().__init__(
            RegressionHead(label_dimension, weight_column, loss_reduction),
            model_dir,
            linear_feature_columns,
            linear_optimizer,
            dnn_feature_columns,
            dnn_optimizer,
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            config,
            batch_norm,
            linear_sparse_combiner,
            warm_start_from=warm_start_from,
        )
