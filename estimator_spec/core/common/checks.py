# SPDX-License-Identifier: Apache-2.0
"""Checks the values of arguments, and names the argument in errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tpu_columns.checks import is_flag, is_int


def check_positive_ints(*, optional: bool = False, **values: Any) -> None:
    """Checks that arguments are ints of at least 1.

    >>> check_positive_ints(batch_size=8, num_hosts=2)

    Args:
        optional: whether None is accepted too.
        **values: the arguments by name; messages use the name.

    Raises:
        ValueError: one of them is something else.
    """
    expected = "a positive int or None" if optional else "a positive int"
    for name, value in values.items():
        if optional and value is None:
            continue
        if not is_int(value) or value < 1:
            raise ValueError(f"{name} must be {expected}, got {value!r}.")


def check_callable(name: str, value: Any) -> None:
    """Checks that an argument is a function or another callable.

    >>> check_callable("input_fn", len)

    Raises:
        TypeError: it isn't callable.
    """
    if not callable(value):
        raise TypeError(f"{name} must be callable, a function; got {value!r}.")


def check_optional_flag(name: str, value: Any) -> None:
    """Checks that an argument is True, False or None.

    >>> check_optional_flag("fast_updates", None)

    Raises:
        TypeError: it is something else.
    """
    if value is not None and not is_flag(value):
        raise TypeError(f"{name} must be True, False or None; got {value!r}.")


def check_positive(name: str, value: Any) -> None:
    """Checks that an argument is a positive number, as a number of steps is, or None.

    Floats and arrays of one element are accepted, as in TensorFlow.

    >>> check_positive("max_steps", 1e6)

    Args:
        name: name of the argument, for the message.
        value: the argument.

    Raises:
        ValueError: it is negative, 0 or NaN.
        TypeError: it isn't a number.
    """
    if value is None:
        return
    try:
        accepted = bool(value > 0)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} must be a number, got {value!r}, a {type(value).__name__}."
        ) from None
    if not accepted:
        raise ValueError(f"Must specify {name} > 0, given: {value}. It must be positive.")


def check_instances(values: Iterable[Any] | None, required: type, rule: str) -> list[Any]:
    """Checks the class of each element of an argument, and returns the elements as a new list.

    Args:
        values: the argument; None stands for no elements.
        required: the class.
        rule: beginning of the message.

    Raises:
        TypeError: the argument isn't iterable, or an element has another class.
    """
    if values is not None and not isinstance(values, Iterable):
        raise TypeError(f"{rule}, in a list; given: {values}")
    found = list(values or [])
    for value in found:
        if not isinstance(value, required):
            raise TypeError(f"{rule}, given: {value}")
    return found
