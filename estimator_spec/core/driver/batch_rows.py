# SPDX-License-Identifier: Apache-2.0
"""Splits batches by rows among replicas, and pads them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.core.user_functions.model_spec import ModeKeys

MODE_NAMES = {ModeKeys.TRAIN: "train", ModeKeys.EVAL: "eval", ModeKeys.PREDICT: "predict"}


def pack_present(structure: Any, values: Iterable[Any], expand_composites: bool = False) -> Any:
    """Returns `structure` with its elements replaced by `values`, except those that are None.

    >>> pack_present({"ids": 1, "weights": None}, [2])
    {'ids': 2, 'weights': None}
    """
    new = iter(values)
    flat = tf.nest.flatten(structure, expand_composites)
    flat = [None if element is None else next(new) for element in flat]
    return tf.nest.pack_sequence_as(structure, flat, expand_composites)


def split_evenly(
    batch: Any, count: int, mode: str = ModeKeys.TRAIN, axes: Sequence[int] | None = None
) -> list[Any]:
    """Splits every tensor of a batch into `count` parts of the same size.

    Args:
        batch: tensors in any structure.
        count: number of parts.
        mode: one of `ModeKeys`, for error messages.
        axes: the batch dimension of each tensor; None: the first dimension.

    Raises:
        ValueError: the batch size isn't known in the graph or not divisible by `count`, or `axes`
            has a different number of dimensions than the batch has tensors.
    """
    if count == 1:
        return [batch]
    present = [tensor for tensor in tf.nest.flatten(batch) if tensor is not None]
    if axes is not None and len(axes) != len(present):
        raise ValueError(
            f"batch_axis has {len(axes)} dimensions, but input_fn gives {len(present)} tensors."
        )
    with_axes = list(zip(present, axes or [0] * len(present), strict=True))
    return [
        pack_present(batch, [_slice(t, number, count, mode, axis) for t, axis in with_axes])
        for number in range(count)
    ]


def _slice(tensor: Any, number: int, count: int, mode: str, axis: int) -> Any:
    """Returns part `number` of `count` of a tensor."""
    size = tensor.shape.as_list()[axis] if axis < (tensor.shape.rank or 0) else None
    if size is None or size % count:
        raise ValueError(
            f"{MODE_NAMES[mode]} batch size {size} must be divisible by number of replicas "
            f"{count}, and known in the graph; got a tensor of shape {tensor.shape}. Set "
            "drop_remainder=True where the dataset is batched."
        )
    rows = size // count
    if axis:
        return tf.split(tensor, count, axis)[number]
    if isinstance(tensor, tf.SparseTensor):
        rest = tensor.dense_shape[1:]
        start = tf.concat([[number * rows], tf.zeros_like(rest)], 0)
        part = tf.sparse.slice(tensor, start, tf.concat([[rows], rest], 0))
        return _set_num_rows(part, rows)
    return tensor[number * rows : (number + 1) * rows]


def split_unevenly(batch: Any, count: int) -> list[tuple[Any, Any]]:
    """Splits a batch of any size by rows: into parts of a size, as far as there are rows.

    Args:
        batch: tensors in any structure.
        count: number of parts.

    Returns:
        The parts, and the share of the rows that each has, a scalar tensor. Parts for which no row
        is left are copies of the first, and have 0.
    """
    present = [tensor for tensor in tf.nest.flatten(batch) if tensor is not None]
    rows = _num_rows(present[0])
    each = -(-rows // count)
    parts = []
    for number in range(count):
        some = number * each < rows
        start = tf.where(some, number * each, 0)
        end = tf.minimum(start + each, rows)
        part = pack_present(batch, [_rows(t, start, end) for t in present])
        share = tf.cast(end - start, tf.float32) / tf.cast(rows, tf.float32)
        parts.append((part, tf.where(some, share, 0.0)))
    return parts


def _rows(tensor: Any, start: Any, end: Any) -> Any:
    """Returns the rows of a tensor from `start` to before `end`, scalar tensors."""
    if not isinstance(tensor, tf.SparseTensor):
        return tensor[start:end]
    start, end = (tf.cast(number, tf.int64) for number in (start, end))
    rest = tensor.dense_shape[1:]
    first = tf.concat([[start], tf.zeros_like(rest)], 0)
    return tf.sparse.slice(tensor, first, tf.concat([[end - start], rest], 0))


def _set_num_rows(tensor: tf.SparseTensor, rows: int) -> tf.SparseTensor:
    """Returns the tensor with a number of rows that is known in the graph."""
    shape = tf.stack([tf.constant(rows, tf.int64), *tf.unstack(tensor.dense_shape)[1:]])
    return tf.SparseTensor(tensor.indices, tensor.values, shape)


def pad_batch(batch: Any, size: int | None) -> tuple[Any, Any]:
    """Pads a batch with zeros to a number of rows; also returns the number of rows before.

    Args:
        batch: tensors in any structure.
        size: number of rows; None pads nothing.
    """
    present = [tensor for tensor in tf.nest.flatten(batch) if tensor is not None]
    examples = _num_rows(present[0])
    if size is None:
        return batch, examples
    return pack_present(batch, [_pad(tensor, size) for tensor in present]), examples


def _num_rows(tensor: Any) -> Any:
    """Returns the number of rows, an int32 scalar."""
    if isinstance(tensor, tf.SparseTensor):
        return tf.cast(tensor.dense_shape[0], tf.int32)
    if isinstance(tensor, tf.RaggedTensor):
        return tf.cast(tensor.nrows(), tf.int32)
    return tf.shape(tensor)[0]


def _pad(tensor: Any, size: int) -> Any:
    """Pads a tensor with zeros (or empty strings) to `size` rows."""
    if isinstance(tensor, tf.RaggedTensor):
        tensor = tensor.to_sparse()
    if isinstance(tensor, tf.SparseTensor):
        return _set_num_rows(tensor, size)
    if tensor.shape[0] == size:
        return tensor
    missing = tf.concat([[size - tf.shape(tensor)[0]], tf.shape(tensor)[1:]], 0)
    zeros = tf.fill(missing, tf.constant("" if tensor.dtype == tf.string else 0, tensor.dtype))
    return tf.ensure_shape(tf.concat([tensor, zeros], 0), [size, *tensor.shape[1:]])
