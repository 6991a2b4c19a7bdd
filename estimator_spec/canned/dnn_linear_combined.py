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
from estimator_spec.canned.construction import ModelFn, with_head
from estimator_spec.canned.hidden_layers import HiddenLayers
from estimator_spec.core._tensorflow import private
from estimator_spec.core.common import argument_rules
from estimator_spec.core.driver.estimator import Estimator
from estimator_spec.core.run_config import RunConfig
from estimator_spec.core.user_functions.warm_start import WarmStartSettings
from estimator_spec.heads import (
    Head,
    RegressionHead,
    binary_or_multi_class_head,
    losses,
    train_ops,
)
from estimator_spec.heads.canned_model import CannedModel, ModelPart
from estimator_spec.heads.feature_columns import list_of_columns

LINEAR_LEARNING_RATE = 0.005


def checked_parts(
    linear_feature_columns: Any, dnn_feature_columns: Any, dnn_hidden_units: Any
) -> tuple[list[Any], list[Any], tuple[int, ...]]:
    """Returns the columns of both parts, and the hidden layers of the deep one.

    Raises:
        ValueError: there are no columns, or no layers for those of the deep part; or something
            else is given for columns or layers.
        TypeError: the layers are no list.
    """
    kinds = (private.DenseColumn, private.CategoricalColumn, private.FeatureColumnV1)
    linear_columns, dnn_columns = (
        [] if columns is None else list_of_columns(columns, kinds, argument)
        for argument, columns in (
            ("linear_feature_columns", linear_feature_columns),
            ("dnn_feature_columns", dnn_feature_columns),
        )
    )
    if not linear_columns and not dnn_columns:
        raise ValueError(
            "Either linear_feature_columns or dnn_feature_columns must be defined. Pass the "
            "columns of at least one part."
        )
    if not dnn_columns:
        if dnn_hidden_units is not None:
            tf.compat.v1.logging.warning(
                "dnn_hidden_units=%r has no effect without dnn_feature_columns: the model has no "
                "deep part.",
                dnn_hidden_units,
            )
        return linear_columns, dnn_columns, ()
    hidden_units = hidden_layers.whole_units(() if dnn_hidden_units is None else dnn_hidden_units)
    if not hidden_units:
        raise ValueError(
            "dnn_hidden_units must be defined when dnn_feature_columns is specified, for instance "
            "dnn_hidden_units=[100, 50]."
        )
    return linear_columns, dnn_columns, hidden_units


# A part of a combined model, which has an optimizer of its own for its own variables, after the
# function of features and mode, and of the config in the first generation, that makes its logits.
Part = tuple[Callable[..., Any], ModelPart]


def _make_model_fn(head: Head, parts: list[Part]) -> ModelFn:
    """Returns the model_fn of a combined model, whose loss is that of the parts' sum."""

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
        column_state.check_features(features)
        logits: list[Any] = []
        trainers: list[Any] = []
        variables: list[Any] = []
        for logit_fn, part in parts:
            optimizer = optimizers.keras_training_optimizer(
                part.optimizer, mode, part.learning_rate, counts_steps=not trainers
            )
            with graph_variables.collecting(variables) as added:
                logits.append(logit_fn(features, mode))
            trainers.append((optimizer, added))
            variables += added.variables

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
            train_op_fn=train_op_fn,
            logits=tf.add_n(logits, name="add"),
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
        argument_rules.check("CannedEstimator", locals())
        linear_columns, dnn_columns, hidden_units = checked_parts(
            linear_feature_columns, dnn_feature_columns, dnn_hidden_units
        )
        units = head.logits_dimension
        layers = HiddenLayers.of(hidden_units, dnn_activation_fn, dnn_dropout, batch_norm)
        deep = dnn.dnn_logit_fn_builder(
            units, layers.units, dnn_columns, dnn_activation_fn, dnn_dropout, batch_norm
        )
        wide_fn = linear.linear_logit_fn_builder(units, linear_columns, linear_sparse_combiner)

        def wide(features: Any, mode: str) -> Any:
            logits = wide_fn(features)
            hidden_layers.summarize(linear.SCOPE, logits)
            return logits

        rate, combiner = LINEAR_LEARNING_RATE, linear_sparse_combiner
        of_wide = ModelPart(linear.SCOPE, linear_optimizer, rate, linear_columns, combiner)
        of_deep = ModelPart(dnn.SCOPE, dnn_optimizer, None, dnn_columns, layers=layers)
        both: list[Part] = [(deep, of_deep), (wide, of_wide)]
        parts = [(build, part) for build, part in both if part.columns]
        self.canned_model = CannedModel(head, tuple(part for _, part in parts), generation=2)
        model_fn = _make_model_fn(head, parts)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class DNNLinearCombinedClassifier(DNNLinearCombinedEstimator):
    """A wide and deep model of classes.

    `n_classes`, `weight_column`, `label_vocabulary` and `loss_reduction` are as in
    `estimator_spec.DNNClassifier`, the other arguments as in
    `estimator_spec.DNNLinearCombinedEstimator`.

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
        super().__init__(**with_head(binary_or_multi_class_head, locals()))


class DNNLinearCombinedRegressor(DNNLinearCombinedEstimator):
    """A wide and deep model of numbers.

    `label_dimension`, `weight_column` and `loss_reduction` are as in `estimator_spec.DNNRegressor`,
    the other arguments as in `estimator_spec.DNNLinearCombinedEstimator`.

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
        super().__init__(**with_head(RegressionHead, locals()))
