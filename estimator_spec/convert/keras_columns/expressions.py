# SPDX-License-Identifier: Apache-2.0
"""Expressions that are written as Python source, in the style of ruff."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

_WIDTH = 88
_INDENT = "    "


@dataclasses.dataclass(frozen=True)
class Name:
    """A variable, function, or attribute of a module, such as `keras.Input`."""

    text: str


@dataclasses.dataclass(frozen=True)
class DictItem:
    """An item of a dict, `owner[key]`."""

    owner: Name
    key: str | int


@dataclasses.dataclass(frozen=True)
class FunctionCall:
    """A call of a function, or of what another call returns.

    Attributes:
        function: the function.
        arguments: positional arguments: expressions, plain values, or lists and dicts of them.
        named: keyword arguments.
    """

    function: Name | FunctionCall
    arguments: tuple[Any, ...] = ()
    named: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Merged:
    """A dict of several dicts, `{**first, **second}`."""

    parts: tuple[Any, ...]


def call(function: str, *arguments: Any, **named: Any) -> FunctionCall:
    """Returns the call of a function by its name."""
    return FunctionCall(Name(function), arguments, named)


def names_in(expression: Any) -> Iterator[str]:
    """Yields the names that an expression uses: of variables, functions and modules."""
    if isinstance(expression, Name):
        yield expression.text.split(".")[0]
    elif isinstance(expression, DictItem):
        yield from names_in(expression.owner)
    else:
        if isinstance(expression, FunctionCall):
            yield from names_in(expression.function)
        for _, part in _parts(expression)[1]:
            yield from names_in(part)


def render(
    expression: Any, depth: int = 0, before: int = 0, after: int = 0, width: int = _WIDTH
) -> str:
    """Returns the source text of an expression, in lines of at most `width` if it can be.

    Args:
        expression: an expression, a plain value, or a list, tuple or dict of them.
        depth: levels of indentation of the line that it begins on.
        before: characters before it on this line, beside the indentation.
        after: characters that follow it on its last line.
        width: characters of a line.
    """
    line = _one_line(expression)
    if len(_INDENT) * depth + before + len(line) + after <= width:
        return line
    opening, parts, closing = _parts(expression)
    if not parts:
        return line
    is_chain = isinstance(expression, FunctionCall) and isinstance(
        expression.function, FunctionCall
    )
    if is_chain and len(_INDENT) * depth + before + len(opening) > width:
        # The arguments of the inner call go to lines of their own, those of the outer don't.
        last = f"({line[len(opening) :]}"
        return render(expression.function, depth, before, len(last) + after, width) + last
    inner, outer = _INDENT * (depth + 1), _INDENT * depth
    lines = [
        f"{inner}{label}{render(part, depth + 1, len(label), 1, width)},\n" for label, part in parts
    ]
    if len(parts) == 1 or not isinstance(expression, FunctionCall):
        return f"{opening}\n{''.join(lines)}{outer}{closing}"
    # All arguments on one line of their own, if they fit, as ruff writes them.
    joined = ", ".join(f"{label}{_one_line(part)}" for label, part in parts)
    if len(inner) + len(joined) <= width:
        return f"{opening}\n{inner}{joined}\n{outer}{closing}"
    return f"{opening}\n{''.join(lines)}{outer}{closing}"


def literal(value: Any) -> str:
    """Returns the source text of a plain value; strings have double quotes where they can."""
    if isinstance(value, np.generic):
        value = value.item()
    text = repr(value)
    if isinstance(value, (str, bytes)) and text.endswith("'") and '"' not in text:
        prefix, _, rest = text.partition("'")
        return f'{prefix}"{rest[:-1]}"'.replace("\\'", "'")
    return text


def _one_line(expression: Any) -> str:
    if isinstance(expression, Name):
        return expression.text
    if isinstance(expression, DictItem):
        return f"{expression.owner.text}[{literal(expression.key)}]"
    opening, parts, closing = _parts(expression)
    if not opening:
        return literal(expression)
    joined = ", ".join(f"{label}{_one_line(part)}" for label, part in parts)
    if isinstance(expression, tuple) and len(expression) == 1:
        joined += ","
    return f"{opening}{joined}{closing}"


def _parts(expression: Any) -> tuple[str, list[tuple[str, Any]], str]:
    """Returns what opens an expression, its (label, part)s, and what closes it."""
    if isinstance(expression, FunctionCall):
        parts = [("", part) for part in expression.arguments]
        parts += [(f"{key}=", part) for key, part in expression.named.items()]
        return f"{_one_line(expression.function)}(", parts, ")"
    if isinstance(expression, Merged):
        return "{", [("**", part) for part in expression.parts], "}"
    if isinstance(expression, dict):
        return "{", [(f"{literal(key)}: ", part) for key, part in expression.items()], "}"
    if isinstance(expression, list):
        return "[", [("", part) for part in expression], "]"
    if isinstance(expression, tuple):
        return "(", [("", part) for part in expression], ")"
    return "", [], ""
