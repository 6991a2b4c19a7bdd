# SPDX-License-Identifier: Apache-2.0
"""Plans the optimizers of a specification's tables, with the names of their slots."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from estimator_spec.convert import resolved_spec
from estimator_spec.convert.keras_columns import distributed, lookups
from estimator_spec.convert.keras_columns.expressions import call
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


class _Rule(NamedTuple):
    """The optimizer of programs that has the rule of one of the embedding core.

    Attributes:
        name: its class in `optimizers.py`.
        slots: its names of slots by those of the embedding core.
        options: function from the core's optimizer to its arguments.
    """

    name: str
    slots: dict[str, str]
    options: Callable[[Any], dict[str, Any]]


_RULES: dict[type, _Rule] = {
    ours.StochasticGradientDescentParameters: _Rule("SGD", {}, lambda given: {}),
    ours.AdagradParameters: _Rule(
        "Adagrad",
        {"accumulator": "accumulator"},
        lambda given: {
            "initial_accumulator_value": given.initial_accumulator,
            "epsilon": 0.0,
        },
    ),
    ours.AdamParameters: _Rule(
        "EmbeddingAdam",
        {"m": "momentum", "v": "velocity"},
        lambda given: {
            "beta_1": given.beta1,
            "beta_2": given.beta2,
            "epsilon": given.epsilon,
            "lazy": given.lazy_adam,
            "sum_inside_sqrt": given.sum_inside_sqrt,
        },
    ),
    ours.FtrlParameters: _Rule(
        "Ftrl",
        {"accumulator": "accumulator", "linear": "linear"},
        lambda given: {
            "learning_rate_power": given.learning_rate_power,
            "initial_accumulator_value": given.initial_accumulator_value,
            "l1_regularization_strength": given.l1_regularization_strength,
            "l2_regularization_strength": given.l2_regularization_strength,
            "beta": given.beta,
        },
    ),
    ours.MomentumParameters: _Rule(
        "SGD",
        {"momenta": "momentum"},
        lambda given: {"momentum": given.momentum, "nesterov": given.use_nesterov},
    ),
    ours.RMSPropParameters: _Rule(
        "RMSprop",
        {"ms": "velocity", "mom": "momentum"},
        lambda given: {
            "rho": given.rho,
            "momentum": given.momentum,
            "epsilon": given.epsilon,
        },
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
        plan.optimizers[layer] = call(
            rule.name, learning_rate=float(rate), **rule.options(parameters)
        )
        plan.slots[layer] = {
            rule.slots[slot.name]: slot.suffix
            for slot in type(parameters).SLOTS
            if slot.name in rule.slots
        }
        if isinstance(parameters, ours.MomentumParameters):
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
