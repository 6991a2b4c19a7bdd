# SPDX-License-Identifier: Apache-2.0
"""Calls the native ops that look up and update many tables, in graphs of any kind and eagerly.

`native_tables` calls them for a model of the driver, `estimator_spec.mid_level` for the objects of
TensorFlow's mid-level API.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.cores import feature_uses, update_rules
from estimator_spec.cores.update_rules import NativeRule
from estimator_spec.embedding.optimizer_base import OptimizationParameters
from tpu_columns.kernels import loading
from tpu_columns.partition import RowPartition

_COMBINERS = ("sum", "mean", "sqrtn")


@dataclasses.dataclass(frozen=True)
class TrainedTable:
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


def trained_table(
    variable: Any, slots: Sequence[Any], parameters: OptimizationParameters, rate: Any
) -> TrainedTable:
    """Returns a table for `update`.

    Args:
        variable: rows of one or several tables, float32 [V, D].
        slots: its slot variables, in the rule's order.
        parameters: its optimizer, which has a native rule.
        rate: learning rate, scalar.
    """
    rule = update_rules.native_rule(parameters)
    assert rule is not None
    needs_zeros = not update_rules.keeps_rows_of_gradient_zero(parameters)
    return TrainedTable(variable, slots, rule, rate, needs_zeros)


class Feature(NamedTuple):
    """Ids of a feature.

    Attributes:
        variable: number of the variable that has its table.
        ids: int32 or int64: a SparseTensor of rank 2, or a matrix in which 0 is padding.
        weights: floats, [N], of the ids of a SparseTensor; None: ones.
        combiner: 'mean', 'sqrtn' or 'sum'.
        layout: layout of its table.
        offset: first row of the table in the variable.
        num_steps: steps of a sequence; 0: none.
        mark: number added to ids out of range in an error.
    """

    variable: int
    ids: Any
    weights: Any
    combiner: str
    layout: RowPartition
    offset: int = 0
    num_steps: int = 0
    mark: int = 0


class Output(NamedTuple):
    """Columns of an output of `look_up`.

    Attributes:
        number: number of the output.
        column: first column.
    """

    number: int
    column: int


def look_up(
    variables: Sequence[Any],
    features: Sequence[Feature],
    widths: Sequence[int],
    places: Sequence[Output],
    others: Sequence[tuple[Any, Output, int]] = (),
) -> tuple[list[Any], Any]:
    """Looks up features.

    Args:
        variables: rows of one or several tables each, float32 [V, D].
        features: the features.
        widths: number of columns of each output.
        places: where each feature's sums are written.
        others: matrices that are copied to an output, where, and their widths.

    Returns:
        outputs: float32, [B, width] each.
        rows: the rows that were read, for `update` of the same step.
    """
    sparse = [each.ids for each in features if isinstance(each.ids, tf.SparseTensor)]
    layouts = [each.layout for each in features]
    outputs, rows = loading.load().tpu_columns_look_up_tables(
        variables=[variable.handle for variable in variables],
        others=[value for value, _, _ in others],
        ids=[
            each.ids.values if isinstance(each.ids, tf.SparseTensor) else each.ids
            for each in features
        ],
        indices=[each.indices for each in sparse],
        shapes=[each.dense_shape for each in sparse],
        weights=[each.weights for each in features if each.weights is not None],
        variable=[each.variable for each in features],
        first_row=[each.offset for each in features],
        num_rows=[layout.num_rows for layout in layouts],
        num_shards=[1 if each.in_row_order else each.num_shards for each in layouts],
        mark=[each.mark for each in features],
        mark_limit=feature_uses.MARK_LIMIT,
        combiner=[_COMBINERS.index(each.combiner) for each in features],
        num_steps=[each.num_steps for each in features],
        sparse=[int(isinstance(each.ids, tf.SparseTensor)) for each in features],
        weighted=[int(each.weights is not None) for each in features],
        num_layers=len(widths),
        widths=list(widths),
        layer=[place.number for place in places],
        column=[place.column for place in places],
        layer_of_other=[place.number for _, place, _ in others],
        column_of_other=[place.column for _, place, _ in others],
        width_of_other=[width for _, _, width in others],
    )
    return outputs, rows


def update(
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
        rows: those that the lookup read.
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
