# SPDX-License-Identifier: Apache-2.0
"""Adds tables of embeddings to a plan, and their lookups by the ids of categorical columns."""

from __future__ import annotations

import dataclasses
from typing import Any

from estimator_spec.convert.keras_columns.categorical import read_ids
from estimator_spec.convert.keras_columns.expressions import Call, Name, call
from estimator_spec.convert.keras_columns.kind import Ids, class_name
from estimator_spec.convert.keras_columns.plan import Input, Plan
from estimator_spec.heads.feature_columns import scope_name

_MAX_NORM = (
    "equal in inference; in training the column clips rows at each lookup, and the layer after "
    "each step, so that gradients of clipped rows differ"
)


@dataclasses.dataclass(frozen=True)
class Table:
    """The table of an embedding column.

    Attributes:
        name: name of the layer; columns of one name share it.
        dimension: its width.
        combiner: 'mean', 'sqrtn', 'sum', or None for mean.
        sources: how the names of the checkpoint's variable may end.
        max_norm: largest norm of a row, or None.
        trainable: whether it trains.
        is_safe: whether ids of weight <= 0 are left out, but for sums.
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
    is_safe: bool = True
    initializer: str | None = None
    is_shared: bool = False
    layer: str | None = None


def tpu_table(column: Any) -> Table:
    """Returns the table of a TPU embedding column."""
    name = column.get_embedding_var_name()
    shape, is_safe = (column.dimension, column.combiner), column.use_safe_embedding_lookup
    if class_name(column) == "tpu_columns.SharedEmbeddingColumn":
        sources = (name, f"{name}/embedding_weights")
        return Table(name, *shape, sources, is_safe=is_safe, is_shared=True)
    sources = (f"{scope_name(column)}/embedding_weights", f"{name}/embedding_weights")
    return Table(column.name, *shape, sources, is_safe=is_safe)


def look_up_column(column: Any, plan: Plan, table: Table) -> Name:
    """Adds the lookup of an embedding column."""
    if table.max_norm is not None:
        plan.differ(column.name, "max_norm", _MAX_NORM)
    source, steps = valid_ids(column, plan)
    return look_up(source, plan, table, column.name, steps)


def valid_ids(column: Any, plan: Plan) -> tuple[Ids, int]:
    """Returns the ids of an embedding column, by its policy for invalid ones, and its steps."""
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
    return source, getattr(column, "max_sequence_length", 0)


def look_up(source: Ids, plan: Plan, table: Table, result: str, steps: int = 0) -> Name:
    """Adds a lookup, and its layer, unless another column shares it.

    Args:
        source: the ids.
        plan: the plan.
        table: the table.
        result: what the variable of the result is called.
        steps: steps of a sequence; 0: those of the longest one.
    """
    ids, weights = add_factors(source, plan, table, steps)
    name = table.layer or table_layer(table, plan)
    options: dict[str, Any] = {"combiner": table.combiner or "mean", "name": name}
    options["embeddings_initializer"] = table.initializer or Name("initializer")
    if table.max_norm is not None:
        norm = call("keras.constraints.MaxNorm", float(table.max_norm), axis=1)
        options["embeddings_constraint"] = norm
    if not table.trainable:
        options["trainable"] = False
    shape = (source.size, table.dimension)
    layer: Any = call("keras_rs.layers.EmbedReduce", *shape, **options)
    if table.is_shared:
        layer = plan.layer(f"{name}_table", layer)
    add_table(plan, table, name, source.size)
    return plan.layer(result, Call(layer, (ids, weights)))


def table_layer(table: Table, plan: Plan) -> str:
    """Returns the name of a table's layer."""
    # Other columns of this name may share the table; those of another part have their own.
    scope = "" if table.is_shared else plan.scope
    owner = ("table", table.name, table.dimension, table.combiner or "mean", scope)
    return plan.identifier(table.name, owner, kind="layer")


def add_table(plan: Plan, table: Table, name: str, rows: int, within: str = "") -> None:
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
    plan.variable(name, "embeddings", shape, sources, table.max_norm, within)
    if table.trainable:
        plan.table_uses[name] += 1


def add_factors(source: Ids, plan: Plan, table: Table, steps: int) -> tuple[Name, Name]:
    """Adds the reading of a categorical column; returns ids, and weights for a table's lookup."""
    ids, weights = add_ids(source, plan, steps)
    if source.weights is not None and table.combiner != "sum" and table.is_safe:
        positive = Call(call("keras.layers.ReLU"), (weights,))
        weights = plan.layer(f"{weights.text}_positive", positive)
    return ids, weights


def add_ids(ids: Ids, plan: Plan, steps: int = 0) -> tuple[Name, Name]:
    """Adds the reading of a categorical column; returns the model's ids and weights.

    Args:
        ids: the column.
        plan: the plan.
        steps: steps of a sequence; 0: those of the longest one.
    """
    name = _input_name(ids, steps, plan)
    arguments: tuple[Any, ...] = (name, ids.expression)
    if ids.weights is not None:
        arguments = (*arguments, ids.weights)
    shape = (None, None) if ids.is_sequence else (None,)
    inputs = {
        f"{name}_ids": Input(shape, "int64"),
        f"{name}_weights": Input(shape, "float32"),
    }
    if ids.is_sequence:
        options = {"steps": int(steps)} if steps else {}
        inputs[f"{name}_lengths"] = Input((), "int64")
        plan.read("sequences", call("padded_steps", *arguments, **options), inputs)
    else:
        plan.read(ids.group, call("padded", *arguments), inputs)
    return Name(f"{name}_ids"), Name(f"{name}_weights")


def lengths_of(column: Any, plan: Plan) -> Name:
    """Returns the model's lengths of a sequence column that was added."""
    if class_name(column) == "SequenceNumericColumn":
        return Name(f"{steps_name(column, plan)}_lengths")
    return Name(f"{_input_name(*valid_ids(column, plan), plan)}_lengths")


def steps_name(column: Any, plan: Plan) -> str:
    """Returns the name of a sequence of numbers."""
    return plan.identifier(column.key, ("steps", column), ("", "_lengths"))


def _input_name(ids: Ids, steps: int, plan: Plan) -> str:
    return plan.identifier(ids.name, ("ids", ids, steps), ("_ids", "_weights", "_lengths"))
