# SPDX-License-Identifier: Apache-2.0
"""The Keras layers that Keras and keras_rs don't have, made at their first use."""

from __future__ import annotations

import functools
import math
from typing import Any

import tensorflow as tf

from estimator_spec.convert.optional_packages import load_extra

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
def sum_layer() -> Any:
    """Returns the class of a layer that sums tensors."""
    keras = load_extra("keras", EXTRA)

    @keras.saving.register_keras_serializable("columns")
    class Sum(keras.layers.Layer):
        """Sums tensors, also those of no example, which `keras.layers.Add` takes for a bias."""

        def call(self, inputs: Any) -> Any:
            """Returns the sum."""
            total = inputs[0]
            for each in inputs[1:]:
                total = total + each
            return total

    return Sum


@functools.cache
def clipped_layers() -> dict[str, Any]:
    """Returns the classes of tables whose rows have a largest norm, by name."""
    keras, keras_rs = load_extra("keras", EXTRA), load_extra("keras_rs", EXTRA)

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

    return {each.__name__: each for each in (ClippedEmbedding, ClippedEmbedReduce)}


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
def rate_of_step() -> Any:
    """Returns the class of the schedule of a function of the step."""
    keras = load_extra("keras", EXTRA)

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

    return RateOfStep


@functools.cache
def optimizers() -> dict[str, Any]:
    """Returns the classes of optimizers that have the rules of older ones, by name."""
    keras = load_extra("keras", EXTRA)

    class RowsSummed:
        """Sums the gradients of a row that a batch has several times, as older optimizers do.

        Keras' optimizers take the square, and the norm, of each of them.
        """

        def apply(self, grads: Any, trainable_variables: Any = None) -> None:
            """Updates variables by gradients."""
            summed = [sum_rows(gradient) for gradient in grads]
            super().apply(summed, trainable_variables)  # type: ignore[misc]

        def _clip_gradients(self, grads: Any) -> Any:
            """Returns clipped gradients; those of rows stay gradients of rows."""
            values = [gradient.values if is_of_rows(gradient) else gradient for gradient in grads]
            clipped = super()._clip_gradients(values)  # type: ignore[misc]
            return [
                tf.IndexedSlices(new, old.indices, old.dense_shape) if is_of_rows(old) else new
                for old, new in zip(grads, clipped, strict=True)
            ]

    class RowsLookedUp(RowsSummed):
        """Updates the rows that a step looks up, and no others, on TensorFlow's backend."""

        slots: tuple[str, ...] = ()  # attributes with the slots of all variables

        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            """Updates a variable and its slots."""
            number = self._get_variable_index(variable)  # type: ignore[attr-defined]
            lists = [getattr(self, name) for name in self.slots]
            changed = [variables[number] for variables in lists if variables]
            if not changed or not is_of_rows(gradient):
                super().update_step(gradient, variable, learning_rate)  # type: ignore[misc]
                return
            changed.append(variable)
            before = [tf.identity(keras.ops.convert_to_tensor(each)) for each in changed]
            super().update_step(gradient, variable, learning_rate)  # type: ignore[misc]
            rows = gradient.indices[:, tf.newaxis]
            for each, old in zip(changed, before, strict=True):
                new = tf.gather(keras.ops.convert_to_tensor(each), gradient.indices)
                kept = tf.tensor_scatter_nd_update(old, rows, new)
                self.assign(each, kept)  # type: ignore[attr-defined]

    @keras.saving.register_keras_serializable("columns")
    class Adadelta(RowsLookedUp, keras.optimizers.Adadelta):
        """Adadelta of the rows that a step looks up."""

        slots = ("_accumulated_grads", "_accumulated_delta_vars")

    @keras.saving.register_keras_serializable("columns")
    class Adagrad(RowsSummed, keras.optimizers.Adagrad):
        """Adagrad with one gradient a row, which adds epsilon to the root of the accumulator."""

        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            """Updates a variable and its slots."""
            accumulator = self._accumulators[self._get_variable_index(variable)]
            self.assign_add(accumulator, keras.ops.square(gradient))
            change = keras.ops.multiply(learning_rate, gradient)
            root = keras.ops.add(keras.ops.sqrt(accumulator), self.epsilon)
            self.assign_sub(variable, keras.ops.divide(change, root))

    @keras.saving.register_keras_serializable("columns")
    class Adam(RowsSummed, keras.optimizers.Adam):
        """Adam with one gradient a row."""

    @keras.saving.register_keras_serializable("columns")
    class Adamax(RowsLookedUp, keras.optimizers.Adamax):
        """Adamax of the rows that a step looks up."""

        slots = ("_m", "_u")

    @keras.saving.register_keras_serializable("columns")
    class Ftrl(RowsLookedUp, keras.optimizers.Ftrl):
        """FTRL of the rows that a step looks up."""

        slots = ("_accumulators", "_linears")

    @keras.saving.register_keras_serializable("columns")
    class RMSprop(RowsLookedUp, keras.optimizers.RMSprop):
        """RMSprop of the rows that a step looks up."""

        slots = ("_velocities", "_momentums", "_average_gradients")

    @keras.saving.register_keras_serializable("columns")
    class Keras2RMSprop(RowsSummed, keras.optimizers.RMSprop):
        """RMSprop without momentum of Keras 2, which adds epsilon to the root."""

        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            """Updates a variable and its slots."""
            ops, number = keras.ops, self._get_variable_index(variable)

            def decay(mean: Any, value: Any) -> None:
                old, new = ops.multiply(self.rho, mean), ops.multiply(1 - self.rho, value)
                self.assign(mean, ops.add(old, new))

            decay(self._velocities[number], ops.square(gradient))
            spread = self._velocities[number].value
            if self.centered:
                decay(self._average_gradients[number], gradient)
                spread = spread - ops.square(self._average_gradients[number].value)
            root = ops.add(ops.sqrt(spread), self.epsilon)
            self.assign_sub(variable, ops.divide(ops.multiply(learning_rate, gradient), root))

    @keras.saving.register_keras_serializable("columns")
    class SGD(RowsLookedUp, keras.optimizers.SGD):
        """SGD of the rows that a step looks up."""

        slots = ("momentums",)

    kinds = (Adadelta, Adagrad, Adam, Adamax, Ftrl, RMSprop, Keras2RMSprop, SGD)
    return {kind.__name__: kind for kind in (RowsSummed, RowsLookedUp, *kinds)}


@functools.cache
def whole_gradients() -> dict[str, Any]:
    """Returns the bases of optimizers in programs without TensorFlow, by name.

    Gradients of tables have all rows on JAX and torch; rows that a step doesn't look up have zeros.
    """
    keras = load_extra("keras", EXTRA)

    def whole(gradient: Any) -> Any:
        """Returns a gradient with all rows: on TensorFlow's backend there are others."""
        if not hasattr(gradient, "dense_shape"):
            return gradient
        rows = gradient.dense_shape[0]
        return keras.ops.segment_sum(gradient.values, gradient.indices, rows)

    class RowsSummed:
        """Takes gradients as JAX and torch have them: one sum for each row of a table."""

        def apply(self, grads: Any, trainable_variables: Any = None) -> None:
            """Updates variables by gradients."""
            super().apply([whole(each) for each in grads], trainable_variables)  # type: ignore[misc]

    class RowsLookedUp(RowsSummed):
        """Updates the rows of tables whose gradient isn't 0, and no others."""

        slots: tuple[str, ...] = ()  # attributes with the slots of all variables

        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            """Updates a variable and its slots."""
            ops, number = keras.ops, self._get_variable_index(variable)  # type: ignore[attr-defined]
            lists = [getattr(self, name) for name in self.slots]
            changed = [variables[number] for variables in lists if variables]
            # TensorFlow's variables, which the optimizer gets on its backend, have a number.
            is_table = variable.name.partition(":")[0].endswith("embeddings")
            if not changed or not is_table:
                super().update_step(gradient, variable, learning_rate)  # type: ignore[misc]
                return
            changed.append(variable)
            before = [ops.copy(ops.convert_to_tensor(each)) for each in changed]
            super().update_step(gradient, variable, learning_rate)  # type: ignore[misc]
            rows = ops.any(ops.not_equal(gradient, 0), axis=-1, keepdims=True)
            for each, old in zip(changed, before, strict=True):
                new = ops.where(rows, ops.convert_to_tensor(each), old)
                self.assign(each, new)  # type: ignore[attr-defined]

    return {each.__name__: each for each in (whole, RowsSummed, RowsLookedUp)}


@functools.cache
def rules_of_estimators() -> dict[str, Any]:
    """Returns classes that train tables as estimators, on TensorFlow's backend alone, by name."""
    keras, keras_rs = load_extra("keras", EXTRA), load_extra("keras_rs", EXTRA)

    class RowsSummed:
        """Clips the gradients of each lookup, and then sums those of a row."""

        def _clip_gradients(self, grads: Any) -> Any:
            """Returns clipped gradients, with one row for each index."""
            values = [gradient.values if is_of_rows(gradient) else gradient for gradient in grads]
            clipped = super()._clip_gradients(values)  # type: ignore[misc]
            return [
                sum_rows(tf.IndexedSlices(new, old.indices, old.dense_shape))
                if is_of_rows(old)
                else new
                for old, new in zip(grads, clipped, strict=True)
            ]

    class UniqueRows(keras.layers.Embedding):
        """Table that looks up each row once: its gradient has one entry for a row."""

        def call(self, inputs: Any) -> Any:
            """Returns the rows."""
            ids, places = tf.unique(tf.reshape(inputs, [-1]))
            rows = tf.gather(super().call(ids), places)
            return tf.reshape(rows, [*inputs.shape, self.output_dim])

    class LookedUpOnce(keras_rs.layers.EmbedReduce, UniqueRows):
        """`EmbedReduce` of rows that are looked up once."""

    return {each.__name__: each for each in (RowsSummed, UniqueRows, LookedUpOnce)}


def is_of_rows(gradient: Any) -> bool:
    """Returns whether a gradient is one of rows."""
    return isinstance(gradient, tf.IndexedSlices)


def sum_rows(gradient: Any) -> Any:
    """Returns a gradient with one row for each index, if it is one of rows."""
    if not is_of_rows(gradient):
        return gradient
    rows, places = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


@functools.cache
def two_optimizers() -> Any:
    """Returns the function that makes the optimizer of a wide and deep model."""
    keras = load_extra("keras", EXTRA)

    def wide_and_deep(deep: Any, wide: Any, wide_layers: list[str]) -> keras.optimizers.Optimizer:
        """Returns an optimizer that trains some layers by `wide`, and the others by `deep`."""
        paths = f"(.*/)?({'|'.join(wide_layers)})/[^/]*"
        return keras.optimizers.MultiOptimizer(keras.optimizers.OptimizerMap(deep, {paths: wide}))

    return wide_and_deep


@functools.cache
def mean_functions() -> dict[str, Any]:
    """Returns the functions and classes of the metrics of means, by name."""
    keras = load_extra("keras", EXTRA)

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

    made = (prediction_value, label_value, AccuracyBaseline)
    return {each.__name__: each for each in made}


def definitions(with_tensorflow: bool = True) -> dict[str, Any]:
    """Returns all classes and functions that a program may have, by name, in their order."""
    made = (bias_layer(), sum_layer(), poisson_loss(), own_loss(), rate_of_step())
    return {
        **{each.__name__: each for each in (is_of_rows, sum_rows)},
        **optimizers(),
        **({} if with_tensorflow else whole_gradients()),
        **clipped_layers(),
        **{each.__name__: each for each in (*made, two_optimizers())},
        **mean_functions(),
    }


# The names of `definitions`, which need no Keras.
NAMES = (
    *("is_of_rows", "sum_rows", "RowsSummed", "RowsLookedUp", "Adadelta", "Adagrad", "Adam"),
    *("Adamax", "Ftrl", "RMSprop", "Keras2RMSprop", "SGD", "Bias", "Sum", "PoissonLoss"),
    *("ClippedEmbedding", "ClippedEmbedReduce", "whole", "OwnLoss", "RateOfStep"),
    *("wide_and_deep", "prediction_value", "label_value", "AccuracyBaseline"),
)
