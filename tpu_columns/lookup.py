# SPDX-License-Identifier: Apache-2.0
"""Lookups as ops: pooled, and by step of a sequence.

The formulas are those of `tf.nn.safe_embedding_lookup_sparse`, which the old columns called, so
that numbers and gradients stay the same. The ops are chosen so that Grappler leaves them alone: its
arithmetic optimizer turns Unique -> Gather -> SparseSegmentMean into a segment mean over the *whole
table*, read and copied in every training step. It does not know UniqueWithCounts.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tpu_columns import combining, entries, storage

tf1 = tf.compat.v1

COMBINERS = ("mean", "sqrtn", "sum")

# Up to here matrices of ids are narrow: reading what is missing costs less than leaving it out.
NARROW = 16


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
            return _at_most_one_each(table, ids, unique, partition_strategy)
        leading = None if rank == 2 else ids.dense_shape[:-1]
        if leading is not None:
            flat = [tf.reduce_prod(leading), ids.dense_shape[-1]]
            ids = tf.sparse.reshape(ids, flat)
            weights = None if weights is None else tf.sparse.reshape(weights, flat)
        if safe:
            found = entries.safe(ids, weights, combiner, trained=unique)
        else:
            found = entries.of_sparse(ids, weights, combiner)
        result = _combined(table, found, unique, partition_strategy)
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
    unique: bool = True,
    partition_strategy: str = "div",
    name: str | None = None,
) -> tf.Tensor:
    """Looks up a narrow matrix of ids: what `pooled_lookup` gives for those that aren't missing.

    A row is read for each entry, missing or not, so this is for few a row.

    Args:
      table: as in `pooled_lookup`, [rows, D].
      ids: integers, [B, n]; 0 where one is missing.
      missing: bool, [B, n].
      combiner: as in `pooled_lookup`.
      unique: as in `pooled_lookup`.
      partition_strategy: as in `pooled_lookup`.
      name: name scope.

    Returns:
      Floats, [B, D]; zeros for a row without ids.

    Raises:
      ValueError: an unknown combiner, or a number of columns that isn't known.
    """
    combiner = check_combiner(combiner) or "mean"
    with tf.name_scope(name or "dense_lookup"):
        if ids.shape[1] == 1 and not unique:
            rows = _rows(table, tf.reshape(ids, [-1]), partition_strategy)
            # The old form takes whole rows; TF2's broadcasts entry by entry, twice as slow.
            return tf1.where(tf.reshape(missing, [-1]), tf.zeros_like(rows), rows)
        found = entries.of_matrix(ids, missing, combiner, trained=unique)
        result = _combined(table, found, unique, partition_strategy)
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


def _at_most_one_each(
    table: Any, ids: tf.SparseTensor, unique: bool, partition_strategy: str
) -> tf.Tensor:
    """A matrix with one column: whatever the combiner, a row gets its id's embedding or zeros."""
    column = tf.sparse.to_dense(ids, tf.constant(-1, ids.dtype), validate_indices=False)
    column = tf.reshape(column, [-1, 1])  # the kernel's result has no static shape
    return dense_lookup(
        table,
        tf.maximum(column, 0),
        column < 0,
        unique=unique,
        partition_strategy=partition_strategy,
    )


def _combined(
    table: Any, found: combining.Entries, unique: bool, partition_strategy: str
) -> tf.Tensor:
    read, places = combining.rows_to_read(found.ids, unique, found.more)
    rows = _rows(table, read, partition_strategy)
    if not unique:
        combining.note_sum(rows, read, found, table)
    size = tf.size(read, out_type=tf.int64)
    return combining.combine(rows, places, found, trained=unique, size=size)


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
