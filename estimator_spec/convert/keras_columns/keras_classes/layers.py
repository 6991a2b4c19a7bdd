# SPDX-License-Identifier: Apache-2.0
"""Layers, losses, metrics and schedules."""

from __future__ import annotations

import math
from typing import Any

import keras
import keras_rs


class ClippedEmbedding(keras.layers.Embedding):
    """Table whose rows are clipped to a norm when they are looked up; gradients, too."""

    max_norm = 1.0

    def call(self, inputs: Any) -> Any:
        """Returns the rows."""
        ops, rows = keras.ops, super().call(inputs)
        squares = ops.sum(ops.square(rows), axis=-1, keepdims=True)
        # The root of 0 has no gradient.
        roots = ops.sqrt(ops.where(squares > 0.0, squares, 1.0))
        norms = ops.where(squares > 0.0, roots, 0.0)
        return rows * self.max_norm / ops.where(norms >= self.max_norm, norms, self.max_norm)


@keras.saving.register_keras_serializable("columns")
class ClippedEmbedReduce(keras_rs.layers.EmbedReduce, ClippedEmbedding):
    """`EmbedReduce` of rows that are clipped to a norm: it calls the next class for them."""

    def __init__(self, *arguments: Any, max_norm: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.max_norm = max_norm

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments."""
        return {**super().get_config(), "max_norm": self.max_norm}


@keras.saving.register_keras_serializable("columns")
class Bias(keras.layers.Layer):
    """Adds a bias: a linear model has one for all of its columns."""

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Creates the bias."""
        self.bias = self.add_weight(shape=input_shape[-1:], initializer="zeros", name="bias")

    def call(self, inputs: Any) -> Any:
        """Returns the sum of inputs and bias."""
        return inputs + self.bias


@keras.saving.register_keras_serializable("columns")
class Sum(keras.layers.Layer):
    """Sums tensors, also those of no example, which `keras.layers.Add` takes for a bias."""

    def call(self, inputs: Any) -> Any:
        """Returns the sum."""
        total = inputs[0]
        for each in inputs[1:]:
            total = total + each
        return total


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


@keras.saving.register_keras_serializable("columns")
class RateOfStep(keras.optimizers.schedules.LearningRateSchedule):
    """Learning rate that a function returns for each step."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, step: Any) -> Any:
        """Returns the learning rate of a step."""
        return self.function(step)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments."""
        return {"function": keras.saving.serialize_keras_object(self.function)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Returns the schedule of these arguments."""
        return cls(keras.saving.deserialize_keras_object(config["function"]))


def wide_and_deep(deep: Any, wide: Any, wide_layers: list[str]) -> keras.optimizers.Optimizer:
    """Returns an optimizer that trains some layers by `wide`, and the others by `deep`."""
    paths = f"(.*/)?({'|'.join(wide_layers)})/[^/]*"
    return keras.optimizers.MultiOptimizer(keras.optimizers.OptimizerMap(deep, {paths: wide}))


@keras.saving.register_keras_serializable("columns")
def prediction_value(labels: Any, predictions: Any, class_id: int | None = None) -> Any:
    """Returns what a model predicts, of one class or of all, for a metric of its mean."""
    return predictions if class_id is None else predictions[..., class_id]


@keras.saving.register_keras_serializable("columns")
def label_value(labels: Any, predictions: Any) -> Any:
    """Returns the labels, for a metric of their mean."""
    return labels


@keras.saving.register_keras_serializable("columns")
class AccuracyBaseline(keras.metrics.MeanMetricWrapper):
    """The accuracy of always predicting the class that is more frequent."""

    def result(self) -> Any:
        """Returns it, from the mean of the labels 0 and 1."""
        mean = super().result()
        return keras.ops.maximum(mean, 1.0 - mean)
