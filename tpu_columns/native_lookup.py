# SPDX-License-Identifier: Apache-2.0
"""Lookups by an op of `kernels/cpp/`, with its gradient.

    ids, weights ─▶ LookUpTables ─▶ layer [B, 26·D] ─▶ model ─▶ gradient of the layer
                        │                                           │
               rows that were read ──────▶ RowGradients ◀───────────┘
                                                │  (one for each column)
                                slices of a table's gradient: distinct ids, a row for each

The op reads rows in place and adds them in TensorFlow's order, so its results equal TensorFlow's.
An optimizer gets slices, as from TensorFlow's gathers.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from tpu_columns import _tensorflow as private
from tpu_columns import graphs, lookup_errors, placement, shared_state
from tpu_columns.kernels import calls
from tpu_columns.optimizations import Optimization


class Pending:
    """Result of a lookup that `join` makes together with others.

    Args:
        table: the variable.
        feature: what is looked up there.

    Attributes:
        shape: static shape of the result.
    """

    def __init__(self, table: Any, feature: calls.LookupFeature) -> None:
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
    names = lookup_errors.names_of_scope() or lookup_errors.LookupNames(table.op.name, "ids")
    feature = calls.LookupFeature(0, ids, weights, combiner, names, int(table.shape[0]), safe)
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
    order = sorted(looked_up, key=lambda part: not calls.is_resource(part.table))
    number_of = {part: number for number, part in enumerate(order)}
    features, others, column = [], [], 0
    for part in parts:
        width = int(part.shape[1])
        if isinstance(part, Pending):
            features.append(part.feature._replace(variable=number_of[part], column=column))
        else:
            others.append(calls.Other(part, 0, column, width))
        column += width
    tables = [part.table for part in order]
    for table in filter(calls.is_resource, tables):
        private.variable_accessed(table)
    trained = placement.updates_tables()
    (layer,), _ = calls.look_up_tables(tables, features, [column], others, trained=trained)
    for part in parts:
        layer.set_shape([part.shape[0], None])
    return layer


@tf.RegisterGradient(calls.LOOKUP)
def _gradient(op: Any, *gradients: Any) -> list[Any]:
    """Returns gradients of the tables, as slices, and of the other matrices; ids have none.

    That of weights stands for one: `_refuse_gradient` is called if it is needed.
    """
    of_layers = [
        tf.zeros_like(output) if gradient is None else tf.convert_to_tensor(gradient)
        for output, gradient in zip(op.outputs[:-1], gradients[:-1], strict=True)
    ]
    found: list[Any] = [None] * len(op.inputs)
    # Each feature has slices of its own, as norms of a gradient's values depend on that.
    features = zip(*map(op.get_attr, ("variable", "layer", "column")), strict=True)
    for feature, (number, layer, column) in enumerate(features):
        shape = graphs.static_shape(op.inputs[number])
        ids, sums = calls.row_gradients(of_layers[layer], op.outputs[-1], feature, column, shape[1])
        found[number] = tf.IndexedSlices(sums, ids, tf.constant(shape, tf.int32))
    num_tables = op.get_attr("num_variables") + op.get_attr("num_tables")
    places = (op.get_attr(f"{name}_of_other") for name in ("layer", "column", "width"))
    others = zip(*places, strict=True)
    for number, (layer, column, width) in enumerate(others, num_tables):
        found[number] = tf.slice(of_layers[layer], [0, column], [-1, width])
    first_weight = len(op.inputs) - op.get_attr("num_weighted")
    found[first_weight:] = list(op.inputs)[first_weight:]
    # A tape knows what it needs, and doesn't know the other function.
    unneeded = getattr(op, "skip_input_indices", range(len(op.inputs))) or ()
    for place in range(first_weight, len(op.inputs)):
        if place not in unneeded:
            _refuse_gradient_of(op, place - first_weight)
    return found


@tf.RegisterGradient(calls.WEIGHTS_GRADIENT)
def _refuse_gradient(op: Any, _: Any) -> None:
    """Raises the error of a gradient of weights: `tf.gradients` calls it only if it needs that."""
    lookup = next(each for each in op.outputs[0].consumers() if each.type == calls.LOOKUP)
    weights = list(lookup.inputs)[-lookup.get_attr("num_weighted") :]
    _refuse_gradient_of(lookup, [each.op for each in weights].index(op))


def _refuse_gradient_of(lookup: Any, number: int) -> None:
    """Raises the error of a gradient of the weights of a lookup with a number among all weights."""
    is_weighted = lookup.get_attr("weighted")
    feature = [place for place, weighted in enumerate(is_weighted) if weighted][number]
    column, key = (
        tf.compat.as_str(lookup.get_attr(name)[feature]) for name in ("column_name", "weight_key")
    )
    raise NotImplementedError(
        f"Column {column}: the gradient of the weights {key} of its ids is asked for, which the "
        "kernels don't compute. Take TensorFlow's ops, by setting "
        f"{Optimization.NATIVE_KERNELS.value}=0 in the environment; or apply tf.stop_gradient to "
        "the weights."
    )
