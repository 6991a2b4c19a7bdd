# SPDX-License-Identifier: Apache-2.0
"""`numpy_input_fn` and `pandas_input_fn`: a model's input from what is in memory.

Both fill a queue from Python threads. A dataset would do the same in fewer lines, but the seeds
that a program didn't set depend on the number of ops in its graph; with these queues, op for op
as they always were, a seeded program starts from the numbers it always started from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.input_fns import feeding_queue

tf1 = tf.compat.v1

_TARGET = "__target_key__"
_DIRECT = "__direct_np_input__"


def numpy_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
) -> Callable[[], Any]:
    """Makes an `input_fn` of arrays.

    A batch may end one epoch and begin the next; the last batch of all may be smaller.

    Args:
        x: features: an array, or arrays by name; the first dimension is that of the examples.
        y: labels: likewise, or None.
        batch_size: examples in a batch. Default 128.
        num_epochs: how often each thread reads all examples. Default 1. None: for ever.
        shuffle: True mixes examples within the queue, and begins at a random one. It must be
            given; False keeps their order.
        queue_capacity: examples in the queue, at most. Default 1000.
        num_threads: threads that fill the queue. Default 1. Each reads `num_epochs` epochs, and
            with several the order isn't fixed.

    Returns:
        Function without arguments that returns features, or (features, labels) if there are
        labels, in the form of `x` and `y`.

    Raises:
        ValueError: `shuffle` isn't a bool. When called: nothing in `x` or `y`, a name in both,
            or arrays of different lengths.
        TypeError: when called: `x` is no array and no dict.
    """
    _check_shuffle(shuffle)

    def input_fn() -> Any:
        features = _named_features(x)
        labels = _named_labels(y, features)
        _check_lengths(features, labels)
        columns = {**features, **labels}
        queue = feeding_queue.queue_of(
            list(columns.values()),
            capacity=queue_capacity,
            shuffle=bool(shuffle),
            min_after_dequeue=queue_capacity / 4,
            num_threads=num_threads,
            batch_size=batch_size,
            num_epochs=num_epochs,
        )
        batch = dict(zip(columns, _dequeue(queue, batch_size, num_epochs), strict=True))
        fed: Any = {name: batch[name] for name in features}
        if isinstance(x, np.ndarray):
            fed = batch[_DIRECT]
        if y is None:
            return fed
        if isinstance(y, dict):
            return fed, {name: batch[name] for name in labels}
        return fed, batch[next(iter(labels))]

    return input_fn


def _check_shuffle(shuffle: Any) -> None:
    if not isinstance(shuffle, bool):
        raise ValueError(
            "shuffle must be provided and explicitly set as boolean (it is recommended to set it "
            f"as True for training); got {shuffle}"
        )


def _dequeue(queue: Any, batch_size: int, num_epochs: int | None) -> Any:
    """One batch of the columns, without the row numbers; of a known size if there is no end."""
    if num_epochs is None:
        return queue.dequeue_many(batch_size)[1:]
    return queue.dequeue_up_to(batch_size)[1:]


def _named_features(x: Any) -> dict[Any, Any]:
    """The features by name, in the order of their names."""
    if isinstance(x, dict):
        if not x:
            raise ValueError("x cannot be an empty dict")
        return dict(sorted(x.items()))
    if isinstance(x, np.ndarray):
        if x.size == 0:
            raise ValueError("x cannot be an empty array")
        return {_DIRECT: x}
    raise TypeError(f"x must be a dict or array; got {type(x).__name__}")


def _named_labels(y: Any, features: Mapping[Any, Any]) -> dict[Any, Any]:
    """The labels by name, in the order of their names; a lone array gets a name of its own."""
    if y is None:
        return {}
    if not isinstance(y, dict):
        name = _TARGET
        while name in features:
            name += "_n"
        return {name: y}
    if not y:
        raise ValueError("y cannot be empty dict, use None instead.")
    both = sorted(set(features) & set(y))
    if both:
        raise ValueError(f"{len(both)} duplicate keys are found in both x and y: {both}")
    return dict(sorted(y.items()))


def _check_lengths(features: Mapping[Any, Any], labels: Mapping[Any, Any]) -> None:
    lengths = {array.shape[0] for array in (*features.values(), *labels.values())}
    if len(lengths) != 1:
        raise ValueError(
            "Length of tensors in x and y is mismatched. All elements in x and y must have the "
            "same length.\n"
            f"Shapes in x: { {name: array.shape for name, array in features.items()} }\n"
            f"Shapes in y: { {name: array.shape for name, array in labels.items()} }"
        )
    if lengths == {0}:
        raise ValueError("x has no examples: the first dimension of its arrays is 0.")


def pandas_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int | None = 1000,
    num_threads: int = 1,
    target_column: str = "target",
) -> Callable[[], Any]:
    """Makes an `input_fn` of a pandas `DataFrame`.

    Args:
        x: features: a `DataFrame`, each column one feature.
        y: labels: a `Series`, a `DataFrame` or None. Its index must be that of `x`.
        batch_size: as for `numpy_input_fn`.
        num_epochs: as for `numpy_input_fn`.
        shuffle: as for `numpy_input_fn`.
        queue_capacity: as for `numpy_input_fn`; None: as many as `x` has rows, four times as
            many to shuffle.
        num_threads: as for `numpy_input_fn`.
        target_column: a name for the labels that no column of `x` has. Default 'target'.

    Returns:
        Function without arguments that returns features by name, or (features, labels); labels
        are a tensor for a `Series`, and tensors by name for a `DataFrame`.

    Raises:
        ImportError: pandas isn't installed.
        ValueError: `shuffle` isn't a bool, `target_column` is a column of `x`, or the indexes
            differ.
        TypeError: `target_column` isn't a string.
    """
    pd = _pandas()
    _check_shuffle(shuffle)
    if not isinstance(target_column, str):
        raise TypeError(f"target_column must be a string type; got {target_column!r}")
    if y is not None and target_column in x:
        raise ValueError(
            f"Cannot use name {target_column} for target column: DataFrame already has a column "
            f"with that name: {x.columns}"
        )
    if y is not None and not np.array_equal(x.index, y.index):
        raise ValueError(
            f"Index for x and y are mismatched.\nIndex for x: {x.index}\nIndex for y: {y.index}\n"
        )
    # Copies: what the program does to its frames afterwards is none of the model's business.
    features = {name: x[name].to_numpy(copy=True) for name in x.columns}
    labels: dict[Any, Any] = {}
    if isinstance(y, pd.DataFrame):
        labels = {name: y[name].to_numpy(copy=True) for name in y.columns}
    elif y is not None:
        labels = {target_column: y.to_numpy(copy=True)}
    columns = [*features.values(), *labels.values()]
    if queue_capacity is None:
        queue_capacity = 4 * len(x) if shuffle else len(x)
    capacity = queue_capacity

    def input_fn() -> Any:
        queue = feeding_queue.queue_of(
            columns,
            capacity=capacity,
            shuffle=bool(shuffle),
            min_after_dequeue=max(capacity / 4, 1),
            num_threads=num_threads,
            batch_size=batch_size,
            num_epochs=num_epochs,
        )
        batch = _dequeue(queue, batch_size, num_epochs)
        fed = dict(zip(features, batch[: len(features)], strict=True))
        if y is None:
            return fed
        targets = batch[len(features) :]
        if isinstance(y, pd.DataFrame):
            return fed, dict(zip(labels, targets, strict=True))
        return fed, targets[0]

    return input_fn


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "pandas_input_fn should not be called without pandas installed. Install it (pip "
            "install pandas), or give numpy_input_fn the columns as arrays."
        ) from error
    return pandas
