# SPDX-License-Identifier: Apache-2.0
"""What a user's function accepts: the one reader of signatures.

`model_fn`, `input_fn`, `metric_fn`, a host call's function and `device_fn` are all called with
what their signature names, so the rules for partials, methods and callable objects live here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _parameters(fn: Callable[..., Any]) -> list[inspect.Parameter]:
    # A decorator is called with its own arguments, so functools.wraps is not looked through.
    return list(inspect.signature(fn, follow_wrapped=False).parameters.values())


def argument_names(fn: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the positional arguments that are still open in `fn`.

    Keyword-only arguments, `*args` and `**kwargs` are left out; `self` of a bound method too. In
    a partial, arguments bound by position or by keyword are gone.

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
    """Whether `fn` has `*args`.

    >>> takes_any_positional(lambda *tensors: None), takes_any_positional(lambda a: None)
    (True, False)
    """
    if isinstance(fn, functools.partial):
        return takes_any_positional(fn.func)
    return any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in _parameters(fn))


def takes_any_keyword(fn: Callable[..., Any]) -> bool:
    """Whether `fn` has `**kwargs`.

    >>> takes_any_keyword(lambda **options: None), takes_any_keyword(lambda a: None)
    (True, False)
    """
    if isinstance(fn, functools.partial):
        return takes_any_keyword(fn.func)
    return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in _parameters(fn))
