# SPDX-License-Identifier: Apache-2.0
"""Adds dense columns to a plan: `DENSE` has a row for each kind."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from estimator_spec.convert.keras_columns.categorical import (
    CATEGORICAL,
    bucket_boundaries,
    read_numbers,
)
from estimator_spec.convert.keras_columns.expressions import (
    DictItem,
    FunctionCall,
    Name,
    call,
    render,
)
from estimator_spec.convert.keras_columns.kind import (
    ColumnKind,
    class_name,
    count,
    unknown_column,
)
from estimator_spec.convert.keras_columns.lookups import (
    EmbeddingTable,
    add_ids,
    column_ids,
    look_up_column,
    steps_name,
    tpu_table,
)
from estimator_spec.convert.keras_columns.plan import Input, ModelPlan, Origin, feature
from estimator_spec.heads.feature_columns import scope_name


def add_dense(column: Any, plan: ModelPlan) -> Name | DictItem:
    """Adds a dense column to a plan.

    Returns:
        The model's tensor, [B, k]; [B, T, k] of a sequence.

    Raises:
        ValueError: this kind of column can't move, or isn't dense.
    """
    kind = DENSE.get(class_name(column))
    if kind is None and class_name(column) in CATEGORICAL:
        raise ValueError(
            f"Column {column.name!r} is categorical, and a dense one is needed here: wrap it with "
            "an embedding_column or indicator_column."
        )
    if kind is None:
        raise unknown_column(column)
    before = len(plan.layers)
    tensor: Name | DictItem = kind.convert(column, plan)
    add_origin(plan, column, kind, before, tensor)
    return tensor


def add_origin(
    plan: ModelPlan, column: Any, kind: ColumnKind, before: int, tensor: Any = None
) -> None:
    """Adds the report's line of a column.

    Args:
        plan: the plan.
        column: the column.
        kind: its kind.
        before: number of the plan's layers before those that were made for it.
        tensor: the model's tensor, if it may be one of another layer.
    """
    inner = getattr(column, "categorical_column", None)
    reading = kind.reading if inner is None else CATEGORICAL[class_name(inner)].reading
    added = plan.layers[before:]
    made = dict.fromkeys(filter(None, map(_constructor, [each for _, each in added] or [tensor])))
    names = tuple(name for name, _ in added)
    layers = ", ".join(made) or kind.layers
    plan.origins.append(Origin(column.name, kind.makers, reading, layers, names))


def _constructor(expression: Any) -> str | None:
    """Returns the source of a layer without the tensors that it is called with."""
    if isinstance(expression, DictItem):
        return "a table of `keras_rs.layers.DistributedEmbedding`"
    while isinstance(expression, FunctionCall) and isinstance(expression.function, FunctionCall):
        expression = expression.function
    is_call = isinstance(expression, FunctionCall)
    return f"`{render(expression, width=10**6)}`" if is_call else None


def is_sequence(column: Any) -> bool:
    """Returns whether a dense column is one of steps."""
    while column is not None:
        if class_name(column) in ("SequenceNumericColumn", "SequenceCategoricalColumn"):
            return True
        column = getattr(column, "categorical_column", None)
    return False


def _numeric(column: Any, plan: ModelPlan) -> Name:
    size = count(column.shape)
    name = plan.identifier(column.key, ("numbers", column))
    plan.read("numeric", {name: read_numbers(column, plan)}, {name: Input((size,), "float32")})
    return Name(name)


def _one_hot_buckets(column: Any, plan: ModelPlan) -> Name:
    boundaries = bucket_boundaries(column)
    size, number = len(boundaries) + 1, count(column.source_column.shape)
    name = plan.identifier(column.name, ("buckets", column))
    buckets = call("buckets_of", read_numbers(column.source_column, plan), boundaries)
    plan.read("buckets", {name: buckets}, {name: Input((number,), "int32")})
    encoding = call("keras.layers.CategoryEncoding", size, output_mode="one_hot")
    one_hot = plan.layer(f"{name}_one_hot", encoding, Name(name))
    if number == 1:
        return one_hot
    return plan.layer(f"{name}_flat", call("keras.layers.Flatten"), one_hot)


def _indicator(column: Any, plan: ModelPlan) -> Name:
    source = column_ids(column, plan)
    ids, weights = add_ids(source, plan)
    if source.is_sequence:
        # CategoryEncoding takes no steps.
        one_hot = call("keras.ops.one_hot", ids, source.size)
        weighted = call("keras.ops.multiply", one_hot, call("keras.ops.expand_dims", weights, -1))
        return plan.layer(column.name, call("keras.ops.sum", weighted, axis=-2))
    encoding = call("keras.layers.CategoryEncoding", source.size, output_mode="count")
    counts = FunctionCall(encoding, (ids,), {"count_weights": weights})
    return plan.layer(column.name, counts)


def _embedding(column: Any, plan: ModelPlan) -> Name:
    return _own_table(column, plan, column.name, scope_name(column))


def _shared_v1(column: Any, plan: ModelPlan) -> Name:
    name = column.shared_embedding_collection_name
    return _own_table(column, plan, name, name, is_shared=True)


def _own_table(
    column: Any, plan: ModelPlan, name: str, scope: str, is_shared: bool = False
) -> Name:
    shape = (int(column.dimension), column.combiner)
    sources = (f"{scope}/embedding_weights",)
    options = (column.max_norm, column.trainable)
    table = EmbeddingTable(name, *shape, sources, *options, is_shared=is_shared)
    return look_up_column(column, plan, table)


def _shared(column: Any, plan: ModelPlan) -> Name:
    creator = column.shared_embedding_column_creator
    with tf.Graph().as_default():  # the one public way to the name of the table
        weights = creator.embedding_weights
    name, shape = weights.op.name, (int(creator.dimension), column.combiner)
    options = (column.max_norm, weights.trainable)
    table = EmbeddingTable(name, *shape, (name,), *options, is_shared=True)
    return look_up_column(column, plan, table)


def _tpu(column: Any, plan: ModelPlan) -> Name | DictItem:
    found = plan.lookups.get((plan.scope, column.name))
    return found or look_up_column(column, plan, tpu_table(column))


def _sequence_numeric(column: Any, plan: ModelPlan) -> Name:
    plan.examples[column.key] = tf.io.VarLenFeature(column.dtype)
    name = steps_name(column, plan)
    arguments: dict[str, Any] = {}
    if column.default_value:
        arguments["default"] = float(column.default_value)
    if column.normalizer_fn is not None:
        arguments["normalizer"] = plan.normalizer(column)
    shape = [int(axis) for axis in column.shape]
    steps = call("number_steps", name, feature(column.key), shape, **arguments)
    lengths = Input((), "int64")
    inputs = {name: Input((None, count(shape)), "float32"), f"{name}_lengths": lengths}
    plan.read("sequences", steps, inputs)
    return Name(name)


_EMBEDDING = "`keras_rs.layers.EmbedReduce(size, dimension, combiner=…)`"
_CLIPPED = "with `max_norm` `ClippedEmbedReduce`, a class of the program"
_IN_TORCH = "`layers.Tables(dimension, {table: (size, combiner)})`"
_LAST_BITS = "the last bits after a normalizer of `log`, `exp` and others"

DENSE: dict[str, ColumnKind] = {
    "NumericColumn": ColumnKind(
        "numeric_column",
        "`numbers`, after the normalizer",
        "an input",
        "",
        _numeric,
        "an input",
        _LAST_BITS,
    ),
    "BucketizedColumn": dataclasses.replace(
        CATEGORICAL["BucketizedColumn"], convert=_one_hot_buckets
    ),
    "IndicatorColumn": ColumnKind(
        "indicator_column",
        "`padded` ids and weights",
        '`CategoryEncoding(size, "count")`, which counts a repeated value twice, as the column',
        "",
        _indicator,
        "`layers.count_ids(ids, weights, size)`; of steps `functional.one_hot`",
    ),
    "EmbeddingColumn": ColumnKind(
        "embedding_column",
        "`padded` ids and weights",
        f"{_EMBEDDING}; {_CLIPPED}",
        "",
        _embedding,
        _IN_TORCH,
    ),
    "SharedEmbeddingColumn": ColumnKind(
        "shared_embeddings",
        "`padded` ids and weights",
        f"one {_EMBEDDING} for all; {_CLIPPED}",
        "",
        _shared,
        f"one table of {_IN_TORCH} for all",
    ),
    "_SharedEmbeddingColumn": ColumnKind(
        "tf.compat.v1: shared_embedding_columns",
        "`padded` ids and weights",
        f"one {_EMBEDDING} for all; {_CLIPPED}",
        "",
        _shared_v1,
        f"one table of {_IN_TORCH} for all",
    ),
    "tpu_columns.EmbeddingColumn": ColumnKind(
        "tpu_columns: embedding_column",
        "`padded` ids and weights, `valid_ids` of a policy",
        f"{_EMBEDDING}, or `keras_rs.layers.DistributedEmbedding`",
        "",
        _tpu,
        _IN_TORCH,
    ),
    "tpu_columns.SharedEmbeddingColumn": ColumnKind(
        "tpu_columns: shared_embedding_columns",
        "`padded` ids and weights, `valid_ids` of a policy",
        f"one {_EMBEDDING} for all, or `keras_rs.layers.DistributedEmbedding`",
        "",
        _tpu,
        f"one table of {_IN_TORCH} for all",
    ),
    "SequenceNumericColumn": ColumnKind(
        "sequence_numeric_column",
        "`number_steps`, after the normalizer",
        "an input",
        "",
        _sequence_numeric,
        "an input",
        _LAST_BITS,
    ),
}
