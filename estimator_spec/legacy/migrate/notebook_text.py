# SPDX-License-Identifier: Apache-2.0
"""Reads the cells of a notebook, and replaces their sources in its text; all else stays."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_SPACE = re.compile(r"\s*")
_DECODER = json.JSONDecoder(strict=False)


class NotebookError(ValueError):
    """A file that isn't a notebook of a known version."""


class OtherLanguageError(ValueError):
    """A notebook whose cells aren't Python."""


@dataclass(frozen=True)
class Cell:
    """A code cell.

    Attributes:
        number: its number among all cells, from 1.
        source: its source.
        start: offset of the source in the notebook's text.
        end: offset after it.
    """

    number: int
    source: str
    start: int
    end: int


def code_cells(text: str) -> list[Cell]:
    """Returns the code cells of a notebook.

    Raises:
        NotebookError: it is no notebook of format 4.
        OtherLanguageError: its language isn't Python.
    """
    try:
        notebook = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise NotebookError(f"no notebook: {error}") from None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("nbformat"), int):
        raise NotebookError("no notebook: it has no `nbformat`")
    if notebook["nbformat"] != 4:
        raise NotebookError("a notebook of format 4 is expected; `jupyter nbconvert` converts it")
    metadata = notebook.get("metadata") or {}
    language = metadata.get("language_info", {}).get("name", "python")
    if language != "python":
        raise OtherLanguageError(f"a notebook of {language}")
    try:
        return list(_find_cells(text))
    except (KeyError, TypeError) as error:
        raise NotebookError(f"no notebook: a cell lacks {error}") from None


def replace_sources(text: str, sources: Mapping[Cell, str]) -> str:
    """Returns a notebook's text with new sources of cells, in the form of the old ones."""
    for cell in sorted(sources, key=lambda cell: cell.start, reverse=True):
        old, new = text[cell.start : cell.end], sources[cell]
        if old.startswith("["):
            lead = str(_SPACE.match(old, 1)[0])  # type: ignore[index]
            tail = old[len(old[:-1].rstrip()) : -1]
            lines = [json.dumps(line, ensure_ascii=text.isascii()) for line in _lines(new)]
            written = f"[{lead}{f',{lead or chr(32)}'.join(lines)}{tail}]"
        else:
            written = json.dumps(new, ensure_ascii=text.isascii())
        text = text[: cell.start] + written + text[cell.end :]
    return text


def _lines(source: str) -> list[str]:
    lines = [f"{line}\n" for line in source.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _find_cells(text: str) -> Iterator[Cell]:
    at = {key: start for key, start, _, _ in _members(text, _skip(text, 0))}["cells"]
    for number, (start, value) in enumerate(_elements(text, at), 1):
        if value["cell_type"] != "code":
            continue
        spans = {key: (begin, end) for key, begin, end, _ in _members(text, start)}
        source = value["source"]
        joined = source if isinstance(source, str) else "".join(source)
        yield Cell(number, joined, *spans["source"])


def _skip(text: str, at: int) -> int:
    """Returns the offset of the first character from an offset on that isn't white space."""
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _members(text: str, at: int) -> Iterator[tuple[str, int, int, Any]]:
    """Yields key, start, end and value of the members of the object at an offset."""
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        value, end = _DECODER.raw_decode(text, start)
        yield key, start, end, value
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at


def _elements(text: str, at: int) -> Iterator[tuple[int, Any]]:
    """Yields start and value of the elements of the array at an offset."""
    at = _skip(text, at + 1)
    while text[at] != "]":
        value, end = _DECODER.raw_decode(text, at)
        yield at, value
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at
