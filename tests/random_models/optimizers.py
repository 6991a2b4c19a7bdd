# SPDX-License-Identifier: Apache-2.0
"""Optimizers, clipping and accumulation of gradients of the random models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1
_train = tf1.train


def _keras(name: str, **arguments: Any) -> Callable[[Any], Any]:
    """Returns a function that creates an `OptimizerV2` of a learning rate."""
    return lambda rate: getattr(tf.keras.optimizers.legacy, name)(rate, **arguments)


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "GradientDescent": _train.GradientDescentOptimizer,
    "Momentum": lambda rate: _train.MomentumOptimizer(rate, 0.9),
    "Nesterov": lambda rate: _train.MomentumOptimizer(rate, 0.9, use_nesterov=True),
    "Adagrad": _train.AdagradOptimizer,
    "AdagradDA": lambda rate: _train.AdagradDAOptimizer(
        rate, _train.get_global_step(), l1_regularization_strength=0.001
    ),
    "Adadelta": lambda rate: _train.AdadeltaOptimizer(rate, epsilon=1e-4),
    "Adam": lambda rate: _train.AdamOptimizer(rate, epsilon=1e-4),
    "Ftrl": lambda rate: _train.FtrlOptimizer(
        rate, l1_regularization_strength=0.001, l2_regularization_strength=0.01
    ),
    "Ftrl with shrinkage": lambda rate: _train.FtrlOptimizer(
        rate, learning_rate_power=-0.6, l2_shrinkage_regularization_strength=0.01
    ),
    "ProximalAdagrad": lambda rate: _train.ProximalAdagradOptimizer(
        rate, l1_regularization_strength=0.001, l2_regularization_strength=0.01
    ),
    "ProximalGradientDescent": lambda rate: _train.ProximalGradientDescentOptimizer(
        rate, l1_regularization_strength=0.001
    ),
    "RMSProp": lambda rate: _train.RMSPropOptimizer(rate, momentum=0.5, epsilon=1e-3),
    "centered RMSProp": lambda rate: _train.RMSPropOptimizer(rate, epsilon=1e-2, centered=True),
    "Keras SGD": _keras("SGD"),
    "Keras Nesterov": _keras("SGD", momentum=0.9, nesterov=True),
    "Keras Adagrad": _keras("Adagrad"),
    "Keras Adam": _keras("Adam", epsilon=1e-4),
    "Keras Ftrl": _keras("Ftrl", l1_regularization_strength=0.001),
    "Keras RMSprop": _keras("RMSprop", momentum=0.5, epsilon=1e-3),
}
"""Creates an optimizer of a learning rate, by name."""


# TensorFlow's have no kernel for bfloat16, or take learning rates of float32 only.
_NO_BFLOAT16 = ("AdagradDA", "RMSProp", "centered RMSProp", "Keras RMSprop")
_FLOAT32_ONLY = ("ProximalAdagrad", "ProximalGradientDescent")


def names(dtype: str, use_resource: bool) -> list[str]:
    """Returns the optimizers that train variables of a dtype and kind."""
    found = [name for name in OPTIMIZERS if use_resource or "Keras" not in name]
    if dtype != "float32":
        found = [name for name in found if name not in _FLOAT32_ONLY]
    return [name for name in found if dtype != "bfloat16" or name not in _NO_BFLOAT16]


def _by_norm(gradients: list[Any]) -> list[Any]:
    return [_map_values(lambda values: tf.clip_by_norm(values, 0.1), g) for g in gradients]


def _by_value(gradients: list[Any]) -> list[Any]:
    return [_map_values(lambda values: tf.clip_by_value(values, -0.01, 0.01), g) for g in gradients]


CLIPPINGS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "none": lambda gradients: gradients,
    "by norm": _by_norm,
    "by value": _by_value,
    "by global norm": lambda gradients: tf.clip_by_global_norm(gradients, 0.1)[0],
}


def clip(kind: str, gradients: list[Any]) -> list[Any]:
    """Returns clipped gradients.

    Args:
        kind: key of `CLIPPINGS`.
        gradients: tensors or `IndexedSlices`.
    """
    return CLIPPINGS[kind](gradients)


def apply(groups: list[tuple[str, list[Any]]], gradients: dict[str, Any], rate: Any) -> Any:
    """Returns an op that applies gradients.

    Args:
        groups: optimizer and variables of each group.
        gradients: by name of the variable.
        rate: learning rate.
    """
    ops = []
    for name, variables in groups:
        pairs = [(gradients[v.op.name], v) for v in variables]
        ops.append(OPTIMIZERS[name](rate).apply_gradients(pairs))
    return tf.group(*ops)


def apply_every_second_step(
    groups: list[tuple[str, list[Any]]], gradients: dict[str, Any], rate: Any, global_step: Any
) -> Any:
    """Returns an op that adds gradients up and applies the sums in every second step.

    Args:
        groups: as for `apply`.
        gradients: as for `apply`.
        rate: learning rate.
        global_step: number of steps so far.
    """
    sums, additions = {}, []
    for _, variables in groups:
        for v in variables:
            name, gradient = v.op.name, gradients[v.op.name]
            sums[name] = tf1.get_variable(
                f"sum_of_{name.replace('/', '_')}",
                v.shape,
                v.dtype.base_dtype,
                tf1.zeros_initializer(),
                trainable=False,
            )
            if isinstance(gradient, tf.IndexedSlices):
                additions.append(tf1.scatter_add(sums[name], gradient.indices, gradient.values))
            else:
                additions.append(tf1.assign_add(sums[name], gradient))

    optimizers = [(OPTIMIZERS[name](rate), variables) for name, variables in groups]

    def apply_sums() -> Any:
        totals = {name: tf.identity(held) for name, held in sums.items()}
        ops = [
            optimizer.apply_gradients([(totals[v.op.name], v) for v in variables])
            for optimizer, variables in optimizers
        ]
        with tf.control_dependencies(ops):
            resets = [tf1.assign(held, tf.zeros_like(held)) for held in sums.values()]
        with tf.control_dependencies(resets):
            return tf.constant(True)

    with tf.control_dependencies(additions):
        return tf1.cond(tf.equal(global_step % 2, 1), apply_sums, lambda: tf.constant(False))


def _map_values(function: Callable[[Any], Any], gradient: Any) -> Any:
    """Applies a function to a gradient, or to the values of `IndexedSlices`."""
    if isinstance(gradient, tf.IndexedSlices):
        values = function(gradient.values)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return function(gradient)
