# SPDX-License-Identifier: Apache-2.0
"""Plans the optimizers of a specification's tables, with the names of their slots."""

from __future__ import annotations

import dataclasses
from typing import Any

from estimator_spec.convert import resolved_spec
from estimator_spec.convert.keras_columns import distributed, lookups
from estimator_spec.convert.keras_columns.expressions import call
from estimator_spec.convert.keras_columns.optimizers import OptimizerRule, same
from estimator_spec.convert.keras_columns.plan import ModelPlan
from estimator_spec.core.embedding import optimizers as ours
from estimator_spec.core.embedding.optimizers import OptimizationParameters
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec
from tpu_columns.column_types import TPUEmbeddingColumn

# What all optimizers of the embedding core have, and programs don't, unless it is None or 0.
_LIMITS = (
    *("clip_weight_min", "clip_weight_max", "weight_decay_factor"),
    *("clip_gradient_min", "clip_gradient_max"),
)


# Programs' optimizers by those of the embedding core: arguments and slots by the core's names.
_RULES: dict[type, OptimizerRule] = {
    ours.StochasticGradientDescentParameters: OptimizerRule("SGD", {}, {}),
    ours.AdagradParameters: OptimizerRule(
        "Adagrad",
        {"initial_accumulator": "initial_accumulator_value"},
        {"accumulator": "accumulator"},
        {"epsilon": 0.0},
    ),
    ours.AdamParameters: OptimizerRule(
        "EmbeddingAdam",
        {
            "beta1": "beta_1",
            "beta2": "beta_2",
            "epsilon": "epsilon",
            "lazy_adam": "lazy",
            "sum_inside_sqrt": "sum_inside_sqrt",
        },
        {"momentum": "m", "velocity": "v"},
    ),
    ours.FtrlParameters: OptimizerRule(
        "Ftrl",
        same(
            *("learning_rate_power", "initial_accumulator_value", "l1_regularization_strength"),
            *("l2_regularization_strength", "beta"),
        ),
        same("accumulator", "linear"),
    ),
    ours.MomentumParameters: OptimizerRule(
        "SGD",
        {"momentum": "momentum", "use_nesterov": "nesterov"},
        {"momentum": "momenta"},
        has_rate=False,
    ),
    ours.RMSPropParameters: OptimizerRule(
        "RMSprop", same("rho", "momentum", "epsilon"), {"velocity": "ms", "momentum": "mom"}
    ),
}


def add_optimizers(plan: ModelPlan, spec: EmbeddingConfigSpec) -> None:
    """Adds an optimizer for each table of a specification, which becomes a part of the model.

    Args:
        plan: the plan of the specification's columns. It gets a difference for each table whose
            optimizer has no counterpart.
        spec: the specification.
    """
    resolved = resolved_spec.resolve(spec)
    for column in distributed.columns_of(spec):
        if not isinstance(column, TPUEmbeddingColumn):
            continue
        layer = lookups.table_layer(lookups.tpu_table(column), plan)
        table = resolved.features[column.get_feature_key_name()].table_id
        if layer in plan.optimizers:
            continue
        parameters, rate = resolved.parameters(table), resolved.learning_rate(table)
        why = _why_not(parameters, rate)
        if table in resolved.on_tensor_core:
            why = "the table is on the tensor core, where model_fn trains it"
        if why or parameters is None:
            plan.differ(layer, "optimizer", f"{why}: the program has none for it")
            continue
        rule = _RULES[type(parameters)]
        options = {new: getattr(parameters, old) for old, new in rule.arguments.items()}
        options = {"learning_rate": float(rate), **options, **rule.fixed}
        plan.optimizers[layer] = call(rule.keras, **options)
        suffixes = {slot.name: slot.suffix for slot in type(parameters).SLOTS}
        plan.slots[layer] = {new: suffixes[old] for new, old in rule.slots.items()}
        if not rule.has_rate:
            plan.slot_factors[layer] = -float(rate)
        plan.variables = [
            dataclasses.replace(each, part=layer) if each.layer == layer else each
            for each in plan.variables
        ]


def _why_not(parameters: OptimizationParameters | None, rate: Any) -> str:
    """Returns why programs have no optimizer of the same rule; '' if they have."""
    if parameters is None:
        return "the specification has no optimizer"
    kind = type(parameters).__name__
    if type(parameters) not in _RULES:
        return f"there is none with the rule of {kind}"
    limits = [name for name in _LIMITS if getattr(parameters, name)]
    if getattr(parameters, "multiply_linear_by_learning_rate", False):
        limits.append("multiply_linear_by_learning_rate")
    if limits:
        return f"{limits[0]} of {kind} has no counterpart"
    if rate is None or callable(rate):
        return "the learning rate is a function of the program" if rate else "it has no rate"
    return ""
