# SPDX-License-Identifier: Apache-2.0
"""Chooses where a source gets new statements, so that it compiles and runs as before."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from estimator_spec.legacy.program_source.places import Places


@dataclass(frozen=True)
class InsertionPlace:
    """A place for new statements of the module.

    Attributes:
        offset: its offset.
        in_line: other statements are before it in its line: new ones end with semicolons.
    """

    offset: int
    in_line: bool = False

    def text(self, before: str, statements: Iterable[str], apart: bool = False) -> str:
        """Returns the text of new statements here.

        Args:
            before: the source before it.
            statements: the statements, each of one line.
            apart: whether a blank line separates them from what precedes.
        """
        if self.in_line:
            return "".join(f"{statement}; " for statement in statements)
        line_ends = len(before[len(before.rstrip("\r\n")) :].splitlines())
        missing = max(0, (2 if apart else 1) - line_ends) if before else 0
        return "\n" * missing + "".join(f"{statement}\n" for statement in statements)


class ImportPlacement:
    """Places of a source where new statements can be inserted.

    Args:
        places: those of the source.
        tree: its syntax tree.
        imports: offsets of statements that import what the new imports have to precede.

    Attributes:
        first: the place of new imports, before the first of the given ones.
        later: the place after the imports that follow.
    """

    def __init__(self, places: Places, tree: ast.Module, imports: Iterable[int]) -> None:
        self._source = places.source
        self._places = places
        self._body = tree.body
        self._statements = [(places.statement(node), places.span(node)[1]) for node in tree.body]
        kinds = [_kind(node, position) for position, node in enumerate(tree.body)]
        start = _after(kinds, 0, "docstring", "future")
        first = min(map(self._number_at, imports), default=start)
        later = _after(kinds, first, "import")
        self.first = self._before(first, start)
        self.later = self.first if later == first else self._behind(later)

    def texts(self, first: Sequence[str], later: Sequence[str]) -> Iterator[tuple[int, str]]:
        """Yields what to insert, and where.

        Args:
            first: statements for the first place, each of one line.
            later: statements for the place after the imports.
        """
        at, after = self.first.offset, self.later.offset
        is_before_definition = self._source.startswith(("def ", "class ", "@", "async "), at)
        gap = "\n\n" if is_before_definition else ""
        text = self.first.text(self._source[:at], first) if first else ""
        preceding = self._source[:after]
        if after != at or not later:
            text += gap if first else ""
            gap = ""
        else:
            preceding += text
        if first:
            yield at, text
        if later:
            yield after, self.later.text(preceding, later, apart=True) + gap

    def _number_at(self, offset: int) -> int:
        """Returns the number of the module's statement that has an offset."""
        return sum(start <= offset for start, _ in self._statements) - 1

    def _before(self, number: int, earliest: int) -> InsertionPlace:
        """Returns the place before a statement, and before its line if that is late enough."""
        if number == len(self._statements):
            return self._behind(number)
        first = self._first_in_line(number)
        if first < earliest:
            return InsertionPlace(self._statements[number][0], in_line=True)
        return InsertionPlace(self._line_at(self._statements[first][0]))

    def _behind(self, number: int) -> InsertionPlace:
        """Returns the place after the statement before this one."""
        is_last = number == len(self._statements)
        if not is_last and self._first_in_line(number) < number:
            return InsertionPlace(self._statements[number][0], in_line=True)
        return InsertionPlace(self._line_at(self._statements[number - 1][1] if number else 0, 1))

    def _line_at(self, offset: int, after: int = 0) -> int:
        """Returns the offset at which the line of an offset, or a line after it, begins."""
        return self._places.start_of_line(self._places.position(offset)[0] + after)

    def _first_in_line(self, number: int) -> int:
        """Returns the number of the first statement in the line of a statement."""
        while number and self._places.share_a_line(*self._body[number - 1 : number + 1]):
            number -= 1
        return number


def _after(kinds: list[str], first: int, *passed: str) -> int:
    """Returns the number of the first statement from a number on that is of another kind."""
    while first < len(kinds) and kinds[first] in passed:
        first += 1
    return first


def _kind(node: ast.stmt, position: int) -> str:
    """Returns 'docstring', 'future', 'import' or 'other'."""
    if position == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return "docstring" if isinstance(node.value.value, str) else "other"
    if isinstance(node, ast.ImportFrom) and node.module == "__future__":
        return "future"
    return "import" if isinstance(node, ast.Import | ast.ImportFrom) else "other"
