# SPDX-License-Identifier: Apache-2.0
"""Lookups by an op of `kernels/cpp/`, with its gradient.

    ids, weights ─▶ LookUpTables ─▶ layer [B, 26·D] ─▶ model ─▶ gradient of the layer
                        │                                           │
               rows that were read ──────▶ RowGradients ◀───────────┘
                                                │  (one for each column)
                                slices of a table's gradient: distinct ids, a row for each

The op reads rows where they are, and sums them in the order of TensorFlow's lookups, whose
numbers it has. An optimizer gets slices, as from TensorFlow's gathers.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import tensorflow as tf

from tpu_columns import driver_graphs, lookup_errors, placement, shared_state
from tpu_columns.kernels import devices, loading

OP = "TpuColumnsLookUpTables"
GRADIENT_OP = "TpuColumnsRowGradients"

COMBINERS = ("sum", "mean", "sqrtn")
"""Combiners by the op's number of each."""


class Feature(NamedTuple):
    """A feature of a lookup; `kernels/cpp/look_up_tables.h` has more of each attribute.

    Attributes:
        variable: number of the variable that has its table.
        ids: int32 or int64; a matrix [B, n], or sparse.
        weights: floats with the indices of `ids`, or None for ones.
        combiner: one of `COMBINERS`.
        names: column, feature and weights, for errors.
        num_rows: rows of its table.
        safe: whether negative ids are padding, and a row of the batch without ids trains row 0.
        first_row: first row of the table in its variable.
        num_shards: shards in which its rows are in order.
        num_steps: steps of a sequence that are looked up, each by itself; or 0.
        layer: number of the matrix that gets its sums.
        column: first column of its sums there.
    """

    variable: int
    ids: Any
    weights: tf.SparseTensor | None
    combiner: str
    names: lookup_errors.Names
    num_rows: int
    safe: bool = False
    first_row: int = 0
    num_shards: int = 1
    num_steps: int = 0
    layer: int = 0
    column: int = 0


class Other(NamedTuple):
    """A matrix that a lookup copies into one of its own.

    Attributes:
        value: floats, [B, width].
        layer: number of the matrix that gets it.
        column: first column there.
        width: number of columns.
    """

    value: Any
    layer: int
    column: int
    width: int


def can_look_up(table: Any, weights: tf.SparseTensor | None) -> bool:
    """Returns whether `look_up` can look up a table in the default graph.

    Args:
        table: as in `lookup.pooled_lookup`.
        weights: as in `lookup.pooled_lookup`. Those that a variable is behind may need a gradient,
            which the op doesn't have.
    """
    return (
        driver_graphs.uses_native_kernels()
        and isinstance(table, tf.Variable)
        and table.dtype.base_dtype == tf.float32
        and table.shape.rank == 2
        and table.shape.is_fully_defined()
        and devices.is_on_cpu(table.op)
        and not devices.is_of_another_task(table.op)
        and (weights is None or not _has_variable_behind(weights.values))
        and loading.load() is not None
    )


class Pending:
    """Result of a lookup that `join` makes together with others.

    Args:
        table: the variable.
        feature: what is looked up there.

    Attributes:
        shape: static shape of the result.
    """

    def __init__(self, table: Any, feature: Feature) -> None:
        self.table = table
        self.feature = feature
        self.shape = tf.TensorShape([feature.ids.shape[0], table.shape[1]])


def deferring() -> AbstractContextManager[None]:
    """Makes `look_up` return `Pending` within the context, for `join`."""
    return shared_state.setting(shared_state.DEFERS_LOOKUPS, True)


def look_up(
    table: Any,
    ids: Any,
    weights: tf.SparseTensor | None,
    combiner: str,
    *,
    safe: bool,
) -> Any:
    """Looks up ids, and combines the rows of each row of ids.

    Args:
        table: a variable, [rows, D].
        ids: integers, [B, n]: sparse, or dense with negative numbers where one is missing.
        weights: floats with the indices of sparse `ids`, or None for ones.
        combiner: 'mean', 'sqrtn' or 'sum'.
        safe: as in `lookup.pooled_lookup`; true for dense ids.

    Returns:
        Floats, [B, D]; or a `Pending` of them.
    """
    if ids.dtype not in (tf.int32, tf.int64):
        ids = tf.cast(ids, tf.int64)
    names = lookup_errors.names_of_scope() or lookup_errors.Names(table.op.name, "ids")
    feature = Feature(0, ids, weights, combiner, names, int(table.shape[0]), safe)
    pending = Pending(table, feature)
    return pending if shared_state.DEFERS_LOOKUPS.get() else join([pending])


def join(parts: Sequence[Any]) -> tf.Tensor:
    """Returns results of lookups and other matrices side by side, which one op writes there.

    Args:
        parts: `Pending`, or floats [B, columns] with a static number of columns.

    Returns:
        Floats, [B, sum of columns].
    """
    if not any(isinstance(part, Pending) for part in parts):
        return tf.concat(list(parts), 1)
    looked_up = [part for part in parts if isinstance(part, Pending)]
    # Resource variables come first among the op's inputs.
    order = sorted(looked_up, key=lambda part: not _is_resource(part.table))
    number_of = {part: number for number, part in enumerate(order)}
    features, others, column = [], [], 0
    for part in parts:
        width = int(part.shape[1])
        if isinstance(part, Pending):
            features.append(part.feature._replace(variable=number_of[part], column=column))
        else:
            others.append(Other(part, 0, column, width))
        column += width
    tables = [part.table for part in order]
    trained = placement.updates_tables()
    (layer,), _ = call(tables, features, [column], others, trained=trained)
    for part in parts:
        layer.set_shape([part.shape[0], None])
    return layer


def call(
    tables: Sequence[Any],
    features: Sequence[Feature],
    widths: list[int],
    others: Sequence[Other] = (),
    *,
    trained: bool,
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Calls the op.

    Args:
        tables: variables, first the resource variables.
        features: what is looked up.
        widths: columns of the matrices that it returns.
        others: what it copies into them.
        trained: whether optimizers may update the tables.

    Returns:
        Matrices, float32 [B, width] each; and the rows that were read, for an update.
    """
    handles = [table.handle for table in tables if _is_resource(table)]
    values = [tf.convert_to_tensor(table) for table in tables[len(handles) :]]
    sparse = [each.ids for each in features if isinstance(each.ids, tf.SparseTensor)]
    weights = [each.weights.values for each in features if each.weights is not None]
    layers, rows = loading.load().tpu_columns_look_up_tables(
        variables=handles,
        tables=values,
        others=[other.value for other in others],
        ids=[getattr(each.ids, "values", each.ids) for each in features],
        indices=[ids.indices for ids in sparse],
        shapes=[ids.dense_shape for ids in sparse],
        weights=[tf.cast(each, tf.float32) for each in weights],
        num_layers=len(widths),
        variable=[each.variable for each in features],
        first_row=[each.first_row for each in features],
        num_rows=[each.num_rows for each in features],
        num_shards=[each.num_shards for each in features],
        safe=[int(each.safe) for each in features],
        column_name=[repr(each.names.column) for each in features],
        key=[repr(each.names.feature_key) for each in features],
        weight_key=[repr(each.names.weight_key or "") for each in features],
        combiner=[COMBINERS.index(each.combiner) for each in features],
        num_steps=[each.num_steps for each in features],
        sparse=[int(isinstance(each.ids, tf.SparseTensor)) for each in features],
        weighted=[int(each.weights is not None) for each in features],
        trains=trained,
        widths=widths,
        layer=[each.layer for each in features],
        column=[each.column for each in features],
        layer_of_other=[other.layer for other in others],
        column_of_other=[other.column for other in others],
        width_of_other=[other.width for other in others],
    )
    return layers, rows


@tf.RegisterGradient(OP)
def _gradient(op: Any, *gradients: Any) -> list[Any]:
    """Returns gradients of the tables, as slices, and of the other matrices; ids have none."""
    of_layers = [
        tf.zeros_like(output) if gradient is None else tf.convert_to_tensor(gradient)
        for output, gradient in zip(op.outputs[:-1], gradients[:-1], strict=True)
    ]
    found: list[Any] = [None] * len(op.inputs)
    # Each feature has slices of its own, as norms of a gradient's values depend on that.
    features = zip(*map(op.get_attr, ("variable", "layer", "column")), strict=True)
    for feature, (number, layer, column) in enumerate(features):
        shape = driver_graphs.static_shape(op.inputs[number])
        ids, sums = loading.load().tpu_columns_row_gradients(
            gradient=of_layers[layer],
            rows=op.outputs[-1],
            feature=feature,
            column=column,
            width=shape[1],
        )
        found[number] = tf.IndexedSlices(sums, ids, tf.constant(shape, tf.int32))
    num_tables = op.get_attr("num_variables") + op.get_attr("num_tables")
    places = (op.get_attr(f"{name}_of_other") for name in ("layer", "column", "width"))
    others = zip(*places, strict=True)
    for number, (layer, column, width) in enumerate(others, num_tables):
        found[number] = tf.slice(of_layers[layer], [0, column], [-1, width])
    return found


def _is_resource(table: Any) -> bool:
    return hasattr(table, "handle")


def _has_variable_behind(tensor: Any) -> bool:
    """Returns whether a tensor is computed from a variable."""
    found: set[Any] = set()
    todo: list[Any] = [tensor.op]
    while todo:
        op = todo.pop()
        if driver_graphs.is_variable(op):
            return True
        if op not in found:
            found.add(op)
            todo += [value.op for value in op.inputs]
    return False
