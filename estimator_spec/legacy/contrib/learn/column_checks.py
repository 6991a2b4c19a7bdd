# SPDX-License-Identifier: Apache-2.0
"""Checks arguments of the feature columns of `tf.contrib.layers`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_spec.legacy.contrib.learn.column_types import (
    CrossedColumn,
    SparseColumn,
    WeightedSparseColumn,
)
from tpu_columns.checks import is_int
from tpu_columns.kernels import calls

_ID_COLUMNS = (SparseColumn, WeightedSparseColumn, CrossedColumn)


def check_count(column_name: str, argument: str, count: Any) -> None:
    """Raises a ValueError if an argument of a column is no int of at least 1."""
    if not is_int(count) or count < 1:
        raise ValueError(
            f"{argument} must be an int of at least 1. {argument}: {count!r}, column_name: "
            f"{column_name}"
        )


def check_combiner(column_name: str, combiner: Any) -> None:
    """Raises a ValueError if a combiner is unknown."""
    message = (
        f"Unrecognized combiner {combiner!r} of column {column_name}; one of "
        f"{', '.join(sorted(calls.COMBINERS))}."
    )
    calls.check_combiner(combiner, message, optional=False)


def check_dtype(column_name: str, dtype: Any) -> None:
    """Raises a ValueError if a column's dtype is neither string nor integer."""
    dtype = tf.as_dtype(dtype)
    if not (dtype == tf.string or dtype.is_integer):
        raise ValueError(
            f"dtype must be string or integer. dtype: {dtype.name}, column_name: {column_name}"
        )


def check_checkpoint(column_name: str, path: Any, tensor_name: Any) -> None:
    """Raises a ValueError if one of the two arguments of a checkpoint is missing."""
    if (path is None) != (tensor_name is None):
        raise ValueError(
            "Must specify both `ckpt_to_load_from` and `tensor_name_in_ckpt` or none of them. "
            f"column_name: {column_name}"
        )


def check_ids(function: str, column: Any) -> None:
    """Raises a TypeError if a column has no ids that a table can be looked up by."""
    if not isinstance(column, _ID_COLUMNS):
        raise TypeError(
            f"{function} takes a sparse, weighted or crossed column of tf.contrib.layers, not "
            f"{column!r}."
        )
