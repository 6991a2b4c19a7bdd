# SPDX-License-Identifier: Apache-2.0
"""Converts the result of a user's `input_fn` to the tensors of one batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_spec.core.driver.hooks import IteratorInitializer
from estimator_spec.core.user_functions.batches import (
    describe,
    initializable_iterator,
    split_labels,
)

tf1 = tf.compat.v1


def parse_result(result: Any, input_fn: Callable[..., Any]) -> tuple[Any, Any, list[Any]]:
    """Converts the result of `input_fn` to tensors of the default graph.

    Args:
        result: a dataset of features, or of (features, labels); or tensors in the same form.
        input_fn: the user's function, for error messages.

    Returns:
        The features, the labels or None, and the session hooks of the input pipeline.

    Raises:
        ValueError: `result` is None or a tuple of another length, or the features are None.
    """
    if result is None:
        raise ValueError(
            f"input_fn {describe(input_fn)} returned None. It should return a tf.data.Dataset, or "
            "(features, labels)."
        )
    hooks: list[Any] = []
    if isinstance(result, tf.data.Dataset):
        iterator = initializable_iterator(result, input_fn)
        hooks.append(IteratorInitializer(iterator))
        result = iterator.get_next()
    return *split_labels(result, input_fn), hooks


def empty_input_error(input_fn: Callable[..., Any], task: str, loop: bool = False) -> ValueError:
    """Returns the error of an `input_fn` whose data ends before the first batch.

    Args:
        input_fn: the user's function.
        task: 'train' or 'evaluate'.
        loop: whether a call takes several batches: then the input may have had some, but too few.
    """
    if loop:
        return ValueError(
            f"input_fn {describe(input_fn)} yields fewer batches than the first loop of training "
            "takes (TPUConfig.iterations_per_loop, or `steps` if fewer). Repeat the dataset."
        )
    return ValueError(
        f"input_fn {describe(input_fn)} yields no batch, so there is nothing to {task} on. Check "
        "its file names, filters, and that drop_remainder leaves a batch: the dataset must have "
        "at least one."
    )


def warn_if_endless() -> None:
    """Warns the user of `predict` if nothing in the default graph ends the input."""
    # Not read from the features: sparse ones have an op between them and the iterator.
    if any(op.type == "IteratorGetNext" for op in tf1.get_default_graph().get_operations()):
        return
    if tf1.get_collection(tf1.GraphKeys.QUEUE_RUNNERS):
        return
    tf1.logging.warning(
        "Input graph does not use tf.data.Dataset or contain a QueueRunner. That means predict "
        "yields forever. This is probably a mistake."
    )
