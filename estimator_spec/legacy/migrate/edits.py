# SPDX-License-Identifier: Apache-2.0
"""Edits of a source text: replacements of spans, which leave all other characters alone."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from estimator_spec.legacy.migrate.results import Rewrite


@dataclass(frozen=True, order=True)
class Edit:
    """A replacement.

    Attributes:
        start: offset of the first replaced character.
        end: offset after the last one; equal to `start` for an insertion.
        text: the new text.
        rule: name of the rule.
    """

    start: int
    end: int
    text: str
    rule: str


class Lines:
    """Offsets of the lines of a text, which end at line feeds."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0]
        at = text.find("\n")
        while at >= 0:
            self._starts.append(at + 1)
            at = text.find("\n", at + 1)

    def offset(self, line: int, column: int) -> int:
        """Returns the offset of a position; lines count from 1, columns from 0."""
        return self._starts[line - 1] + column

    def byte_offset(self, line: int, column: int) -> int:
        """Returns the offset of a position of `ast`, which counts columns in bytes of UTF-8."""
        start = self._starts[line - 1]
        return start + len(self.text[start : start + column].encode()[:column].decode())

    def position(self, offset: int) -> tuple[int, int]:
        """Returns line and column of an offset, both from 1."""
        line = bisect.bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def start_of_line(self, offset: int) -> int:
        """Returns the offset at which the line of an offset begins."""
        return self._starts[bisect.bisect_right(self._starts, offset) - 1]

    def end_of_line(self, offset: int) -> int:
        """Returns the offset after the line feed of the line of an offset."""
        line = bisect.bisect_right(self._starts, offset)
        return self._starts[line] if line < len(self._starts) else len(self.text)


def apply(text: str, edits: Iterable[Edit]) -> str:
    """Returns a text with replacements.

    >>> apply("a.b(c)", [Edit(0, 3, "d", ""), Edit(4, 5, "e", "")])
    'd(e)'

    Args:
        text: the text.
        edits: replacements. Insertions at one place are made in the given order.

    Raises:
        ValueError: two edits replace the same characters.
    """
    parts, at = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < at:
            raise ValueError(f"two rules edit the characters from {edit.start} on: {edit}")
        parts += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*parts, text[at:]])


def old_offset(edits: Iterable[Edit], offset: int) -> int:
    """Returns the offset in a text of an offset in the result of edits.

    >>> edits = [Edit(0, 3, "d", ""), Edit(4, 5, "e", "")]
    >>> old_offset(edits, "d(e)".index("e")), old_offset(edits, "d(e)".index(")"))
    (4, 5)
    """
    shift = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if offset < edit.start + shift:
            break
        if offset < edit.start + shift + len(edit.text):
            return edit.start
        shift += len(edit.text) - (edit.end - edit.start)
    return offset - shift


def rewrites(text: str, edits: Sequence[Edit]) -> tuple[Rewrite, ...]:
    """Returns the edits as lines of a report, in the order of the text."""
    lines = Lines(text)
    return tuple(
        Rewrite(*lines.position(edit.start), edit.rule, text[edit.start : edit.end], edit.text)
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end))
    )
