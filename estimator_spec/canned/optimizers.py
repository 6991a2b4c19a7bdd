# SPDX-License-Identifier: Apache-2.0
"""Makes optimizers from the arguments of canned estimators: a name, an object or a function."""

from __future__ import annotations

import copy
import threading
import weakref
from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import keras_models
from estimator_spec.core.common import legacy_keras
from estimator_spec.core.user_functions.model_spec import ModeKeys
from estimator_spec.heads.canned_model import OPTIMIZERS

tf1 = tf.compat.v1

# Copies of optimizer objects from before they trained: an object has the variables of one graph, so
# the graphs after the first train by copies.
_unused_copies: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()  # two threads may build models with one object


def tf1_optimizer(optimizer: Any, learning_rate: float | None = None) -> Any:
    """Returns a `tf.compat.v1.train.Optimizer`.

    Args:
        optimizer: 'Adagrad', 'Adam', 'Ftrl', 'RMSProp' or 'SGD'; an optimizer; or a function
            without arguments (or class) that returns one, called in the model's graph, where
            `tf.compat.v1.train.get_global_step()` is the step.
        learning_rate: learning rate of an optimizer given by name; others need none.

    Raises:
        ValueError: the name is unknown, it comes without a rate, or the object is no such
            optimizer.
    """
    if isinstance(optimizer, str):
        name, _ = _class_names(optimizer)
        if not learning_rate:
            raise ValueError(
                "learning_rate must be specified when opt is string. Got the optimizer "
                f"{optimizer!r} with learning_rate={learning_rate!r}."
            )
        return getattr(tf1.train, name)(learning_rate=learning_rate)
    if not isinstance(optimizer, tf1.train.Optimizer) and callable(optimizer):
        optimizer = optimizer()
    if not isinstance(optimizer, tf1.train.Optimizer):
        raise ValueError(
            "The given object is not an Optimizer instance (tf.compat.v1.train.Optimizer). Given: "
            f"{optimizer}. Estimators of tf.estimator take Keras optimizers; those of "
            "tf.compat.v1.estimator take these."
        )
    return optimizer


def keras_optimizer(optimizer: Any, learning_rate: float | None = None) -> Any:
    """Returns a `tf.keras.optimizers.legacy.Optimizer` without variables.

    Args:
        optimizer: 'Adagrad', 'Adam', 'Ftrl', 'RMSProp' or 'SGD'; an optimizer, which is returned
            itself for the first graph, and as a copy for others, since its variables belong to one
            graph; or a function without arguments (or class) that returns one, called in the
            model's graph.
        learning_rate: learning rate of an optimizer given by name; None: its class' default.

    Raises:
        ValueError: the name is unknown, or the object no such optimizer.
    """
    classes = legacy_keras.keras_2().optimizers.legacy
    if isinstance(optimizer, str):
        _, name = _class_names(optimizer)
        options = {} if learning_rate is None else {"learning_rate": learning_rate}
        return getattr(classes, name)(**options)
    if isinstance(optimizer, classes.Optimizer):
        with _LOCK:
            if optimizer in _unused_copies:
                return copy.deepcopy(_unused_copies[optimizer])
            if optimizer.weights:  # built by other code; functions and schedules are lost
                return type(optimizer).from_config(optimizer.get_config())
            _unused_copies[optimizer] = copy.deepcopy(optimizer)
            return optimizer
    made = optimizer() if callable(optimizer) else optimizer
    if isinstance(made, legacy_keras.keras_2().optimizers.Optimizer):
        if not isinstance(made, classes.Optimizer):
            made = _as_legacy(made)
    elif not isinstance(made, classes.Optimizer):
        raise ValueError(
            "The given object is not a tf.keras.optimizers.Optimizer instance (of "
            f"tf.keras.optimizers.legacy). Given: {made}. Estimators of tf.estimator take these; "
            "those of tf.compat.v1.estimator take tf.compat.v1.train.Optimizer."
        )
    return made


def _as_legacy(optimizer: Any) -> Any:
    """Returns a newer Keras 2 optimizer as one of `legacy`, outside of graphs, as TensorFlow does.

    Raises:
        ValueError: a graph is being built, or the class in `legacy` lacks what the optimizer uses.
    """
    if tf.executing_eagerly():  # a graph can't read the configuration
        config = optimizer.get_config()
        if not (config.get("weight_decay") or config.get("use_ema")):
            return keras_models.legacy_optimizer(legacy_keras.keras_2(), optimizer)
    raise ValueError(
        "Please set your optimizer as an instance of `tf.keras.optimizers.legacy.Optimizer`, e.g., "
        f"`tf.keras.optimizers.legacy.{type(optimizer).__name__}`: newer ones build no TF1 graphs. "
        f"Received optimizer type: {type(optimizer)}."
    )


def keras_training_optimizer(
    optimizer: Any, mode: str, learning_rate: float | None = None, counts_steps: bool = True
) -> Any:
    """Returns the optimizer of a training graph; None in other modes, which need none.

    Args:
        optimizer: as for `keras_optimizer`.
        mode: one of `ModeKeys`.
        learning_rate: as for `keras_optimizer`.
        counts_steps: whether its updates increment the global step. One optimizer of a model does.
    """
    if mode != ModeKeys.TRAIN:
        return None
    made = keras_optimizer(optimizer, learning_rate)
    if counts_steps:
        made.iterations = tf1.train.get_or_create_global_step()
    return made


def _class_names(name: str) -> tuple[str, str]:
    if name not in OPTIMIZERS:
        raise ValueError(
            f"Unsupported optimizer name: {name}. Supported names are: {tuple(sorted(OPTIMIZERS))}"
        )
    return OPTIMIZERS[name]
