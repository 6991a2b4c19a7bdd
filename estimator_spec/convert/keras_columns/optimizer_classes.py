# SPDX-License-Identifier: Apache-2.0
"""The Keras optimizers that Keras doesn't have, made at their first use."""

from __future__ import annotations

import functools
import types
from typing import Any

import tensorflow as tf

from estimator_spec.convert.optional_packages import load_extra


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


@functools.cache
def rows_looked_up() -> Any:
    """Returns the base of optimizers that don't update all rows."""
    keras = load_extra("keras")

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

    return RowsLookedUp


@functools.cache
def whole_gradients() -> tuple[Any, ...]:
    """Returns the bases of optimizers in programs without TensorFlow.

    Gradients of tables have all rows on JAX and torch; rows that a step doesn't look up have zeros.
    """
    keras = load_extra("keras")

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

    return whole, RowsSummed, RowsLookedUp


@functools.cache
def optimizers() -> tuple[Any, ...]:
    """Returns the classes of optimizers that have the rules of older ones."""
    keras = load_extra("keras")
    RowsLookedUp: Any = rows_looked_up()

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

    return Adadelta, Adagrad, Adam, Adamax, Ftrl, RMSprop, Keras2RMSprop, SGD


@functools.cache
def two_optimizers() -> Any:
    """Returns the function that makes the optimizer of a wide and deep model."""
    keras = load_extra("keras")

    def wide_and_deep(deep: Any, wide: Any, wide_layers: list[str]) -> keras.optimizers.Optimizer:
        """Returns an optimizer that trains some layers by `wide`, and the others by `deep`."""
        paths = f"(.*/)?({'|'.join(wide_layers)})/[^/]*"
        return keras.optimizers.MultiOptimizer(keras.optimizers.OptimizerMap(deep, {paths: wide}))

    return wide_and_deep


def rules_of_estimators() -> dict[str, Any]:
    """Returns what trains tables as estimators, on TensorFlow's backend, by its name in programs.

    Optimizers train the rows that a step looks up, and clip the gradient of each lookup.
    """
    keras, keras_rs = load_extra("keras"), load_extra("keras_rs")
    RowsLookedUp: Any = rows_looked_up()

    class RowsClipped(RowsSummed):
        """Clips the gradients of each lookup, and then sums those of a row."""

        def apply(self, grads: Any, trainable_variables: Any = None) -> None:
            """Updates variables by gradients."""
            super(RowsSummed, self).apply(grads, trainable_variables)  # type: ignore[misc]

        def _clip_gradients(self, grads: Any) -> Any:
            """Returns clipped gradients, with one row for each index."""
            return [sum_rows(each) for each in super()._clip_gradients(grads)]

    class ClippedRowsLookedUp(RowsClipped, RowsLookedUp):
        """Updates the rows that a step looks up, and no others."""

    class UniqueRows(keras.layers.Embedding):
        """Table that looks up each row once: its gradient has one entry for a row."""

        def call(self, inputs: Any) -> Any:
            """Returns the rows."""
            ids, places = tf.unique(tf.reshape(inputs, [-1]))
            rows = tf.gather(super().call(ids), places)
            return tf.reshape(rows, [*inputs.shape, self.output_dim])

    class LookedUpOnce(keras_rs.layers.EmbedReduce, UniqueRows):
        """`EmbedReduce` of rows that are looked up once."""

    layers = types.SimpleNamespace(**(vars(keras_rs.layers) | {"EmbedReduce": LookedUpOnce}))
    return {
        "RowsSummed": RowsClipped,
        "RowsLookedUp": ClippedRowsLookedUp,
        "keras_rs": types.SimpleNamespace(layers=layers),
    }
