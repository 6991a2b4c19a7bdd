# SPDX-License-Identifier: Apache-2.0
"""Plans Keras 3 optimizers with the rules, and the slots, of those that trained a checkpoint.

`RULES` is the table of optimizers: TensorFlow 1's, and those of `tf.keras.optimizers.legacy`.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

from estimator_spec.convert.keras_columns import optimizer_settings
from estimator_spec.convert.keras_columns.expressions import FunctionCall, call
from estimator_spec.convert.keras_columns.optimizer_settings import OptimizerSettings, Unmovable
from estimator_spec.convert.keras_columns.plan import ModelPlan
from estimator_spec.heads.canned_model import CannedModel, ModelPart


@dataclasses.dataclass(frozen=True)
class OptimizerRule:
    """An optimizer of programs that has another one's rule.

    Attributes:
        keras: its name; of most, that of Keras 3's.
        arguments: its arguments, by those of the older one.
        slots: Keras' names of slots, and what names them in the checkpoint: the ending of their
            names, or, of TensorFlow 1, the argument with it; in the order of their creation.
        fixed: further arguments.
        has_rate: False: the slot `momentum` is a sum of gradients, a: Keras' is -rate · a.
    """

    keras: str
    arguments: dict[str, str]
    slots: dict[str, str]
    fixed: dict[str, Any] = dataclasses.field(default_factory=dict)
    has_rate: bool = True


def same(*names: str) -> dict[str, str]:
    """Returns names of arguments or slots that both optimizers call alike."""
    return {name: name for name in names}


_FTRL = same(
    "learning_rate_power",
    "initial_accumulator_value",
    "l1_regularization_strength",
    "l2_regularization_strength",
    "l2_shrinkage_regularization_strength",
    "beta",
)
_CLIPPING = same("clipvalue", "clipnorm", "global_clipnorm")
_CLIPPED_SUMS = (
    "the estimator clips the gradient of each lookup before it sums them, and Keras clips the sum: "
    "rows of {tables}, which several columns look up, train differently"
)
OTHER_ROWS = (
    "on JAX and torch rows that a step doesn't look up change, too; in a program without "
    "TensorFlow rows with a gradient of 0 don't, whether a step looks them up or not"
)
"""How optimizers of `_CHANGE_ALL_ROWS` differ."""

RULES = {
    "AdadeltaOptimizer": OptimizerRule(
        "Adadelta",
        same("rho", "epsilon"),
        {"accumulated_grad": "name", "accumulated_delta_var": "name"},
    ),
    "AdagradOptimizer": OptimizerRule(
        "Adagrad", same("initial_accumulator_value"), {"accumulator": "name"}, {"epsilon": 0.0}
    ),
    "AdamOptimizer": OptimizerRule(
        "Adam",
        {"beta1": "beta_1", "beta2": "beta_2", "epsilon": "epsilon"},
        {"momentum": "name", "velocity": "name"},
    ),
    "FtrlOptimizer": OptimizerRule(
        "Ftrl", _FTRL, {"accumulator": "accum_name", "linear": "linear_name"}
    ),
    "GradientDescentOptimizer": OptimizerRule("SGD", {}, {}),
    "MomentumOptimizer": OptimizerRule(
        "SGD",
        {"momentum": "momentum", "use_nesterov": "nesterov"},
        {"momentum": "name"},
        has_rate=False,
    ),
    "RMSPropOptimizer": OptimizerRule(
        "RMSprop",
        {"decay": "rho", **same("momentum", "epsilon", "centered")},
        {"velocity": "name", "average_gradient": "name", "momentum": "name"},
    ),
    "Adadelta": OptimizerRule(
        "Adadelta",
        same("rho", "epsilon"),
        {"accumulated_grad": "/accum_grad", "accumulated_delta_var": "/accum_var"},
    ),
    "Adagrad": OptimizerRule(
        "Adagrad", same("initial_accumulator_value", "epsilon"), {"accumulator": "/accumulator"}
    ),
    "Adam": OptimizerRule(
        "Adam",
        same("beta_1", "beta_2", "epsilon", "amsgrad"),
        {"momentum": "/m", "velocity": "/v", "velocity_hat": "/vhat"},
    ),
    "Adamax": OptimizerRule(
        "Adamax",
        same("beta_1", "beta_2", "epsilon"),
        {"momentum": "/m", "norm": "/v"},
    ),
    "Ftrl": OptimizerRule("Ftrl", _FTRL, {"accumulator": "/accumulator", "linear": "/linear"}),
    "RMSprop": OptimizerRule(
        "RMSprop",
        same("rho", "momentum", "epsilon", "centered"),
        {"velocity": "/rms", "average_gradient": "/mg", "momentum": "/momentum"},
    ),
    "SGD": OptimizerRule("SGD", same("momentum", "nesterov"), {"momentum": "/momentum"}),
}
# Arguments of Keras whose default is 0 or False.
_ZERO_BY_DEFAULT = (
    *("momentum", "nesterov", "centered", "amsgrad", "beta"),
    *(f"{norm}_regularization_strength" for norm in ("l1", "l2", "l2_shrinkage")),
    *_CLIPPING,
)
# Those of Keras that change rows with a gradient of 0, which older ones don't.
_CHANGE_ALL_ROWS = ("Adadelta", "Adamax", "Ftrl", "RMSprop", "SGD")
# Slots that Keras has only with an argument.
_SLOT_OF_ARGUMENT = {"velocity_hat": "amsgrad", "average_gradient": "centered"}


def add_optimizers(plan: ModelPlan, model: CannedModel) -> None:
    """Adds the optimizer of each part of a canned model to a plan.

    Without one of the same rule, the plan has no optimizer, and a difference that says so.
    """
    found = {}
    for part in model.parts:
        try:
            found[part.scope] = _optimizer(plan, part, optimizer_settings.read(part, model))
        except Unmovable as error:
            plan.differ(
                f"the optimizer of {part.scope}",
                error.argument,
                f"{error}; train the new model by an optimizer of your choice",
            )
            return
    plan.optimizers = found


def _optimizer(plan: ModelPlan, part: ModelPart, settings: OptimizerSettings) -> FunctionCall:
    rule, given = RULES.get(settings.kind), settings.arguments
    if rule is None:
        raise Unmovable("rule", "there is none of the same rule")
    options = {**rule.fixed}
    for old, new in {**rule.arguments, **_CLIPPING}.items():
        value = settings.number(old) if old in given else None
        if value is not None and (value or new not in _ZERO_BY_DEFAULT):
            options[new] = value
    clipped = [name for name in _CLIPPING if name in options]
    if len(clipped) > 1:
        raise Unmovable(
            clipped[0],
            f"the new optimizers take {clipped[0]} or {clipped[1]}, and not both",
        )
    rate = settings.rate()
    name = f"the optimizer of {part.scope}"
    if settings.rate_varies:
        function = plan.named(plan.rates, f"{part.scope}_learning_rate", rate)
        rate = call("RateOfStep", function)
    own = [variable.layer for variable in plan.variables if variable.part == part.scope]
    shared = [layer for layer in own if plan.table_uses[layer] > 1]
    if clipped and shared:
        tables = " and of ".join(shared)
        plan.differ(name, clipped[0], _CLIPPED_SUMS.format(tables=tables), of_keras=True)
    kind = rule.keras
    if settings.kind == "RMSprop" and not options.get("momentum"):
        kind = "Keras2RMSprop"
    elif kind in _CHANGE_ALL_ROWS and (kind != "SGD" or options.get("momentum")):
        plan.differ(name, "rule", OTHER_ROWS, of_keras=True)
    plan.slots[part.scope] = _slots(rule, settings, options)
    if not rule.has_rate:
        if isinstance(rate, FunctionCall):
            raise Unmovable(
                "learning_rate",
                "it varies, and the new momentum has the rates of the steps before",
            )
        plan.slot_factors[part.scope] = -rate
    return call(kind, learning_rate=rate, **options)


def _slots(
    rule: OptimizerRule, settings: OptimizerSettings, options: dict[str, Any]
) -> dict[str, str]:
    """Returns how the names of slots end in the checkpoint, by Keras' names of slots."""
    is_tf1 = settings.kind.endswith("Optimizer")
    numbers: dict[str, int] = collections.defaultdict(int)
    endings = {}
    for slot, naming in rule.slots.items():
        needed = _SLOT_OF_ARGUMENT.get(slot)
        if needed is not None and not options.get(needed):
            continue
        ending = naming
        if is_tf1:
            own = settings.arguments.get(naming) or settings.arguments["name"]
            ending = f"/{own}_{numbers[own]}" if numbers[own] else f"/{own}"
            numbers[own] += 1
        # Keras' Adam calls another slot so.
        if slot == "momentum" and rule.keras in ("RMSprop", "SGD") and not options.get("momentum"):
            continue
        endings[slot] = ending
    return endings
