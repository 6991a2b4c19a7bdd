# SPDX-License-Identifier: Apache-2.0
"""Optimizers with the rules of older ones."""

from __future__ import annotations

from typing import Any

import keras

from estimator_spec.convert.keras_columns.keras_classes.row_gradients import (
    RowsLookedUp,
    RowsSummed,
)


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
