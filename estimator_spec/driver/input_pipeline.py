# SPDX-License-Identifier: Apache-2.0
"""From a user's `input_fn` to the tensors of one batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.driver.hooks import IteratorInitializer
from estimator_spec.validation.signatures import argument_names

tf1 = tf.compat.v1


class Inputs(NamedTuple):
    """One batch.

    Attributes:
        features: what `model_fn` gets as features.
        labels: its labels, or None.
        hooks: session hooks that the input needs.
    """

    features: Any
    labels: Any
    hooks: list[Any]


def call(
    input_fn: Callable[..., Any], mode: str, params: Any, config: Any, input_context: Any = None
) -> Any:
    """Calls `input_fn`, on the host, with those of our arguments that it takes.

    Args:
        input_fn: the user's function.
        mode: one of `ModeKeys`.
        params: for its argument of that name.
        config: for its argument of that name.
        input_context: a `tf.distribute.InputContext`, or None: then it isn't passed.

    Returns:
        What it returned.
    """
    offered = {"mode": mode, "params": params, "config": config}
    if input_context is not None:
        offered["input_context"] = input_context
    accepted = argument_names(input_fn)
    with tf1.device("/device:CPU:0"):
        return input_fn(**{name: value for name, value in offered.items() if name in accepted})


def parse(result: Any, input_fn: Callable[..., Any]) -> Inputs:
    """Reads what `input_fn` returned, in the current graph.

    Args:
        result: a dataset of features, or of (features, labels); or tensors in the same form.
        input_fn: named in messages.

    Raises:
        ValueError: None, a tuple of another length, or features that are None.
    """
    if result is None:
        raise ValueError(
            f"input_fn {name_of(input_fn)} returned None. It should return a tf.data.Dataset, or "
            "(features, labels)."
        )
    hooks: list[Any] = []
    if isinstance(result, tf.data.Dataset):
        iterator = _iterator(result, input_fn)
        hooks.append(IteratorInitializer(iterator))
        result = iterator.get_next()
    return Inputs(*features_and_labels(result, input_fn), hooks)


def iterator_of(result: Any, input_fn: Callable[..., Any]) -> Any:
    """The iterator of a dataset, for a loop that takes one batch after the other by itself.

    Args:
        result: what `input_fn` returned.
        input_fn: named in messages.

    Raises:
        ValueError: no dataset.
    """
    if not isinstance(result, tf.data.Dataset):
        raise ValueError(
            f"input_fn {name_of(input_fn)} must return a tf.data.Dataset: the training loop takes "
            f"several batches at a time. It returned {type(result).__name__}."
        )
    return _iterator(result, input_fn)


def features_and_labels(result: Any, input_fn: Callable[..., Any]) -> tuple[Any, Any]:
    """Reads one element of a dataset, or the tensors that `input_fn` returned.

    Raises:
        ValueError: a tuple of another length than 2, or features that are None.
    """
    labels = None
    if isinstance(result, (list, tuple)):
        if len(result) != 2:
            raise ValueError(
                "input_fn should return (features, labels) as a len 2 tuple, but "
                f"{name_of(input_fn)} returned {len(result)} elements: {result}"
            )
        result, labels = result
    if result is None:
        raise ValueError(
            f"input_fn {name_of(input_fn)} returned None as features. Features must be a tensor, "
            "or a dict or other structure of tensors."
        )
    return result, labels


def _iterator(dataset: Any, input_fn: Callable[..., Any]) -> Any:
    try:
        return tf1.data.make_initializable_iterator(dataset)
    except (ValueError, RuntimeError, NotImplementedError) as error:
        raise ValueError(
            f"The dataset that input_fn {name_of(input_fn)} returned was made outside of this "
            "call. Build the dataset inside input_fn, so that it belongs to the graph of the run."
        ) from error


def name_of(fn: Any) -> str:
    """How messages call a function of the user's.

    >>> name_of(len)
    "'len'"
    """
    return repr(getattr(fn, "__qualname__", None) or fn)


def nothing_read(input_fn: Callable[..., Any], task: str, loop: bool = False) -> ValueError:
    """The error of an `input_fn` whose data ended before the first batch.

    Args:
        input_fn: the user's function.
        task: 'train' or 'evaluate'.
        loop: whether several batches are taken at a time, so that there may have been some.
    """
    if loop:
        return ValueError(
            f"input_fn {name_of(input_fn)} yields fewer batches than the first loop of training "
            "takes (TPUConfig.iterations_per_loop, or the steps asked for). Repeat the dataset."
        )
    return ValueError(
        f"input_fn {name_of(input_fn)} yields no batch, so there is nothing to {task} on. Check "
        "its file names, filters, and that drop_remainder leaves a batch: the dataset must have "
        "at least one."
    )


def warn_if_endless() -> None:
    """Tells the user of `predict` that nothing in the default graph will end it."""
    # Asked of the graph, not of the features: between sparse ones and the iterator lies an op.
    if any(op.type == "IteratorGetNext" for op in tf1.get_default_graph().get_operations()):
        return
    if tf1.get_collection(tf1.GraphKeys.QUEUE_RUNNERS):
        return
    tf1.logging.warning(
        "Input graph does not use tf.data.Dataset or contain a QueueRunner. That means predict "
        "yields forever. This is probably a mistake."
    )
