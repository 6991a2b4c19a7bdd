# SPDX-License-Identifier: Apache-2.0
"""Initial values of a table's shards: the rows that the whole table would have on one machine.

An initializer is called once for the whole table, unless the program itself partitions its
variables. Each shard then computes the rows that it has, where that is possible: of a random
tensor, whose generator can begin at any element, of a fill, and of sums and products of these with
numbers. Of any other tensor it takes the rows from the whole.

TensorFlow calls an initializer for each shard instead. A seed then gives all shards the same rows,
and values for the whole table, such as pretrained vectors, are refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tpu_columns.partition import RowPartition

# TensorFlow's random ops: the stateless op of the same values, and by how much the counter of the
# generator advances for each group of four elements. On a CPU both use the generator Philox, with
# the first seed as the key and the second as the upper half of the counter.
_RANDOM = {
    "RandomUniform": ("StatelessRandomUniformV2", 1),
    "RandomStandardNormal": ("StatelessRandomNormalV2", 1),
    "TruncatedNormal": ("StatelessTruncatedNormalV2", 256),
}
_STATELESS = dict(_RANDOM.values())
_GROUP = 4
# Algorithms of the stateless ops: Philox, and the device's own choice, which is Philox on a CPU.
_PHILOX, _AUTOMATIC = 1, 3

_ELEMENTWISE = frozenset({"Add", "AddV2", "Mul", "RealDiv", "Sub"})

_BLOCK = 1 << 20
"""Elements of the whole table that a shard of 'mod' generates at once, to keep every n-th row."""


def for_shards(
    initializer: Any, shape: tuple[int, int], layout: RowPartition | None = None
) -> Callable[..., Any]:
    """Returns an initializer of a table's shards for `tf.compat.v1.get_variable`.

    Where the program has a partitioner, it is called for each shard, as TensorFlow does, and so is
    one that takes `partition_info`, other than TensorFlow's own, where shards are ranges of rows.
    It may return the whole table nevertheless, or refuse the shape of a shard.

    Args:
        initializer: a callable of a shape and a dtype, or a class of such callables.
        shape: of the whole table, (rows, dimension).
        layout: distribution of the rows over the shards; None: ranges of rows, by a partitioner of
            the program.

    Returns:
        A callable of a shard's shape, `dtype` and `partition_info`, which are those of the
        concatenated shards.

    Raises:
        ValueError: the initializer's value hasn't this shape.
    """
    function: Any = initializer() if inspect.isclass(initializer) else initializer
    takes_part = "partition_info" in inspect.signature(function).parameters

    def call(shape: Any, part: Any = None) -> Any:
        more = {"partition_info": part} if takes_part else {}
        return function(list(shape), dtype=tf.float32, **more)

    is_called_for_ranges = layout is None or (
        takes_part and layout.in_row_order and not _is_tensorflows(function)
    )
    value = None
    if not is_called_for_ranges:
        # Not in the calls for the shards, whose ops are on the servers that have them.
        with tf.init_scope(), tf.compat.v1.name_scope("initial_values"):
            value = _checked(call(shape), shape)

    def rows_of_shard(shard: Any, dtype: Any = tf.float32, partition_info: Any = None) -> Any:
        if partition_info is None:  # of a layer that doesn't partition variables
            return call(shard)
        start, count = int(partition_info.var_offset[0]), int(shard[0])
        if value is None:
            try:
                found = tf.convert_to_tensor(call(shard, partition_info), tf.float32)
            except (TypeError, ValueError):  # of values for the whole table
                if count == shape[0]:
                    raise
                found = _checked(call(shape), shape)
            is_whole = count < shape[0] and found.shape.as_list() == list(shape)
            return found[start : start + count] if is_whole else found
        assert layout is not None
        return _take_rows(value, layout.rows_of(layout.shard_starts.index(start)))

    return rows_of_shard


def shape_when_needed(shape: list[Any]) -> Any:
    """Returns a shape as a tensor that TensorFlow doesn't know before the graph runs.

    TensorFlow computes ops of known inputs once, and keeps the results as constants. It doesn't do
    so with stateful random ops, even if 0 is the only integer that this one can return.

    Args:
        shape: the dimensions; numbers or scalars.
    """
    no_axis, ends = tf.constant([], tf.int32), tf.constant([0, 1], tf.int64)
    zero = tf.raw_ops.RandomUniformInt(
        shape=no_axis, minval=ends[0], maxval=ends[1], seed=1, seed2=1
    )
    return tf.stack([tf.cast(size, tf.int64) for size in shape]) + zero


def _is_tensorflows(initializer: Any) -> bool:
    """Returns whether an initializer is TensorFlow's or Keras' own, none of which keeps rows."""
    package = type(initializer).__module__.partition(".")[0]
    return package in ("tensorflow", "keras", "tf_keras")


def _checked(value: Any, shape: tuple[int, int]) -> Any:
    """Returns a whole table as a float32 array or tensor of a static shape."""
    if isinstance(value, np.ndarray) and value.shape == shape:
        return value.astype(np.float32, copy=False)
    value = tf.convert_to_tensor(value, tf.float32)
    if not value.shape.is_compatible_with(shape):
        raise ValueError(f"The initial value has the shape {value.shape}, not {shape}.")
    return tf.ensure_shape(value, shape) if not value.shape.is_fully_defined() else value


def _take_rows(value: Any, rows: range) -> Any:
    """Returns rows of a whole table, [len(rows), D].

    Args:
        value: the table, [V, D].
        rows: rows of the table, with a positive step.
    """
    if isinstance(value, np.ndarray):
        return tf.constant(value[rows.start : rows.stop : rows.step])
    op, shape = value.op, [len(rows), value.shape[1]]
    if op.type in _RANDOM and not _is_seeded(op):
        return getattr(tf.raw_ops, op.type)(shape=shape, dtype=tf.float32)
    if _is_generated(op):
        return _generate(op, rows, value.shape[1])
    if op.type == "Fill":
        return tf.fill(shape, op.inputs[1])
    if op.type == "Const" and len(op.get_attr("value").float_val) == 1:  # of all elements
        return tf.constant(op.get_attr("value").float_val[0], tf.float32, shape)
    if op.type in _ELEMENTWISE and all(_is_whole_or_scalar(each, value) for each in op.inputs):
        x, y = (_take_rows(each, rows) if each.shape.rank else each for each in op.inputs)
        return getattr(tf.raw_ops, op.type)(x=x, y=y)
    return value[rows.start : rows.stop : rows.step]


def _is_whole_or_scalar(part: Any, value: Any) -> bool:
    return part.shape.rank == 0 or part.shape.as_list() == value.shape.as_list()


def _is_seeded(op: Any) -> bool:
    return bool(op.get_attr("seed") or op.get_attr("seed2"))


def _is_generated(op: Any) -> bool:
    """Returns whether an op's output is random floats that can be generated from any element."""
    if op.outputs[0].dtype != tf.float32:
        return False
    if op.type in _STATELESS:
        return tf.get_static_value(op.inputs[3]) in (_PHILOX, _AUTOMATIC)
    return op.type in _RANDOM


def _generate(op: Any, rows: range, width: int) -> Any:
    """Returns rows of a random tensor, [len(rows), width]."""
    if rows.step == 1:
        return _generate_range(op, rows.start, len(rows), width)
    size = max(_BLOCK // (rows.step * width), 1)
    count = -(-len(rows) // size)

    def generate_block(number: Any, blocks: Any) -> Any:
        first = number * size
        span = (tf.minimum(len(rows) - first, size) - 1) * rows.step + 1
        block = _generate_range(op, rows.start + first * rows.step, span, width)
        index = tf.cast(number, tf.int32)
        return number + 1, blocks.write(index, block[:: rows.step])

    blocks = tf.TensorArray(tf.float32, count, infer_shape=False, element_shape=[None, width])
    _, blocks = tf.while_loop(
        lambda number, _: number < count,
        generate_block,
        [tf.constant(0, tf.int64), blocks],
        parallel_iterations=1,
    )
    return tf.ensure_shape(blocks.concat(), [len(rows), width])


def _generate_range(op: Any, start: Any, count: Any, width: int) -> Any:
    """Returns a range of rows of a random tensor, [count, width]; numbers or int64 scalars."""
    if op.type in _RANDOM:
        kind, step = _RANDOM[op.type]
        seeds = [op.get_attr(name) % (1 << 64) for name in ("seed", "seed2")]
        key, counter = tf.constant(seeds[:1], tf.uint64), tf.constant([0, seeds[1]], tf.uint64)
    else:
        kind, step = op.type, _STATELESS[op.type]
        key, counter = op.inputs[1], op.inputs[2]
    group, skipped = start * width // _GROUP, start * width % _GROUP
    moved = tf.bitcast(counter, tf.int64) + tf.cast(tf.stack([group * step, 0]), tf.int64)
    elements = getattr(tf.raw_ops, kind)(
        shape=shape_when_needed([skipped + count * width]),
        key=key,
        counter=tf.bitcast(moved, tf.uint64),
        alg=_PHILOX,
    )
    if not isinstance(skipped, int) or skipped:
        elements = elements[skipped:]
    return tf.reshape(elements, [count, width])
