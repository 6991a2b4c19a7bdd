# SPDX-License-Identifier: Apache-2.0
"""Plans Keras 3 optimizers with the rules, and the slots, of those that trained a checkpoint.

`RULES` is the table of optimizers: TensorFlow 1's, and those of `tf.keras.optimizers.legacy`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from estimator_spec._tensorflow import private
from estimator_spec.common import legacy_keras
from estimator_spec.common.canned_model import OPTIMIZERS, CannedModel, ModelPart
from estimator_spec.convert.keras_columns.expressions import Call, call
from estimator_spec.convert.keras_columns.plan import Plan

tf1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class Rule:
    """A Keras 3 optimizer that has an older one's rule.

    Attributes:
        keras: its name.
        arguments: its arguments, by those of the older one.
        fixed: further arguments.
        slots: how the names of the checkpoint's slots end, by Keras' names of slots.
        differs: what isn't equal, or ''.
        has_rate: False: the slot `momentum` is a sum of gradients, a: Keras' is -rate · a.
    """

    keras: str
    arguments: dict[str, str]
    slots: dict[str, str]
    fixed: dict[str, Any] = dataclasses.field(default_factory=dict)
    differs: str = ""
    has_rate: bool = True


_FTRL = {
    "learning_rate_power": "learning_rate_power",
    "initial_accumulator_value": "initial_accumulator_value",
    "l1_regularization_strength": "l1_regularization_strength",
    "l2_regularization_strength": "l2_regularization_strength",
    "l2_shrinkage_regularization_strength": "l2_shrinkage_regularization_strength",
    "beta": "beta",
}
_DENSE_FTRL = (
    "Keras computes rows that a step doesn't look up anew from their slots: the same for weights "
    "that started at 0, but an embedding whose slots are new becomes 0"
)
_DENSE_RMS = "the mean squares of rows that a step doesn't look up decay, too"
_DENSE_MOMENTUM = "rows that a step doesn't look up go on moving by their momentum"
_RMS_EPSILON = "epsilon is added to the mean square, and not to its root"

RULES = {
    "AdagradOptimizer": Rule(
        "Adagrad",
        {"initial_accumulator_value": "initial_accumulator_value"},
        {"accumulator": "/Adagrad"},
        {"epsilon": 0.0},
    ),
    "AdamOptimizer": Rule(
        "Adam",
        {"beta1": "beta_1", "beta2": "beta_2", "epsilon": "epsilon"},
        {"momentum": "/Adam", "velocity": "/Adam_1"},
    ),
    "FtrlOptimizer": Rule(
        "Ftrl", _FTRL, {"accumulator": "/Ftrl", "linear": "/Ftrl_1"}, differs=_DENSE_FTRL
    ),
    "GradientDescentOptimizer": Rule("SGD", {}, {}),
    "MomentumOptimizer": Rule(
        "SGD",
        {"momentum": "momentum", "use_nesterov": "nesterov"},
        {"momentum": "/Momentum"},
        differs=_DENSE_MOMENTUM,
        has_rate=False,
    ),
    "RMSPropOptimizer": Rule(
        "RMSprop",
        {"decay": "rho", "momentum": "momentum", "epsilon": "epsilon", "centered": "centered"},
        {"velocity": "/RMSProp", "momentum": "/RMSProp_1"},
        differs=_DENSE_RMS,
    ),
    "Adagrad": Rule(
        "Adagrad",
        {"initial_accumulator_value": "initial_accumulator_value"},
        {"accumulator": "/accumulator"},
        {"epsilon": 0.0},
        "epsilon isn't added to the root of the accumulator: at most 3e-7 of a step",
    ),
    "Adam": Rule(
        "Adam",
        {"beta_1": "beta_1", "beta_2": "beta_2", "epsilon": "epsilon", "amsgrad": "amsgrad"},
        {"momentum": "/m", "velocity": "/v"},
    ),
    "Ftrl": Rule(
        "Ftrl", _FTRL, {"accumulator": "/accumulator", "linear": "/linear"}, differs=_DENSE_FTRL
    ),
    "RMSprop": Rule(
        "RMSprop",
        {"rho": "rho", "momentum": "momentum", "epsilon": "epsilon", "centered": "centered"},
        {"velocity": "/rms", "momentum": "/momentum"},
        differs=f"{_DENSE_RMS}; {_RMS_EPSILON}",
    ),
    "SGD": Rule(
        "SGD",
        {"momentum": "momentum", "nesterov": "nesterov"},
        {"momentum": "/momentum"},
        differs=_DENSE_MOMENTUM,
    ),
}
# Arguments of Keras whose default is 0 or False.
_ZERO_BY_DEFAULT = (
    *("momentum", "nesterov", "centered", "amsgrad", "beta"),
    *(f"{norm}_regularization_strength" for norm in ("l1", "l2", "l2_shrinkage")),
)


def add_optimizers(plan: Plan, model: CannedModel) -> None:
    """Adds the optimizer of each part of a canned model to a plan.

    Without a rule of the same form, the plan has no optimizer, and a difference that says so.
    """
    found = {}
    for part in model.parts:
        settings = _settings(part, model.generation)
        rule = RULES.get(settings.pop("class"))
        if rule is None:
            plan.differ(
                f"the optimizer of {part.scope}",
                "rule",
                "Keras has none of the same rule; compile the model with one of your choice",
            )
            return
        found[part.scope] = _optimizer(plan, part, rule, settings)
    scopes = list(found)
    if len(scopes) == 1:
        plan.optimizer = found[scopes[0]]
        return
    deep, wide = found["dnn"], found["linear"]
    by_path = call("keras.optimizers.OptimizerMap", deep, {"(.*/)?linear_.*": wide})
    plan.optimizer = call("keras.optimizers.MultiOptimizer", by_path)


def _optimizer(plan: Plan, part: ModelPart, rule: Rule, settings: dict[str, Any]) -> Call:
    name = f"the optimizer of {part.scope}"
    options: dict[str, Any] = {}
    for old, new in rule.arguments.items():
        value = settings.get(old)
        if value is not None and (value or new not in _ZERO_BY_DEFAULT):
            options[new] = _number(value)
    options |= rule.fixed
    rate, varies = _learning_rate(settings.get("learning_rate", 0.001))
    if varies:
        plan.differ(
            name,
            "learning_rate",
            f"a function of the step: here it is what it was at step 0, {rate}",
        )
    if settings.get("decay") and "decay" not in rule.arguments:
        plan.differ(name, "decay", f"the learning rate doesn't decay (by {settings['decay']} here)")
    if rule.differs and (rule.differs != _DENSE_MOMENTUM or options.get("momentum")):
        plan.differ(name, "rule", rule.differs)
    kept = {
        slot: ending
        for slot, ending in rule.slots.items()
        if slot != "momentum" or rule.keras == "Adam" or options.get("momentum")
    }
    plan.slots[part.scope] = kept
    if not rule.has_rate:
        plan.slot_factors[part.scope] = -rate
    # Keras' SGD is linear in the gradients, so it needs no sum of them.
    maker = "keras.optimizers.SGD" if rule.keras == "SGD" else rule.keras
    return call(maker, learning_rate=rate, **options)


def _settings(part: ModelPart, generation: int) -> dict[str, Any]:
    """Returns the arguments of a part's optimizer by name, and its class as 'class'."""
    given = part.optimizer
    if isinstance(given, str):
        name = OPTIMIZERS[given][generation - 1]
        if generation == 1:
            made = getattr(tf1.train, name)(part.learning_rate)
            return {"class": name, **private.tf1_optimizer_arguments(made)}
        kind = getattr(legacy_keras.keras_2().optimizers.legacy, name)
        rate = {} if part.learning_rate is None else {"learning_rate": part.learning_rate}
        return {"class": name, **kind(**rate).get_config()}
    if part.optimizer_config is not None:
        return {"class": type(given).__name__, **part.optimizer_config}
    if callable(given) and not hasattr(given, "get_config") and not hasattr(given, "minimize"):
        with tf.Graph().as_default():
            tf1.train.get_or_create_global_step()
            given = given()
            return _of_object(given)
    return _of_object(given)


def _of_object(optimizer: Any) -> dict[str, Any]:
    name = type(optimizer).__name__
    if isinstance(optimizer, tf1.train.Optimizer):
        settings = private.tf1_optimizer_arguments(optimizer)
    else:
        settings = optimizer.get_config()
    rate = settings.get("learning_rate")
    if rate is not None and tf.is_tensor(rate) and not hasattr(rate, "numpy"):
        with tf1.Session(graph=rate.graph) as session:
            session.run(tf1.global_variables_initializer())
            settings["learning_rate"] = ("varies", float(session.run(rate)))
    return {"class": name, **settings}


def _learning_rate(rate: Any) -> tuple[float, bool]:
    """Returns a learning rate at step 0, and whether it is a function of the step."""
    if isinstance(rate, tuple):
        return rate[1], True
    if isinstance(rate, dict):  # the configuration of a schedule
        schedules = legacy_keras.keras_2().optimizers.schedules
        return float(schedules.deserialize(rate)(0)), True
    if callable(rate):
        return float(rate()), True
    return _number(rate), False


def _number(value: Any) -> Any:
    """Returns a number as Python's; float32 noise such as 0.10000000149 is rounded away."""
    if isinstance(value, bool):
        return value
    return float(f"{float(value):.7g}")
