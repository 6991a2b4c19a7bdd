# SPDX-License-Identifier: Apache-2.0
"""Reads the arguments of an optimizer: a name, an object or a function, of either generation."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.convert.keras_columns import step_functions
from estimator_spec.convert.keras_columns.expressions import FunctionCall, call
from estimator_spec.core._tensorflow import private
from estimator_spec.core.common import legacy_keras
from estimator_spec.heads.canned_model import OPTIMIZERS, CannedModel, ModelPart

tf1 = tf.compat.v1


class Unmovable(ValueError):
    """An argument of an optimizer has no counterpart.

    Args:
        argument: its name.
        reason: why not.
    """

    def __init__(self, argument: str, reason: str) -> None:
        super().__init__(reason)
        self.argument = argument


@dataclasses.dataclass(frozen=True)
class OptimizerSettings:
    """An optimizer by its arguments.

    Attributes:
        kind: name of its class, in `tf.compat.v1.train` or `tf.keras.optimizers.legacy`.
        arguments: values of its arguments by name.
    """

    kind: str
    arguments: dict[str, Any]

    @property
    def rate_varies(self) -> bool:
        """Whether the learning rate is a function of the step: an expression of `STEP`."""
        return isinstance(self.arguments["learning_rate"], FunctionCall)

    def number(self, name: str) -> Any:
        """Returns the value of an argument as a Python number.

        Raises:
            Unmovable: it isn't known before training.
        """
        value = self.arguments[name]
        if value is None or isinstance(value, bool):
            return value
        if callable(value):
            value = value()
        known = _known(value)
        if known is None:
            raise Unmovable(name, f"the {name} isn't known before training")
        return known

    def rate(self) -> Any:
        """Returns the learning rate: a number, or the expression of a schedule or of `STEP`.

        Raises:
            Unmovable: Keras has no such schedule.
        """
        value, decay = self.arguments["learning_rate"], 0.0
        if not self.kind.endswith("Optimizer"):  # RMSPropOptimizer has another argument decay
            decay = self.number("decay") if self.arguments.get("decay") else 0.0
        if isinstance(value, (dict, FunctionCall)):
            if decay:
                raise Unmovable("decay", "the learning rate has a schedule besides")
            return _schedule(value) if isinstance(value, dict) else value
        rate = self.number("learning_rate")
        if not decay:
            return rate
        options = {"decay_steps": 1, "decay_rate": decay}
        return call("keras.optimizers.schedules.InverseTimeDecay", rate, **options)


def read(part: ModelPart, model: CannedModel) -> OptimizerSettings:
    """Returns the settings of the optimizer of a part of a model.

    Raises:
        Unmovable: its class, or something that it does besides, has no counterpart.
    """
    given = part.optimizer
    if given is None:
        raise Unmovable("rule", "a SavedModel holds none")
    with tf.Graph().as_default():
        tf1.train.get_or_create_global_step()
        if isinstance(given, str):
            given = _by_name(given, part.learning_rate, model.generation)
        elif part.optimizer_config is None and not isinstance(given, tf1.train.Optimizer):
            given = given()
        _check(given)
        if isinstance(given, tf1.train.Optimizer):
            arguments = private.tf1_optimizer_arguments(given)
        else:
            # Once it has trained, its settings are variables of a graph.
            arguments = {**(part.optimizer_config or _config(given))}
        rate = arguments["learning_rate"]
        if callable(rate):
            rate = rate()
        if tf.is_tensor(rate) and _known(rate) is None:
            rate = _of_step(rate)
        arguments["learning_rate"] = rate
        return OptimizerSettings(type(given).__name__, arguments)


def _config(optimizer: Any) -> dict[str, Any]:
    """Returns the configuration of an optimizer of Keras 2, with its rate if that is a tensor."""
    rate = optimizer.learning_rate
    if not tf.is_tensor(rate) or isinstance(rate, tf.Variable):
        return dict(optimizer.get_config())
    optimizer.learning_rate = 0.0  # get_config would compute a tensor in a session
    return {**optimizer.get_config(), "learning_rate": rate}


def _by_name(name: str, rate: float | None, generation: int) -> Any:
    kind = OPTIMIZERS[name][generation - 1]
    if generation == 1:
        return getattr(tf1.train, kind)(rate)
    classes = legacy_keras.keras_2().optimizers.legacy
    return getattr(classes, kind)(**({} if rate is None else {"learning_rate": rate}))


def _check(optimizer: Any) -> None:
    """Checks that a class is TensorFlow's, and that gradients are only clipped.

    Raises:
        Unmovable: they aren't.
    """
    kind = type(optimizer)
    keras_2 = legacy_keras.keras_2().optimizers.legacy
    if kind not in (getattr(module, kind.__name__, None) for module in (tf1.train, keras_2)):
        raise Unmovable("rule", f"{kind.__module__}.{kind.__name__} isn't TensorFlow's own class")
    if getattr(optimizer, "gradient_transformers", None):
        raise Unmovable("gradient_transformers", "functions of all gradients have no counterpart")
    if isinstance(optimizer, keras_2.Optimizer):
        default = keras_2.SGD().gradient_aggregator
        if optimizer.gradient_aggregator is not default:
            raise Unmovable("gradient_aggregator", "functions of all gradients have no counterpart")


def _of_step(rate: Any) -> Any:
    """Returns the expression of a learning rate that depends on the step.

    Raises:
        Unmovable: it depends on something else besides.
    """
    try:
        return step_functions.read(rate)
    except ValueError as error:
        raise Unmovable("learning_rate", f"there is no counterpart: {error}") from None


def _known(value: Any) -> Any:
    """Returns a number as Python's, without noise such as 0.10000000149; None: it isn't known."""
    if isinstance(value, tf.Variable):
        try:
            value = value.numpy()
        except (AttributeError, NotImplementedError):  # of a graph
            return None
    if tf.is_tensor(value):
        value = tf.get_static_value(value)
        if value is None:
            return None
    return step_functions.number(np.float32(value))


def _schedule(config: dict[str, Any]) -> FunctionCall:
    """Returns the expression of a schedule of learning rates.

    Args:
        config: its configuration in Keras 2.

    Raises:
        Unmovable: it isn't one of Keras.
    """
    kind = config["class_name"]
    schedules = legacy_keras.keras_2().optimizers.schedules
    names = [name for name in dir(schedules) if name[0].isupper()]
    if config.get("registered_name") or kind not in names or kind == "LearningRateSchedule":
        raise Unmovable("learning_rate", f"the schedule {kind} isn't one of tf.keras")
    options = {key: _plain(value) for key, value in config["config"].items() if key != "name"}
    defaults = {key: value for key, value in options.items() if value is not None}
    return call(f"keras.optimizers.schedules.{kind}", **defaults)


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return _known(value)
