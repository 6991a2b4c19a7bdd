# SPDX-License-Identifier: Apache-2.0
"""Joins the ids of many features to one batch of a stack of tables.

Features of one kind (dense with n ids, or sparse with one combiner) are joined, so that a few ops
look all of them up. Features of one table are in different batches: the gradients of its rows are
then the same sums, in the same order, as those of a table alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from estimator_spec.cores import enqueue
from estimator_spec.cores.host_updates import GatheredRows
from tpu_columns import combining, entries, lookup_errors
from tpu_columns.partition import RowPartition

tf1 = tf.compat.v1


class Use(NamedTuple):
    """A feature of a table that is looked up with others.

    Attributes:
        feature: its key.
        enqueued: its ids.
        activation: the tensor of the model that gets the result.
        layout: layout of the feature's table.
        offset: first row of the table in its variable.
        turn: number of earlier features of the table.
        place: number of earlier features that are looked up by the same ops.
    """

    feature: str
    enqueued: enqueue.Enqueued
    activation: Any
    layout: RowPartition
    offset: int
    turn: int
    place: int


class Batch(NamedTuple):
    """Features that are looked up together.

    Attributes:
        uses: the features.
        entries: their ids as rows of the stack.
        counts: rows of each feature's result, ints or int64 scalars.
    """

    uses: Sequence[Use]
    entries: combining.Entries
    counts: Sequence[Any]

    def split(self, combined: Any) -> list[Any]:
        """Returns each feature's part of the combined rows.

        Args:
            combined: floats, [sum of the counts, D].
        """
        parts = tf.split(combined, _vector(self.counts)) if len(self.uses) > 1 else [combined]
        return [_shaped(use, part) for use, part in zip(self.uses, parts, strict=True)]


def can_join(enqueued: enqueue.Enqueued) -> bool:
    """Returns whether a feature may be looked up with others.

    Not with weights: the error of a step with more ids than weights couldn't tell the feature.
    """
    return enqueued.weights is None


def look_up(
    variable: Any, uses: Sequence[Use], may_update_row_0: bool
) -> tuple[GatheredRows, list[tuple[Use, Any]]]:
    """Gathers the rows of a stack once for all its features in training, and combines them.

    Args:
        variable: the stack, [V, D].
        uses: the features.
        may_update_row_0: as in `entries.from_padded`.

    Returns:
        The rows, and for each feature the tensor for its activation.
    """
    batches = join(uses, may_update_row_0)
    all_ids = [batch.entries.ids for batch in batches]
    joined = all_ids[0] if len(batches) == 1 else tf.concat(all_ids, 0)
    ids, index = combining.rows_to_read(joined, unique=True)
    gathered = GatheredRows(variable, ids, tf.nn.embedding_lookup(variable, ids))
    sizes = [tf.size(part) for part in all_ids]
    indices = [index] if len(batches) == 1 else tf.split(index, sizes)
    size = tf.size(ids, out_type=tf.int64)
    values: list[tuple[Use, Any]] = []
    for batch, own in zip(batches, indices, strict=True):
        combined = combining.combine(gathered.trained_rows, own, batch.entries, True, size)
        values += zip(batch.uses, batch.split(combined), strict=True)
    return gathered, values


def join(uses: Sequence[Use], may_update_row_0: bool) -> list[Batch]:
    """Joins the features of a stack in training to as few batches as possible.

    Args:
        uses: the features, none with weights.
        may_update_row_0: as in `entries.from_padded`.
    """
    together: dict[tuple[Any, ...], list[tuple[Use, combining.Entries | None]]] = {}
    for use in uses:
        single = _sparse_entries(use.enqueued) if use.enqueued.padded is None else None
        together.setdefault(_kind(use, single), []).append((use, single))
    batches = []
    # By turn, so that a row's gradients are added in the order of its table's features.
    for kind in sorted(together, key=lambda kind: kind[0]):
        same, singles = zip(*together[kind], strict=True)
        if singles[0] is None:
            batches.append(_join_matrices(same, may_update_row_0))
        else:
            batches.append(_join_sparse(same, singles))
    return batches


MARK_LIMIT = 1 << 46
"""Ids out of range are clipped to ± this limit, and moved to a range of their feature."""


def mark(use: Use) -> lookup_errors.Marked:
    """Returns how ids out of range are marked: by negative numbers that tell id and feature."""
    return lookup_errors.Marked(-4 * MARK_LIMIT * (use.place + 1), MARK_LIMIT)


def num_ids(enqueued: enqueue.Enqueued) -> int | None:
    """Returns the most ids that a feature can have in a step; None: unknown."""
    if enqueued.shape.rank is None:
        return None
    sizes = enqueued.shape.as_list()
    if enqueued.max_sequence_length:
        sizes[1] = enqueued.max_sequence_length
    return None if None in sizes else int(np.prod(sizes, dtype=np.int64))


def record_sites(scope: str, uses: Sequence[Use]) -> None:
    """Records the features of a stack for errors of bad ids.

    Args:
        scope: name scope of ops that may report a bad id.
        uses: the features.
    """
    for use in uses:
        num_rows = use.layout.num_rows
        lookup_errors.record_site(scope, use.feature, use.feature, num_rows, mark(use))


def _kind(use: Use, single: combining.Entries | None) -> tuple[Any, ...]:
    """Returns what features of one batch have in common."""
    if single is not None:
        return use.turn, "sparse", single.ids.dtype, single.combiner
    matrix = use.enqueued.padded
    assert matrix is not None
    return use.turn, "dense", matrix.shape.as_list()[1], matrix.dtype, use.enqueued.combiner


def _sparse_entries(enqueued: enqueue.Enqueued) -> combining.Entries:
    """Returns the entries of a feature."""
    ids, _ = enqueued.rows
    single = entries.from_sparse(ids, None, enqueued.combiner)
    rows = tf.compat.dimension_value(ids.shape[0])
    return single if rows is None else single._replace(num_rows=int(rows))


def _join_matrices(uses: Sequence[Use], may_update_row_0: bool) -> Batch:
    """Joins dense ids [B, n] of one n and combiner; ids 0 are padding."""
    matrices: list[Any] = [use.enqueued.matrix for use in uses]
    counts = [_num_rows(matrix) for matrix in matrices]
    width = matrices[0].shape.as_list()[1]
    ids = tf.cast(tf.concat(matrices, 0), tf.int64)
    sizes = [count * width for count in counts]
    positions = tf.reshape(_positions(tf.reshape(ids, [-1]), uses, sizes), [-1, width])
    kept = tf.not_equal(ids, 0)
    combiner = uses[0].enqueued.combiner
    joined = entries.from_padded(positions, combiner, True, may_update_row_0, kept)
    return Batch(uses, joined, counts)


def _join_sparse(uses: Sequence[Use], singles: Sequence[combining.Entries]) -> Batch:
    """Joins sparse ids of one combiner."""
    counts = [single.num_rows for single in singles]
    sizes = [tf.size(single.ids, out_type=tf.int64) for single in singles]
    ids = tf.cast(tf.concat([single.ids for single in singles], 0), tf.int64)
    starts = tf.cumsum(_vector(counts), exclusive=True)
    segments = tf.concat([single.segments for single in singles], 0)
    joined = singles[0]._replace(
        ids=_positions(ids, uses, sizes),
        segments=segments + tf.gather(starts, _numbers(sizes)),
        num_rows=tf.reduce_sum(_vector(counts)),
    )
    return Batch(uses, joined, counts)


def _positions(ids: Any, uses: Sequence[Use], sizes: Sequence[Any]) -> Any:
    """Returns the rows of a stack for the ids of features one after the other.

    An id out of range must not become a row of another table: it gets the mark of its feature,
    which no table has as a row, so that the gather fails.

    Args:
        ids: int64, [N].
        uses: the features.
        sizes: number of ids of each, ints or int64 scalars.
    """
    uniform = all(isinstance(size, int) and size == sizes[0] for size in sizes)
    shaped = tf.reshape(ids, [len(uses), sizes[0]]) if uniform else ids
    numbers = None if uniform else _numbers(sizes)

    def known(values: list[int]) -> Any:
        """Returns the value of each id's feature, in the shape of the ids or broadcastable."""
        array = np.array(values, np.int64)
        return tf.constant(array[:, np.newaxis]) if uniform else tf.gather(array, numbers)

    local, layout = shaped, uses[0].layout
    if not layout.in_row_order:
        count = layout.num_shards
        least, extra = zip(*(divmod(use.layout.num_rows, count) for use in uses), strict=True)
        shard = shaped % count
        starts = shard * known(list(least)) + tf.minimum(shard, known(list(extra)))
        local = starts + shaped // count
    in_range = (shaped >= 0) & (shaped < known([use.layout.num_rows for use in uses]))
    marked = tf.clip_by_value(shaped, -MARK_LIMIT, MARK_LIMIT)
    marked += known([mark(use).added for use in uses])
    local += known([use.offset for use in uses])
    return tf.reshape(tf1.where(in_range, local, marked), [-1])


def _numbers(sizes: Sequence[Any]) -> Any:
    """Returns for each entry the number of its feature: int64, [N]."""
    return tf.concat(
        [tf.fill([size], tf.constant(place, tf.int64)) for place, size in enumerate(sizes)], 0
    )


def _num_rows(matrix: Any) -> Any:
    """Returns the rows of a matrix, as an int if the graph knows it."""
    known = tf.compat.dimension_value(matrix.shape[0])
    return tf.shape(matrix, out_type=tf.int64)[0] if known is None else int(known)


def _vector(counts: Sequence[Any]) -> Any:
    """Returns ints and int64 scalars as one tensor, int64 [F]."""
    if all(isinstance(count, int) for count in counts):
        return tf.constant(np.array(counts, np.int64))
    return tf.stack([tf.cast(count, tf.int64) for count in counts])


def _shaped(use: Use, value: Any) -> Any:
    """Returns the result of a feature in the shape of its activation."""
    if not use.enqueued.max_sequence_length:
        return value
    return tf.reshape(value, [-1, *use.activation.shape.as_list()[1:]])
