# SPDX-License-Identifier: Apache-2.0
"""Builds the canned models of `tf.contrib.learn`: deep, linear, and both combined.

Scopes are those of TensorFlow 1.15, as names of variables, and of optimizers' slots, follow from
them: `dnn/hiddenlayer_0/weights`, `linear/<column>/weights`, `dnn/<head>/dnn/learning_rate`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.canned import graph_variables, hidden_layers, input_layer, linear_model
from estimator_spec.canned.hidden_layers import HiddenLayers
from estimator_spec.canned.optimizers import tf1_optimizer
from estimator_spec.canned.v1 import partitioners
from estimator_spec.heads.canned_model import OPTIMIZERS
from estimator_spec.legacy.contrib.learn import column_layers
from estimator_spec.legacy.contrib.learn.model_fn_ops import ModelFnOps

tf1 = tf.compat.v1

DNN, LINEAR = "dnn", "linear"
_DNN_LEARNING_RATE = 0.05
_LINEAR_LEARNING_RATE = 0.2
_INPUT = "input_from_feature_columns"
_NEW_NAMES = {"kernel": "weights", "bias": "biases"}
_OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    **{name: getattr(tf1.train, of_tf1) for name, (of_tf1, _) in OPTIMIZERS.items()},
    "Momentum": lambda rate: tf1.train.MomentumOptimizer(rate, momentum=0.9),
}

ModelFn = Callable[..., ModelFnOps]


class DeepPart(NamedTuple):
    """The deep part of a model.

    Attributes:
        columns: dense columns, of `tf.contrib.layers` or of `tf.feature_column`.
        layers: the hidden layers.
        optimizer: an optimizer's name, an optimizer, a function or class that makes one; None is
            Adagrad with the learning rate 0.05.
        min_slice_size: bytes from which on tables are partitioned, or None.
    """

    columns: list[Any]
    layers: HiddenLayers
    optimizer: Any
    min_slice_size: int | None


class LinearPart(NamedTuple):
    """The linear part of a model.

    Attributes:
        columns: columns, of `tf.contrib.layers` or of `tf.feature_column`.
        optimizer: as for `DeepPart`; None is Ftrl with the learning rate 0.2, or 1/√(number of
            columns) if that is less.
    """

    columns: list[Any]
    optimizer: Any


def dnn_model_fn(head: Any, part: DeepPart, clip_norm: float | None) -> ModelFn:
    """Returns the model_fn of a deep model.

    Args:
        head: a head of `heads`.
        part: its columns, layers and optimizer.
        clip_norm: greatest norm of the gradients, or None.
    """

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> ModelFnOps:
        features = _by_name(features)
        with tf1.variable_scope(DNN, partitioner=partitioners.for_layers(config)):
            with graph_variables.collecting() as added:
                logits = _deep_logits(head, part, features, mode, config)

            def train_op_fn(loss: Any) -> Any:
                optimizer, rate = part.optimizer or "Adagrad", _DNN_LEARNING_RATE
                return _minimize(loss, optimizer, rate, added.variables, DNN, clip_norm)

            return head.create_model_fn_ops(features, mode, labels, train_op_fn, logits)

    return model_fn


def linear_model_fn(head: Any, part: LinearPart, clip_norm: float | None) -> ModelFn:
    """Returns the model_fn of a linear model; the arguments are as for `dnn_model_fn`."""

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> ModelFnOps:
        features = _by_name(features)
        with tf1.variable_scope(LINEAR, partitioner=partitioners.for_columns(config)):
            with graph_variables.collecting() as added:
                logits = _linear_logits(head, part, features)

            def train_op_fn(loss: Any) -> Any:
                rate = linear_learning_rate(part.columns)
                made = _optimizer(part.optimizer or tf1.train.FtrlOptimizer(rate), rate)
                gradients = tf.gradients(loss, added.variables)
                if clip_norm:
                    gradients, _ = tf.clip_by_global_norm(gradients, clip_norm)
                pairs = list(zip(gradients, added.variables, strict=True))
                return made.apply_gradients(pairs, tf1.train.get_global_step())

            return head.create_model_fn_ops(features, mode, labels, train_op_fn, logits)

    return model_fn


def combined_model_fn(
    head: Any,
    linear: LinearPart | None,
    deep: DeepPart | None,
    clip_norm: float | None,
    counts_steps_once: bool,
) -> ModelFn:
    """Returns the model_fn of a model whose logits are the sum of both parts'.

    Args:
        head: as for `dnn_model_fn`.
        linear: the linear part, or None.
        deep: the deep part, or None.
        clip_norm: greatest norm of each part's gradients, or None.
        counts_steps_once: whether a step counts once. As in TensorFlow 1.15, each of the two
            optimizers counts it otherwise.
    """

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> ModelFnOps:
        features = _by_name(features)
        logits, trainers = [], []
        if deep is not None:
            with (
                graph_variables.collecting() as added,
                tf1.variable_scope(DNN, partitioner=partitioners.for_layers(config)),
            ):
                logits.append(_deep_logits(head, deep, features, mode, config))
            optimizer = deep.optimizer or "Adagrad"
            trainers.append((optimizer, _DNN_LEARNING_RATE, added.variables, DNN))
        if linear is not None:
            with (
                graph_variables.collecting() as added,
                tf1.variable_scope(LINEAR, partitioner=partitioners.for_columns(config)) as scope,
            ):
                logits.append(_linear_logits(head, linear, features))
                hidden_layers.summarize(scope.name, logits[-1])
            optimizer = linear.optimizer or "Ftrl"
            rate = linear_learning_rate(linear.columns)
            trainers.append((optimizer, rate, added.variables, LINEAR))

        def train_op_fn(loss: Any) -> Any:
            ops = [
                _minimize(loss, *trainer, clip_norm, not counts_steps_once) for trainer in trainers
            ]
            if not counts_steps_once:
                return tf.group(*ops)
            with tf.control_dependencies(ops):
                return tf1.assign_add(tf1.train.get_global_step(), 1).op

        return head.create_model_fn_ops(
            features, mode, labels, train_op_fn, sum(logits[1:], logits[0])
        )

    return model_fn


def linear_learning_rate(feature_columns: list[Any]) -> float:
    """Returns the learning rate of a linear part without an optimizer of its own."""
    return min(_LINEAR_LEARNING_RATE, 1 / math.sqrt(len(feature_columns)))


def _by_name(features: Any) -> dict[str, Any]:
    """Returns features by name; a single tensor has the name ''."""
    return features if isinstance(features, dict) else {"": features}


def _deep_logits(head: Any, part: DeepPart, features: Any, mode: str, config: Any) -> Any:
    """Builds the deep part in its scope; returns its logits, [batch, units]."""
    given = None
    if part.min_slice_size:
        given = tf1.min_max_variable_partitioner(config.num_ps_replicas, 0, part.min_slice_size)
    partitioner = partitioners.for_columns(config, given)
    with tf1.variable_scope(_INPUT, partitioner=partitioner) as scope:
        if column_layers.is_contrib(part.columns):
            inputs = column_layers.input_from_feature_columns(features, part.columns, scope=scope)
        else:
            inputs = input_layer.build(features, part.columns)
    scope = tf1.get_variable_scope()
    with tf1.variable_scope(scope, custom_getter=_renaming, auxiliary_name_scope=False):
        return hidden_layers.build(part.layers, inputs, head.logits_dimension, mode, f"{DNN}/")


def _renaming(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
    """Gets a layer's variable under its name in `tf.contrib.layers`."""
    scope, _, last = name.rpartition("/")
    return getter(f"{scope}/{_NEW_NAMES.get(last, last)}", *args, **kwargs)


def _linear_logits(head: Any, part: LinearPart, features: Any) -> Any:
    """Builds the linear part in its scope; returns its logits, [batch, units]."""
    units, scope = head.logits_dimension, tf1.get_variable_scope()
    if column_layers.is_contrib(part.columns):
        logits, _, _ = column_layers.weighted_sum_from_feature_columns(
            features, part.columns, units, scope=scope
        )
        return logits
    return linear_model.build(features, part.columns, units, "sum").logits


def _minimize(
    loss: Any,
    optimizer: Any,
    rate: float,
    variables: list[Any],
    name: str,
    clip_norm: float | None,
    counts_steps: bool = True,
) -> Any:
    """Returns the op of a training step, as `tf.contrib.layers.optimize_loss` makes it.

    Args:
        loss: a scalar.
        optimizer: as for `DeepPart`.
        rate: learning rate of an optimizer by name, the initial value of a variable.
        variables: the variables to train.
        name: variable scope of that variable.
        clip_norm: greatest norm of the gradients, or None.
        counts_steps: whether the op increments the global step.
    """
    with tf1.variable_scope(name):
        constant = tf1.constant_initializer(rate)
        rate = tf1.get_variable("learning_rate", [], tf.float32, constant, trainable=False)
        made = _optimizer(optimizer, rate)
        with tf.control_dependencies(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)):
            loss = tf.identity(loss)
        pairs = made.compute_gradients(loss, variables)
        if clip_norm:
            gradients, trained = zip(*pairs, strict=True)
            clipped, _ = tf.clip_by_global_norm(gradients, clip_norm)
            pairs = list(zip(clipped, trained, strict=True))
        step = tf1.train.get_global_step() if counts_steps else None
        return made.apply_gradients(pairs, step, name="train")


def _optimizer(optimizer: Any, rate: Any) -> Any:
    """Returns an optimizer from its name, class or function, or itself.

    Raises:
        ValueError: it is none, or the name is unknown.
    """
    if isinstance(optimizer, str):
        if optimizer not in _OPTIMIZERS:
            raise ValueError(
                f"Optimizer name should be one of [{', '.join(sorted(_OPTIMIZERS))}], you provided "
                f"{optimizer}."
            )
        return _OPTIMIZERS[optimizer](rate)
    return tf1_optimizer(optimizer)
