# SPDX-License-Identifier: Apache-2.0
"""Offsets of a syntax tree's nodes in the source, in f-strings of every version of Python, too."""

from __future__ import annotations

import ast
import bisect
import contextlib
import re
import sys
from collections.abc import Iterable, Iterator

_PLACED = (ast.stmt, ast.expr, ast.ExceptHandler, ast.arg, ast.keyword, ast.alias)
_LINE_END = re.compile("\r\n|\r|\n")
_SAME_LINE = re.compile(r"[ \t\f]*;(?:[ \t\f;]|\\\r?\n)*")
_OPENING = re.compile(r"(?P<prefix>[A-Za-z]*)(?P<quote>'''|\"\"\"|'|\")")
# In an f-string: a field begins, or a brace is written; and what an expression may end before.
_BRACE = re.compile(r"\{\{?")
_FIELD_END = re.compile("[}:!=]")


class Places:
    """Offsets in a source.

    Args:
        source: the text that was parsed.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(source))]
        self._is_ascii = source.isascii()

    def offset(self, line: int, column: int) -> int:
        """Returns the offset of a place that a syntax tree names: it counts bytes of UTF-8."""
        start = self._starts[line - 1]
        if self._is_ascii:
            return start + column
        end = self._starts[line] if line < len(self._starts) else len(self.source)
        return start + len(self.source[start:end].encode()[:column].decode(errors="replace"))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Returns the offsets of a node's first character and after its last."""
        assert isinstance(node, _PLACED)
        assert node.end_lineno is not None and node.end_col_offset is not None
        return (
            self.offset(node.lineno, node.col_offset),
            self.offset(node.end_lineno, node.end_col_offset),
        )

    def place(self, offset: int) -> tuple[int, int]:
        """Returns the line and the column of an offset, as syntax trees name them."""
        line = bisect.bisect_right(self._starts, offset)
        return line, len(self.source[self._starts[line - 1] : offset].encode())

    def position(self, offset: int) -> tuple[int, int]:
        """Returns the line and the column of an offset, both from 1."""
        line = bisect.bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def start_of_line(self, line: int) -> int:
        """Returns the offset at which a line begins; after the last one, where the text ends."""
        return self._starts[line - 1] if line <= len(self._starts) else len(self.source)

    def statement(self, node: ast.AST) -> int:
        """Returns the offset at which a statement or clause begins, with its decorators."""
        decorators = getattr(node, "decorator_list", ())
        if not decorators:
            return self.span(node)[0]
        start, _ = self.span(decorators[0])
        return self.source.rindex("@", 0, start)

    def share_a_line(self, first: ast.stmt, second: ast.stmt) -> bool:
        """Returns whether a semicolon is between two statements, which a backslash may follow."""
        between = self.source[self.span(first)[1] : self.statement(second)]
        return _SAME_LINE.fullmatch(between) is not None


def parse(source: str) -> ast.Module:
    """Parses a source; nodes in f-strings have their places.

    Raises:
        SyntaxError: it isn't Python 3.
    """
    tree = ast.parse(source)
    if sys.version_info < (3, 12) and re.search(r"""[fF][rR]?['"]""", source):
        _place_fields(tree, Places(source))
    return tree


def _place_fields(tree: ast.AST, places: Places) -> None:
    """Replaces the expressions of f-strings: before Python 3.12 their places are wrong."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if not isinstance(node, ast.JoinedStr):
            todo += ast.iter_child_nodes(node)
            continue
        values = list(_formatted_values(node))
        fields = list(_fields(places, node, [ast.dump(value.value) for value in values]))
        if len(fields) != len(values):
            continue
        for value, (first, expression) in zip(values, fields, strict=True):
            value.value = expression
            line, column = places.place(first)
            for inner in ast.walk(expression):
                if isinstance(inner, ast.expr | ast.keyword | ast.arg):
                    _move(inner, line, column)
            todo.append(expression)


def _move(node: ast.expr | ast.keyword | ast.arg, line: int, column: int) -> None:
    """Moves a node of an expression that was parsed after a parenthesis."""
    if node.lineno == 1:
        node.col_offset += column - 1
    if node.end_lineno == 1:
        node.end_col_offset = (node.end_col_offset or 0) + column - 1
    node.lineno += line - 1
    node.end_lineno = (node.end_lineno or 0) + line - 1


def _formatted_values(node: ast.JoinedStr) -> Iterator[ast.FormattedValue]:
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            yield part
            if isinstance(part.format_spec, ast.JoinedStr):
                yield from _formatted_values(part.format_spec)


def _fields(
    places: Places, node: ast.JoinedStr, dumps: Iterable[str]
) -> Iterator[tuple[int, ast.expr]]:
    """Yields the offsets of the expressions in an f-string, and the expressions.

    Args:
        places: places of the source.
        node: the f-string.
        dumps: the expressions as `ast.dump` shows them.
    """
    source, wanted = places.source, iter(dumps)
    expected = next(wanted, None)
    for opening, at, last in _strings(source, *places.span(node)):
        is_formatted = "f" in opening["prefix"].lower()
        while is_formatted and (brace := _BRACE.search(source, at, last)):
            at = brace.end()
            for end in _FIELD_END.finditer(source, at, last) if brace[0] == "{" else ():
                with contextlib.suppress(SyntaxError, ValueError):
                    found = ast.parse(f"({source[at : end.start()]})", mode="eval").body
                    if ast.dump(found) == expected:
                        yield at, found
                        at, expected = end.start(), next(wanted, None)
                        break


def _strings(source: str, start: int, end: int) -> Iterator[tuple[re.Match[str], int, int]]:
    """Yields the strings of a span: what they begin with, and the offsets of their contents."""
    at = start
    while at < end:
        opening = _OPENING.match(source, at)
        if opening is None:
            at = source.find("\n", at) if source[at] == "#" else at + 1
            continue
        quote, at = opening["quote"], opening.end()
        first = at
        while not source.startswith(quote, at):
            at += 2 if source[at] == "\\" else 1
        yield opening, first, at
        at += len(quote)


def quote_inside(source: str, node: ast.JoinedStr, places: Places, offset: int) -> str:
    """Returns the quotation mark for strings at an offset in an f-string.

    Before Python 3.12 an expression can't contain the quote around it.
    """
    start, end = places.span(node)
    if sys.version_info >= (3, 12):
        end = start + 1  # any quote is right; the first string's serves
    quotes = [
        opening["quote"]
        for opening, first, last in _strings(source, start, end)
        if sys.version_info >= (3, 12) or first <= offset <= last
    ]
    return "'" if quotes and quotes[0][0] == '"' else '"'
