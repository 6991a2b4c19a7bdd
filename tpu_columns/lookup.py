# SPDX-License-Identifier: Apache-2.0
"""Embedding lookups as ops: pooled, and per step of a sequence.

The formulas are those of `tf.nn.safe_embedding_lookup_sparse`, which TensorFlow's columns call, so
that values and gradients stay the same. Grappler's arithmetic optimizer turns Unique -> Gather ->
SparseSegmentMean into a segment mean over the *whole table*, which is read and copied in every
training step. UniqueWithCounts prevents that.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tpu_columns import combining, engine, entries, native_lookup, optimizations, storage
from tpu_columns.kernels.calls import check_combiner
from tpu_columns.optimizations import Optimization

tf1 = tf.compat.v1

# Up to this many ids per row, gathering rows for missing entries costs less than dropping these.
MAX_DENSE_WIDTH = 16


def pooled_lookup(
    table: Any,
    ids: tf.SparseTensor,
    weights: tf.SparseTensor | None = None,
    combiner: str | None = "mean",
    *,
    safe: bool = True,
    unique: bool = True,
) -> tf.Tensor:
    """Looks up each row's ids and combines their embeddings to one vector.

    With weights w and embeddings e of a row: sum = Σ w·e, mean = Σ w·e / Σ w,
    sqrtn = Σ w·e / √Σ w².

    Args:
        table: variable, partitioned variable, tensor, `storage.ShardedTable` or
            `storage.QuantizedTable`, [rows, D].
        ids: integers, [B, n] (or of higher rank; the last axis is combined).
        weights: floats with the indices of `ids`, or None for ones.
        combiner: 'mean', 'sqrtn', 'sum'; None is mean, as in the legacy columns on a CPU.
        safe: drop negative ids, and ids with weights <= 0 unless the combiner is sum; rows without
            ids give zeros.
        unique: gather each row once, even if its id is repeated, as updates of the table require.
            False is faster where the table isn't trained.

    Returns:
        Floats, [B, D] (or the leading axes of `ids`, and D).

    Raises:
        ValueError: the combiner is unknown.
    """
    combiner = check_combiner(combiner) or "mean"
    is_native = engine.of_lookup(table, weights).is_native
    is_plain = not optimizations.is_used(Optimization.LOOKUPS) or _is_low_precision(table)
    if is_plain and not is_native and not isinstance(table, storage.QuantizedTable):
        return _plain_lookup(table, ids, weights, combiner, safe)
    with tf.name_scope("pooled_lookup"):
        rank = ids.shape.rank
        is_single = safe and weights is None and rank == 2 and ids.shape[1] == 1
        if is_single and not is_native:
            return _look_up_single_ids(table, ids, unique)
        leading = None if rank == 2 else ids.dense_shape[:-1]
        if leading is not None:
            flat = [tf.reduce_prod(leading), ids.dense_shape[-1]]
            ids = tf.sparse.reshape(ids, flat)
            weights = None if weights is None else tf.sparse.reshape(weights, flat)
        if is_native:
            result = native_lookup.look_up(table, ids, weights, combiner, safe=safe)
        elif safe:
            batch = entries.from_sparse_safe(ids, weights, combiner, trained=unique)
            result = _gather_and_combine(table, batch, unique)
        else:
            batch = entries.from_sparse(ids, weights, combiner)
            result = _gather_and_combine(table, batch, unique)
        if leading is not None:
            if isinstance(result, native_lookup.Pending):
                result = native_lookup.join([result])
            depth = result.shape[-1]
            result = tf.reshape(
                result, tf.concat([leading, tf.shape(result, out_type=tf.int64)[1:]], 0)
            )
            if rank is not None:
                result.set_shape([None] * (rank - 1) + [depth])
        return result


def dense_lookup(
    table: Any, ids: tf.Tensor, combiner: str | None = "mean", *, unique: bool = True
) -> tf.Tensor:
    """Looks up a narrow matrix of ids, with the result of `pooled_lookup`.

    A row may be gathered for each entry, missing or not, so n should be at most `MAX_DENSE_WIDTH`.

    Args:
        table: as in `pooled_lookup`, [rows, D].
        ids: integers, [B, n]; negative where an id is missing.
        combiner: as in `pooled_lookup`.
        unique: as in `pooled_lookup`.

    Returns:
        Floats, [B, D]; zeros for a row without ids.

    Raises:
        ValueError: the combiner is unknown, or n isn't known statically.
    """
    combiner = check_combiner(combiner) or "mean"
    if engine.of_lookup(table, None).is_native:
        with tf.name_scope("dense_lookup"):
            return native_lookup.look_up(table, ids, None, combiner, safe=True)
    missing = ids < 0
    if _is_low_precision(table):
        places = tf.where(~missing)
        shape = tf.shape(ids, out_type=tf.int64)
        sparse = tf.SparseTensor(places, tf.gather_nd(ids, places), shape)
        return _plain_lookup(table, sparse, None, combiner, safe=True)
    with tf.name_scope("dense_lookup"):
        ids = tf.maximum(ids, 0)
        if ids.shape[1] == 1 and not unique:
            rows = gather_rows(table, tf.reshape(ids, [-1]))
            # TF1's `where` selects whole rows; TF2's broadcasts, which takes twice as long.
            return tf1.where(tf.reshape(missing, [-1]), tf.zeros_like(rows), rows)
        batch = entries.from_dense(ids, missing, combiner, trained=unique)
        result = _gather_and_combine(table, batch, unique)
        result.set_shape([ids.shape[0], None])
        return result


def sequence_lookup(
    table: Any,
    ids: tf.SparseTensor,
    weights: tf.SparseTensor | None,
    combiner: str | None,
    max_sequence_length: int,
    *,
    unique: bool = True,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Looks up every step of sequences, truncated or padded with zeros to a fixed length.

    Args:
        table: as in `pooled_lookup`, [rows, D].
        ids: integers, [B, T] or [B, T, n]; n ids of one step are combined.
        weights: floats with the indices of `ids`, or None.
        combiner: as in `pooled_lookup`.
        max_sequence_length: L > 0; steps from L on are dropped.
        unique: as in `pooled_lookup`.

    Returns:
        embeddings: floats, [B, L, D].
        lengths: int64, [B]: steps of each sequence, at most L.
    """
    with tf.name_scope("sequence_lookup"):
        ids = _to_rank_3(truncate_steps(ids, max_sequence_length))
        lengths = sequence_lengths(ids)
        if weights is not None:
            weights = _to_rank_3(truncate_steps(weights, max_sequence_length))
        steps = pooled_lookup(table, ids, weights, combiner, unique=unique)
        missing = max_sequence_length - tf.shape(steps)[1]
        padded = tf.pad(steps, [[0, 0], [0, missing], [0, 0]])
        padded.set_shape([None, max_sequence_length, steps.shape[-1]])
        return padded, lengths


def dense_sequence_lookup(
    table: Any,
    ids: tf.Tensor,
    steps: tf.Tensor,
    max_sequence_length: int,
    *,
    unique: bool = True,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Looks up every step of sequences of one id a step, with the result of `sequence_lookup`.

    A row is gathered for each step, missing or not, so T should be at most `MAX_DENSE_WIDTH`.

    Args:
        table: as in `pooled_lookup`, [rows, D].
        ids: integers, [B, T] with T known statically; negative where an id is missing.
        steps: bool, [B, T]; whether the input has an entry, in the vocabulary or not.
        max_sequence_length: L > 0; steps from L on are dropped.
        unique: as in `pooled_lookup`.

    Returns:
        embeddings: floats, [B, L, D].
        lengths: int64, [B]: steps of each sequence, at most L.
    """
    with tf.name_scope("sequence_lookup"):
        count = min(ids.shape[1], max_sequence_length)
        rows = dense_lookup(table, tf.reshape(ids[:, :count], [-1, 1]), unique=unique)
        found = tf.reshape(rows, [-1, count, rows.shape[-1]])
        found.set_shape([ids.shape[0], None, None])
        if count < max_sequence_length:
            found = tf.pad(found, [[0, 0], [0, max_sequence_length - count], [0, 0]])
        ends = tf.where(steps[:, :count], tf.range(1, count + 1, dtype=tf.int64), [0])
        return found, tf.reduce_max(ends, axis=1, name="sequence_lengths")


def sequence_lengths(ids: tf.SparseTensor) -> tf.Tensor:
    """Returns the number of steps of each row: 1 plus the last step with an id.

    Args:
        ids: [B, T] or [B, T, n].

    Returns:
        int64, [B].
    """
    last = tf.math.unsorted_segment_max(
        ids.indices[:, 1] + 1, ids.indices[:, 0], ids.dense_shape[0]
    )
    # The maximum of no elements is the lowest int64.
    return tf.maximum(last, 0, name="sequence_lengths")


def _is_low_precision(table: Any) -> bool:
    """Returns whether sums of rows depend on where they are rounded: TensorFlow's ops decide."""
    dtype = getattr(table, "dtype", None)
    return isinstance(dtype, tf.DType) and dtype.base_dtype in (tf.bfloat16, tf.float16)


def _plain_lookup(
    table: Any, ids: tf.SparseTensor, weights: tf.SparseTensor | None, combiner: str, safe: bool
) -> tf.Tensor:
    """Looks up ids by the function that TensorFlow's columns call."""
    strategy = "div"
    if isinstance(table, storage.ShardedTable):
        table, strategy = list(table.shards), table.layout.strategy
    look_up = tf1.nn.safe_embedding_lookup_sparse if safe else tf1.nn.embedding_lookup_sparse
    return look_up(table, ids, weights, combiner=combiner, partition_strategy=strategy)


def _look_up_single_ids(table: Any, ids: tf.SparseTensor, unique: bool) -> tf.Tensor:
    """Looks up at most one id per row: its embedding or zeros, with any combiner."""
    column = tf.sparse.to_dense(ids, tf.constant(-1, ids.dtype), validate_indices=False)
    # The kernel's result has no static shape.
    return dense_lookup(table, tf.reshape(column, [-1, 1]), unique=unique)


def _gather_and_combine(table: Any, batch: combining.Entries, unique: bool) -> tf.Tensor:
    ids, row_indices = combining.rows_to_read(batch.ids, unique, batch.extra_ids)
    rows = gather_rows(table, ids)
    if not unique:
        combining.record_sum(rows, ids, batch, table)
    size = tf.size(ids, out_type=tf.int64)
    return combining.combine(rows, row_indices, batch, size=size)


def gather_rows(table: Any, ids: tf.Tensor) -> tf.Tensor:
    """Gathers rows of a table in any storage.

    Args:
        table: as in `pooled_lookup`, [rows, D].
        ids: integers, [n].

    Returns:
        Floats, [n, D].
    """
    if isinstance(table, (storage.QuantizedTable, storage.ShardedTable)):
        return table.gather(ids)
    # The rows of a variable with a partitioner lie by div, as TensorFlow's columns read them.
    return tf1.nn.embedding_lookup(table, ids, partition_strategy="div")


def truncate_steps(sequence: tf.SparseTensor, count: int) -> tf.SparseTensor:
    """Truncates sequences to a number of steps.

    Args:
        sequence: ids or weights, [B, T] or [B, T, n].
        count: most steps that are kept.
    """
    shape = sequence.dense_shape
    steps = tf.minimum(shape[1], count)
    return tf.sparse.slice(
        sequence, tf.zeros_like(shape), tf.concat([shape[:1], steps[tf.newaxis], shape[2:]], 0)
    )


def _to_rank_3(sequence: tf.SparseTensor) -> tf.SparseTensor:
    """Reshapes [B, T] to [B, T, 1]; returns [B, T, n] unchanged."""
    if sequence.shape.rank == 3:
        return sequence
    shape = sequence.dense_shape
    per_step = tf.reduce_prod(shape[2:], keepdims=True)
    return tf.sparse.reshape(sequence, tf.concat([shape[:2], per_step], 0))
