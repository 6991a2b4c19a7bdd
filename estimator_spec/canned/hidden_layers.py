# SPDX-License-Identifier: Apache-2.0
"""Builds the fully connected layers of deep models."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.common import legacy_keras
from estimator_spec.user_functions.model_spec import ModeKeys

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
        """
        widths = tuple(units)
        for width in widths:
            if not width >= 1:
                raise ValueError(f"hidden_units must be positive integers. Given: {widths}.")
        return cls(widths, activation_fn, dropout, batch_norm)


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
    net = inputs
    for index, width in enumerate(layers.units):
        name = f"hiddenlayer_{index}"
        net = _dense(name, width, layers.activation_fn)(net)
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
