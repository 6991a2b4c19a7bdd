# SPDX-License-Identifier: Apache-2.0
"""Converts features of the mid-level API to samples, and computes the shapes of activations.

A sample is one row of an activation: an example of a batch, or a step of a sequence. The rules are
those of TensorFlow's `TPUEmbedding.enqueue`:

| ids            | shape             | activation without the table's dimension               |
|----------------|-------------------|--------------------------------------------------------|
| dense          | [B], [B, …, 1]    | the shape without the last dimension ([B] stays)       |
| sparse         | [B, …, n]         | the same; [B, L] of rank 2 with `max_sequence_length`  |
| ragged         | [B, n]            | [B]; [B, L] with `max_sequence_length`                 |
| sparse, ragged | [B, n]            | an `output_shape` of more elements: steps of sequences |
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tpu_columns.combining import Entries


def entries_of(
    ids: Any, samples: Any, shape: Any, weights: Any, feature: Any
) -> tuple[Entries, Any]:
    """Returns ids as entries of their samples, and `shape`.

    Args:
        ids: int64, [N].
        samples: int64, [N]: number of each id's sample.
        shape: int64, [r]: shape of the activation without the table's dimension.
        weights: float32, [N], or None for ones.
        feature: the `FeatureConfig`.
    """
    found = Entries(
        *(ids, samples, tf.reduce_prod(shape), weights, feature.table.combiner),
        weights_from_user=weights is not None,
    )
    return found, shape


def paths(structure: Any) -> list[str]:
    """Returns the name of each leaf of a structure: keys and positions joined by slashes."""

    def walk(value: Any, prefix: tuple[str, ...]) -> Iterator[str]:
        if isinstance(value, dict):
            items = [(str(key), value[key]) for key in sorted(value)]
        elif isinstance(value, tuple) and hasattr(value, "_fields"):
            items = list(zip(value._fields, value, strict=True))
        elif isinstance(value, (list, tuple)):
            items = [(str(place), each) for place, each in enumerate(value)]
        else:
            yield "/".join(prefix)
            return
        for key, each in items:
            yield from walk(each, (*prefix, key))

    found = list(walk(structure, ()))
    count = len(tf.nest.flatten(structure))
    return found if len(found) == count else [str(place) for place in range(count)]


def incoming_shape(path: str, ids: Any, feature: Any) -> Any:
    """Returns the shape of an activation that ids ask for, without the table's dimension.

    Args:
        path: the feature's name in errors.
        ids: a tensor, SparseTensor or RaggedTensor.
        feature: its `tf.tpu.experimental.embedding.FeatureConfig`.

    Raises:
        ValueError: a TPU has no lookup of such ids.
    """
    _check_kind(path, ids)
    shape = ids.shape
    is_sequence = _has_steps(feature)
    if shape.rank is None:
        raise ValueError(f"Feature {path}: the rank of its ids isn't known. Set their shape.")
    if isinstance(ids, tf.RaggedTensor):
        if shape.rank != 2:
            raise ValueError(
                f"Feature {path}: only rank 2 ragged tensor is supported, find rank {shape.rank}."
            )
        return tf.TensorShape([shape[0], *([feature.max_sequence_length] * is_sequence)])
    if isinstance(ids, tf.SparseTensor):
        if shape.rank < 2:
            raise ValueError(
                f"Feature {path}: only rank 2 and above sparse tensor is supported, find rank "
                f"{shape.rank}."
            )
        if shape.rank == 2 and is_sequence:
            return tf.TensorShape([shape[0], feature.max_sequence_length])
        return shape[:-1]
    if shape.rank < 1:
        raise ValueError(
            f"Feature {path}: only rank 1 and above dense tensor is supported, find rank 0."
        )
    if shape.rank > 1 and shape[-1] not in (1, None):
        raise ValueError(
            f"Feature {path}: Rank 2 or above dense tensor should have last dimension as 1, as the "
            f"last dimension will always be reduced. Instead got the shape {shape}. Make several "
            "ids of an example sparse or ragged."
        )
    return shape if shape.rank == 1 else shape[:-1]


def shape_of_input(path: str, shape: Any, feature: Any) -> Any:
    """Returns what `incoming_shape` does, of the shape of ids whose kind isn't known."""
    shape = tf.TensorShape(shape)
    if shape.rank is None or shape.rank < 1:
        raise ValueError(
            f"Feature {path}: received input tensor of shape {shape}. Rank must be 1 and above."
        )
    if shape.rank == 2 and shape[-1] != 1 and _has_steps(feature):
        return tf.TensorShape([shape[0], feature.max_sequence_length])
    return shape if shape.rank == 1 else shape[:-1]


def check_shapes(path: str, known: Any, incoming: Any) -> None:
    """Checks that ids fit the shape of the activations that is known.

    Raises:
        ValueError: they don't.
    """
    if known.rank is None or incoming.rank is None:
        return
    if incoming.rank in (1, 2) and known.rank > incoming.rank:
        return  # steps of sequences, or samples in a list: `from_ids` checks them
    if known.rank != incoming.rank or not known.is_compatible_with(incoming):
        raise ValueError(
            f"Inconsistent shape found for input feature {path}: its output shape is {known}, by "
            f"the FeatureConfig, `build` or an earlier batch, but this batch asks for {incoming}. "
            "All batches must have one shape, as on a TPU: drop incomplete ones."
        )


def from_ids(path: str, ids: Any, weights: Any, feature: Any, known: Any) -> tuple[Entries, Any]:
    """Returns the ids of one feature of one replica as entries of samples, and the samples' shape.

    Args:
        path: the feature's name in errors.
        ids: a tensor, SparseTensor or RaggedTensor of integers.
        weights: None, or floats of the kind and places of sparse or ragged `ids`.
        feature: its `FeatureConfig`.
        known: shape of the activation without the table's dimension; may be unknown.

    Raises:
        ValueError: weights don't fit the ids, or ids don't fit the shape.
    """
    _check_kind(path, ids)
    _check_weights(path, ids, weights)
    if isinstance(ids, tf.SparseTensor):
        rows, columns, shape = _sparse_places(ids)
    elif isinstance(ids, tf.RaggedTensor):
        rows = ids.value_rowids()
        columns = tf.range(tf.size(rows, out_type=tf.int64)) - tf.gather(ids.row_starts(), rows)
        shape = tf.reshape(ids.nrows(tf.int64), [1])
    else:
        values = tf.cast(ids, tf.int64)
        values = values if ids.shape.rank == 1 else tf.reshape(values, [-1])
        shape = tf.shape(ids, tf.int64)
        shape = shape if ids.shape.rank == 1 else shape[:-1]
        samples = tf.range(tf.size(values, out_type=tf.int64))
        return entries_of(values, samples, _resolve(known, shape), None, feature)
    values = tf.cast(ids.values, tf.int64)
    numbers = None if weights is None else tf.cast(weights.values, tf.float32)
    length = _num_steps(path, ids, feature, known)
    if length is None:
        return entries_of(values, rows, _resolve(known, shape), numbers, feature)
    if not _has_steps(feature):
        known = feature.output_shape if feature.output_shape.rank is not None else known
        if numbers is not None:  # ignored in steps, as TensorFlow documents for an output_shape
            numbers = tf.where(length > 1, tf.ones_like(numbers), numbers)
    else:
        known = tf.TensorShape(None)
    length = tf.convert_to_tensor(length, tf.int64)
    is_row = tf.logical_and(length == 1, not _has_steps(feature))
    columns = tf.where(is_row, tf.zeros_like(columns), columns)
    kept = columns < length
    samples = tf.boolean_mask(rows * length + columns, kept)
    if numbers is not None:
        numbers = tf.boolean_mask(numbers, kept)
    steps = tf.concat([shape, [length]], 0)
    ids = tf.boolean_mask(values, kept)
    return entries_of(ids, samples, _resolve(known, steps), numbers, feature)


def _sparse_places(ids: tf.SparseTensor) -> tuple[Any, Any, Any]:
    """Returns the number of each id's sample, its place in it, and the shape of the samples."""
    shape = ids.dense_shape[:-1]
    rows = ids.indices[:, 0]
    for axis in range(1, ids.shape.rank - 1):
        rows = rows * shape[axis] + ids.indices[:, axis]
    return rows, ids.indices[:, -1], shape


def _num_steps(path: str, ids: Any, feature: Any, known: Any) -> Any:
    """Returns the number of steps of a sequence; None if each row of ids is one sample.

    It is a tensor, which may be 1, if the number of rows isn't known.
    """
    if ids.shape.rank != 2:
        return None
    if _has_steps(feature):
        return int(feature.max_sequence_length)
    if known.rank is None or known.rank < 2:
        return None
    batch, dimensions = ids.shape[0], known.as_list()
    if None in dimensions[1:]:
        raise ValueError(f"Feature {path}: output_shape {known} has unknown steps.")
    if dimensions[0] is None:
        return math.prod(dimensions[1:])
    total = math.prod(dimensions)
    words = f"Feature {path}: the {total} elements of output_shape {known} are no multiple of the "
    if batch is None:
        count = ids.nrows(tf.int64) if isinstance(ids, tf.RaggedTensor) else ids.dense_shape[0]
        check = tf.debugging.Assert(total % count == 0, [f"{words}rows of its ids:", count])
        with tf.control_dependencies([] if tf.executing_eagerly() else [check]):
            return total // count
    if total == batch:
        return None
    if total % batch:
        raise ValueError(f"{words}{batch} rows of its ids.")
    return total // batch


def _resolve(known: Any, shape: Any) -> Any:
    """Returns the known shape as a tensor if it is defined but for one dimension, else `shape`."""
    dimensions = [None] if known.rank is None else known.as_list()
    if None not in dimensions:
        return tf.constant(dimensions, tf.int64)
    if known.rank is None or known.rank == shape.shape[0]:
        return shape
    if dimensions.count(None) == 1:
        count = tf.reduce_prod(shape) // math.prod(n for n in dimensions if n is not None)
        return tf.stack([count if n is None else tf.constant(n, tf.int64) for n in dimensions])
    return shape


def _has_steps(feature: Any) -> bool:
    return feature.max_sequence_length > 0 and feature.output_shape.rank is None


def _check_kind(path: str, ids: Any) -> None:
    if not isinstance(ids, (tf.Tensor, tf.SparseTensor, tf.RaggedTensor)):
        raise ValueError(
            f"Feature {path} is of unknown type {type(ids)}. Please only pass Tensor, SparseTensor "
            "or RaggedTensor as input."
        )
    if not ids.dtype.is_integer:
        raise ValueError(
            f"Feature {path}: ids must be integers, but are {ids.dtype.name}. Convert them in the "
            "input pipeline, for example with a lookup table."
        )


def _check_weights(path: str, ids: Any, weights: Any) -> None:
    if weights is None:
        return
    if isinstance(ids, tf.Tensor):
        raise ValueError(
            f"Weight specified for dense input {path}, which is not allowed: it would always be 1. "
            "Make ids and weights sparse or ragged."
        )
    kind = tf.SparseTensor if isinstance(ids, tf.SparseTensor) else tf.RaggedTensor
    if not isinstance(weights, kind):
        raise ValueError(
            f"Weight for {path} is type {type(weights)} which does not match type input which is "
            f"{kind.__name__}."
        )


def flatten(structure: Any, features: Any, weights: Any) -> tuple[list[Any], list[Any]]:
    """Returns the ids of each feature, and its weights or None.

    Raises:
        ValueError, TypeError: ids or weights don't have the structure of the features.
    """
    tf.nest.assert_same_structure(structure, features)
    ids = tf.nest.flatten(features)
    if weights is None:
        return ids, [None] * len(ids)
    tf.nest.assert_same_structure(structure, weights)
    return ids, tf.nest.flatten(weights)


def check_ids(path: str, ids: Any, config: Any) -> None:
    """Checks that ids are rows of their table, when run eagerly.

    Args:
        path: the feature's name.
        ids: an integer tensor.
        config: the `TableConfig`.

    Raises:
        ValueError: one isn't.
    """
    if not tf.executing_eagerly():
        return
    ids = ids.numpy()
    wrong = ids[(ids < 0) | (ids >= config.vocabulary_size)]
    if wrong.size:
        raise ValueError(
            f"Feature {path}: id {wrong[0]} is not in [0, {config.vocabulary_size}), the rows of "
            f"table {config.name!r}. What a TPU does with it isn't defined: drop or map such ids "
            "in the input pipeline."
        )
