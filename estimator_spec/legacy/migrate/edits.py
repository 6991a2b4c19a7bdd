# SPDX-License-Identifier: Apache-2.0
"""Edits of a source text: replacements of spans, which leave all other characters alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from estimator_spec.legacy.migrate.results import Rewrite
from estimator_spec.legacy.program_source.places import Places


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
    places = Places(text)
    return tuple(
        Rewrite(*places.position(edit.start), edit.rule, text[edit.start : edit.end], edit.text)
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end))
    )
