# SPDX-License-Identifier: Apache-2.0
"""Converts a spec's optimizers to Keras 3 optimizers for embedding tables.

Two kinds: Keras' own classes, with the gradients of repeated ids summed first (Keras on
TensorFlow squares them separately) and a learning rate that undoes Adam's bias correction; and
`EmbeddingCoreOptimizer`, which implements all ten rules of the embedding core and updates the
rows of a step only. Both are registered with Keras, so that models with them can be saved; call
`load_optimizer_classes()` before loading one.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from estimator_spec.convert import target_support
from estimator_spec.convert.optional_packages import load_extra
from estimator_spec.core.cores import host_updates
from estimator_spec.core.embedding import optimizers as ours
from estimator_spec.core.embedding.optimizers import OptimizationParameters
from tpu_columns import callables

PACKAGE = "tpu_columns"

# Replaced by Keras' classes, which must not be loaded at import: see `load_optimizer_classes`.
_Base: Any = object


class Classes(NamedTuple):
    """Classes that are created when Keras is loaded.

    Attributes:
        EmbeddingCoreOptimizer: the optimizer with the embedding core's rules.
        EmbeddingRate: learning rate schedule for a rate of the spec.
        by_name: Keras' optimizers with duplicate gradients summed.
    """

    EmbeddingCoreOptimizer: Any
    EmbeddingRate: Any
    by_name: dict[str, Any]


def make_optimizer(
    target: str, parameters: OptimizationParameters, rate: Any, multiplier: Any
) -> Any:
    """Returns the Keras optimizer of a table.

    Args:
        target: 'keras' or 'keras_core'.
        parameters: the table's optimizer.
        rate: the learning rate: a number, or a function of the global step.
        multiplier: function from global step to a factor on gradients, or None; unused by 'keras'.
    """
    classes = load_optimizer_classes()
    if target == "keras_core":
        _check_backend()
        return _core_optimizer(parameters, rate, multiplier)
    support = target_support.find_support(target, parameters)
    kind = classes.by_name[support.name]
    return kind(**_arguments(parameters, support, rate, classes))


def _core_optimizer(parameters: OptimizationParameters, rate: Any, multiplier: Any = None) -> Any:
    classes = load_optimizer_classes()
    scheduled = classes.EmbeddingRate(rate) if callable(rate) else rate
    return classes.EmbeddingCoreOptimizer(parameters, scheduled, multiplier)


def _check_backend() -> None:
    """Checks that the rules of the core, which are TensorFlow's ops, can run."""
    if load_extra("keras").backend.backend() != "tensorflow":
        raise ValueError("EmbeddingCoreOptimizer needs Keras' TensorFlow backend.")


def sparse_core_optimizer(
    parameters: OptimizationParameters | None, rate: Any, backend: str
) -> Any:
    """Returns the optimizer of a `keras_rs.layers.TableConfig`, used on SparseCore only.

    There Adagrad has no epsilon, and keras_rs refuses an optimizer that sets it. Adam depends on
    the backend: see `sparse_core_arguments`. On other devices the optimizer of `make_optimizer`
    trains the table.

    Args:
        parameters: the table's optimizer; None if it isn't on SparseCore, or has none.
        rate: the table's learning rate.
        backend: Keras' backend.

    Returns:
        The optimizer. An `EmbeddingCoreOptimizer` if SparseCore has no counterpart: keras_rs
        refuses it there, with an error that names it.
    """
    if parameters is None:
        return "sgd"
    found = sparse_core_arguments(parameters, backend)
    if found is None:
        return _core_optimizer(parameters, rate)
    name, arguments = found
    betas: tuple[Any, ...] = ()
    if corrects_bias(parameters, backend):
        betas = (arguments["beta_1"], arguments["beta_2"])
    arguments["learning_rate"] = (
        load_optimizer_classes().EmbeddingRate(rate, *betas) if callable(rate) or betas else rate
    )
    return getattr(load_extra("keras").optimizers, name)(**arguments)


def corrects_bias(parameters: OptimizationParameters, backend: str) -> bool:
    """Returns whether SparseCore gets a learning rate and an epsilon that correct Adam's bias."""
    return backend == "jax" and isinstance(parameters, ours.AdamParameters)


def sparse_core_arguments(
    parameters: OptimizationParameters, backend: str
) -> tuple[str, dict[str, Any]] | None:
    """Returns the Keras optimizer that is the same on SparseCore, by name and arguments, or None.

    On Keras' TensorFlow backend, SparseCore's Adam has no bias correction, and epsilon is inside of
    the root. On JAX jax_tpu_embedding corrects the bias: step t has the rate
    η·√(1 - β2ᵗ) / (1 - β1ᵗ), and divides by √v + ε·√(1 - β2ᵗ). An `EmbeddingRate` undoes the
    first; nothing the second.

    Args:
        parameters: the table's optimizer.
        backend: Keras' backend.
    """
    support = target_support.find_support("tpu_embedding_v2", parameters)
    exact = all(rule.holds(parameters) for rule in support.arguments.values())
    # Keras has no such arguments, and keras_rs keeps TensorFlow's defaults.
    unsupported: dict[str, Any] = {"multiply_linear_by_learning_rate": False}
    if not corrects_bias(parameters, backend):
        unsupported["sum_inside_sqrt"] = True
    exact &= all(getattr(parameters, n, value) == value for n, value in unsupported.items())
    name = _ON_SPARSE_CORE.get(type(parameters))
    if name is None or not exact:
        return None
    arguments = target_support.target_arguments(parameters, support)
    for argument in ("multiply_linear_by_learning_rate", "sum_inside_sqrt"):
        arguments.pop(argument, None)
    return name, arguments


_ON_SPARSE_CORE = {
    ours.StochasticGradientDescentParameters: "SGD",
    ours.AdagradParameters: "Adagrad",
    ours.AdamParameters: "Adam",
    ours.FtrlParameters: "Ftrl",
}


def _arguments(
    parameters: OptimizationParameters,
    support: target_support.OptimizerSupport,
    rate: Any,
    classes: Classes,
) -> dict[str, Any]:
    """Returns the arguments of a Keras optimizer."""
    arguments = target_support.target_arguments(parameters, support)
    limit = parameters.clip_gradient_max
    if limit is not None and parameters.clip_gradient_min == -limit:
        arguments["clipvalue"] = limit
    if isinstance(parameters, ours.FrequencyEstimatorParameters):
        rate = 0.0
    betas: tuple[Any, ...] = ()
    if support.name == "Adam":
        # Keras subtracts them from 1 in float64, the core in float32.
        betas = tuple(float(np.float32(arguments[name])) for name in ("beta_1", "beta_2"))
        arguments["beta_1"], arguments["beta_2"] = betas
    arguments["learning_rate"] = (
        classes.EmbeddingRate(rate, *betas) if callable(rate) or betas else float(rate)
    )
    return {**arguments, **support.fixed}


def sum_duplicate_rows(gradient: Any) -> Any:
    """Returns IndexedSlices with the gradients of repeated rows summed; a tensor as it is."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    indices, places, _ = tf.unique_with_counts(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(indices))
    return tf.IndexedSlices(values, indices, gradient.dense_shape)


@functools.cache
def load_optimizer_classes() -> Classes:
    """Creates the Keras optimizers of converted models, and registers them with Keras.

    Call it before `keras.models.load_model` of a file that was saved with such an optimizer.

    Returns:
        The classes.

    Raises:
        ImportError: Keras 3 isn't installed, or it has no MultiOptimizer.
    """
    keras = load_extra("keras")
    if not hasattr(keras.optimizers, "MultiOptimizer"):
        raise ImportError(
            f"Keras {keras.__version__} has no MultiOptimizer: pip install 'tpu-columns[keras-rs]'"
        )
    schedule = keras.optimizers.schedules.LearningRateSchedule

    def registered(name: str, rules: type, base: type) -> Any:
        members = {"__doc__": rules.__doc__, "__module__": __name__}
        made = type(name, (rules, base), members)
        return keras.saving.register_keras_serializable(package=PACKAGE)(made)

    return Classes(
        registered("EmbeddingCoreOptimizer", CoreOptimizerMethods, keras.optimizers.Optimizer),
        registered("EmbeddingRate", EmbeddingRateMethods, schedule),
        {
            name: registered(name, DuplicateSummingOptimizer, getattr(keras.optimizers, name))
            for name in ("SGD", "Adagrad", "Adam", "Ftrl", "RMSprop")
        },
    )


class DuplicateSummingOptimizer(_Base):
    """Keras' optimizer of this name, with the gradients of repeated ids summed first."""

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        """Applies gradients to tables."""
        return super().apply(
            [sum_duplicate_rows(gradient) for gradient in grads], trainable_variables
        )


class EmbeddingRateMethods(_Base):
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
        ops = load_extra("keras").ops
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


class CoreOptimizerMethods(DuplicateSummingOptimizer):
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
        _check_backend()
        super().build(variables)
        constant = load_extra("keras").initializers.Constant
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
