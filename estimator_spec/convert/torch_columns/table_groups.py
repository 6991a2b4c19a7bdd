# SPDX-License-Identifier: Apache-2.0
"""Groups the tables of a plan: those of a group are in one parameter of a PyTorch program."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from estimator_spec.convert.keras_columns.expressions import FunctionCall, Name, call, render
from estimator_spec.convert.keras_columns.lookups import TABLE_LAYERS
from estimator_spec.convert.keras_columns.plan import ModelPlan

_CLIPPING = frozenset(("clipvalue", "clipnorm", "global_clipnorm"))


@dataclasses.dataclass
class TableGroup:
    """Tables that are in one parameter.

    Attributes:
        name: name of the module.
        dimension: width of the tables.
        options: further arguments of the module.
        tables: number of rows and combiner of each table, by its name.
    """

    name: str
    dimension: int
    options: dict[str, Any]
    tables: dict[str, tuple[int, str]] = dataclasses.field(default_factory=dict)

    def module(self, *names: str) -> FunctionCall:
        """Returns the expression of the module; names: with these tables only."""
        tables = {name: self.tables[name] for name in names or self.tables}
        return call("layers.Tables", self.dimension, tables, **self.options)


def group_tables(plan: ModelPlan) -> dict[str, TableGroup]:
    """Returns the group of each table, by the table's name.

    A group has tables of one width that train by one rule, so that a step takes the operations of
    one table for all. Where gradients are clipped, each table is a group.
    """
    parts = {each.layer: each.part for each in plan.variables}
    groups: dict[Any, TableGroup] = {}
    found = {}
    for table in _tables(plan):
        name, (rows, dimension) = table.named["name"], table.arguments
        options = {key: table.named[key] for key in ("max_norm", "trainable") if key in table.named}
        rule = rule_of(parts[name], plan)
        key: tuple[Any, ...] = (dimension, *options.items(), rule)
        if clips(plan.optimizers.get(parts[name])):
            options["unique"], key = True, (*key, name)
        if key not in groups:
            module = plan.identifier(f"tables_{dimension}", ("tables", key), kind="layer")
            groups[key] = TableGroup(module, dimension, options)
        groups[key].tables[name] = (rows, table.named["combiner"])
        found[name] = groups[key]
    return found


def rule_of(scope: str, plan: ModelPlan) -> str:
    """Returns what is equal for parts of a model that one optimizer can train."""
    made = plan.optimizers.get(scope)
    return scope if made is None or clips(made) else render(made, width=10**6)


def clips(optimizer: FunctionCall | None) -> bool:
    """Returns whether an optimizer clips gradients."""
    return optimizer is not None and not _CLIPPING.isdisjoint(optimizer.named)


def is_table(expression: Any) -> bool:
    """Returns whether an expression is a table of embeddings."""
    function = getattr(expression, "function", None)
    return isinstance(function, Name) and function.text in TABLE_LAYERS


def _tables(plan: ModelPlan) -> Iterator[FunctionCall]:
    for _, expression in plan.layers:
        for each in (expression, getattr(expression, "function", None)):
            if isinstance(each, FunctionCall) and is_table(each):
                yield each
