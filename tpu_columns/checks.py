# SPDX-License-Identifier: Apache-2.0
"""Checks the types of arguments; used by both packages."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np


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
