# SPDX-License-Identifier: Apache-2.0
"""From rows of a table to one vector a row of the batch: sums as products of matrices.

They are what `tf.sparse.segment_sum` and `tf.math.unsorted_segment_sum` compute, gradients too, in
a fraction of the time from TensorFlow 2.20 on: see `benchmarks/ops.py`.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
from typing import Any, NamedTuple

import tensorflow as tf

from tpu_columns import placement

tf1 = tf.compat.v1

# A tuple, not a str: TensorFlow leaves such collections out of exported graphs.
_SUMS = ("tpu_columns", "sums")


class Entries(NamedTuple):
    """The N entries of a batch of B rows.

    Attributes:
      ids: integers, [N].
      segments: int64, [N]: the row of the batch that an entry belongs to.
      num_rows: scalar; B.
      weights: floats, [N], or None for ones.
      combiner: 'mean', 'sqrtn' or 'sum'.
      totals: floats, [B, 1]: what a mean divides by, and the root of it sqrtn; None for the sums of
        the weights, or of their squares.
      more: integers, [K]: ids whose rows are read, and seen by optimizers, for no entry; or None.
      given: whether the weights are the user's, who may want their gradient.
    """

    ids: Any
    segments: Any
    num_rows: Any
    weights: Any
    combiner: str
    totals: Any = None
    more: Any = None
    given: bool = False


class Sum(NamedTuple):
    """Rows that were read, one for each of N ids, to be summed at once and for nothing else.

    Attributes:
      rows: floats, [N, D].
      ids: integers, [N].
      segments: int64, [N]: which sum an id's row goes into.
      num_rows: scalar; how many sums.
      num_rows_of_table: if it is known.
    """

    rows: Any
    ids: Any
    segments: Any
    num_rows: Any
    num_rows_of_table: int | None


def note_sum(rows: Any, ids: Any, entries: Entries, table: Any) -> None:
    """Notes in the default graph that rows of a table are read for one sum; see `Sum`.

    Args:
      rows: floats, [N, D].
      ids: integers, [N].
      entries: what is summed.
      table: a variable, or several.
    """
    narrow = len(_narrow(rows)) == 1
    shape = getattr(table, "shape", None)
    if narrow and isinstance(shape, tf.TensorShape) and not tf.executing_eagerly():
        size = tf.compat.dimension_value(shape[0])
        noted = Sum(rows, ids, entries.segments, entries.num_rows, size)
        tf1.get_default_graph().get_collection_ref(_SUMS).append(noted)


def sums_in(graph: tf.Graph) -> list[Sum]:
    """Returns what was noted in a graph."""
    return graph.get_collection(_SUMS)


def rows_to_read(ids: tf.Tensor, unique: bool, more: Any = None) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns which rows of a table to read for ids, and where among them each id's row is.

    Args:
      ids: integers, [N].
      unique: read each row once, however often its id occurs.
      more: integers, [K]: ids to read beside them if unique; or None.

    Returns:
      rows: integers, [U]; `ids` themselves if not unique.
      places: int64, [N].
    """
    if not unique:
        return ids, tf.range(tf.size(ids, out_type=tf.int64))
    together = ids if more is None else tf.concat([ids, more], 0)
    # With counts: Grappler would turn the plain one into a copy of the whole table.
    rows, places, _ = tf.unique_with_counts(together, out_idx=tf.int64)
    return rows, places if more is None else places[: tf.size(ids)]


def combine(
    rows: Any, places: Any, entries: Entries, trained: bool = False, size: Any = None
) -> Any:
    """Combines looked up rows into one a row of the batch, by the formulas of `pooled_lookup`.

    Args:
      rows: floats, [U, D].
      places: int64, [N]: which row is an entry's.
      entries: the N entries.
      trained: the graph is one of training, so gradients had better be found fast.
      size: int64, scalar; U, if it is at hand.

    Returns:
      Floats, [B, D]; zeros where there is no entry.
    """
    segments, num_rows, weights = entries.segments, entries.num_rows, entries.weights
    with _gradient_of_rows_only() if trained and not entries.given else contextlib.nullcontext():
        summed = sum_rows(rows, places, segments, num_rows, weights, size)
    if entries.combiner == "sum":
        return summed
    totals = entries.totals
    if totals is None:
        counted = tf.ones_like(places, rows.dtype) if weights is None else weights
        if entries.combiner == "sqrtn" and weights is not None:
            counted = tf.square(counted)
        totals = sum_numbers(counted, segments, num_rows)
    totals = tf.cast(totals, rows.dtype)
    # Divided by infinity a sum is zero, and so is its gradient.
    infinity = tf.fill(tf.shape(totals), tf.constant(math.inf, rows.dtype))
    totals = tf1.where(tf.equal(totals, 0), infinity, totals)
    return summed / (tf.sqrt(totals) if entries.combiner == "sqrtn" else totals)


def sum_rows(
    rows: Any, places: Any, segments: Any, num_rows: Any, weights: Any = None, size: Any = None
) -> Any:
    """Sums rows by segment, weighted: one product of a sparse matrix with a dense one.

    Args:
      rows: floats, [U, D].
      places: int64, [N]: which row.
      segments: int64, [N]: which sum it goes into.
      num_rows: scalar; how many sums.
      weights: floats, [N], or None for ones.
      size: int64, scalar; U, if it is at hand.

    Returns:
      Floats, [num_rows, D]; zeros where there is no place.
    """
    if size is None:
        size = tf.shape(rows, out_type=tf.int64)[0]
    indices, shape = matrix(places, segments, num_rows, size)
    weights = tf.ones_like(places, rows.dtype) if weights is None else tf.cast(weights, rows.dtype)
    products = [product(indices, weights, shape, piece) for piece in _narrow(rows)]
    return products[0] if len(products) == 1 else tf.concat(products, 1)


def matrix(
    places: Any, segments: Any, num_rows: Any, size: Any, transposed: bool = True
) -> tuple[Any, Any]:
    """Returns indices and shape of the sparse matrix that sums rows, for `product`.

    Args:
      places: int64 below 2³¹, [N]: which row.
      segments: int64 below 2³¹, [N]: which sum it goes into.
      num_rows: scalar; how many sums.
      size: int64, scalar; how many rows there are.
      transposed: the matrix has a row for each row, and a column for each sum. The second half of a
        pair has to be shifted, and many columns have the same segments.

    Returns:
      indices: int32, [N, 2].
      shape: int64, [2].
    """
    num_rows = tf.cast(num_rows, tf.int64)
    if transposed:
        return _pairs(places, segments), tf.stack([size, num_rows])
    return _pairs(segments, places), tf.stack([num_rows, size])


def sum_numbers(numbers: Any, segments: Any, num_rows: Any) -> Any:
    """Sums numbers by segment.

    Args:
      numbers: floats, [N].
      segments: int64, [N].
      num_rows: scalar; how many sums.

    Returns:
      Floats, [num_rows, 1].
    """
    indices = _pairs(segments)
    shape = tf.stack([tf.cast(num_rows, tf.int64), tf.constant(1, tf.int64)])
    return product(indices, numbers, shape, tf.ones([1, 1], numbers.dtype), transposed=False)


@tf.RegisterGradient("TpuColumnsSumOfRows")
def _gradient_of_rows(op: Any, gradient: Any) -> tuple[None, None, None, Any]:
    indices, values, shape, _ = op.inputs
    transposed = op.get_attr("adjoint_a")
    return None, None, None, product(indices, values, shape, gradient, not transposed)


def _gradient_of_rows_only() -> contextlib.AbstractContextManager[Any]:
    """Spares a graph the dozen ops of the gradient of weights, if nobody can want it."""
    # Other people's graphs may be saved, and loaded where nobody knows of this gradient.
    if tf.executing_eagerly() or placement.current() is None:
        return contextlib.nullcontext()
    kinds = {"SparseTensorDenseMatMul": "TpuColumnsSumOfRows"}
    return tf1.get_default_graph().gradient_override_map(kinds)


def product(indices: Any, values: Any, shape: Any, dense: Any, transposed: bool = True) -> Any:
    """Returns a sparse matrix times a dense one.

    Args:
      indices: int32 or int64, [N, 2].
      values: floats, [N].
      shape: int64, [2].
      dense: floats, [shape[0] if transposed else shape[1], D].
      transposed: the sparse matrix is transposed first; see `matrix`.

    Returns:
      Floats, [the other of `shape`, D].
    """
    # The public function takes indices of 64 bits only, which would have to be made.
    return tf.raw_ops.SparseTensorDenseMatMul(
        a_indices=indices, a_values=values, a_shape=shape, b=dense, adjoint_a=transposed
    )


def _pairs(first: Any, second: Any = None) -> Any:
    """Integers below 2³¹, [N] and [N] (None for zeros) -> [N, 2]; faster than `tf.stack`."""
    if sys.byteorder == "big":
        return tf.stack([first, tf.zeros_like(first) if second is None else second], 1)
    if second is not None:
        second = tf.bitwise.left_shift(second, tf.constant(32, tf.int64))
        first = tf.bitwise.bitwise_or(first, second)
    return tf.bitcast(first, tf.int32)


def _narrow(rows: Any) -> list[Any]:
    """Cuts rows into parts that the product is fast for.

    From 32 columns on the kernel works row by row through Eigen, and from TensorFlow 2.20 on that
    takes ten times as long (42 µs where 16 columns take 3).
    """
    # After disable_v2_behavior() a shape is made of objects.
    width = tf.compat.dimension_value(rows.shape[1])
    if not width or width < 32 or not _SLOW_FROM_32_COLUMNS:
        return [rows]
    count = -(-width // 31)
    ends = [width * place // count for place in range(count + 1)]
    # Slices: `tf.split` works row by row through Eigen, too.
    parts = itertools.pairwise(ends)
    return [tf.slice(rows, [0, begin], [-1, end - begin]) for begin, end in parts]


_SLOW_FROM_32_COLUMNS = tuple(map(int, tf.__version__.split(".")[:2])) >= (2, 20)
