# SPDX-License-Identifier: Apache-2.0
"""Adds tables of embeddings to a plan, and their lookups by the ids of categorical columns."""

from __future__ import annotations

import dataclasses
from typing import Any

from estimator_spec.convert.keras_columns.categorical import read_ids
from estimator_spec.convert.keras_columns.expressions import Name, call
from estimator_spec.convert.keras_columns.kind import ColumnIds, class_name
from estimator_spec.convert.keras_columns.plan import Input, ModelPlan
from estimator_spec.heads.feature_columns import scope_name

TABLE_LAYERS = ("keras_rs.layers.EmbedReduce", "ClippedEmbedReduce")
"""The layers of a table: without and with a largest norm of its rows."""


@dataclasses.dataclass(frozen=True)
class EmbeddingTable:
    """The table of an embedding column.

    Attributes:
        name: name of the layer; columns of one name share it.
        dimension: its width.
        combiner: 'mean', 'sqrtn', 'sum', or None for mean.
        sources: how the names of the checkpoint's variable may end.
        max_norm: largest norm of a row, or None.
        trainable: whether it trains.
        initializer: Keras' name of the initializer; None: the model's argument.
        is_shared: whether other columns share it.
        layer: the layer's name, if it is chosen already.
    """

    name: str
    dimension: int
    combiner: str | None
    sources: tuple[str, ...]
    max_norm: float | None = None
    trainable: bool = True
    initializer: str | None = None
    is_shared: bool = False
    layer: str | None = None


def tpu_table(column: Any) -> EmbeddingTable:
    """Returns the table of a TPU embedding column."""
    name = column.get_embedding_var_name()
    shape = (column.dimension, column.combiner)
    if class_name(column) == "tpu_columns.SharedEmbeddingColumn":
        sources = (name, f"{name}/embedding_weights")
        return EmbeddingTable(name, *shape, sources, is_shared=True)
    sources = (f"{scope_name(column)}/embedding_weights", f"{name}/embedding_weights")
    return EmbeddingTable(column.name, *shape, sources)


def look_up_column(column: Any, plan: ModelPlan, table: EmbeddingTable) -> Name:
    """Adds the lookup of an embedding column."""
    return look_up(column_ids(column, plan), plan, table, column.name)


def column_ids(column: Any, plan: ModelPlan) -> ColumnIds:
    """Returns the ids of an embedding or indicator column, by its policy for invalid ones."""
    source = read_ids(column.categorical_column, plan)
    policy = getattr(column, "invalid_ids", None)
    if policy is not None:
        valid = call("valid_ids", source.expression, source.size, policy)
        weights = source.weights
        if policy == "drop" and weights is not None:
            weights = call("valid_weights", source.expression, weights, source.size)
        source = dataclasses.replace(
            source, name=f"{source.name}_{policy}", expression=valid, weights=weights
        )
    if not hasattr(column, "combiner"):
        return source
    steps = int(getattr(column, "max_sequence_length", 0))
    source = dataclasses.replace(source, steps=steps)
    return source.for_lookup(column.combiner, column.use_safe_embedding_lookup)


def look_up(source: ColumnIds, plan: ModelPlan, table: EmbeddingTable, result: str) -> Name:
    """Adds a lookup, and its layer, unless another column shares it.

    Args:
        source: the ids.
        plan: the plan.
        table: the table.
        result: what the variable of the result is called.
    """
    ids, weights = add_ids(source, plan)
    name = table.layer or table_layer(table, plan)
    options: dict[str, Any] = {"combiner": table.combiner or "mean", "name": name}
    options["embeddings_initializer"] = table.initializer or Name("initializer")
    kind = TABLE_LAYERS[table.max_norm is not None]
    if table.max_norm is not None:
        options["max_norm"] = float(table.max_norm)
    if not table.trainable:
        options["trainable"] = False
    shape = (source.size, table.dimension)
    layer: Any = call(kind, *shape, **options)
    if table.is_shared:
        layer = plan.layer(f"{name}_table", layer)
    add_table(plan, table, name, source.size)
    return plan.layer(result, layer, ids, weights)


def table_layer(table: EmbeddingTable, plan: ModelPlan) -> str:
    """Returns the name of a table's layer."""
    # Other columns of this name may share the table; those of another part have their own.
    scope = "" if table.is_shared else plan.scope
    owner = ("table", table.name, table.dimension, table.combiner or "mean", scope)
    return plan.identifier(table.name, owner, kind="layer")


def add_table(
    plan: ModelPlan, table: EmbeddingTable, name: str, rows: int, within: str = ""
) -> None:
    """Adds the variable of a table, unless the plan has it, and counts the lookup.

    Args:
        plan: the plan.
        table: the table.
        name: name of its layer.
        rows: number of its rows.
        within: as in `Variable`.
    """
    sources = table.sources
    if plan.scope:
        sources = (*(f"{plan.scope}/{source}" for source in sources), *sources)
    shape = (rows, table.dimension)
    plan.variable(name, "embeddings", shape, sources, within, table.trainable)
    if table.trainable:
        plan.table_uses[name] += 1


def add_ids(ids: ColumnIds, plan: ModelPlan) -> tuple[Name, Name]:
    """Adds the reading of a categorical column; returns the model's ids and weights."""
    name = _input_name(ids, plan)
    arguments: list[Any] = [name, ids.expression]
    if ids.weights is not None:
        arguments.append(ids.weights)
    options: dict[str, Any] = {"positive": True} if ids.positive else {}
    shape = (None, None) if ids.is_sequence else (None,)
    inputs = {
        f"{name}_ids": Input(shape, "int64"),
        f"{name}_weights": Input(shape, "float32"),
    }
    if ids.is_sequence:
        options |= {"steps": ids.steps} if ids.steps else {}
        inputs[f"{name}_lengths"] = Input((), "int64")
        plan.read("sequences", call("padded_steps", *arguments, **options), inputs)
    else:
        options |= {} if ids.safe else {"safe": False}
        plan.read(ids.group, call("padded", *arguments, **options), inputs)
    return Name(f"{name}_ids"), Name(f"{name}_weights")


def lengths_of(column: Any, plan: ModelPlan) -> Name:
    """Returns the model's lengths of a sequence column that was added."""
    if class_name(column) == "SequenceNumericColumn":
        return Name(f"{steps_name(column, plan)}_lengths")
    return Name(f"{_input_name(column_ids(column, plan), plan)}_lengths")


def steps_name(column: Any, plan: ModelPlan) -> str:
    """Returns the name of a sequence of numbers."""
    return plan.identifier(column.key, ("steps", column), ("", "_lengths"))


def _input_name(ids: ColumnIds, plan: ModelPlan) -> str:
    return plan.identifier(ids.name, ("ids", ids), ("_ids", "_weights", "_lengths"))
