# SPDX-License-Identifier: Apache-2.0
"""The ids of a batch, one after the other, whatever form they came in.

Entries that don't count stay where they are, as leaving them out of long lists costs more than the
rest of a lookup: they get a weight of zero, and where an optimizer would see a row more, an id that
is looked up anyway; else 0.
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
    known = tf1.where(kept, entries.ids, tf.zeros_like(entries.ids))
    filler = tf.maximum(tf.reduce_max(known), 0)  # of no id at all it is the lowest number
    known = _filled_with(filler, entries.ids, kept)
    more = _row_of_the_empty(totals, filler) if trained else None
    return entries._replace(ids=known, weights=weighted, totals=totals, more=more)


def of_matrix(ids: tf.Tensor, missing: tf.Tensor, combiner: str, trained: bool) -> Entries:
    """Returns the entries of a dense matrix; missing ones count for nothing.

    Args:
      ids: integers, [B, n] with n known; 0 where one is missing.
      missing: bool, [B, n].
      combiner: 'mean', 'sqrtn' or 'sum'.
      trained: an optimizer will see which rows were read.

    Raises:
      ValueError: n isn't known.
    """
    if tf.compat.dimension_value(ids.shape[1]) != 1:
        kept = tf.logical_not(missing)
        entries = _entries_of_matrix(ids, kept, combiner)
        if not trained:
            return entries
        # Where a row is empty something is missing, so row 0 is seen in its place.
        highest = tf.maximum(tf.reduce_max(ids), 0)  # of no id at all it is the lowest number
        filler = tf.where(_some_empty(entries.totals), tf.zeros_like(highest), highest)
        return entries._replace(ids=_filled_with(filler, entries.ids, kept))
    present = tf.reshape(tf.cast(tf.logical_not(missing), tf.float32), [-1])
    count = tf.size(ids, out_type=tf.int64)
    return Entries(tf.reshape(ids, [-1]), tf.range(count), count, present, "sum")


def padded(ids: tf.Tensor, combiner: str, trained: bool, zero_may_be_seen: bool = False) -> Entries:
    """Returns the entries of a dense matrix in which zeros are padding, as an embedding core does.

    Optimizers see no row but those of ids that count, and row 0 if it may be seen.

    Args:
      ids: integers, [B, n] with n known.
      combiner: 'mean', 'sqrtn' or 'sum'.
      trained: an optimizer will see which rows were read.
      zero_may_be_seen: it may see row 0 for padding, with a gradient of zero.

    Raises:
      ValueError: n isn't known.
    """
    kept = tf.not_equal(ids, 0)
    entries = _entries_of_matrix(ids, kept, combiner)
    if not trained or zero_may_be_seen:
        return entries
    filler = tf.reduce_max(ids)
    entries = entries._replace(ids=_filled_with(filler, entries.ids, kept))
    # Where all is padding, no id is looked up anyway: then there are no entries.
    size = tf.where(tf.reduce_any(kept), tf.size(ids), 0)
    return entries._replace(
        ids=entries.ids[:size], segments=entries.segments[:size], weights=entries.weights[:size]
    )


def _entries_of_matrix(ids: tf.Tensor, kept: tf.Tensor, combiner: str) -> Entries:
    """All entries of a matrix, with its totals; those that don't count have the weight 0."""
    width = tf.compat.dimension_value(ids.shape[1])
    if width is None:
        raise ValueError("The number of columns of ids must be known; it is None.")
    present = tf.cast(kept, tf.float32)
    segments = tf.range(tf.size(ids, out_type=tf.int64)) // width
    totals = tf.reduce_sum(present, axis=1, keepdims=True)
    count = tf.shape(ids, out_type=tf.int64)[0]
    if width == 1:
        combiner = "sum"
    weights = tf.reshape(present, [-1])
    return Entries(tf.reshape(ids, [-1]), segments, count, weights, combiner, totals)


def _filled_with(filler: tf.Tensor, ids: tf.Tensor, kept: tf.Tensor) -> tf.Tensor:
    """Ids, [N], with `filler` in the place of those that aren't kept."""
    # The old form of `where`, with whole tensors, takes a tenth of the time.
    return tf1.where(tf.reshape(kept, [-1]), ids, tf.fill(tf.shape(ids), filler))


def _some_empty(totals: tf.Tensor) -> tf.Tensor:
    """Whether a row of the batch has no entry that counts.

    In the old system such a row looks up row 0 and is zeroed afterwards, and optimizers see it:
    some (Momentum, Ftrl) move a row even for a gradient of zero.
    """
    return tf.reduce_any(tf.equal(totals, 0))


def _row_of_the_empty(totals: tf.Tensor, filler: tf.Tensor) -> tf.Tensor:
    """Row 0, [1], if a row of the batch is empty; else one that is read anyway."""
    one = tf.where(_some_empty(totals), tf.zeros_like(filler), filler)
    return one[tf.newaxis][: tf.shape(totals)[0]]
