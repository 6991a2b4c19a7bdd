# SPDX-License-Identifier: Apache-2.0
"""Checks the types of arguments, by rules too, and names; used by both packages."""

from __future__ import annotations

import logging
import math
import numbers
import operator
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

# TensorFlow's own, without an import of it.
_LOG = logging.getLogger("tensorflow")

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


class Rule(NamedTuple):
    """Condition on an argument, and the error where it isn't met.

    Attributes:
        holds: returns whether a value fits. A TypeError that it raises, as the comparison of a
            string with a number does, becomes a TypeError with `words`.
        words: what is expected: a sentence without its full stop, with `{name}` for the argument.
            The value is added, unless they have `{value}`.
        error: class of the error for a value that doesn't fit.
        used_as: returns what a value that doesn't fit counts as, for a warning; None: such a value
            is an error.
        optional: whether None fits.
    """

    holds: Callable[[Any], Any]
    words: str
    error: type[Exception] = ValueError
    used_as: Callable[[Any], Any] | None = None
    optional: bool = True


FLAG = Rule(is_flag, "{name} must be True or False", TypeError, bool)


def check_rule(rule: Rule, name: str, value: Any) -> None:
    """Checks an argument by a rule.

    >>> check_rule(FLAG, "use_tpu", True)

    Args:
        rule: the rule.
        name: the argument's name.
        value: its value.

    Raises:
        ValueError: the value doesn't fit.
        TypeError: its type doesn't fit.
    """
    if value is None and rule.optional:
        return
    error, cause = rule.error, None
    try:
        if rule.holds(value):
            return
    except TypeError as raised:
        error, cause = TypeError, raised
    message = rule.words.format(name=name, value=value)
    if "{value}" not in rule.words:
        message += f". Got {value!r}"
    if issubclass(error, TypeError):
        message += f", of type {type(value).__name__}"
    if rule.used_as is None:
        raise error(f"{message}.") from cause
    counts_as = rule.used_as(value)
    _LOG.warning("%s. It counts as %s, as in TensorFlow 2.15.", message, counts_as)


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
