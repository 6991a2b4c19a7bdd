# SPDX-License-Identifier: Apache-2.0
"""Makes input_fns of arrays, the arguments x and y of estimators of `tf.contrib.learn`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.core.user_functions import arrays as of_core


def check_inputs(x: Any, y: Any, input_fn: Any, feed_fn: Any, batch_size: Any) -> None:
    """Checks that x, or an input_fn, is given and not both.

    Raises:
        ValueError: it is otherwise, or a `feed_fn` is given.
    """
    if feed_fn is not None:
        raise ValueError("feed_fn isn't restored. Return the tensors, or a dataset, by input_fn.")
    if x is None and input_fn is None:
        raise ValueError("Either x or input_fn must be provided.")
    if input_fn is not None and (x is not None or y is not None):
        raise ValueError("Can not provide both input_fn and x or y.")
    if input_fn is not None and batch_size is not None:
        raise ValueError("Can not provide both input_fn and batch_size.")


def input_fn_of(
    x: Any,
    y: Any = None,
    batch_size: int | None = None,
    shuffle: bool = False,
    repeat: bool = False,
) -> Callable[[], Any]:
    """Returns an input_fn of batches of arrays.

    Args:
        x: features, an array [examples, …] or arrays by name; lists and DataFrames become arrays.
        y: labels, as x; None: the dataset has features only.
        batch_size: examples of a batch; the last one of an epoch may have fewer. None: all.
        shuffle: whether each epoch has an order of its own.
        repeat: whether the epochs never end.

    Raises:
        ValueError: there are no examples, or arrays of different lengths.
        TypeError: x is an iterator.
    """
    arrays = _arrays(x) if y is None else (_arrays(x), _arrays(y))
    counts = {len(array) for array in tf.nest.flatten(arrays)}
    if len(counts) != 1 or not min(counts):
        raise ValueError(
            f"x and y must have one entry for each example, and at least one; got {sorted(counts)}."
        )
    (count,) = counts
    size = count if batch_size is None else batch_size

    def batches() -> Iterator[Any]:
        order = np.random.RandomState(tf.compat.v1.get_default_graph().seed)
        while True:
            rows = order.permutation(count) if shuffle else np.arange(count)
            for start in range(0, count, size):
                chosen = rows[start : start + size]
                yield tf.nest.map_structure(lambda array: array[chosen], arrays)  # noqa: B023
            if not repeat:
                return

    def input_fn() -> Any:
        signature = tf.nest.map_structure(
            lambda array: tf.TensorSpec([None, *array.shape[1:]], tf.as_dtype(array.dtype)), arrays
        )
        return tf.data.Dataset.from_generator(batches, output_signature=signature)

    return input_fn


def _shuffled(make: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that makes input_fns as another does, by default of shuffled examples."""

    @functools.wraps(make)
    def with_default(
        x: Any,
        y: Any = None,
        batch_size: int = 128,
        num_epochs: int | None = 1,
        shuffle: bool = True,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        return make(x, y, batch_size, num_epochs, shuffle, *args, **kwargs)

    return with_default


numpy_input_fn = _shuffled(of_core.numpy_input_fn)
pandas_input_fn = _shuffled(of_core.pandas_input_fn)


def _arrays(values: Any) -> Any:
    """Returns arrays of what a program gives as x or y."""
    if isinstance(values, Mapping):
        return {name: _arrays(value) for name, value in values.items()}
    if isinstance(values, Iterator):
        raise TypeError("x and y can't be iterators. Read them in an input_fn.")
    array = np.asarray(values)
    if array.dtype.kind == "U":
        return np.char.encode(array, "utf-8").astype(object)
    return array
