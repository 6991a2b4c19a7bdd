# SPDX-License-Identifier: Apache-2.0
"""Converts sparse and dense ids of a batch to one list of entries.

Masked entries stay in place: removing them costs more than looking them up. They are summed into an
extra row of the batch, which `combining.combine` drops; multiplying by 0 instead would let a NaN
through. Where an optimizer would update another row of the table for them, their id is replaced by
one that is looked up anyway; elsewhere by 0.
"""

from __future__ import annotations

import tensorflow as tf

from tpu_columns.combining import Entries, sum_scalars

tf1 = tf.compat.v1


def from_sparse(ids: tf.SparseTensor, weights: tf.SparseTensor | None, combiner: str) -> Entries:
    """Returns all entries of a sparse matrix.

    Args:
        ids: integers, [B, n].
        weights: floats with the indices of `ids`, or None for ones.
        combiner: 'mean', 'sqrtn' or 'sum'.
    """
    if weights is None and ids.shape.rank == 2 and ids.shape[1] == 1:
        combiner = "sum"  # one entry per row at most
    values = None if weights is None else weights.values
    segments, num_rows = ids.indices[:, 0], ids.dense_shape[0]
    return Entries(
        ids.values, segments, num_rows, values, combiner, weights_from_user=weights is not None
    )


def from_sparse_safe(
    ids: tf.SparseTensor, weights: tf.SparseTensor | None, combiner: str, trained: bool
) -> Entries:
    """Returns the entries of a sparse matrix; masks those that a safe lookup drops.

    Args:
        ids: integers, [B, n]; negative ones are masked.
        weights: floats with the indices of `ids`, or None for ones; entries with weights <= 0 are
            masked, unless the combiner is 'sum'.
        combiner: 'mean', 'sqrtn' or 'sum'.
        trained: whether an optimizer updates the rows that are read.
    """
    entries = from_sparse(ids, weights, combiner)
    kept = entries.ids >= 0
    if entries.weights is None:
        weighted = tf.cast(kept, tf.float32)
    else:
        if combiner != "sum":
            kept = kept & (entries.weights > 0)
        weighted = tf1.where(kept, entries.weights, tf.zeros_like(entries.weights))
    totals = None
    if trained or entries.combiner != "sum":
        counted = weighted
        if entries.weights is not None and combiner == "sum":
            counted = tf.cast(kept, tf.float32)
        elif entries.weights is not None and combiner == "sqrtn":
            counted = tf.square(weighted)
        totals = sum_scalars(counted, entries.segments, entries.num_rows)
    candidates = entries.ids
    if weights is not None:  # without, those that are dropped are negative
        candidates = tf1.where(kept, entries.ids, tf.zeros_like(entries.ids))
    filler = tf.maximum(tf.reduce_max(candidates), 0)  # the maximum of no ids is the lowest integer
    known = _fill_dropped(filler, entries.ids, kept)
    extra_ids = _empty_row_id(totals, filler) if trained else None
    entries = entries._replace(ids=known, weights=weighted, totals=totals, extra_ids=extra_ids)
    return _mask(entries, kept)


def from_dense(ids: tf.Tensor, missing: tf.Tensor, combiner: str, trained: bool) -> Entries:
    """Returns the entries of a dense matrix; masks missing ones.

    Args:
        ids: integers, [B, n] with n known statically; 0 where an id is missing.
        missing: bool, [B, n].
        combiner: 'mean', 'sqrtn' or 'sum'.
        trained: whether an optimizer updates the rows that are read.

    Raises:
        ValueError: n isn't known.
    """
    if tf.compat.dimension_value(ids.shape[1]) != 1:
        kept = tf.logical_not(missing)
        entries = _dense_entries(ids, kept, combiner)
        if not trained:
            return entries
        # An empty row of the batch has missing entries, so that row 0 is updated for them.
        highest = tf.maximum(tf.reduce_max(ids), 0)  # the maximum of no ids is the lowest integer
        filler = tf.where(_has_empty_row(entries.totals), tf.zeros_like(highest), highest)
        return entries._replace(ids=_fill_dropped(filler, entries.ids, kept))
    count = tf.size(ids, out_type=tf.int64)
    entries = Entries(tf.reshape(ids, [-1]), tf.range(count), count, None, "sum")
    return _mask(entries, tf.logical_not(missing))


def _dense_entries(ids: tf.Tensor, kept: tf.Tensor, combiner: str) -> Entries:
    """Returns all entries of a matrix and its totals; masks those that aren't kept."""
    width = tf.compat.dimension_value(ids.shape[1])
    if width is None:
        raise ValueError("The number of columns of ids must be known; it is None.")
    present = tf.cast(kept, tf.float32)
    segments = tf.range(tf.size(ids, out_type=tf.int64)) // width
    totals = tf.reduce_sum(present, axis=1, keepdims=True)
    count = tf.shape(ids, out_type=tf.int64)[0]
    if width == 1:
        combiner = "sum"
    return _mask(Entries(tf.reshape(ids, [-1]), segments, count, None, combiner, totals), kept)


def _mask(entries: Entries, kept: tf.Tensor) -> Entries:
    """Returns entries with those that aren't kept in the segment after the last row."""
    segments = _fill_dropped(entries.num_rows, entries.segments, kept)
    return entries._replace(segments=segments, masked=True)


def _fill_dropped(filler: tf.Tensor, values: tf.Tensor, kept: tf.Tensor) -> tf.Tensor:
    """Returns values [N] with `filler` in place of those that aren't kept."""
    flat = kept if kept.shape.rank == 1 else tf.reshape(kept, [-1])
    # TF2's `where` broadcasts, which takes ten times as long.
    return tf1.where(flat, values, tf.fill(tf.shape(values), filler))


def _has_empty_row(totals: tf.Tensor) -> tf.Tensor:
    """Returns whether all entries of some row of the batch are masked.

    In TensorFlow's safe lookup such a row looks up row 0 and is zeroed afterwards, and optimizers
    update row 0 with a gradient of zero, which changes it under some (Momentum, Ftrl).
    """
    return tf.reduce_any(tf.equal(totals, 0))


def _empty_row_id(totals: tf.Tensor, filler: tf.Tensor) -> tf.Tensor:
    """Returns id 0, [1], if some row of the batch is empty; else an id that is read anyway.

    Returns no id, [0], for a batch without rows.
    """
    one = tf.where(_has_empty_row(totals), tf.zeros_like(filler), filler)
    return tf.fill([tf.minimum(tf.size(totals), 1)], one)
