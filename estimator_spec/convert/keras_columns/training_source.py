# SPDX-License-Identifier: Apache-2.0
"""Writes the functions that train a model: its loss, the reading of labels, classes."""

from __future__ import annotations

from typing import Any

from estimator_spec.convert.keras_columns.expressions import (
    Merged,
    Name,
    call,
    literal,
    render,
)
from estimator_spec.convert.keras_columns.plan import ModelPlan
from estimator_spec.convert.keras_columns.statements import (
    REGISTERED,
    WIDTH,
    function_text,
    statement,
)
from estimator_spec.convert.keras_columns.step_functions import STEP


def write_training(plan: ModelPlan) -> str:
    """Returns the functions that a model with a head has besides."""
    if not plan.objectives:
        return ""
    moved = plan.optimizer is not None
    optimizer = plan.optimizer if moved else Name("optimizer")
    compiled = function_text(
        f"compile_model(model: keras.Model{'' if moved else ', optimizer: Any'}) -> None",
        "Compiles a model with the estimator's loss, metrics and optimizer."
        if moved
        else "Compiles a model with the estimator's loss and metrics, and an optimizer of yours.",
        [render(call("model.compile", **plan.compiled(optimizer)), depth=1, width=WIDTH)],
    )
    lines = _target_lines(plan) if len(plan.objectives) == 1 else _targets_of_heads(plan)
    batch = function_text(
        "training_batch(features: Mapping[str, Any], labels: Any) -> tuple[Any, ...]",
        "Returns what `fit` and `evaluate` take of a batch, for the `map` of a dataset.",
        lines,
    )
    parts = [compiled, batch]
    classes = [each.of_classes for each in plan.objectives if each.of_classes is not None]
    if classes:
        parts.append(
            function_text(
                "with_classes(outputs: Mapping[str, Any]) -> dict[str, Any]",
                "Returns the model's outputs, and the estimator's predictions of classes.",
                [statement("return", Merged((Name("outputs"), *classes)))],
            )
        )
    return "\n\n\n".join(parts)


def write_rate(name: str, rate: Any) -> str:
    """Returns the function of a learning rate that depends on the step."""
    docstring = "Returns the learning rate of a step."
    text = function_text(f"{name}({STEP.text}: Any) -> Any", docstring, [statement("return", rate)])
    return f"{REGISTERED}\n{text}"


def has_some_weights(plan: ModelPlan) -> bool:
    """Returns whether examples have weights for some heads, and none for others."""
    return len({each.weights is None for each in plan.objectives}) == 2


def _target_lines(plan: ModelPlan) -> list[str]:
    """Returns the statements of `training_batch` of a model with one head."""
    (objective,) = plan.objectives
    outputs = ", ".join(map(literal, objective.outputs))
    lines = [
        statement("number", objective.labels),
        f"targets = dict.fromkeys([{outputs}], number)",
    ]
    if objective.weights is None:
        return [*lines, "return preprocess(features), targets"]
    lines.append(statement("weights", objective.weights))
    return [*lines, "return preprocess(features), targets, weights"]


def _targets_of_heads(plan: ModelPlan) -> list[str]:
    """Returns the statements of `training_batch` of a model with several heads."""
    lines = ["targets: dict[str, Any] = {}"]
    weighted = any(each.weights is not None for each in plan.objectives)
    if weighted:
        lines.append("weights: dict[str, Any] = {}")

    def add(target: str, outputs: tuple[str, ...], value: Any) -> None:
        label = f"{target} |= "
        filled = call("dict.fromkeys", list(outputs), value)
        lines.append(label + render(filled, depth=1, before=len(label), width=WIDTH))

    for each in plan.objectives:
        lines.append(statement("number", each.labels))
        add("targets", each.outputs, Name("number"))
        if weighted:
            add("weights", each.outputs, each.weights or call("unit_weights", Name("number")))
    rest = ", weights" if weighted else ""
    return [*lines, f"return preprocess(features), targets{rest}"]
