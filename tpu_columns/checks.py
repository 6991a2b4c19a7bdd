# SPDX-License-Identifier: Apache-2.0
"""Checks the types of arguments, and names; used by both packages."""

from __future__ import annotations

import math
import numbers
import operator
import re
from typing import Any

import numpy as np

# TensorFlow's patterns of the names of ops.
_SCOPE = re.compile(r"[A-Za-z0-9_.\\/>-]+")
_ROOT_SCOPE = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")


def is_int(value: Any) -> bool:
    """Returns whether a value is an integer, of Python, NumPy or TensorFlow, and not a bool.

    >>> is_int(3), is_int(True), is_int(3.0)
    (True, False, False)

    Args:
        value: any object.
    """
    if isinstance(value, (bool, np.bool_)):
        return False
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def is_number(value: Any) -> bool:
    """Returns whether a value is a real number, of Python or NumPy, and neither a bool nor NaN.

    >>> is_number(0.1), is_number(True), is_number(float("nan"))
    (True, False, False)

    Args:
        value: any object.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        return False
    return not math.isnan(value)


def is_flag(value: Any) -> bool:
    """Returns whether a value is a bool, of Python or NumPy, or one of the integers 0 and 1.

    >>> is_flag(True), is_flag(0), is_flag("no")
    (True, True, False)

    Args:
        value: any object.
    """
    return isinstance(value, (int, np.integer, np.bool_)) and value in (0, 1)


def check_name(name: Any, what: str, *, in_scope: bool = False) -> None:
    """Checks that a name can be that of a variable or an op of a graph.

    Args:
        name: the name.
        what: description of the named thing, for the message.
        in_scope: whether the name is used within a scope, so that it may begin with `_` or `-`.

    Raises:
        TypeError: the name isn't a string.
        ValueError: TensorFlow accepts no such name in a graph.
    """
    if not isinstance(name, str):
        raise TypeError(f"{what}: the name must be a string, got {name!r}.")
    if not (_SCOPE if in_scope else _ROOT_SCOPE).fullmatch(name):
        raise ValueError(
            f"{what}: {name!r} is not a valid scope name. The names of ops and variables in a "
            "graph consist of ASCII letters, digits and _ . - / and begin with a letter, a digit "
            "or a dot. Rename it; a column is named after its feature's key."
        )
