# SPDX-License-Identifier: Apache-2.0
"""Calls the ops of `cpp/`: every call of one is here, and so are the combiners that they know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tpu_columns import lookup_errors
from tpu_columns.kernels import loading

COMBINERS = ("sum", "mean", "sqrtn")
"""Ways to combine the rows of an example, by their number in `cpp/look_up_tables.h`."""

LOOKUP = "TpuColumnsLookUpTables"
"""Type of the op of `look_up_tables`."""
ROW_GRADIENTS = "TpuColumnsRowGradients"
"""Type of the op of `row_gradients`."""
WEIGHTS_GRADIENT = "TpuColumnsWeights"
"""Name of the gradient function of the weights that `look_up_tables` reads."""


def check_combiner(combiner: Any, message: str = "", *, optional: bool = True) -> Any:
    """Checks a combiner and returns it.

    Args:
        combiner: the value to check.
        message: of the error, if it isn't the usual one.
        optional: whether None is allowed, too.

    Raises:
        ValueError: it is none of `COMBINERS`.
    """
    if combiner in COMBINERS or (combiner is None and optional):
        return combiner
    usual = f"combiner must be one of 'mean', 'sqrtn' or 'sum' (or None), got {combiner!r}."
    raise ValueError(message or usual)


class LookupFeature(NamedTuple):
    """A feature of a lookup; `cpp/look_up_tables.h` has more of each attribute.

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
    names: lookup_errors.LookupNames
    num_rows: int
    safe: bool = False
    first_row: int = 0
    num_shards: int = 1
    num_steps: int = 0
    layer: int = 0
    column: int = 0


# Attributes of the op with a number for each feature, and for each `Other`.
_NUMBERS = (
    *("variable", "first_row", "num_rows", "num_shards"),
    *("safe", "num_steps", "layer", "column"),
)
_OF_OTHERS = ("layer", "column", "width")


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


def look_up_tables(
    tables: Sequence[Any],
    features: Sequence[LookupFeature],
    widths: list[int],
    others: Sequence[Other] = (),
    *,
    trained: bool,
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Looks up features of several tables.

    Args:
        tables: variables, first the resource variables.
        features: what is looked up.
        widths: columns of the matrices that it returns.
        others: what it copies into them.
        trained: whether optimizers may update the tables.

    Returns:
        Matrices, float32 [B, width] each; and the rows that were read, for an update.
    """
    handles = [table.handle for table in tables if is_resource(table)]
    values = [tf.convert_to_tensor(table) for table in tables[len(handles) :]]
    sparse = [each.ids for each in features if isinstance(each.ids, tf.SparseTensor)]
    weights = [each.weights.values for each in features if each.weights is not None]
    with tf.compat.v1.get_default_graph().gradient_override_map({"Identity": WEIGHTS_GRADIENT}):
        weights = [tf.identity(tf.cast(each, tf.float32)) for each in weights]
    layers, rows = loading.load().tpu_columns_look_up_tables(
        variables=handles,
        tables=values,
        others=[other.value for other in others],
        ids=[getattr(each.ids, "values", each.ids) for each in features],
        indices=[ids.indices for ids in sparse],
        shapes=[ids.dense_shape for ids in sparse],
        weights=weights,
        num_layers=len(widths),
        column_name=[repr(each.names.column) for each in features],
        key=[repr(each.names.feature_key) for each in features],
        weight_key=[repr(each.names.weight_key or "") for each in features],
        combiner=[COMBINERS.index(each.combiner) for each in features],
        sparse=[int(isinstance(each.ids, tf.SparseTensor)) for each in features],
        weighted=[int(each.weights is not None) for each in features],
        trains=trained,
        widths=widths,
        **{name: [int(getattr(each, name)) for each in features] for name in _NUMBERS},
        **{f"{name}_of_other": [getattr(each, name) for each in others] for name in _OF_OTHERS},
    )
    return layers, rows


def is_resource(table: Any) -> bool:
    """Returns whether a variable is a resource variable, and not one of TF1's references."""
    return hasattr(table, "handle")


def row_gradients(
    gradient: Any, rows: Any, feature: int, column: int, width: int
) -> tuple[Any, Any]:
    """Returns the distinct ids of a feature, and the gradient of the row of each.

    Args:
        gradient: that of the matrix which has the feature's sums, [B, W].
        rows: those that the lookup has read.
        feature: number of the feature in the lookup.
        column: first column of its sums.
        width: elements of a row.
    """
    found: tuple[Any, Any] = loading.load().tpu_columns_row_gradients(
        gradient=gradient, rows=rows, feature=feature, column=column, width=width
    )
    return found


def update_rows(table: Any, **arguments: Any) -> Any:
    """Returns the op that updates rows of a variable and of its slots in place.

    Args:
        table: the table's handle or reference, float32 [V, D].
        **arguments: other inputs and attributes of the op, which `cpp/` describes.
    """
    ops = loading.load()
    is_handle = table.dtype == tf.resource
    update = ops.tpu_columns_resource_update if is_handle else ops.tpu_columns_update
    return update(table=table, **arguments)


class NativeRule(NamedTuple):
    """An update rule of `update_tables`; see `cpp/update_rules.h`.

    Attributes:
        name: its name.
        constants: its hyperparameters but the first, which is the learning rate.
        limits: empty, or least and largest gradient, weight decay, least and largest weight.
        decay_has_rate: whether the weight decay is multiplied by the learning rate.
    """

    name: str
    constants: tuple[float, ...]
    limits: tuple[float, ...]
    decay_has_rate: bool


class TrainedTable(NamedTuple):
    """A variable with the rows of one or several tables.

    Attributes:
        variable: the rows, [V, D].
        slots: its slot variables, in the rule's order.
        rule: its update rule.
        rate: learning rate, scalar.
        needs_zeros: whether a gradient of zero changes rows.
    """

    variable: Any
    slots: Sequence[Any]
    rule: NativeRule
    rate: Any
    needs_zeros: bool


def update_tables(
    tables: Sequence[TrainedTable],
    variables: Sequence[int],
    gradients: Mapping[int, tuple[Any, int]],
    rows: Any,
    factor: Any,
    step: Any,
) -> list[Any]:
    """Trains tables once; returns the ops, one for each update rule.

    Args:
        tables: the tables, in the order of the lookup's variables.
        variables: number of each feature's table.
        gradients: by number of a feature, a matrix and the column of it with which the gradient of
            the feature's sums begins; features without a gradient aren't there.
        rows: those that `look_up_tables` has read.
        factor: scalar that multiplies gradients.
        step: global step, scalar.
    """
    ops = []
    for rule in sorted({tables[variables[place]].rule for place in gradients}):
        uses = [place for place in sorted(gradients) if tables[variables[place]].rule == rule]
        numbers = sorted({variables[place] for place in uses})
        trained = [tables[number] for number in numbers]
        number_of = {number: i for i, number in enumerate(numbers)}
        with tf.name_scope("update_tables"):
            ops.append(
                loading.load().tpu_columns_update_tables(
                    variables=[table.variable.handle for table in trained],
                    slots=[slot.handle for table in trained for slot in table.slots],
                    rates=[table.rate for table in trained],
                    factor=factor,
                    step=tf.cast(step, tf.float32),
                    gradients=[gradients[place][0] for place in uses],
                    rows=rows,
                    feature=uses,
                    variable=[number_of[variables[place]] for place in uses],
                    column=[gradients[place][1] for place in uses],
                    rule=rule.name,
                    constants=rule.constants,
                    limits=rule.limits,
                    decay_has_rate=rule.decay_has_rate,
                )
            )
    return ops


def use_huge_pages(values: Any, page_bytes: int) -> Any:
    """Returns how many bytes of a tensor are on huge pages, to which the op moves it.

    Args:
        values: the value of a variable.
        page_bytes: size of a huge page.
    """
    return loading.load().tpu_columns_use_huge_pages(values=values, page_bytes=page_bytes)
