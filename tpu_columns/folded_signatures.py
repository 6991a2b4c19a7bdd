# SPDX-License-Identifier: Apache-2.0
"""Gives public functions and classes signatures that `help` prints one argument a line.

Python 3.13 and later print long signatures so by themselves.
"""

from __future__ import annotations

import inspect
import sys
import types
from typing import Any

_WIDTH = 80
_OURS = ("tpu_columns", "estimator_spec")


class FoldedSignature(inspect.Signature):
    """Signature whose text has one argument a line if it is long."""

    def __str__(self) -> str:
        line = super().__str__()
        if len(line) <= _WIDTH:
            return line
        arguments, kind = [], None
        for each in self.parameters.values():
            if kind is each.POSITIONAL_ONLY and each.kind is not kind:
                arguments.append("/")
            if each.kind is each.KEYWORD_ONLY and kind not in (each.VAR_POSITIONAL, each.kind):
                arguments.append("*")
            arguments.append(_without_quotes(str(each), each.annotation))
            kind = each.kind
        returned = self.return_annotation
        end = ")" if returned is self.empty else f") -> {inspect.formatannotation(returned)}"
        lines = "".join(f"\n    {each}," for each in arguments)
        return f"({lines}\n{_without_quotes(end, returned)}"


def fold(value: Any) -> None:
    """Folds the signatures of a function, or of the functions of a class and its bases.

    A class itself gets none: its subclasses may have other arguments. Nothing of another project
    is changed.
    """
    if sys.version_info >= (3, 13):
        return
    functions = [value]
    if isinstance(value, type):
        functions = [each for base in value.__mro__ for each in vars(base).values()]
    for each in functions:
        each = each.__func__ if isinstance(each, staticmethod | classmethod) else each
        if (
            isinstance(each, types.FunctionType)
            and each.__module__.partition(".")[0] in _OURS
            and not hasattr(each, "__signature__")
        ):
            each.__signature__ = FoldedSignature.from_callable(each)  # type: ignore[attr-defined]


def _without_quotes(text: str, annotation: Any) -> str:
    """Returns a text without the quotes of an annotation that is a string."""
    return text.replace(repr(annotation), annotation) if isinstance(annotation, str) else text
