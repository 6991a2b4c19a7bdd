# SPDX-License-Identifier: Apache-2.0
"""Lookups on the tensor core: ids padded to a fixed width, and dense ops that XLA compiles."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tpu_columns.lookup import COMBINERS


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
