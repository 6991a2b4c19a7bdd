# SPDX-License-Identifier: Apache-2.0
"""Migrates the code cells of notebooks, as one program; magics, outputs and other cells stay.

The cells become one source: a name that one cell imports is used in others. Lines that are no
Python, such as `%matplotlib inline` and `!pip install`, are replaced by placeholders meanwhile.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from estimator_spec.common.optional_packages import load_extra
from estimator_spec.migrate.migration import Migrated, Options, migrate
from estimator_spec.migrate.results import Finding, Rewrite

_MAGIC = re.compile(r"^(?P<indent>\s*)(?P<target>[\w, ]+=\s*)?(?P<magic>[%!].*|\?.*|[\w.]+\?\??)$")
# Cell magics whose cell is Python.
_PYTHON_CELLS = ("%%time", "%%timeit", "%%capture", "%%prun")


class NotebookError(ValueError):
    """A file that isn't a notebook of a known version."""


class OtherLanguageError(ValueError):
    """A notebook whose cells aren't Python."""


def migrate_notebook(text: str, options: Options) -> Migrated:
    """Rewrites the code cells of a notebook.

    Returns:
        The notebook's new JSON, with rewrites and findings by cell.

    Raises:
        NotebookError: it is no notebook.
        OtherLanguageError: its language isn't Python.
        SourceError: its cells aren't Python 3.
        ImportError: nbformat isn't installed; the message names the extra.
    """
    nbformat = load_extra("nbformat", "migrate")
    try:
        notebook = nbformat.reads(text, as_version=nbformat.NO_CONVERT)
    except (ValueError, KeyError, AttributeError) as error:
        raise NotebookError(f"no notebook: {error}") from None
    if notebook.get("nbformat") != 4:
        raise NotebookError("a notebook of format 4 is expected; `jupyter nbconvert` converts it")
    language = notebook.metadata.get("language_info", {}).get("name", "python")
    if language != "python":
        raise OtherLanguageError(f"a notebook of {language}")
    cells = _Cells(notebook.cells)
    migrated = migrate(cells.source, options)
    if migrated.source == cells.source:
        return Migrated(text, (), cells.placed(migrated.findings))
    for cell, source in zip(cells.cells, cells.split(migrated.source), strict=True):
        cell.source = source
    new = nbformat.writes(notebook, version=nbformat.NO_CONVERT)
    ending = "\n" if text.endswith("\n") else ""
    rewrites = cells.placed_rewrites(migrated.rewrites)
    return Migrated(new.rstrip("\n") + ending, rewrites, cells.placed(migrated.findings))


def python_source(text: str) -> str:
    """Returns the source of a notebook's code cells.

    Raises:
        ValueError: it is no notebook.
        ImportError: nbformat isn't installed; the message names the extra.
    """
    nbformat = load_extra("nbformat", "migrate")
    return _Cells(nbformat.reads(text, as_version=nbformat.NO_CONVERT).get("cells", ())).source


class _Cells:
    """The code cells of a notebook as one source."""

    def __init__(self, cells: Any) -> None:
        self.cells: list[Any] = []
        self._numbers: list[int] = []
        self._magics: dict[str, str] = {}
        parts = []
        for number, cell in enumerate(cells, 1):
            if cell.cell_type != "code" or not self._is_python(cell.source):
                continue
            parts.append(f"{self._marker(len(self.cells))}\n{self._hide_magics(cell.source)}\n")
            self.cells.append(cell)
            self._numbers.append(number)
        self.source = "".join(parts)

    @staticmethod
    def _is_python(source: str) -> bool:
        first = source.lstrip().split("\n")[0]
        return not first.startswith("%%") or first.split()[0] in _PYTHON_CELLS

    @staticmethod
    def _marker(index: int) -> str:
        return f"# <cell {index} of the notebook>"

    def _hide_magics(self, source: str) -> str:
        lines, continued = [], False
        for line in source.split("\n"):
            found = None if continued else _MAGIC.match(line)
            if not continued and found is None:
                lines.append(line)
                continue
            token = f"# <magic {len(self._magics)}>"
            self._magics[token] = line
            # A line that continues a magic is a comment: its indentation means nothing.
            if found is not None:
                statement = f"{found['target']}None" if found["target"] else "pass"
                token = f"{found['indent']}{statement}  {token}"
            lines.append(token)
            continued = line.endswith("\\")
        return "\n".join(lines)

    def split(self, source: str) -> list[str]:
        """Returns the sources of the cells, magics as they were."""
        lines: list[str] = []
        for line in source.split("\n"):
            token = line[line.rfind("# <magic ") :] if "# <magic " in line else ""
            lines.append(self._magics.get(token, line))
        text = "\n".join(lines)
        found = []
        for index in range(len(self.cells)):
            start = text.index(self._marker(index)) + len(self._marker(index)) + 1
            last = index + 1 == len(self.cells)
            end = len(text) if last else text.index(self._marker(index + 1))
            found.append(text[start : end - 1])
        # What precedes the first marker belongs to the first cell.
        before = text[: text.index(self._marker(0))]
        return [before + found[0], *found[1:]]

    def _place(self, line: int) -> tuple[int, int]:
        """Returns the number of a cell, and the line in it, of a line of the source."""
        before = self.source.split("\n")[:line]
        starts = [n for n, text in enumerate(before, 1) if text.startswith("# <cell ")]
        return self._numbers[len(starts) - 1], line - starts[-1]

    def placed(self, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """Returns findings with their cells, and the lines in them."""
        places = [self._place(finding.line) for finding in findings]
        return tuple(
            dataclasses.replace(finding, line=line, cell=cell)
            for finding, (cell, line) in zip(findings, places, strict=True)
        )

    def placed_rewrites(self, rewrites: tuple[Rewrite, ...]) -> tuple[Rewrite, ...]:
        """Returns rewrites with the lines in their cells."""
        return tuple(
            dataclasses.replace(rewrite, line=self._place(rewrite.line)[1]) for rewrite in rewrites
        )
