# SPDX-License-Identifier: Apache-2.0
"""Keras 3 optimizers for embedding tables, one for each optimizer of a spec.

Two families. Keras' own classes, with the gradients of repeated ids summed first (Keras on
TensorFlow squares them one by one), and with a rate that undoes Adam's bias correction. And
`EmbeddingCoreOptimizer`, which follows the embedding core's rules: it moves the rows of a step
only, and knows all ten optimizers. Both are registered, so that models with them can be saved;
`load_classes()` must have been called before one is loaded.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.convert import target_support
from estimator_spec.convert.optional_packages import load_extra
from estimator_spec.cores import update_rules
from estimator_spec.embedding import optimizers as ours
from estimator_spec.embedding.optimizers import OptimizationParameters
from tpu_columns import callables

PACKAGE = "tpu_columns"

# The bases are Keras' classes, which must not be loaded at import: see `load_classes`.
_Base: Any = object


class Classes(NamedTuple):
    """The classes, which can only be made once Keras is loaded.

    Attributes:
        EmbeddingCoreOptimizer: see the module.
        EmbeddingRate: a schedule made of a rate of the spec.
        by_name: Keras' optimizers that sum repeated gradients.
    """

    EmbeddingCoreOptimizer: Any
    EmbeddingRate: Any
    by_name: dict[str, Any]


def make(target: str, parameters: OptimizationParameters, rate: Any, multiplier: Any) -> Any:
    """The Keras optimizer of a table.

    Args:
        target: 'keras' or 'keras_core'.
        parameters: the table's optimizer.
        rate: its rate: a number, or a function of the global step.
        multiplier: function from global step to a factor on gradients, or None; 'keras' has none.
    """
    classes = load_classes()
    if target == "keras_core":
        scheduled = classes.EmbeddingRate(rate) if callable(rate) else rate
        return classes.EmbeddingCoreOptimizer(parameters, scheduled, multiplier)
    becomes = target_support.becomes(target, parameters)
    kind = classes.by_name[becomes.name]
    return kind(**_arguments(parameters, becomes, rate, classes))


def on_sparse_core(parameters: OptimizationParameters | None, rate: Any, otherwise: Any) -> Any:
    """The optimizer for a `keras_rs.layers.TableConfig`, which keras_rs uses on SparseCore only.

    There nothing corrects Adam's bias and no epsilon is added to Adagrad's root, and keras_rs
    refuses optimizers that would say so. Elsewhere `make` says what trains a table.

    Args:
        parameters: the table's optimizer, or None.
        rate: its rate.
        otherwise: what to give where SparseCore has no exact counterpart: keras_rs refuses it
            there, by name.
    """
    optimizers = load_extra("keras", "keras-rs").optimizers
    if parameters is None or otherwise is None:
        return "sgd"
    becomes = target_support.becomes("tpu_embedding_v2", parameters)
    exact = all(f.only is None or f.only.holds(parameters) for f in becomes.facts.values())
    # What Keras' optimizers have no argument for; keras_rs leaves TensorFlow's defaults.
    unspoken = {"sum_inside_sqrt": True, "multiply_linear_by_learning_rate": False}
    exact &= all(getattr(parameters, n, value) == value for n, value in unspoken.items())
    name = _ON_SPARSE_CORE.get(type(parameters))
    if name is None or not exact:
        return otherwise
    arguments: dict[str, Any] = {}
    for argument, fact in becomes.facts.items():
        if fact.becomes and argument not in unspoken and argument != "lazy_adam":
            arguments[fact.becomes] = getattr(parameters, argument)
    arguments["learning_rate"] = load_classes().EmbeddingRate(rate) if callable(rate) else rate
    return getattr(optimizers, name)(**arguments)


_ON_SPARSE_CORE = {
    ours.StochasticGradientDescentParameters: "SGD",
    ours.AdagradParameters: "Adagrad",
    ours.AdamParameters: "Adam",
    ours.FtrlParameters: "Ftrl",
}


def _arguments(
    parameters: OptimizationParameters,
    becomes: target_support.TargetOptimizer,
    rate: Any,
    classes: Classes,
) -> dict[str, Any]:
    """The arguments of a Keras optimizer."""
    arguments: dict[str, Any] = {
        fact.becomes: getattr(parameters, argument)
        for argument, fact in becomes.facts.items()
        if fact.becomes
    }
    arguments.pop("learning_rate, as a schedule that undoes bias correction", None)
    arguments.pop("clipvalue", None)
    limit = parameters.clip_gradient_max
    if limit is not None and parameters.clip_gradient_min == -limit:
        arguments["clipvalue"] = limit
    if isinstance(parameters, ours.ProximalYogiParameters):
        arguments.update(beta_1=parameters.beta1, beta_2=parameters.beta2)
        arguments["epsilon"] = parameters.epsilon
    if isinstance(parameters, ours.FrequencyEstimatorParameters):
        rate = 0.0
    betas: tuple[Any, ...] = ()
    if becomes.name == "Adam":
        betas = (arguments["beta_1"], arguments["beta_2"])
    arguments["learning_rate"] = (
        classes.EmbeddingRate(rate, *betas) if callable(rate) or betas else float(rate)
    )
    return {**arguments, **becomes.fixed}


def summed(gradient: Any) -> Any:
    """A gradient with each row once: the gradients of a row's occurrences are added.

    Args:
        gradient: a tensor, left as it is, or IndexedSlices.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    indices, places, _ = tf.unique_with_counts(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(indices))
    return tf.IndexedSlices(values, indices, gradient.dense_shape)


@functools.cache
def load_classes() -> Classes:
    """Makes and registers the classes.

    Raises:
        ImportError: Keras 3 isn't installed.
    """
    keras = load_extra("keras", "keras-rs")
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
        registered("EmbeddingCoreOptimizer", CoreRules, keras.optimizers.Optimizer),
        registered("EmbeddingRate", Rate, schedule),
        {
            name: registered(name, Summing, getattr(keras.optimizers, name))
            for name in ("SGD", "Adagrad", "Adam", "Ftrl", "RMSprop")
        },
    )


class Summing(_Base):
    """Keras' optimizer of this name; the gradients of repeated ids are summed first."""

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        """Moves all tables."""
        return super().apply([summed(gradient) for gradient in grads], trainable_variables)


class Rate(_Base):
    """A rate of a spec, and what undoes the bias correction of Keras' Adam.

    Args:
        rate: a number, or a function of the global step.
        beta_1: of Adam; None for other optimizers.
        beta_2: likewise.
    """

    def __init__(self, rate: Any, beta_1: float | None = None, beta_2: float | None = None) -> None:
        self.rate = rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2

    def __call__(self, step: Any) -> Any:
        """The rate at a step."""
        ops = load_extra("keras", "keras-rs").ops
        rate = ops.cast(self.rate(step) if callable(self.rate) else self.rate, "float32")
        if self.beta_1 is None:
            return rate
        # As Keras computes it, so that it cancels to the last bit but one.
        local_step = ops.cast(step + 1, "float32")
        beta_1_power = ops.power(ops.cast(self.beta_1, "float32"), local_step)
        beta_2_power = ops.power(ops.cast(self.beta_2, "float32"), local_step)
        return rate * (1 - beta_1_power) / ops.sqrt(1 - beta_2_power)

    def get_config(self) -> dict[str, Any]:
        """The rate by value, or by the name that its function can be imported by."""
        rate = self.rate
        if callable(rate):
            rate = callables.to_config(rate, "learning_rate_fn")
        return {"rate": rate, "beta_1": self.beta_1, "beta_2": self.beta_2}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """What `get_config` described."""
        rate = config["rate"]
        if isinstance(rate, dict):
            rate = callables.from_config(rate)
        return cls(rate, config["beta_1"], config["beta_2"])


class CoreRules(_Base):
    """The embedding core's optimizers for Keras 3 on TensorFlow.

    It moves the rows that a step looks up, by the sum of their gradients, as a TPU's embedding
    core does, and no other rows. (keras_rs' lookup reads the table whole, which costs more.)

    Args:
        parameters: any of `estimator_spec`'s ten, or its dictionary.
        learning_rate: a number or a schedule; None: that of the parameters.
        gradient_multiplier: function from the step to a factor on gradients, or None.
        name: of the optimizer.
    """

    def __init__(
        self,
        parameters: Any,
        learning_rate: Any = None,
        gradient_multiplier: Any = None,
        name: str = "embedding_core",
        **more: Any,
    ) -> None:
        if load_extra("keras", "keras-rs").backend.backend() != "tensorflow":
            raise ValueError("EmbeddingCoreOptimizer needs Keras' TensorFlow backend.")
        if isinstance(parameters, dict):
            parameters = getattr(ours, parameters["class_name"])(**parameters["arguments"])
        if learning_rate is None:
            learning_rate = parameters.learning_rate
        super().__init__(learning_rate, name=name, **more)
        self._parameters = parameters
        self._multiplier = gradient_multiplier
        self._slots: dict[str, list[Any]] = {}

    @property
    def parameters(self) -> OptimizationParameters:
        """The spec's parameters."""
        return self._parameters

    def build(self, variables: list[Any]) -> None:
        """Makes the slots."""
        if self.built:
            return
        super().build(variables)
        constant = load_extra("keras", "keras-rs").initializers.Constant
        self._slots = {
            slot: [
                self.add_variable_from_reference(variable, slot, constant(value))
                for variable in variables
            ]
            for slot, value in ours.slot_initial_values(self._parameters).items()
        }

    def slot(self, name: str, variable: Any) -> Any:
        """The variable of a slot, by our name of it, beside a table."""
        return self._slots[name][self._get_variable_index(variable)]

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Moves the rows of one table."""
        step = self._iterations.value
        if self._multiplier is not None:
            factor = tf.cast(self._multiplier(step), tf.float32)
            gradient = tf.IndexedSlices(
                gradient.values * factor, gradient.indices, gradient.dense_shape
            )
        slots = {name: self.slot(name, variable).value for name in self._slots}
        rate = tf.cast(learning_rate, tf.float32)
        _move_rows(self._parameters, variable, slots, gradient, rate, step)

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        """Moves all tables."""
        for gradient in grads:
            if gradient is not None and not isinstance(gradient, tf.IndexedSlices):
                raise TypeError(
                    "EmbeddingCoreOptimizer moves the rows of a step only, but a gradient isn't a "
                    "lookup's: it covers all rows. Is there a regularizer on a table, or is this "
                    "another variable's optimizer?"
                )
        return super().apply([summed(gradient) for gradient in grads], trainable_variables)

    def get_config(self) -> dict[str, Any]:
        """The optimizer as plain data."""
        config = super().get_config()
        arguments = target_support.arguments(type(self._parameters))
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
        """What `get_config` described."""
        config = dict(config)
        config["gradient_multiplier"] = callables.from_config(config["gradient_multiplier"])
        return super().from_config(config, custom_objects)


def _move_rows(
    parameters: OptimizationParameters,
    variable: Any,
    slots: dict[str, Any],
    gradient: Any,
    rate: Any,
    step: Any,
) -> None:
    """One step of one table. The gradient has each row once."""
    ids = gradient.indices
    rows = tf.gather(variable, ids)
    if update_rules.updates_all_rows(parameters):
        shape = tf.shape(variable, out_type=ids.dtype)
        places = ids[:, tf.newaxis]
        dense = tf.scatter_nd(places, gradient.values, shape)
        looked_up = tf.scatter_nd(places, rows, shape)
        values = {name: slot.read_value() for name, slot in slots.items()}
        new, new_values = update_rules.apply(
            parameters, variable.read_value(), values, dense, rate, step
        )
        new = update_rules.decay(parameters, new, looked_up, rate)
        variable.assign(update_rules.clip_weights(parameters, new))
        for name, slot in slots.items():
            slot.assign(new_values[name])
        return
    values = {name: tf.gather(slot, ids) for name, slot in slots.items()}
    new, new_values = update_rules.apply(parameters, rows, values, gradient.values, rate, step)
    new = update_rules.decay(parameters, new, rows, rate)
    new = update_rules.clip_weights(parameters, new)
    variable.scatter_update(tf.IndexedSlices(new, ids))
    for name, slot in slots.items():
        slot.scatter_update(tf.IndexedSlices(new_values[name], ids))
