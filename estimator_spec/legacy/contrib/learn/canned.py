# SPDX-License-Identifier: Apache-2.0
"""Defines the canned estimators of `tf.contrib.learn`.

Arguments that several have are described where the first has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.canned.construction import with_head
from estimator_spec.legacy.contrib.learn import heads, models
from estimator_spec.legacy.contrib.learn.canned_parts import (
    Classifier,
    Regressor,
    deep_part,
    linear_part,
)
from estimator_spec.legacy.contrib.learn.estimator import Estimator


class DNNEstimator(Estimator):
    """A deep model with any head.

    Args:
        head: a head of `tf.contrib.learn`.
        hidden_units: number of units of each hidden layer.
        feature_columns: dense columns, of `tf.contrib.layers` or of `tf.feature_column`.
        model_dir: as for `Estimator`.
        optimizer: the name of an optimizer, with learning rate 0.05; a
            `tf.compat.v1.train.Optimizer`; or a function that returns one. None: 'Adagrad'.
        activation_fn: activation function of the hidden layers.
        dropout: probability that an output of a hidden layer is set to zero in training, or None.
        gradient_clip_norm: greatest norm of the gradients, or None.
        config: as for `Estimator`.
        feature_engineering_fn: as for `Estimator`.
        embedding_lr_multipliers: must be None.
        input_layer_min_slice_size: bytes from which on parameter servers share a table. None: 64
            MiB.

    Raises:
        ValueError: there are no columns or units, or an argument isn't restored.
    """

    def __init__(
        self,
        head: Any,
        hidden_units: Iterable[int],
        feature_columns: Any,
        model_dir: Any = None,
        optimizer: Any = None,
        activation_fn: Any = tf.nn.relu,
        dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        config: Any = None,
        feature_engineering_fn: Any = None,
        embedding_lr_multipliers: Any = None,
        input_layer_min_slice_size: int | None = None,
    ) -> None:
        part = deep_part(
            *(feature_columns, hidden_units, optimizer, activation_fn, dropout),
            *(embedding_lr_multipliers, input_layer_min_slice_size),
        )
        model_fn = models.dnn_model_fn(head, part, gradient_clip_norm)
        super().__init__(model_fn, model_dir, config, None, feature_engineering_fn)


class DNNClassifier(Classifier, DNNEstimator):
    """A deep classification model.

    Arguments not listed here are as in `DNNEstimator`.

    Args:
        n_classes: number of classes.
        weight_column_name: feature that has the weights of examples, or None.
        enable_centered_bias: must be False.
        label_keys: the classes, if labels are strings.

    Raises:
        ValueError: as for `DNNEstimator`, or an argument of the head is wrong.
    """

    def __init__(
        self,
        hidden_units: Iterable[int],
        feature_columns: Any,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column_name: str | None = None,
        optimizer: Any = None,
        activation_fn: Any = tf.nn.relu,
        dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        config: Any = None,
        feature_engineering_fn: Any = None,
        embedding_lr_multipliers: Any = None,
        input_layer_min_slice_size: int | None = None,
        label_keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(**with_head(heads.multi_class_head, locals()))


class DNNRegressor(Regressor, DNNEstimator):
    """A deep regression model.

    Arguments not listed here are as in `DNNClassifier`.

    Args:
        label_dimension: numbers of an example.

    Raises:
        ValueError: as for `DNNEstimator`, or an argument of the head is wrong.
    """

    def __init__(
        self,
        hidden_units: Iterable[int],
        feature_columns: Any,
        model_dir: Any = None,
        weight_column_name: str | None = None,
        optimizer: Any = None,
        activation_fn: Any = tf.nn.relu,
        dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        config: Any = None,
        feature_engineering_fn: Any = None,
        label_dimension: int = 1,
        embedding_lr_multipliers: Any = None,
        input_layer_min_slice_size: int | None = None,
    ) -> None:
        super().__init__(**with_head(heads.regression_head, locals()))


class LinearEstimator(Estimator):
    """A linear model with any head.

    Arguments not listed here are as in `DNNEstimator`.

    Args:
        feature_columns: columns, of `tf.contrib.layers` or of `tf.feature_column`.
        optimizer: as for `DNNEstimator`; None: 'Ftrl', with learning rate 0.2, or 1/√(number of
            columns) if that is less.

    Raises:
        ValueError: there are no columns, or an argument isn't restored.
    """

    def __init__(
        self,
        feature_columns: Any,
        head: Any,
        model_dir: Any = None,
        optimizer: Any = None,
        gradient_clip_norm: float | None = None,
        _joint_weights: bool = False,
        config: Any = None,
        feature_engineering_fn: Any = None,
    ) -> None:
        part = linear_part(feature_columns, optimizer, _joint_weights)
        model_fn = models.linear_model_fn(head, part, gradient_clip_norm)
        super().__init__(model_fn, model_dir, config, None, feature_engineering_fn)


class LinearClassifier(Classifier, LinearEstimator):
    """A linear classification model.

    Its arguments are those of `LinearEstimator` and `DNNClassifier`.
    """

    def __init__(
        self,
        feature_columns: Any,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column_name: str | None = None,
        optimizer: Any = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        _joint_weight: bool = False,
        config: Any = None,
        feature_engineering_fn: Any = None,
        label_keys: Sequence[str] | None = None,
    ) -> None:
        arguments = {**locals(), "_joint_weights": _joint_weight}  # as the base class names it
        del arguments["_joint_weight"]
        super().__init__(**with_head(heads.multi_class_head, arguments))


class LinearRegressor(Regressor, LinearEstimator):
    """A linear regression model.

    Its arguments are those of `LinearEstimator` and `DNNRegressor`.
    """

    def __init__(
        self,
        feature_columns: Any,
        model_dir: Any = None,
        weight_column_name: str | None = None,
        optimizer: Any = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        label_dimension: int = 1,
        _joint_weights: bool = False,
        config: Any = None,
        feature_engineering_fn: Any = None,
    ) -> None:
        super().__init__(**with_head(heads.regression_head, locals()))


class DNNLinearCombinedEstimator(Estimator):
    """A wide and deep model with any head.

    Arguments not listed here are as in `DNNEstimator`, those of a part as in `LinearEstimator`.

    Args:
        linear_feature_columns: columns of the linear part. None: there is none.
        dnn_feature_columns: columns of the deep part. None: there is none.
        fix_global_step_increment_bug: whether a step counts once. By default it counts once for
            each part, as in TensorFlow 1.15: `fit(steps=200)` trains a model with two parts for 100
            steps.

    Raises:
        ValueError: there are no columns, no hidden layers for those of the deep part, or an
            argument isn't restored.
    """

    def __init__(
        self,
        head: Any,
        model_dir: Any = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = None,
        _joint_linear_weights: bool = False,
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = None,
        dnn_hidden_units: Iterable[int] | None = None,
        dnn_activation_fn: Any = tf.nn.relu,
        dnn_dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        config: Any = None,
        feature_engineering_fn: Any = None,
        embedding_lr_multipliers: Any = None,
        fix_global_step_increment_bug: bool = False,
        input_layer_min_slice_size: int | None = None,
    ) -> None:
        linear = deep = None
        if linear_feature_columns:
            linear = linear_part(linear_feature_columns, linear_optimizer, _joint_linear_weights)
        if dnn_feature_columns:
            if not dnn_hidden_units:
                raise ValueError(
                    "dnn_hidden_units must be defined when dnn_feature_columns is specified."
                )
            deep = deep_part(
                *(dnn_feature_columns, dnn_hidden_units, dnn_optimizer, dnn_activation_fn),
                *(dnn_dropout, embedding_lr_multipliers, input_layer_min_slice_size),
            )
        if linear is None and deep is None:
            raise ValueError(
                "Either linear_feature_columns or dnn_feature_columns should be defined."
            )
        model_fn = models.combined_model_fn(
            head, linear, deep, gradient_clip_norm, fix_global_step_increment_bug
        )
        super().__init__(model_fn, model_dir, config, None, feature_engineering_fn)


class DNNLinearCombinedClassifier(Classifier, DNNLinearCombinedEstimator):
    """A wide and deep classification model.

    Its arguments are those of `DNNLinearCombinedEstimator` and `DNNClassifier`.
    """

    def __init__(
        self,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column_name: str | None = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = None,
        _joint_linear_weights: bool = False,
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = None,
        dnn_hidden_units: Iterable[int] | None = None,
        dnn_activation_fn: Any = tf.nn.relu,
        dnn_dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        config: Any = None,
        feature_engineering_fn: Any = None,
        embedding_lr_multipliers: Any = None,
        input_layer_min_slice_size: int | None = None,
        label_keys: Sequence[str] | None = None,
        fix_global_step_increment_bug: bool = False,
    ) -> None:
        super().__init__(**with_head(heads.multi_class_head, locals()))


class DNNLinearCombinedRegressor(Regressor, DNNLinearCombinedEstimator):
    """A wide and deep regression model.

    Its arguments are those of `DNNLinearCombinedEstimator` and `DNNRegressor`.
    """

    def __init__(
        self,
        model_dir: Any = None,
        weight_column_name: str | None = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = None,
        _joint_linear_weights: bool = False,
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = None,
        dnn_hidden_units: Iterable[int] | None = None,
        dnn_activation_fn: Any = tf.nn.relu,
        dnn_dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        label_dimension: int = 1,
        config: Any = None,
        feature_engineering_fn: Any = None,
        embedding_lr_multipliers: Any = None,
        input_layer_min_slice_size: int | None = None,
        fix_global_step_increment_bug: bool = False,
    ) -> None:
        super().__init__(**with_head(heads.regression_head, locals()))
