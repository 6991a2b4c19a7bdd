# SPDX-License-Identifier: Apache-2.0
"""Lookups on the tensor core: pads ids to a fixed width and looks them up by dense ops for XLA."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tpu_columns.kernels.calls import check_combiner


def check_supported(combiner: str | None, column_name: str = "") -> None:
    """Checks that lookups on the tensor core support a combiner.

    Args:
        combiner: the combiner; None isn't supported.
        column_name: name of its column, for the error message.

    Raises:
        ValueError: the combiner isn't 'mean', 'sqrtn' or 'sum'.
    """
    column = f" Column: {column_name}." if column_name else ""
    message = (
        "Dense TPU Embedding does not support combiner other than sum and mean (and here "
        f"sqrtn), got {combiner!r}.{column}"
    )
    check_combiner(combiner, message, optional=False)


def pad_for_tensor_core(
    ids: tf.SparseTensor, weights: tf.SparseTensor | None, width: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Pads a batch of sparse ids to a dense matrix of fixed width.

    Args:
        ids: integers, [B, n]; ids of a row beyond `width` are dropped.
        weights: floats with the indices of `ids`, or None for ones.
        width: second element of `tensor_core_shape`.

    Returns:
        values: int32, [B, width]; 0 at padding.
        mask: float32, [B, width]; 0 at padding, the weight elsewhere.
    """
    with tf.name_scope("pad_for_tensor_core"):
        if weights is None:
            weights = ids.with_values(tf.ones_like(ids.values, tf.float32))
        known = [ids.shape[0], width]  # a slice doesn't know its shape
        shape = tf.stack([ids.dense_shape[0], width])
        ids = tf.sparse.slice(ids, [0, 0], shape)
        weights = tf.sparse.slice(weights, [0, 0], shape)
        values = tf.scatter_nd(ids.indices, tf.cast(ids.values, tf.int32), shape)
        mask = tf.scatter_nd(weights.indices, tf.cast(weights.values, tf.float32), shape)
        values.set_shape(known)
        mask.set_shape(known)
        return values, mask


def tensor_core_lookup(
    table: Any, values: tf.Tensor, mask: tf.Tensor, combiner: str | None
) -> tf.Tensor:
    """Looks up padded ids by dense ops, which XLA can compile.

    Args:
        table: variable or tensor, [rows, D].
        values: int32, [B, n].
        mask: float32, [B, n]: weights, 0 at padding.
        combiner: 'mean', 'sqrtn' or 'sum', formulas as in `pooled_lookup`.

    Returns:
        Floats, [B, D]; zeros for a row of padding.

    Raises:
        ValueError: the combiner is unknown.
    """
    check_supported(combiner)
    with tf.name_scope("tensor_core_lookup"):
        rows = tf.nn.embedding_lookup(table, values)
        summed = tf.reduce_sum(rows * mask[:, :, tf.newaxis], axis=1)
        if combiner == "sum":
            return summed
        norm = mask if combiner == "mean" else tf.square(mask)
        norm = tf.reduce_sum(norm, axis=1, keepdims=True)
        return tf.math.divide_no_nan(summed, norm if combiner == "mean" else tf.sqrt(norm))
