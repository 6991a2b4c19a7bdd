# SPDX-License-Identifier: Apache-2.0
"""Checks the values of arguments and reports the argument's name."""

from __future__ import annotations

from typing import Any

from tpu_columns.checks import is_int


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
