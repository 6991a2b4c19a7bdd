# SPDX-License-Identifier: Apache-2.0
"""Sets context variables for the time of a block."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import TypeVar

_T = TypeVar("_T")


@contextlib.contextmanager
def setting(variable: contextvars.ContextVar[_T], value: _T) -> Iterator[None]:
    """Sets a context variable, and undoes this when the block ends.

    >>> mode = contextvars.ContextVar("mode", default="train")
    >>> with setting(mode, "eval"):
    ...     mode.get()
    'eval'
    >>> mode.get()
    'train'

    Args:
        variable: the variable.
        value: its value in the block.
    """
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
