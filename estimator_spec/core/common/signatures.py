# SPDX-License-Identifier: Apache-2.0
"""Reads the arguments that a user's function accepts.

`model_fn`, `input_fn`, `metric_fn`, `device_fn` and the functions of host calls are called with the
arguments that their signatures name; partials, methods and callable objects are handled here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _parameters(fn: Callable[..., Any]) -> list[inspect.Parameter]:
    # A wrapper is called with its own arguments, not those of the function in functools.wraps.
    return list(inspect.signature(fn, follow_wrapped=False).parameters.values())


def argument_names(fn: Callable[..., Any]) -> tuple[str, ...]:
    """Returns the names of the unbound positional arguments of `fn`.

    Keyword-only arguments, `*args`, `**kwargs` and the `self` of a bound method are left out, and
    arguments that a partial binds.

    >>> argument_names(lambda features, labels, mode: None)
    ('features', 'labels', 'mode')
    >>> argument_names(functools.partial(lambda a, b, c: None, 1, c=3))
    ('b',)

    Raises:
        TypeError: `fn` is not callable.
    """
    if isinstance(fn, functools.partial):
        bound = fn.keywords or {}
        return tuple(name for name in argument_names(fn.func)[len(fn.args) :] if name not in bound)
    return tuple(p.name for p in _parameters(fn) if p.kind in _POSITIONAL)


def takes_any_positional(fn: Callable[..., Any]) -> bool:
    """Returns whether `fn` has `*args`.

    >>> takes_any_positional(lambda *tensors: None), takes_any_positional(lambda a: None)
    (True, False)
    """
    if isinstance(fn, functools.partial):
        return takes_any_positional(fn.func)
    return any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in _parameters(fn))


def takes_any_keyword(fn: Callable[..., Any]) -> bool:
    """Returns whether `fn` has `**kwargs`.

    >>> takes_any_keyword(lambda **options: None), takes_any_keyword(lambda a: None)
    (True, False)
    """
    if isinstance(fn, functools.partial):
        return takes_any_keyword(fn.func)
    return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in _parameters(fn))
