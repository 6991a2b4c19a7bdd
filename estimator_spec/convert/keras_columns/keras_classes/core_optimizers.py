# SPDX-License-Identifier: Apache-2.0
"""Keras optimizers and schedules of a specification's tables; see `convert.keras_optimizers`."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from estimator_spec.convert import target_support
from estimator_spec.convert.keras_columns.keras_classes.row_gradients import sum_rows
from estimator_spec.core.cores import host_updates
from estimator_spec.core.embedding import optimizers as ours
from estimator_spec.core.embedding.optimizers import OptimizationParameters
from tpu_columns import callables

_registered = keras.saving.register_keras_serializable(package="tpu_columns")


def check_backend() -> None:
    """Checks that the rules of the core, which are TensorFlow's ops, can run."""
    if keras.backend.backend() != "tensorflow":
        raise ValueError("EmbeddingCoreOptimizer needs Keras' TensorFlow backend.")


class DuplicateSummingOptimizer:
    """Keras' optimizer of this name, with the gradients of repeated ids summed first."""

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        """Applies gradients to tables."""
        summed = [sum_rows(gradient) for gradient in grads]
        return super().apply(summed, trainable_variables)  # type: ignore[misc]


def _summing(name: str) -> Any:
    base = getattr(keras.optimizers, name)
    members = {"__doc__": DuplicateSummingOptimizer.__doc__, "__module__": __name__}
    return _registered(type(name, (DuplicateSummingOptimizer, base), members))


by_name = {name: _summing(name) for name in ("SGD", "Adagrad", "Adam", "Ftrl", "RMSprop")}
"""Keras' optimizers with the gradients of repeated ids summed."""


@_registered
class EmbeddingRate(keras.optimizers.schedules.LearningRateSchedule):
    """Learning rate schedule of a spec that also undoes the bias correction of Keras' Adam.

    Args:
        rate: a number, or a function of the global step.
        beta_1: Adam's beta_1; None for other optimizers.
        beta_2: Adam's beta_2; None for other optimizers.
    """

    def __init__(self, rate: Any, beta_1: float | None = None, beta_2: float | None = None) -> None:
        self.rate = rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2

    def __call__(self, step: Any) -> Any:
        """Returns the learning rate at a step."""
        ops = keras.ops
        rate = ops.cast(self.rate(step) if callable(self.rate) else self.rate, "float32")
        if self.beta_1 is None:
            return rate
        # Computed as in Keras, so that the correction cancels up to the last bit.
        local_step = ops.cast(step + 1, "float32")
        beta_1_power = ops.power(ops.cast(self.beta_1, "float32"), local_step)
        beta_2_power = ops.power(ops.cast(self.beta_2, "float32"), local_step)
        return rate * (1 - beta_1_power) / ops.sqrt(1 - beta_2_power)

    def get_config(self) -> dict[str, Any]:
        """Returns the rate by value, or its function by importable name."""
        rate = self.rate
        if callable(rate):
            rate = callables.to_config(rate, "learning_rate_fn")
        return {"rate": rate, "beta_1": self.beta_1, "beta_2": self.beta_2}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Creates the object from the result of `get_config`."""
        rate = config["rate"]
        if isinstance(rate, dict):
            rate = callables.from_config(rate)
        return cls(rate, config["beta_1"], config["beta_2"])


@_registered
class EmbeddingCoreOptimizer(DuplicateSummingOptimizer, keras.optimizers.Optimizer):
    """Keras 3 optimizer with the embedding core's update rules, for the TensorFlow backend.

    It updates the rows that a step looks up, by the sum of their gradients, as a TPU's embedding
    core does, and no other rows. (keras_rs' lookup reads the whole table, which costs more.)

    Args:
        parameters: one of `estimator_spec`'s ten optimizers, or its dictionary.
        learning_rate: a number or a schedule; None: the parameters' own.
        gradient_multiplier: function from the step to a factor on gradients, or None.
        name: name of the optimizer.
    """

    def __init__(
        self,
        parameters: Any,
        learning_rate: Any = None,
        gradient_multiplier: Any = None,
        name: str = "embedding_core",
        **more: Any,
    ) -> None:
        if isinstance(parameters, dict):
            kinds = {kind.__name__: kind for kind in target_support.optimizers()}
            parameters = kinds[parameters["class_name"]](**parameters["arguments"])
        if learning_rate is None:
            learning_rate = parameters.learning_rate
        super().__init__(learning_rate, name=name, **more)
        self._parameters = parameters
        self._multiplier = gradient_multiplier
        self._slots: dict[str, list[Any]] = {}

    @property
    def parameters(self) -> OptimizationParameters:
        """Returns the spec's parameters."""
        return self._parameters

    def build(self, variables: list[Any]) -> None:
        """Creates the slot variables."""
        if self.built:
            return
        check_backend()
        super().build(variables)
        constant = keras.initializers.Constant
        self._slots = {
            slot: [
                self.add_variable_from_reference(variable, slot, constant(value))
                for variable in variables
            ]
            for slot, value in ours.slot_initial_values(self._parameters).items()
        }

    def slot(self, name: str, variable: Any) -> Any:
        """Returns a slot variable of a table by our name of the slot."""
        return self._slots[name][self._get_variable_index(variable)]

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Updates the rows of one table."""
        step = self._iterations.value
        if self._multiplier is not None:
            factor = tf.cast(self._multiplier(step), tf.float32)
            gradient = tf.IndexedSlices(
                gradient.values * factor, gradient.indices, gradient.dense_shape
            )
        slots = {name: self.slot(name, variable).value for name in self._slots}
        rate = tf.cast(learning_rate, tf.float32)
        rows = host_updates.GatheredRows(
            variable, gradient.indices, tf.gather(variable, gradient.indices)
        )
        update = host_updates.TableUpdate(rows, gradient.values, rate, step)
        host_updates.apply(update, slots, self._parameters)

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        """Applies gradients to tables."""
        for gradient in grads:
            if gradient is not None and not isinstance(gradient, tf.IndexedSlices):
                raise TypeError(
                    "EmbeddingCoreOptimizer moves the rows of a step only, but a gradient isn't a "
                    "lookup's: it covers all rows. Is there a regularizer on a table, or is this "
                    "another variable's optimizer?"
                )
        return super().apply(grads, trainable_variables)

    def get_config(self) -> dict[str, Any]:
        """Returns the optimizer as plain data."""
        config = super().get_config()
        arguments = target_support.argument_names(type(self._parameters))
        config["parameters"] = {
            "class_name": type(self._parameters).__name__,
            "arguments": {name: getattr(self._parameters, name) for name in arguments},
        }
        config["gradient_multiplier"] = callables.to_config(
            self._multiplier, "experimental_gradient_multiplier_fn"
        )
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Creates the object from the result of `get_config`."""
        config = dict(config)
        config["gradient_multiplier"] = callables.from_config(config["gradient_multiplier"])
        return super().from_config(config, custom_objects)
