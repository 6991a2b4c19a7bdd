# SPDX-License-Identifier: Apache-2.0
"""Looks up the dense columns of one id an example together, in training.

Ids are checked, and pairs and sums made, for all columns of a layer at once:

    ids of N features ─▶ one matrix [N, B] ─▶ unique ids and rows of each table
    rows of each table, pairs of all ──────▶ a product for each table ─▶ the layer [B, widths]

Values and gradients are those of `lookup.dense_lookup`, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from tpu_columns import _tensorflow as private
from tpu_columns import (
    categorical,
    column_lookup,
    combining,
    invalid_ids,
    lookup,
    optimizations,
    placement,
)
from tpu_columns.column_types import TPUEmbeddingColumn
from tpu_columns.optimizations import Optimization
from tpu_columns.placement import LookupDevice

tf1 = tf.compat.v1


MIN_COLUMNS = 64
"""Fewest columns that are looked up together: with fewer, a step takes longer, as the products of
the first tables wait for the ids of the last, and the first step is hardly shorter."""


class _Gathered(NamedTuple):
    """Rows of one column's table, one for each id.

    Attributes:
        place: row of the column's ids in the matrix of all.
        ids: int64, [U]: unique ids.
        row_indices: int64, [B]: index of each example's row among them.
        rows: floats, [U, D].
    """

    place: int
    ids: Any
    row_indices: Any
    rows: Any


class OneIdColumns:
    """The columns of a layer whose dense features have one id an example.

    Args:
        columns: columns of the layer; those of other kinds are left out.
        builder: TF1's transformation cache over the features.

    Attributes:
        batch_size: number of examples, or None if the graph doesn't know it.
    """

    def __init__(self, columns: Iterable[Any], builder: Any) -> None:
        found = _find(columns, private.features_of(builder))
        self._places = {column.name: place for place, column in enumerate(found)}
        self._gathered: dict[str, _Gathered] = {}
        self.batch_size: int | None = None
        if not found:
            return
        with tf.name_scope("one_id_columns"):
            matrices = [_ids(column, builder) for column in found]
            self.batch_size = matrices[0].shape.as_list()[0]
            batch = -1 if self.batch_size is None else self.batch_size
            ids = tf.reshape(tf.stack(matrices), [len(found), batch])
            self._missing = ids < 0
            self._ids = tf.unstack(tf.maximum(ids, 0))
            shape = tf.shape(ids, out_type=tf.int64)
            self._count = shape[1]
            # Missing ids are summed to a further row, which is dropped.
            examples = tf.broadcast_to(tf.range(self._count), shape)
            self._sums = tf1.where(self._missing, tf.fill(shape, self._count), examples)

    def __contains__(self, column: Any) -> bool:
        """Returns whether a column is one of them."""
        return column.name in self._places

    def gather(self, column: Any, table: Any) -> tf.Tensor | None:
        """Gathers the rows of a column's ids, for `join`; call it in the column's variable scope.

        Args:
            column: one of the columns.
            table: its table.

        Returns:
            None; or the embeddings [B, D] of a table that isn't float32, which aren't joined.
        """
        place = self._places[column.name]
        ids = self._ids[place]
        with column_lookup.lookup_scope(column.name, column._feature):
            if tf.as_dtype(getattr(table, "dtype", tf.float32)).base_dtype != tf.float32:
                missing = tf.expand_dims(self._missing[place], 1)
                ids = tf.expand_dims(ids, 1)
                return lookup.dense_lookup(table, ids, missing, column.combiner)
            unique_ids, row_indices = combining.rows_to_read(ids, unique=True)
            rows = lookup.gather_rows(table, unique_ids, unique=True)
        self._gathered[column.name] = _Gathered(place, unique_ids, row_indices, rows)
        return None

    def join(self, others: Mapping[str, tf.Tensor | None]) -> tf.Tensor:
        """Returns the layer of the gathered columns and others, side by side.

        Args:
            others: by column name in the order of the layer: a matrix [B, elements] of each other
                column, None for a gathered one that isn't among the results of `split`.

        Returns:
            Floats, [B, sum of widths]; zeros for a missing id.
        """
        if all(other is not None for other in others.values()):
            return tf.concat(list(others.values()), 1)
        products = self._multiply()
        parts: list[tf.Tensor] = []
        with tf.name_scope("one_id_columns"):
            for name, other in others.items():
                parts += products[name] if other is None else [_with_another_row(other)]
            # The gradient of a split is a concatenation; that of a slice takes much longer.
            every = tf.concat(parts, 1)
            layer, _ = tf.split(every, tf.stack([self._count, 1]))
        layer.set_shape([self.batch_size, None])
        return layer

    def split(self) -> dict[str, tf.Tensor]:
        """Returns the embeddings [B, D] of the gathered columns by name."""
        gathered = self._gathered
        if not gathered:
            return {}
        widths = [each.rows.shape.as_list()[1] for each in gathered.values()]
        together = self.join(dict.fromkeys(gathered))
        return dict(zip(gathered, tf.split(together, widths, 1), strict=True))

    def _multiply(self) -> dict[str, list[tf.Tensor]]:
        """Returns the products of each gathered column: [B + 1, d], the last row to be dropped."""
        found = list(self._gathered.values())
        places = [each.place for each in found]
        with tf.name_scope("one_id_columns"):
            in_order = places == list(range(len(self._places)))
            sums = self._sums if in_order else tf.gather(self._sums, places)
            pairs = combining.zip_int32(tf.stack([each.row_indices for each in found]), sums)
            sizes = tf.stack(tf.shape_n([each.ids for each in found], out_type=tf.int64))
            num_sums = tf.fill([len(found), 1], self._count + 1)
            shapes = tf.unstack(combining.not_inferred(tf.concat([sizes, num_sums], 1)))
            ones = tf.ones_like(found[0].row_indices, found[0].rows.dtype)
            num_rows = None if self.batch_size is None else self.batch_size + 1
            products: dict[str, list[tf.Tensor]] = {}
            with combining.gradient_of_rows_only():
                columns = zip(self._gathered, found, tf.unstack(pairs), shapes, strict=True)
                for name, each, pair, shape in columns:
                    products[name] = combining.split_products(pair, ones, shape, each.rows)
                    for product in products[name]:
                        product.set_shape([num_rows, None])
        return products


def _with_another_row(matrix: tf.Tensor) -> tf.Tensor:
    """Returns a matrix with a row of zeros after its last."""
    return tf.concat([matrix, tf.zeros([1, matrix.shape.as_list()[1]], matrix.dtype)], 0)


def _find(columns: Iterable[Any], features: Any) -> list[Any]:
    """Returns the columns to look up together; none outside of the driver's training graphs."""
    current = placement.current()
    if current is None or not placement.updates_tables():
        return []
    if not optimizations.is_used(Optimization.LOOKUPS):
        return []
    found = [column for column in columns if _has_one_id(column, features)]
    batches = {tuple(_feature(column, features).shape.as_list()[:1]) for column in found}
    return found if len(found) >= MIN_COLUMNS and len(batches) == 1 else []


def _has_one_id(column: Any, features: Any) -> bool:
    """Returns whether the CPU looks up a column whose feature is dense, [B, 1] or [B]."""
    if not isinstance(column, TPUEmbeddingColumn):
        return False
    if not categorical.maps_entries(column.categorical_column):
        return False
    feature = _feature(column, features)
    return (
        isinstance(feature, tf.Tensor)
        and feature.shape.rank in (1, 2)
        and feature.shape.as_list()[1:] in ([], [1])
        and categorical.takes_dtype(column.categorical_column, feature.dtype)
        and column.use_safe_embedding_lookup
        and lookup.is_combiner(column.combiner)
        and invalid_ids.rule_for_column(column) is None
        and placement.current_device(column) is LookupDevice.CPU
    )


def _feature(column: Any, features: Any) -> Any:
    return features.get(column._feature.feature_key)


def _ids(column: Any, builder: Any) -> tf.Tensor:
    """Returns the ids of a column, int64 [B, 1]; negative where they are missing."""
    entries = builder.get(column._feature.feature_key)
    return categorical.negative_if_missing(column.categorical_column, entries, None)
