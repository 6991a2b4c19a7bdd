# SPDX-License-Identifier: Apache-2.0
"""Builds input functions of NumPy arrays and pandas data frames.

Python threads fill a queue in the graph. A dataset would need less code, but op seeds that a
program doesn't set depend on the number of ops in its graph: with the same ops as in
`tf.estimator`, a seeded program starts from the same initial values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from estimator_spec.core.common import argument_rules
from estimator_spec.core.user_functions import feeding_queue

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
    """Returns an `input_fn` that reads arrays.

    A batch may span two epochs; only the very last batch may be smaller.

    Args:
        x: features: an array, or arrays by name; the first dimension is the number of examples.
        y: labels: an array, arrays by name, or None.
        batch_size: number of examples in a batch. Default 128.
        num_epochs: number of times that each thread reads all examples. Default 1. None: no limit.
        shuffle: True shuffles examples within the queue, starting at a random one; False keeps
            their order. Required.
        queue_capacity: greatest number of examples in the queue. Default 1000.
        num_threads: number of threads that fill the queue. Default 1. Each reads `num_epochs`
            epochs; the order of several threads isn't deterministic.

    Returns:
        Function without arguments that returns features, or (features, labels) if there are
        labels, in the structure of `x` and `y`.

    Raises:
        ValueError: `shuffle` isn't a bool. When called: `x` or `y` is empty, both have a name, or
            the lengths of arrays differ.
        TypeError: a number has another type. When called: `x` is neither an array nor a dict, or
            has something else than arrays.
    """
    _check_shuffle(shuffle)
    argument_rules.check("numpy_input_fn", locals())

    def input_fn() -> Any:
        features = _named_features(x)
        labels = _named_labels(y, features)
        _check_lengths(features, labels)
        batch, targets = feeding_queue.read_batch(
            features,
            labels,
            capacity=queue_capacity,
            shuffle=bool(shuffle),
            min_after_dequeue=queue_capacity / 4,
            num_threads=num_threads,
            batch_size=batch_size,
            num_epochs=num_epochs,
        )
        fed = batch[_DIRECT] if isinstance(x, np.ndarray) else batch
        if y is None:
            return fed
        return fed, targets if isinstance(y, dict) else next(iter(targets.values()))

    return input_fn


def _check_shuffle(shuffle: Any) -> None:
    if not isinstance(shuffle, bool):
        raise ValueError(
            "shuffle must be provided and explicitly set as boolean (it is recommended to set it "
            f"as True for training); got {shuffle}"
        )


def _named_features(x: Any) -> dict[Any, Any]:
    """Returns the features by name, sorted by name."""
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
    """Returns the labels by name, sorted by name; a single array gets an unused name."""
    if y is None:
        return {}
    if not isinstance(y, dict):
        name = _TARGET
        while name in features:
            name += "_n"
        return {name: y}
    if not y:
        raise ValueError("y cannot be empty dict, use None instead.")
    duplicates = sorted(set(features) & set(y))
    if duplicates:
        raise ValueError(
            f"{len(duplicates)} duplicate keys are found in both x and y: {duplicates}"
        )
    return dict(sorted(y.items()))


def _check_lengths(features: Mapping[Any, Any], labels: Mapping[Any, Any]) -> None:
    for name, array in (*features.items(), *labels.items()):
        if not hasattr(array, "shape"):
            raise TypeError(
                f"x and y must be arrays, or arrays by name, but {name!r} has a "
                f"{type(array).__name__}: call numpy.array."
            )
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
    """Returns an `input_fn` that reads a pandas `DataFrame`.

    Args:
        x: features: a `DataFrame`, one feature in each column.
        y: labels: a `Series`, a `DataFrame` or None, with the index of `x`.
        batch_size: as for `numpy_input_fn`.
        num_epochs: as for `numpy_input_fn`.
        shuffle: as for `numpy_input_fn`.
        queue_capacity: as for `numpy_input_fn`; None: number of rows of `x`, four times that number
            with `shuffle`.
        num_threads: as for `numpy_input_fn`.
        target_column: a name for the labels, of no column of `x`. Default 'target'.

    Returns:
        Function without arguments that returns features by name, or (features, labels). The labels
        are a tensor if `y` is a `Series`, tensors by name if it is a `DataFrame`.

    Raises:
        ImportError: pandas isn't installed.
        ValueError: `shuffle` isn't a bool, `target_column` is a column of `x`, or the indexes
            differ.
        TypeError: `target_column` isn't a string, or a number has another type.
    """
    pd = _pandas()
    _check_shuffle(shuffle)
    argument_rules.check("numpy_input_fn", locals())
    _check_frames(x, y, target_column)
    # Copies, because the program may change its frames afterwards.
    features = {name: x[name].to_numpy(copy=True) for name in x.columns}
    labels: dict[Any, Any] = {}
    if isinstance(y, pd.DataFrame):
        labels = {name: y[name].to_numpy(copy=True) for name in y.columns}
    elif y is not None:
        labels = {target_column: y.to_numpy(copy=True)}
    if queue_capacity is None:
        queue_capacity = 4 * len(x) if shuffle else len(x)
    capacity = queue_capacity

    def input_fn() -> Any:
        fed, targets = feeding_queue.read_batch(
            features,
            labels,
            capacity=capacity,
            shuffle=bool(shuffle),
            min_after_dequeue=max(capacity / 4, 1),
            num_threads=num_threads,
            batch_size=batch_size,
            num_epochs=num_epochs,
        )
        if y is None:
            return fed
        return fed, targets if isinstance(y, pd.DataFrame) else targets[target_column]

    return input_fn


def _check_frames(x: Any, y: Any, target_column: Any) -> None:
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


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "pandas_input_fn should not be called without pandas installed. Install it (pip "
            "install pandas), or give numpy_input_fn the columns as arrays."
        ) from error
    return pandas
