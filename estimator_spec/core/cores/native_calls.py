# SPDX-License-Identifier: Apache-2.0
"""Calls the native op that updates many tables, in graphs of any kind and eagerly.

`native_tables` calls them for a model of the driver, `estimator_spec.mid_level` for the objects of
TensorFlow's mid-level API.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.core.cores import update_rules
from estimator_spec.core.cores.update_rules import NativeRule
from estimator_spec.core.embedding.optimizer_base import OptimizationParameters
from tpu_columns.kernels import loading


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
        rows: those that `tpu_columns.native_lookup.call` has read.
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
