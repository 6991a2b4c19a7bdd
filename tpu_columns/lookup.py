# SPDX-License-Identifier: Apache-2.0
"""Lookups as ops: pooled, per step of a sequence, and on the tensor core.

The formulas are those of `tf.nn.safe_embedding_lookup_sparse`, which the old columns called, so
that numbers and gradients stay the same. The ops are chosen so that Grappler leaves them alone: its
arithmetic optimizer turns Unique -> Gather -> SparseSegmentMean into a segment mean over the *whole
table*, read and copied in every training step. It does not know UniqueWithCounts.
"""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from typing import Any

import tensorflow as tf

from tpu_columns import storage

tf1 = tf.compat.v1

COMBINERS = ("mean", "sqrtn", "sum")

# Up to here matrices of ids are narrow: reading what is missing costs less than leaving it out.
NARROW = 16

# A tuple, not a str: TensorFlow leaves such collections out of exported graphs, where Python
# objects could not go.
LOOKUP_SITES = ("tpu_columns", "lookup_sites")

_OUT_OF_RANGE = re.compile(r"= (-?\d+) is not in \[0, (\d+)\)")
_NODE_NAME = re.compile(r"\{\{node ([^}]+)\}\}")


@dataclasses.dataclass(frozen=True)
class LookupSite:
    """One lookup in a graph, noted so that a failing op can be told in the user's words.

    Attributes:
      scope: name scope of the lookup's ops, with its closing slash.
      column_name: the column.
      feature_key: key of its ids in the features dict.
      num_rows: vocabulary size.
    """

    scope: str
    column_name: str
    feature_key: str
    num_rows: int


class IdOutOfRangeError(tf.errors.InvalidArgumentError, ValueError):
    """An id lies outside of its column's vocabulary."""


def record_site(scope: str, column_name: str, feature_key: str, num_rows: int) -> None:
    """Notes a lookup in the default graph; does nothing when ops run eagerly."""
    if not tf.executing_eagerly():
        sites = tf1.get_default_graph().get_collection_ref(LOOKUP_SITES)
        sites.append(LookupSite(scope, column_name, feature_key, num_rows))


def explain(error: tf.errors.InvalidArgumentError, graph: tf.Graph) -> IdOutOfRangeError | None:
    """Returns an error that names column, id and vocabulary size, if a lookup of `graph` failed.

    Args:
      error: what a session raised.
      graph: the session's graph.

    Returns:
      An error to raise from `error`, or None if it is about something else.
    """
    found = _OUT_OF_RANGE.search(error.message or "")
    if not found:
        return None
    nodes = _NODE_NAME.findall(error.message)
    if error.op is not None:
        nodes.append(error.op.name)
    for site in graph.get_collection(LOOKUP_SITES):
        if any(node.startswith(site.scope) for node in nodes):
            return IdOutOfRangeError(
                error.node_def,
                error.op,
                f"Column {site.column_name!r}: id {found.group(1)} of feature "
                f"{site.feature_key!r} is outside of the "
                f"vocabulary, whose size is {site.num_rows} (valid: 0 to {site.num_rows - 1}). "
                "Mend the input, give the "
                "categorical column a default_value, or enlarge its num_buckets.",
            )
    return None


def pooled_lookup(
    table: Any,
    ids: tf.SparseTensor,
    weights: tf.SparseTensor | None = None,
    combiner: str | None = "mean",
    *,
    safe: bool = True,
    unique: bool = True,
    partition_strategy: str = "div",
    name: str | None = None,
) -> tf.Tensor:
    """Looks up each row's ids and combines them into one vector.

    With weights w and embeddings e of a row: sum = Σ w·e, mean = Σ w·e / Σ w, sqrtn = Σ w·e / √Σ
    w².

    Args:
      table: variable, partitioned variable, list of shards, tensor, or what `storage.table`
        returns, [rows, D].
      ids: integers, [B, n] (or of higher rank; the last axis is combined).
      weights: floats with the indices of `ids`, or None for ones.
      combiner: 'mean', 'sqrtn', 'sum'; None is mean, as the legacy columns on a CPU.
      safe: drop negative ids, and ids with weights <= 0 unless the combiner is sum; rows without
        ids give zeros.
      unique: read each row once, however often its id occurs: what an update of the table needs.
        Without one, reading all of them is faster.
      partition_strategy: how ids map to the shards of a partitioned table, 'div' or 'mod'.
      name: name scope.

    Returns:
      Floats, [B, D] (or `ids`' leading axes and D).

    Raises:
      ValueError: an unknown combiner.
    """
    combiner = check_combiner(combiner) or "mean"
    with tf.name_scope(name or "pooled_lookup"):
        rank = ids.shape.rank
        if safe and weights is None and rank == 2 and ids.shape[1] == 1:
            return _at_most_one_each(table, ids, partition_strategy)
        leading = None if rank == 2 else ids.dense_shape[:-1]
        if leading is not None:
            flat = [tf.reduce_prod(leading), ids.dense_shape[-1]]
            ids = tf.sparse.reshape(ids, flat)
            weights = None if weights is None else tf.sparse.reshape(weights, flat)
        if safe:
            ids, weights, empty = _safe_ids(ids, weights, combiner)
        else:
            empty = None
        read, places = rows_to_read(ids.values, unique)
        rows = _rows(table, read, partition_strategy)
        values = None if weights is None else weights.values
        result = combine(
            rows, places, ids.indices[:, 0], ids.dense_shape[0], values, combiner, empty
        )
        if leading is not None:
            depth = result.shape[-1]
            result = tf.reshape(
                result, tf.concat([leading, tf.shape(result, out_type=tf.int64)[1:]], 0)
            )
            if rank is not None:
                result.set_shape([None] * (rank - 1) + [depth])
        return result


def dense_lookup(
    table: Any,
    ids: tf.Tensor,
    missing: tf.Tensor,
    combiner: str | None = "mean",
    *,
    partition_strategy: str = "div",
    name: str | None = None,
) -> tf.Tensor:
    """Looks up a narrow matrix of ids: what `pooled_lookup` gives for those that aren't missing.

    Each entry is read, so this is for few a row. Where rows of several ids are trained, use
    `pooled_lookup`: an optimizer would see row 0 for each missing id, too.

    Args:
      table: as in `pooled_lookup`, [rows, D].
      ids: integers, [B, n]; 0 where one is missing, so that with n = 1 optimizers see the rows that
        they always saw.
      missing: bool, [B, n].
      combiner: as in `pooled_lookup`.
      partition_strategy: as in `pooled_lookup`.
      name: name scope.

    Returns:
      Floats, [B, D]; zeros for a row without ids.

    Raises:
      ValueError: an unknown combiner, or a number of columns that isn't known.
    """
    combiner = check_combiner(combiner) or "mean"
    width = ids.shape[1]
    if width is None:
        raise ValueError("The number of columns of ids must be known; it is None.")
    with tf.name_scope(name or "dense_lookup"):
        rows = _rows(table, tf.reshape(ids, [-1]), partition_strategy)
        if width == 1:
            # The old form takes whole rows; TF2's broadcasts entry by entry, twice as slow.
            return tf1.where(tf.reshape(missing, [-1]), tf.zeros_like(rows), rows)
        places = tf.range(tf.size(ids, out_type=tf.int64))
        present = tf.cast(tf.logical_not(missing), rows.dtype)
        segments, count = places // width, tf.shape(ids, out_type=tf.int64)[0]
        return combine(rows, places, segments, count, tf.reshape(present, [-1]), combiner)


def sequence_lookup(
    table: Any,
    ids: tf.SparseTensor,
    weights: tf.SparseTensor | None,
    combiner: str | None,
    max_sequence_length: int,
    *,
    unique: bool = True,
    partition_strategy: str = "div",
    name: str | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Looks up every step of a sequence, cut or padded with zeros to a fixed length, as a TPU does.

    Args:
      table: as in `pooled_lookup`, [rows, D].
      ids: integers, [B, T] or [B, T, n]; n ids of one step are combined.
      weights: floats with the indices of `ids`, or None.
      combiner: as in `pooled_lookup`.
      max_sequence_length: L > 0; steps from L on are dropped.
      unique: as in `pooled_lookup`.
      partition_strategy: as in `pooled_lookup`.
      name: name scope.

    Returns:
      embeddings: floats, [B, L, D].
      lengths: int64, [B]: steps of each sequence, at most L.
    """
    with tf.name_scope(name or "sequence_lookup"):
        ids = _three_axes(_first_steps(ids, max_sequence_length))
        lengths = sequence_lengths(ids)
        if weights is not None:
            weights = _three_axes(_first_steps(weights, max_sequence_length))
        steps = pooled_lookup(
            table, ids, weights, combiner, unique=unique, partition_strategy=partition_strategy
        )
        missing = max_sequence_length - tf.shape(steps)[1]
        padded = tf.pad(steps, [[0, 0], [0, missing], [0, 0]])
        padded.set_shape([None, max_sequence_length, steps.shape[-1]])
        return padded, lengths


def sequence_lengths(ids: tf.SparseTensor) -> tf.Tensor:
    """Returns the number of steps of each row: one more than the last step that holds an id.

    Args:
      ids: [B, T] or [B, T, n].

    Returns:
      int64, [B].
    """
    last = tf.math.unsorted_segment_max(
        ids.indices[:, 1] + 1, ids.indices[:, 0], ids.dense_shape[0]
    )
    # The maximum over no element is the lowest int64.
    return tf.maximum(last, 0, name="sequence_lengths")


def pad_for_tensor_core(
    ids: tf.SparseTensor, weights: tf.SparseTensor | None, width: int, *, name: str | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Makes a batch of ids dense, as the tensor core needs it.

    Args:
      ids: integers, [B, n]; from `width` on a row's ids are dropped.
      weights: floats with the indices of `ids`, or None for ones.
      width: n of the result; the second entry of `tensor_core_shape`.
      name: name scope.

    Returns:
      values: int32, [B, width], 0 where there is no id.
      mask: float32, [B, width], 0 there and the weight elsewhere.
    """
    with tf.name_scope(name or "pad_for_tensor_core"):
        if weights is None:
            weights = ids.with_values(tf.ones_like(ids.values, tf.float32))
        shape = tf.stack([ids.dense_shape[0], width])
        ids = tf.sparse.slice(ids, [0, 0], shape)
        weights = tf.sparse.slice(weights, [0, 0], shape)
        values = tf.scatter_nd(ids.indices, tf.cast(ids.values, tf.int32), shape)
        mask = tf.scatter_nd(weights.indices, tf.cast(weights.values, tf.float32), shape)
        values.set_shape([ids.shape[0], width])
        mask.set_shape([ids.shape[0], width])
        return values, mask


def tensor_core_lookup(
    table: Any, values: tf.Tensor, mask: tf.Tensor, combiner: str | None, *, name: str | None = None
) -> tf.Tensor:
    """Looks up padded ids with dense ops only, which XLA can compile.

    Args:
      table: variable or tensor, [rows, D].
      values: int32, [B, n].
      mask: float32, [B, n]: weights, 0 at padding.
      combiner: 'mean', 'sqrtn' or 'sum', formulas as in `pooled_lookup`.
      name: name scope.

    Returns:
      Floats, [B, D]; zeros for a row of padding.

    Raises:
      ValueError: another combiner.
    """
    if combiner not in COMBINERS:
        raise ValueError(
            "Dense TPU Embedding does not support combiner other than sum and mean (and here "
            "sqrtn), "
            f"got {combiner!r}."
        )
    with tf.name_scope(name or "tensor_core_lookup"):
        rows = tf.nn.embedding_lookup(table, values)
        summed = tf.reduce_sum(rows * mask[:, :, tf.newaxis], axis=1)
        if combiner == "sum":
            return summed
        norm = mask if combiner == "mean" else tf.square(mask)
        norm = tf.reduce_sum(norm, axis=1, keepdims=True)
        return tf.math.divide_no_nan(summed, norm if combiner == "mean" else tf.sqrt(norm))


def check_combiner(combiner: str | None) -> str | None:
    """Returns `combiner` if lookups know it.

    Raises:
      ValueError: otherwise.
    """
    if combiner is not None and combiner not in COMBINERS:
        raise ValueError(
            f"combiner must be one of 'mean', 'sqrtn' or 'sum' (or None), got {combiner!r}."
        )
    return combiner


def sum_rows(rows: Any, places: Any, segments: Any, num_rows: Any, weights: Any = None) -> Any:
    """Sums rows by segment, weighted: one product of a sparse matrix with a dense one.

    It is what `tf.sparse.segment_sum` and `tf.math.unsorted_segment_sum` compute, and so is its
    gradient, in a fraction of the time from TensorFlow 2.20 on: 28 µs where those take 98, and 29
    where their gradient takes 277 (10,240 places, 16 wide).

    Args:
      rows: floats, [U, D].
      places: int64, [N]: which row.
      segments: int64, [N]: which sum it goes into.
      num_rows: scalar; how many sums.
      weights: floats, [N], or None for ones.

    Returns:
      Floats, [num_rows, D]; zeros where there is no place.
    """
    entries = _pairs(segments, places)
    weights = tf.ones_like(places, rows.dtype) if weights is None else tf.cast(weights, rows.dtype)
    shape = tf.stack([tf.cast(num_rows, tf.int64), tf.shape(rows, out_type=tf.int64)[0]])
    matrix = tf.SparseTensor(entries, weights, shape)
    products = [
        tf.sparse.sparse_dense_matmul(matrix, piece) for piece in _narrow(rows, rows.shape[1])
    ]
    return products[0] if len(products) == 1 else tf.concat(products, 1)


def _pairs(first: Any, second: Any) -> Any:
    """[N] and [N] -> [N, 2], of int64 below 2³¹; in a fifth of the time that `tf.stack` takes."""
    if sys.byteorder == "big":
        return tf.stack([first, second], 1)
    both = tf.bitwise.bitwise_or(first, tf.bitwise.left_shift(second, tf.constant(32, tf.int64)))
    return tf.cast(tf.bitcast(both, tf.int32), tf.int64)


def _narrow(rows: Any, width: int | None) -> list[Any]:
    """Cuts rows into parts that the product is fast for.

    From 32 columns on the kernel works row by row through Eigen, and from TensorFlow 2.20 on that
    takes ten times as long (42 µs where 16 columns take 3).
    """
    if not width or width < 32 or not _SLOW_FROM_32_COLUMNS:
        return [rows]
    count = -(-width // 31)
    sizes = [width // count + (place < width % count) for place in range(count)]
    return list(tf.split(rows, sizes, axis=1))


_SLOW_FROM_32_COLUMNS = tuple(map(int, tf.__version__.split(".")[:2])) >= (2, 20)


def _at_most_one_each(table: Any, ids: tf.SparseTensor, partition_strategy: str) -> tf.Tensor:
    """A matrix with one column: whatever the combiner, a row gets its id's embedding or zeros."""
    column = tf.sparse.to_dense(ids, tf.constant(-1, ids.dtype), validate_indices=False)
    column = tf.reshape(column, [-1, 1])  # the kernel's result has no static shape
    missing = column < 0
    ids_or_zero = tf.where(missing, tf.zeros([], column.dtype), column)
    return dense_lookup(table, ids_or_zero, missing, partition_strategy=partition_strategy)


def _safe_ids(
    ids: tf.SparseTensor, weights: tf.SparseTensor | None, combiner: str
) -> tuple[tf.SparseTensor, tf.SparseTensor | None, tf.Tensor]:
    """Drops what a safe lookup drops, and gives rows without ids one; also which rows those are."""
    keep = ids.values >= 0
    if weights is not None and combiner != "sum":
        keep = keep & (weights.values > 0)
    ids = tf.sparse.retain(ids, keep)
    # An empty row looks up row 0 and is zeroed afterwards, so that optimizers see the same rows as
    # in the old system: some (Momentum, Ftrl) move a row even for a gradient of zero.
    ids, empty = tf.sparse.fill_empty_rows(ids, tf.zeros([], ids.dtype))
    if weights is not None:
        weights = tf.sparse.retain(weights, keep)
        weights, _ = tf.sparse.fill_empty_rows(weights, tf.ones([], weights.dtype))
    return ids, weights, empty


def rows_to_read(ids: tf.Tensor, unique: bool) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns which rows of a table to read for ids, and where among them each id's row is.

    Args:
      ids: integers, [N].
      unique: read each row once, however often its id occurs.

    Returns:
      rows: integers, [U]; `ids` themselves if not unique.
      places: int64, [N].
    """
    if not unique:
        return ids, tf.range(tf.size(ids, out_type=tf.int64))
    # With counts: Grappler would turn the plain one into a copy of the whole table.
    rows, places, _ = tf.unique_with_counts(ids, out_idx=tf.int64)
    return rows, places


def combine(
    rows: Any,
    places: Any,
    segments: Any,
    num_rows: Any,
    weights: Any,
    combiner: str,
    empty: Any = None,
) -> Any:
    """Combines looked up rows into one a segment, by the formulas of `pooled_lookup`.

    Args:
      rows: floats, [U, D].
      places: int64, [N]: which row.
      segments: int64, [N]: which result it belongs to.
      num_rows: scalar; how many results.
      weights: floats, [N], or None for ones.
      combiner: 'mean', 'sqrtn' or 'sum'.
      empty: bool, [num_rows]: results that shall be zeros all the same; None for none.

    Returns:
      Floats, [num_rows, D]; zeros where there is no place.
    """
    summed = sum_rows(rows, places, segments, num_rows, weights)
    if combiner == "sum":
        return summed if empty is None else tf1.where(empty, tf.zeros_like(summed), summed)
    counted = tf.ones_like(places, rows.dtype) if weights is None else tf.cast(weights, rows.dtype)
    if combiner == "sqrtn" and weights is not None:
        counted = tf.square(counted)
    norm = tf.math.unsorted_segment_sum(counted, segments, num_rows)
    if combiner == "sqrtn":
        norm = tf.sqrt(norm)
    nothing = tf.equal(norm, 0) if empty is None else empty
    # Divided by infinity a sum is zero, and so is its gradient.
    norm = tf1.where(nothing, tf.fill(tf.shape(norm), tf.constant(math.inf, norm.dtype)), norm)
    return summed / norm[:, tf.newaxis]


def _rows(table: Any, ids: tf.Tensor, partition_strategy: str) -> tf.Tensor:
    """Gathers rows [n, D] from whatever a table is stored as."""
    if isinstance(table, (storage.ShardedTable, storage.NarrowTable)):
        return table.rows(ids)
    return tf1.nn.embedding_lookup(table, ids, partition_strategy=partition_strategy)


def _first_steps(sequence: tf.SparseTensor, count: int) -> tf.SparseTensor:
    """Drops all steps of [B, T, …] from `count` on; a shorter sequence keeps its T."""
    shape = sequence.dense_shape
    steps = tf.minimum(shape[1], count)
    return tf.sparse.slice(
        sequence, tf.zeros_like(shape), tf.concat([shape[:1], steps[tf.newaxis], shape[2:]], 0)
    )


def _three_axes(sequence: tf.SparseTensor) -> tf.SparseTensor:
    """[B, T] -> [B, T, 1]; [B, T, n] stays."""
    if sequence.shape.rank == 3:
        return sequence
    shape = sequence.dense_shape
    per_step = tf.reduce_prod(shape[2:], keepdims=True)
    return tf.sparse.reshape(sequence, tf.concat([shape[:2], per_step], 0))
