# SPDX-License-Identifier: Apache-2.0
"""Decides whether TensorFlow's ops or ours update a table, by the figures of `kernel_table`.

The decision depends on TensorFlow's version, op type, width and rows only: two runs of a program
have the same ops.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_spec._tensorflow import private
from estimator_spec.updates import kernel_table, kernels, variables


def formula_is_faster(op: Any) -> bool:
    """Returns whether the formula of a kernel is clearly faster than the kernel.

    Args:
        op: an update of rows.

    Returns:
        Whether the table has at least the rows from which the formula was measured to be faster.
        False if gradients aren't float32, their width isn't known, or TensorFlow's ops are
        deterministic: the two sides differ in the last digit.
    """
    found = kernels.inputs_by_name(op)
    return _is_faster(op.type, found["grad"], _rows_of(found["var"]))


def product_is_faster(gradient: Any) -> bool:
    """Returns whether `combining.sum_rows` is clearly faster than `UnsortedSegmentSum`.

    Args:
        gradient: the summands, [N, D].

    Returns:
        As for `formula_is_faster`.
    """
    return _is_faster("UnsortedSegmentSum", gradient, 0)


def _is_faster(kind: str, gradient: Any, rows: int) -> bool:
    width = gradient.shape.as_list()[1] if gradient.shape.rank == 2 else None
    if width is None or gradient.dtype != tf.float32 or private.is_op_determinism_enabled():
        return False
    minimum = minimum_rows(tf.__version__, kind, width)
    return minimum is not None and rows >= minimum


def minimum_rows(version: str, kind: str, width: int) -> int | None:
    """Returns the rows of a table from which on our ops are faster; None if they never are.

    Args:
        version: TensorFlow's. The nearest older one in the table counts, or else the oldest.
        kind: op type.
        width: columns of the table. The next larger measured width counts, or else the largest.
    """
    older = [known for known in kernel_table.MINIMUM_ROWS if known <= _parse(version)]
    by_kind = kernel_table.MINIMUM_ROWS[max(older, default=min(kernel_table.MINIMUM_ROWS))]
    widths = kernel_table.WIDTHS
    column = next((i for i, known in enumerate(widths) if width <= known), len(widths) - 1)
    return by_kind[kind.removeprefix("Resource")][column]


def _parse(version: str) -> tuple[int, int]:
    """Returns major and minor version.

    >>> _parse("2.21.0-rc1")
    (2, 21)
    """
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _rows_of(table: Any) -> int:
    """Returns the number of rows of a table; 0 if it isn't known."""
    shape = variables.static_shape(table)
    return int(shape[0] or 0) if shape is not None and shape.rank else 0
