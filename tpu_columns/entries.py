# SPDX-License-Identifier: Apache-2.0
"""The ids of a batch, one after the other, whatever form they came in.

Entries that don't count stay where they are, as leaving them out of long lists costs more than the
rest of a lookup: they get an id that is looked up anyway, and a weight of zero.
"""

from __future__ import annotations

import tensorflow as tf

from tpu_columns.combining import Entries, sum_numbers

tf1 = tf.compat.v1


def of_sparse(ids: tf.SparseTensor, weights: tf.SparseTensor | None, combiner: str) -> Entries:
    """Returns all entries of a sparse matrix.

    Args:
      ids: integers, [B, n].
      weights: floats with the indices of `ids`, or None for ones.
      combiner: 'mean', 'sqrtn' or 'sum'.
    """
    if weights is None and ids.shape.rank == 2 and ids.shape[1] == 1:
        combiner = "sum"  # of one at most
    values = None if weights is None else weights.values
    segments, num_rows = ids.indices[:, 0], ids.dense_shape[0]
    return Entries(ids.values, segments, num_rows, values, combiner, given=weights is not None)


def safe(
    ids: tf.SparseTensor, weights: tf.SparseTensor | None, combiner: str, trained: bool
) -> Entries:
    """Returns the entries of a sparse matrix; those that a safe lookup drops count for nothing.

    Args:
      ids: integers, [B, n]; negative ones don't count.
      weights: floats with the indices of `ids`, or None for ones; entries with weights <= 0 don't
        count, unless the combiner is 'sum'.
      combiner: 'mean', 'sqrtn' or 'sum'.
      trained: an optimizer will see which rows were read.
    """
    entries = of_sparse(ids, weights, combiner)
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
        totals = sum_numbers(counted, entries.segments, entries.num_rows)
    known, filler = _filled(entries.ids, kept)
    more = _row_of_the_empty(totals, filler) if trained else None
    return entries._replace(ids=known, weights=weighted, totals=totals, more=more)


def of_matrix(ids: tf.Tensor, missing: tf.Tensor, combiner: str, trained: bool) -> Entries:
    """Returns the entries of a dense matrix; missing ones count for nothing.

    Args:
      ids: integers, [B, n] with n known; 0 where one is missing.
      missing: bool, [B, n].
      combiner: 'mean', 'sqrtn' or 'sum'.
      trained: an optimizer will see which rows were read.
    """
    if ids.shape[1] != 1:
        entries, filler = _filled_matrix(ids, missing, combiner)
        more = _row_of_the_empty(entries.totals, filler) if trained else None
        return entries._replace(more=more)
    present = tf.reshape(tf.cast(tf.logical_not(missing), tf.float32), [-1])
    count = tf.size(ids, out_type=tf.int64)
    return Entries(tf.reshape(ids, [-1]), tf.range(count), count, present, "sum")


def padded(ids: tf.Tensor, combiner: str) -> Entries:
    """Returns the entries of a dense matrix in which zeros are padding, as an embedding core does.

    Optimizers see no row but those of ids that count.

    Args:
      ids: integers, [B, n] with n known.
      combiner: 'mean', 'sqrtn' or 'sum'.
    """
    entries, filler = _filled_matrix(ids, tf.equal(ids, 0), combiner)
    # Where all is padding, no id is looked up anyway: then there are no entries.
    size = tf.where(tf.equal(filler, 0), 0, tf.size(ids))
    return entries._replace(
        ids=entries.ids[:size], segments=entries.segments[:size], weights=entries.weights[:size]
    )


def _filled_matrix(ids: tf.Tensor, missing: tf.Tensor, combiner: str) -> tuple[Entries, tf.Tensor]:
    """All entries of a matrix, and the id that missing ones got."""
    width = ids.shape[1]
    if width is None:
        raise ValueError("The number of columns of ids must be known; it is None.")
    present = tf.cast(tf.logical_not(missing), tf.float32)
    known, filler = _filled(tf.reshape(ids, [-1]), tf.reshape(tf.logical_not(missing), [-1]))
    segments = tf.range(tf.size(ids, out_type=tf.int64)) // width
    totals = tf.reduce_sum(present, axis=1, keepdims=True)
    count = tf.shape(ids, out_type=tf.int64)[0]
    if width == 1:
        combiner = "sum"
    weights = tf.reshape(present, [-1])
    return Entries(known, segments, count, weights, combiner, totals), filler


def _filled(ids: tf.Tensor, kept: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Ids with one of the kept in the place of the others; and that one, 0 if none is kept."""
    known = tf1.where(kept, ids, tf.zeros_like(ids))
    filler = tf.maximum(tf.reduce_max(known), 0)  # of no id at all it is the lowest number
    # The old form of `where`, with whole tensors, takes a tenth of the time.
    return tf1.where(kept, ids, tf.fill(tf.shape(ids), filler)), filler


def _row_of_the_empty(totals: tf.Tensor, filler: tf.Tensor) -> tf.Tensor:
    """Row 0, [1], if a row of the batch has no entry that counts; else one that is read anyway.

    In the old system an empty row looks up row 0 and is zeroed afterwards, and optimizers see it:
    some (Momentum, Ftrl) move a row even for a gradient of zero.
    """
    some_empty = tf.reduce_any(tf.equal(totals, 0))
    one = tf.where(some_empty, tf.zeros_like(filler), filler)
    return one[tf.newaxis][: tf.shape(totals)[0]]
