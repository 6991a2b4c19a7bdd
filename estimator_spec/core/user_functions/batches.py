# SPDX-License-Identifier: Apache-2.0
"""Calls a user's `input_fn`, and takes features and labels out of what it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_spec.core.common.signatures import argument_names
from estimator_spec.core.run_config import RunConfig


def call_input_fn(
    input_fn: Callable[..., Any],
    mode: str,
    params: Any,
    config: RunConfig,
    input_context: Any = None,
) -> Any:
    """Calls `input_fn` on the host with the arguments that it takes.

    Args:
        input_fn: the user's function.
        mode: one of `ModeKeys`.
        params: hyperparameters.
        config: the `RunConfig`.
        input_context: a `tf.distribute.InputContext`; None isn't passed.

    Returns:
        The result of `input_fn`.
    """
    offered = {"mode": mode, "params": params, "config": config}
    if input_context is not None:
        offered["input_context"] = input_context
    accepted = argument_names(input_fn)
    with tf.compat.v1.device("/device:CPU:0"):
        return input_fn(**{name: value for name, value in offered.items() if name in accepted})


def initializable_iterator(dataset: Any, input_fn: Callable[..., Any]) -> Any:
    """Returns an iterator of a dataset of the default graph.

    Args:
        dataset: the result of `input_fn`.
        input_fn: the user's function, for error messages.

    Raises:
        ValueError: the dataset belongs to another graph.
    """
    try:
        return tf.compat.v1.data.make_initializable_iterator(dataset)
    except (ValueError, RuntimeError, NotImplementedError) as error:
        raise ValueError(
            f"The dataset that input_fn {describe(input_fn)} returned was created outside of "
            "this call. Build the dataset inside input_fn, so that it belongs to the run's graph."
        ) from error


def split_labels(result: Any, input_fn: Callable[..., Any]) -> tuple[Any, Any]:
    """Returns (features, labels or None) from an element of a dataset, or from such tensors.

    Raises:
        ValueError: a tuple of another length than 2, or features that are None.
    """
    labels = None
    if isinstance(result, (list, tuple)):
        if len(result) != 2:
            raise ValueError(
                "input_fn should return (features, labels) as a len 2 tuple, but "
                f"{describe(input_fn)} returned {len(result)} elements: {result}"
            )
        result, labels = result
    if result is None:
        raise ValueError(
            f"input_fn {describe(input_fn)} returned None as features. Features must be a tensor, "
            "or a dict or other structure of tensors."
        )
    return result, labels


def describe(fn: Any) -> str:
    """Returns the name of a user's function for messages.

    >>> describe(len)
    "'len'"
    """
    return repr(getattr(fn, "__qualname__", None) or fn)
