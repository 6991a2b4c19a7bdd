# SPDX-License-Identifier: Apache-2.0
"""Combines rows of a table to one vector per row of the batch, by sparse matrix products.

The sums and gradients equal those of `tf.sparse.segment_sum` and `tf.math.unsorted_segment_sum`,
which take several times as long from TensorFlow 2.20 on: see `benchmarks/ops.py`.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import tensorflow as tf

from tpu_columns import shared_state


class Entries(NamedTuple):
    """The N entries of a batch of B rows.

    Attributes:
        ids: integers, [N].
        segments: int64, [N]: row of the batch of each entry.
        num_rows: scalar; B.
        weights: floats, [N], or None for ones.
        combiner: 'mean', 'sqrtn' or 'sum'.
        totals: floats, [B, 1]: divisors of 'mean', and their squares for 'sqrtn'; None for the sums
            of the weights, or of their squares.
        extra_ids: integers, [K]: further ids whose rows are read and updated; or None.
        weights_from_user: whether the weights may need a gradient.
        masked: whether some segments may be B: these entries belong to no row.
    """

    ids: Any
    segments: Any
    num_rows: Any
    weights: Any
    combiner: str
    totals: Any = None
    extra_ids: Any = None
    weights_from_user: bool = False
    masked: bool = False

    @property
    def num_sums(self) -> Any:
        """Number of sums, int64: B, or B + 1 with that of the masked entries."""
        num_rows = tf.cast(self.num_rows, tf.int64)
        return num_rows + 1 if self.masked else num_rows


class SummedGather(NamedTuple):
    """Rows gathered for N ids, whose only use is one sum.

    Attributes:
        rows: floats, [N, D].
        ids: integers, [N].
        segments: int64, [N]: sum of each row.
        num_rows: scalar; number of sums.
        num_rows_of_table: vocabulary size, or None if unknown.
    """

    rows: Any
    ids: Any
    segments: Any
    num_rows: Any
    num_rows_of_table: int | None


def record_sum(rows: Any, ids: Any, entries: Entries, table: Any) -> None:
    """Records in the default graph that rows of a table are gathered for one sum only.

    Args:
        rows: floats, [N, D].
        ids: integers, [N].
        entries: entries of the sum.
        table: a variable, or several.
    """
    shape = getattr(table, "shape", None)
    if isinstance(shape, tf.TensorShape) and not tf.executing_eagerly():
        size = tf.compat.dimension_value(shape[0])
        summed = SummedGather(rows, ids, entries.segments, entries.num_sums, size)
        tf.compat.v1.get_default_graph().get_collection_ref(shared_state.SUMS).append(summed)


def recorded_sums(graph: tf.Graph) -> list[SummedGather]:
    """Returns the sums that `record_sum` recorded in a graph."""
    return graph.get_collection(shared_state.SUMS)


def rows_to_read(
    ids: tf.Tensor, unique: bool, extra_ids: Any = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the rows of a table to gather for ids, and each id's index among them.

    Args:
        ids: integers, [N].
        unique: gather each row once, even if its id is repeated.
        extra_ids: integers, [K]: further ids to gather if `unique`; or None.

    Returns:
        rows: integers, [U]; `ids` itself if not `unique`.
        row_indices: int64, [N].
    """
    if not unique:
        return ids, tf.range(tf.size(ids, out_type=tf.int64))
    all_ids = ids if extra_ids is None else tf.concat([ids, extra_ids], 0)
    # With counts: Grappler would turn `tf.unique` into a copy of the whole table.
    rows, row_indices, _ = tf.unique_with_counts(all_ids, out_idx=tf.int64)
    return rows, row_indices if extra_ids is None else tf.slice(row_indices, [0], tf.shape(ids))


def combine(rows: Any, row_indices: Any, entries: Entries, size: Any = None) -> Any:
    """Combines gathered rows to one vector per row of the batch; formulas: see `pooled_lookup`.

    Args:
        rows: floats, [U, D].
        row_indices: int64, [N]: index in `rows` of each entry.
        entries: the N entries.
        size: int64, scalar; U, if a tensor of it exists.

    Returns:
        Floats, [B, D]; zeros where there is no entry.
    """
    segments, num_sums, weights = entries.segments, entries.num_sums, entries.weights
    summed = sum_rows(rows, row_indices, segments, num_sums, weights, size)
    if entries.masked:
        # Its gradient is a concatenation; that of a strided slice takes twenty times as long.
        summed, _ = tf.split(summed, tf.stack([tf.cast(entries.num_rows, tf.int64), 1]))
    if entries.combiner == "sum":
        return summed
    return tf.math.divide_no_nan(summed, divisors(entries, rows.dtype))


def gradient_of_rows(gradient: Any, row_indices: Any, entries: Entries, size: Any) -> Any:
    """Returns the gradient of the rows that `combine` gets, from that of its result.

    Args:
        gradient: floats, [B, D].
        row_indices: int64, [N]: index of each entry among the rows.
        entries: the N entries, none of them masked.
        size: int64, scalar; number U of rows.

    Returns:
        Floats, [U, D].
    """
    if entries.combiner != "sum":
        gradient = tf.math.divide_no_nan(gradient, divisors(entries, gradient.dtype))
    indices, shape = summing_matrix(row_indices, entries.segments, entries.num_rows, size)
    weights = entries.weights
    if weights is None:
        weights = tf.ones_like(row_indices, gradient.dtype)
    return sparse_matmul(indices, weights, shape, gradient, transposed=False)


def divisors(entries: Entries, dtype: Any) -> Any:
    """Returns the divisors of 'mean' or 'sqrtn'.

    Args:
        entries: the entries.
        dtype: type of the result.

    Returns:
        Floats, [B, 1].
    """
    totals, weights = entries.totals, entries.weights
    if totals is None or (entries.weights_from_user and totals.dtype != dtype):
        if weights is None:
            counted = tf.ones_like(entries.segments, dtype)
        else:
            counted = tf.cast(weights, dtype)
        if entries.combiner == "sqrtn" and weights is not None:
            counted = tf.square(counted)
        totals = sum_scalars(counted, entries.segments, entries.num_sums)
        totals = totals[:-1] if entries.masked else totals
    totals = tf.cast(totals, dtype)
    return tf.sqrt(totals) if entries.combiner == "sqrtn" else totals


def sum_rows(
    rows: Any, row_indices: Any, segments: Any, num_rows: Any, weights: Any = None, size: Any = None
) -> Any:
    """Sums weighted rows by segment, as a product of a sparse and a dense matrix.

    Args:
        rows: floats, [U, D].
        row_indices: int64, [N]: index of each summand in `rows`.
        segments: int64, [N]: sum of each summand.
        num_rows: scalar; number of sums.
        weights: floats, [N], or None for ones.
        size: int64, scalar; U, if a tensor of it exists.

    Returns:
        Floats, [num_rows, D]; zeros for segments without summands.
    """
    if size is None:
        size = tf.shape(rows, out_type=tf.int64)[0]
    indices, shape = summing_matrix(row_indices, segments, num_rows, size)
    weights = (
        tf.ones_like(row_indices, rows.dtype) if weights is None else tf.cast(weights, rows.dtype)
    )
    return sparse_matmul(indices, weights, shape, rows)


def summing_matrix(
    row_indices: Any, segments: Any, num_rows: Any, size: Any, transposed: bool = True
) -> tuple[Any, Any]:
    """Returns indices and shape of the sparse matrix that sums rows, for `sparse_matmul`.

    Args:
        row_indices: int64 below 2³¹, [N]: index of each summand.
        segments: int64 below 2³¹, [N]: sum of each summand.
        num_rows: scalar; number of sums.
        size: int64, scalar; number of rows.
        transposed: return the transpose: a row for each row, a column for each sum. It shifts the
            segments, which many columns have in common, in place of the row indices.

    Returns:
        indices: int32, [N, 2].
        shape: int64, [2].
    """
    num_rows = tf.cast(num_rows, tf.int64)
    if transposed:
        return zip_int32(row_indices, segments), tf.stack([size, num_rows])
    return zip_int32(segments, row_indices), tf.stack([num_rows, size])


def sum_scalars(numbers: Any, segments: Any, num_rows: Any) -> Any:
    """Sums scalars by segment.

    Args:
        numbers: floats, [N].
        segments: int64, [N].
        num_rows: scalar; number of sums.

    Returns:
        Floats, [num_rows, 1].
    """
    indices = zip_int32(segments)
    shape = tf.stack([tf.cast(num_rows, tf.int64), tf.constant(1, tf.int64)])
    return sparse_matmul(indices, numbers, shape, tf.ones([1, 1], numbers.dtype), transposed=False)


def sparse_matmul(
    indices: Any, values: Any, shape: Any, dense: Any, transposed: bool = True
) -> Any:
    """Multiplies a sparse matrix by a dense one.

    Args:
        indices: int32 or int64, [N, 2].
        values: floats, [N].
        shape: int64, [2].
        dense: floats, [shape[0] if transposed else shape[1], D].
        transposed: transpose the sparse matrix first; see `summing_matrix`.

    Returns:
        Floats, [shape[1] if transposed else shape[0], D].
    """
    # The public function takes int64 indices only; these are int32.
    return tf.raw_ops.SparseTensorDenseMatMul(
        a_indices=indices, a_values=values, a_shape=shape, b=dense, adjoint_a=transposed
    )


def zip_int32(first: Any, second: Any = None) -> Any:
    """Returns int32 pairs [N, 2] of int64 below 2³¹, [N]; faster than `tf.stack`.

    Args:
        first: [N], or of higher rank.
        second: of the shape of `first`, or None for zeros.
    """
    if sys.byteorder == "big":
        return tf.stack([first, tf.zeros_like(first) if second is None else second], -1)
    if second is not None:
        second = tf.bitwise.left_shift(second, tf.constant(32, tf.int64))
        first = tf.bitwise.bitwise_or(first, second)
    return tf.bitcast(first, tf.int32)
