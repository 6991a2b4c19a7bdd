# SPDX-License-Identifier: Apache-2.0
"""Explains errors of initializers that don't return the values of their table."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import tensorflow as tf


@contextlib.contextmanager
def explain_errors(name: str, shape: tuple[int, int], initializer: Any) -> Iterator[None]:
    """Raises an error that names the table, if its initializer is the cause of an error.

    Args:
        name: name of the variable in the current variable scope.
        shape: (rows, dimension).
        initializer: its initializer.

    Raises:
        ValueError: the initializer returns no float32 tensor of this shape.
        TypeError: it can't be called with a shape and a dtype.
    """
    scope = tf.compat.v1.get_variable_scope().name
    try:
        yield
    except (TypeError, ValueError) as error:
        fault = _fault(shape, initializer, error)
        if fault is None:
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(
            f"Table {f'{scope}/{name}' if scope else name!r}: its initializer {initializer!r} "
            f"{fault}. It is called as initializer(shape, dtype=tf.float32), with the shape "
            f"{list(shape)}, and must return a float32 tensor of that shape."
        ) from error


def _fault(shape: tuple[int, int], initializer: Any, error: Exception) -> str | None:
    """Returns the initializer's fault, or None if the error has another cause."""
    # Only now, as the initializer has to be called once more.
    with tf.Graph().as_default():
        try:
            function: Any = initializer() if inspect.isclass(initializer) else initializer
            value = function(list(shape), dtype=tf.float32)
        except Exception as again:
            return f"raised {again!r}" if str(again) == str(error) else None
        if value is None:
            return "returned None"
        try:
            value = tf.convert_to_tensor(value, tf.float32)
        except (TypeError, ValueError):
            return f"returned {value!r}"
        if not value.shape.is_compatible_with(shape):
            return f"returned a tensor of shape {value.shape}"
    return None
