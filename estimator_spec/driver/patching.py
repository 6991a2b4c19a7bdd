# SPDX-License-Identifier: Apache-2.0
"""Changes attributes of a user's objects for the time of a block."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def set_temporarily(target: Any, name: str, value: Any) -> Iterator[None]:
    """Sets an attribute of an object, and undoes this when the block ends.

    >>> import types
    >>> saver = types.SimpleNamespace(restore='its own')
    >>> with set_temporarily(saver, 'restore', 'ours'):
    ...     saver.restore
    'ours'
    >>> saver.restore
    'its own'
    """
    attributes = vars(target)
    had_own, previous = name in attributes, attributes.get(name)
    setattr(target, name, value)
    try:
        yield
    finally:
        if had_own:
            setattr(target, name, previous)
        else:  # a method or attribute of the class
            delattr(target, name)
