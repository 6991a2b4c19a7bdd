# SPDX-License-Identifier: Apache-2.0
"""Changes attributes of a graph's objects, such as savers, until a block ends."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
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
    had_own, previous = name in attributes, getattr(target, name, None)
    setattr(target, name, value)
    try:
        yield
    finally:
        _put_back(target, name, previous, had_own)


@contextlib.contextmanager
def wrap_method(target: Any, name: str, wrapper: Callable[..., Any]) -> Iterator[None]:
    """Makes calls of a method go through a function, until the block ends.

    The blocks of a method may end in any order: each takes away its own function only.

    >>> import types
    >>> saver = types.SimpleNamespace(save=str.upper)
    >>> with wrap_method(saver, 'save', lambda save, path: save(path) + '!'):
    ...     saver.save('model')
    'MODEL!'
    >>> saver.save('model')
    'MODEL'

    Args:
        target: the object.
        name: name of its method.
        wrapper: called in place of the method, with the method and the arguments. The function of
            a later block is called first.
    """
    method = vars(target).get(name)
    if not isinstance(method, _WrappedMethod):
        method = _WrappedMethod(target, name)
        setattr(target, name, method)
    method.wrappers.append(wrapper)
    try:
        yield
    finally:
        method.wrappers.remove(wrapper)
        if not method.wrappers:
            method.put_back()


class _WrappedMethod:
    """Method of an object with the functions that calls of it go through."""

    def __init__(self, target: Any, name: str) -> None:
        self._target, self._name = target, name
        self._had_own = name in vars(target)
        self._method = getattr(target, name)
        self.wrappers: list[Callable[..., Any]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = self._method
        for wrapper in self.wrappers:
            call = functools.partial(wrapper, call)
        return call(*args, **kwargs)

    def put_back(self) -> None:
        """Makes the method the object's again, unless somebody else has replaced it."""
        if vars(self._target).get(self._name) is not self:
            return
        _put_back(self._target, self._name, self._method, self._had_own)


def _put_back(target: Any, name: str, previous: Any, had_own: bool) -> None:
    """Gives an object an attribute back; `had_own` is false for one of its class."""
    if had_own:
        setattr(target, name, previous)
    else:
        delattr(target, name)
        if not hasattr(target, name):  # a mock never again makes an attribute that was deleted
            setattr(target, name, previous)
