# SPDX-License-Identifier: Apache-2.0
"""Reimplements functions of `tensorflow.contrib` that TPU programs use and no library has."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.core._tensorflow import private

tf1 = tf.compat.v1


# tensorflow.contrib.data


def batch_and_drop_remainder(batch_size: int) -> Callable[[Any], Any]:
    """Returns a function for `Dataset.apply` that makes batches of exactly this size."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(
    batch_size: int, padded_shapes: Any, padding_values: Any = None
) -> Callable[[Any], Any]:
    """Returns a function for `Dataset.apply` that makes padded batches of exactly this size."""
    return lambda dataset: dataset.padded_batch(
        batch_size, padded_shapes, padding_values, drop_remainder=True
    )


def sloppy_interleave(
    map_func: Callable[..., Any], cycle_length: int, block_length: int = 1
) -> Callable[[Any], Any]:
    """Returns a function for `Dataset.apply` that interleaves datasets as they are ready."""
    return tf.data.experimental.parallel_interleave(
        map_func, cycle_length, block_length, sloppy=True
    )


# tensorflow.contrib.lookup


def index_table_from_tensor(mapping: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls `index_table_from_tensor` of TensorFlow, whose first argument has another name."""
    return private.lookup_ops.index_table_from_tensor(mapping, *args, **kwargs)


def index_to_string_table_from_tensor(mapping: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls `index_to_string_table_from_tensor`, as `index_table_from_tensor` above does."""
    return private.lookup_ops.index_to_string_table_from_tensor(mapping, *args, **kwargs)


# tensorflow.contrib.layers


def l1_regularizer(scale: float, scope: str | None = None) -> Callable[[Any], Any]:
    """Returns the regularizer `scale · Σ|w|` of weights w."""
    del scope
    return lambda weights: scale * tf.reduce_sum(tf.abs(weights))


def l2_regularizer(scale: float, scope: str | None = None) -> Callable[[Any], Any]:
    """Returns the regularizer `scale · Σw² / 2` of weights w."""
    del scope
    return lambda weights: scale * tf.nn.l2_loss(weights)


def variance_scaling_initializer(
    factor: float = 2.0,
    mode: str = "FAN_IN",
    uniform: bool = False,
    seed: int | None = None,
    dtype: Any = tf.float32,
) -> Callable[..., Any]:
    """Returns an initializer of variance `factor / n`.

    Args:
        factor: scale of the variance.
        mode: the definition of n: 'FAN_IN', 'FAN_OUT', or their mean, 'FAN_AVG'.
        uniform: uniform between ±√(3·factor/n); otherwise normal with standard deviation
            √(1.3·factor/n), truncated at two standard deviations.
        seed: random seed, or None.
        dtype: dtype of the values if the variable gives none.

    Raises:
        ValueError: `mode` is unknown.
    """
    if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
        raise ValueError(f"Unknown mode {mode!r}; one of FAN_IN, FAN_OUT and FAN_AVG.")

    def initializer(shape: Any, dtype: Any = dtype, partition_info: Any = None) -> Any:
        whole = partition_info.full_shape if partition_info is not None else shape
        sizes = [float(size) for size in whole] or [1.0]
        fan_in, fan_out = sizes[-2] if len(sizes) > 1 else sizes[-1], sizes[-1]
        receptive_field = float(np.prod(sizes[:-2]))
        fans = {"FAN_IN": fan_in, "FAN_OUT": fan_out, "FAN_AVG": (fan_in + fan_out) / 2}
        n = fans[mode] * receptive_field
        if uniform:
            limit = np.sqrt(3.0 * factor / n)
            return tf1.random_uniform(shape, -limit, limit, dtype, seed=seed)
        return tf1.truncated_normal(shape, 0.0, np.sqrt(1.3 * factor / n), dtype, seed=seed)

    return initializer


def xavier_initializer(
    uniform: bool = True, seed: int | None = None, dtype: Any = tf.float32
) -> Callable[..., Any]:
    """Returns an initializer of variance `2 / (fan_in + fan_out)` (Glorot and Bengio, 2010)."""
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)


def layer_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    activation_fn: Callable[[Any], Any] | None = None,
    reuse: bool | None = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    begin_norm_axis: int = 1,
    begin_params_axis: int = -1,
    scope: Any = None,
) -> Any:
    """Applies layer normalization (Ba, Kiros and Hinton, 2016).

    `gamma · (x - mean) / √(variance + 1e-12) + beta`, with 1e-3 for float16.

    Args:
        inputs: a tensor of rank 2 or more.
        center: adds the variable `beta`.
        scale: multiplies by the variable `gamma`.
        activation_fn: activation function, or None.
        reuse: whether the variables exist already.
        variables_collections: graph collections for the variables.
        outputs_collections: graph collections for the result.
        trainable: whether the variables are trainable.
        begin_norm_axis: first axis of those that mean and variance are taken over.
        begin_params_axis: first axis of the shape of gamma and beta.
        scope: variable scope; 'LayerNorm' if None.

    Returns:
        A tensor of the shape of `inputs`.

    Raises:
        ValueError: an axis is out of range, or the size of a parameter's axis is unknown.
    """
    with tf1.variable_scope(scope, "LayerNorm", [inputs], reuse=reuse):
        inputs = tf.convert_to_tensor(inputs)
        shape = inputs.shape
        first = _axis("begin_norm_axis", begin_norm_axis, shape)
        params_shape = shape[_axis("begin_params_axis", begin_params_axis, shape) :]
        if not params_shape.is_fully_defined():
            raise ValueError(
                f"Inputs {inputs.name}: shape[{begin_params_axis}:] is not fully defined: {shape}"
            )

        def parameter(name: str, initializer: Any) -> Any:
            return tf1.get_variable(
                name,
                params_shape,
                inputs.dtype,
                initializer,
                trainable=trainable,
                collections=_variable_collections(variables_collections, name),
            )

        beta = parameter("beta", tf1.zeros_initializer()) if center else None
        gamma = parameter("gamma", tf1.ones_initializer()) if scale else None
        mean, variance = tf.nn.moments(inputs, list(range(first, shape.rank)), keepdims=True)
        epsilon = 1e-3 if inputs.dtype == tf.float16 else 1e-12
        outputs = tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, epsilon)
        outputs.set_shape(shape)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        for collection in _names(outputs_collections):
            tf1.add_to_collection(collection, outputs)
        return outputs


def _axis(name: str, axis: int, shape: Any) -> int:
    if shape.rank is None:
        raise ValueError("layer_norm needs inputs of known rank.")
    if not -shape.rank <= axis < shape.rank:
        raise ValueError(f"{name} ({axis}) must be < rank(inputs) ({shape.rank})")
    return int(axis) % shape.rank


def _variable_collections(given: Any, name: str) -> list[str]:
    if isinstance(given, dict):
        given = given.get(name)
    keys = tf1.GraphKeys
    return [*dict.fromkeys([*_names(given), keys.GLOBAL_VARIABLES, keys.MODEL_VARIABLES])]


def _names(given: Any) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())


def deprecated(
    date: str | None, instructions: str, warn_once: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns a decorator that logs a warning when a function is called.

    Args:
        date: when the function goes, 'YYYY-MM-DD'; None: in some future version.
        instructions: what to use in its place.
        warn_once: whether only the first call logs.
    """
    when = f"after {date}" if date else "in a future version"

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        has_warned = False

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal has_warned
            if not (has_warned and warn_once):
                has_warned = True
                tf1.logging.warning(
                    "%s is deprecated and will be removed %s. %s",
                    *(function.__qualname__, when, instructions),
                )
            return function(*args, **kwargs)

        return call

    return decorate
