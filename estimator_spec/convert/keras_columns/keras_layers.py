# SPDX-License-Identifier: Apache-2.0
"""The Keras layers that Keras and keras_rs don't have, made at their first use."""

from __future__ import annotations

import functools
import math
from typing import Any

import tensorflow as tf

from estimator_spec.common.optional_packages import load_extra

EXTRA = "keras-rs"


def check_versions() -> None:
    """Checks that Keras 3 and keras_rs are there.

    Raises:
        ImportError: one of them isn't.
    """
    version = load_extra("keras", EXTRA).__version__
    if int(version.partition(".")[0]) < 3:
        raise ImportError(
            f"Keras 3 is needed, and this is Keras {version}, beside TensorFlow {tf.__version__}. "
            "Use an environment with TensorFlow 2.20 or later, Python 3.11 or later and "
            f"'tpu-columns[{EXTRA}]'; it reads the checkpoints of this one."
        )
    load_extra("keras_rs", EXTRA)


@functools.cache
def bias_layer() -> Any:
    """Returns the class of a layer with a bias and nothing else."""
    keras = load_extra("keras", EXTRA)

    @keras.saving.register_keras_serializable("columns")
    class Bias(keras.layers.Layer):
        """Adds a bias: a linear model has one for all of its columns."""

        def build(self, input_shape: tuple[int | None, ...]) -> None:
            """Creates the bias."""
            self.bias = self.add_weight(shape=input_shape[-1:], initializer="zeros", name="bias")

        def call(self, inputs: Any) -> Any:
            """Returns the sum of inputs and bias."""
            return inputs + self.bias

    return Bias


@functools.cache
def poisson_loss() -> Any:
    """Returns the class of the loss of counts, from logits."""
    keras = load_extra("keras", EXTRA)

    @keras.saving.register_keras_serializable("columns")
    class PoissonLoss(keras.losses.Loss):
        """Loss of counts: their negative log-likelihood, for logits z and labels y."""

        def __init__(self, full: bool = True, **options: Any) -> None:
            super().__init__(**options)
            self.full = full

        def call(self, y_true: Any, y_pred: Any) -> Any:
            """Returns the losses of the examples; with Stirling's approximation if full."""
            losses = keras.ops.exp(y_pred) - y_true * y_pred
            if self.full:
                large = keras.ops.maximum(y_true, 1.0)
                stirling = large * keras.ops.log(large) - large
                stirling = stirling + 0.5 * keras.ops.log(2.0 * math.pi * large)
                losses = losses + keras.ops.where(y_true > 1.0, stirling, 0.0)
            return keras.ops.mean(losses, axis=-1)

        def get_config(self) -> dict[str, Any]:
            """Returns the arguments."""
            return {**super().get_config(), "full": self.full}

    return PoissonLoss


@functools.cache
def own_loss() -> Any:
    """Returns the class of the loss of a function of the program."""
    keras = load_extra("keras", EXTRA)

    @keras.saving.register_keras_serializable("columns")
    class OwnLoss(keras.losses.Loss):
        """Loss of a function of labels and logits, which returns the losses of the examples."""

        def __init__(self, function: Any, dtype_of_labels: str = "float32", **options: Any) -> None:
            super().__init__(**options)
            self.function = function
            self.dtype_of_labels = dtype_of_labels

        def call(self, y_true: Any, y_pred: Any) -> Any:
            """Returns the losses of the examples."""
            labels = keras.ops.cast(y_true, self.dtype_of_labels)
            return keras.ops.mean(self.function(labels=labels, logits=y_pred), axis=-1)

        def get_config(self) -> dict[str, Any]:
            """Returns the arguments."""
            function = keras.saving.serialize_keras_object(self.function)
            own = {"function": function, "dtype_of_labels": self.dtype_of_labels}
            return {**super().get_config(), **own}

        @classmethod
        def from_config(cls, config: dict[str, Any]) -> Any:
            """Returns the loss of these arguments."""
            function = keras.saving.deserialize_keras_object(config["function"])
            return cls(**{**config, "function": function})

    return OwnLoss


@functools.cache
def optimizers() -> dict[str, Any]:
    """Returns the classes of optimizers that sum the gradients of a row first, by name."""
    keras = load_extra("keras", EXTRA)

    class RowsSummed:
        """Sums the gradients of a row that a batch has several times, as TensorFlow 1 does.

        Keras' optimizers take the square of each of them.
        """

        def apply(self, grads: Any, trainable_variables: Any = None) -> None:
            """Updates variables by gradients."""
            summed = [sum_rows(gradient) for gradient in grads]
            super().apply(summed, trainable_variables)  # type: ignore[misc]

    @keras.saving.register_keras_serializable("columns")
    class Adagrad(RowsSummed, keras.optimizers.Adagrad):
        """Adagrad with one gradient a row."""

    @keras.saving.register_keras_serializable("columns")
    class Adam(RowsSummed, keras.optimizers.Adam):
        """Adam with one gradient a row."""

    @keras.saving.register_keras_serializable("columns")
    class Ftrl(RowsSummed, keras.optimizers.Ftrl):
        """FTRL with one gradient a row."""

    @keras.saving.register_keras_serializable("columns")
    class RMSprop(RowsSummed, keras.optimizers.RMSprop):
        """RMSprop with one gradient a row."""

    return {kind.__name__: kind for kind in (RowsSummed, Adagrad, Adam, Ftrl, RMSprop)}


def sum_rows(gradient: Any) -> Any:
    """Returns a gradient with one row for each index, if it is one of rows."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows, places = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


@functools.cache
def mean_functions() -> dict[str, Any]:
    """Returns the functions of the metrics of means, by name."""
    keras = load_extra("keras", EXTRA)

    @keras.saving.register_keras_serializable("columns")
    def prediction_value(labels: Any, predictions: Any) -> Any:
        """Returns what a model predicts, for a metric of its mean."""
        return predictions

    @keras.saving.register_keras_serializable("columns")
    def label_value(labels: Any, predictions: Any) -> Any:
        """Returns the labels, for a metric of their mean."""
        return labels

    return {"prediction_value": prediction_value, "label_value": label_value}
