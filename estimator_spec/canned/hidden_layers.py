# SPDX-License-Identifier: Apache-2.0
"""Builds the fully connected layers of deep models."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core.common import legacy_keras
from estimator_spec.core.user_functions.model_spec import ModeKeys

tf1 = tf.compat.v1

_BATCH_NORM_MOMENTUM = 0.999


class HiddenLayers(NamedTuple):
    """Hidden layers of a deep model.

    Attributes:
        units: number of units of each layer.
        activation_fn: activation function of each layer; None: linear layers.
        dropout: probability that an output is set to zero in training, or None.
        batch_norm: whether outputs are normalized by mean and variance of the batch (in training)
            or their moving averages.
    """

    units: tuple[int, ...]
    activation_fn: Callable[[Any], Any] | None
    dropout: float | None
    batch_norm: bool

    @classmethod
    def of(
        cls, units: Iterable[int], activation_fn: Any, dropout: float | None, batch_norm: bool
    ) -> HiddenLayers:
        """Returns the layers for the arguments of a canned estimator.

        Raises:
            ValueError: a layer has no units.
            TypeError: the units are no list.
        """
        return cls(whole_units(units), activation_fn, dropout, bool(batch_norm))


def whole_units(hidden_units: Any) -> tuple[int, ...]:
    """Returns the argument `hidden_units` as ints, as TensorFlow 2.15 does: "8" is 8, 2.5 is 2.

    Raises:
        ValueError: an element is no number of at least 1.
        TypeError: it is no list.
    """
    if not isinstance(hidden_units, Iterable):
        raise TypeError(
            "hidden_units must be a list with the number of units of each layer, such as "
            f"[100, 50]. Got {hidden_units!r}, a {type(hidden_units).__name__}."
        )
    given = tuple(hidden_units)
    try:
        widths = tuple(int(units) for units in given)
    except (TypeError, ValueError, OverflowError):
        widths = (0,)
    if not all(width >= 1 for width in widths):
        raise ValueError(f"hidden_units must be positive integers. Given: {given}.")
    is_rounded = any(
        not isinstance(units, (str, bytes)) and units != width
        for units, width in zip(given, widths, strict=True)
    )
    if is_rounded or isinstance(hidden_units, (str, bytes)):
        tf1.logging.warning(
            "hidden_units should be a list of ints, one for each layer. Got %r; the layers have %s "
            "units, as in TensorFlow 2.15.",
            hidden_units,
            list(widths),
        )
    return widths


def _named_activation(activation_fn: Any) -> Any:
    """Returns an activation function, for its name in Keras; anything else as it is."""
    if not isinstance(activation_fn, str):
        return activation_fn
    try:
        return legacy_keras.keras_2().activations.get(activation_fn)
    except ValueError as error:
        raise ValueError(
            f"activation_fn={activation_fn!r} isn't the name of a function of "
            f"tf.keras.activations, such as 'relu'. {error}"
        ) from error


def build(
    layers: HiddenLayers, inputs: Any, units: int, mode: str, summary_prefix: str = ""
) -> Any:
    """Builds hidden layers and the layer of logits.

    Variables are named `<current scope>/hiddenlayer_<i>/kernel`, `bias`, and
    `<current scope>/logits/kernel`, `bias`.

    Args:
        layers: the hidden layers.
        inputs: floats, [batch, width].
        units: number of logits.
        mode: one of `ModeKeys`.
        summary_prefix: prefix of the tags of summaries, within the current scope.

    Returns:
        Logits, [batch, units].
    """
    legacy_keras.select_legacy_keras()
    training = mode == ModeKeys.TRAIN
    activation_fn = _named_activation(layers.activation_fn)
    net = inputs
    for index, width in enumerate(layers.units):
        name = f"hiddenlayer_{index}"
        net = _dense(name, width, activation_fn)(net)
        if layers.dropout is not None and training:
            net = tf1.layers.Dropout(rate=layers.dropout)(net, training=True)
        if layers.batch_norm:
            with tf1.variable_scope(name):
                normalization = tf1.layers.BatchNormalization(
                    momentum=_BATCH_NORM_MOMENTUM, name=f"batchnorm_{index}"
                )
                net = normalization(net, training=training)
        summarize(summary_prefix + name, net)
    logits = _dense("logits", units, None)(net)
    summarize(f"{summary_prefix}logits", logits)
    return logits


def _dense(name: str, units: int, activation_fn: Any) -> Any:
    return tf1.layers.Dense(
        units,
        activation=activation_fn,
        kernel_initializer=tf1.glorot_uniform_initializer(),
        name=name,
    )


def summarize(name: str, outputs: Any) -> None:
    """Writes summaries of a layer's outputs: how many are zero, and a histogram."""
    tf1.summary.scalar(f"{name}/fraction_of_zero_values", tf.math.zero_fraction(outputs))
    tf1.summary.histogram(f"{name}/activation", outputs)
