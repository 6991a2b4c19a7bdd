# SPDX-License-Identifier: Apache-2.0
"""Migrates the code cells of notebooks; magics, outputs and other cells stay.

The cells that the notebook runs are one program: a name that one cell imports is used in others.
The cells that `%%writefile` writes to one file are another. Lines that are no Python, such as
`%matplotlib inline` and `!pip install`, are replaced by placeholders meanwhile. A cell that isn't
Python 3 stays and has a line of the report, and so have old names in text of a shell.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Sequence

from estimator_spec.legacy.migrate import notebook_magics, shell_text
from estimator_spec.legacy.migrate.migration import Migrated, MigrationOptions, migrate
from estimator_spec.legacy.migrate.notebook_text import Cell, code_cells, replace_sources
from estimator_spec.legacy.migrate.results import Finding, Rewrite
from estimator_spec.legacy.program_source import syntax_advice
from estimator_spec.legacy.program_source.places import Places

_RULE = "old-names"
_GUIDE = "rewriting-a-program"


def migrate_notebook(text: str, options: MigrationOptions) -> Migrated:
    """Rewrites the code cells of a notebook.

    Returns:
        The notebook's new text, with rewrites and findings by cell.

    Raises:
        NotebookError: it is no notebook.
        OtherLanguageError: its language isn't Python.
    """
    cells = code_cells(text)
    findings: list[Finding] = []
    rewrites: list[Rewrite] = []
    new: dict[Cell, str] = {}
    for program in _programs(cells):
        findings += program.leave_out_broken()
        done = migrate(program.source, options)
        findings += map(program.placed, done.findings)
        rewrites += map(program.placed_rewrite, done.rewrites)
        sources = zip(program.cells, program.split(done.source), strict=True)
        new.update({cell: source for cell, source in sources if source != cell.source})
    findings += _in_shell(cells)
    findings.sort(key=lambda each: (each.cell or 0, each))
    return Migrated(replace_sources(text, new), tuple(rewrites), tuple(findings))


def python_source(text: str) -> str:
    """Returns the Python of a notebook: of its cells, and of the files that they write.

    Raises:
        ValueError: it is no notebook of Python.
    """
    programs = _programs(code_cells(text))
    for program in programs:
        list(program.leave_out_broken())
    return "\n".join(program.source for program in programs)


class _Program:
    """The source of some cells."""

    def __init__(self, runs: bool = False) -> None:
        self.cells: list[Cell] = []
        self._runs = runs  # the notebook runs each cell by itself
        self._magics: dict[str, str] = {}
        self._parts: list[str] = []

    def add(self, cell: Cell) -> None:
        """Adds a cell, with placeholders in place of magics."""
        if self._runs:
            lines = list(notebook_magics.lines(cell.source))
        else:
            first, *rest = cell.source.split("\n")
            lines = [notebook_magics.Line("", first), *map(notebook_magics.Line, rest)]
        part = ""
        for code, magic in lines:
            token = f"# <magic {len(self._magics)}>" if magic else ""
            if magic:
                self._magics[token] = magic
            part += f"{code}  {token}\n" if code and magic else f"{code}{token}\n"
        self.cells.append(cell)
        self._parts.append(part)

    @property
    def source(self) -> str:
        """The source; a comment is before that of each cell."""
        parts = [f"{self._marker(index)}\n{part}" for index, part in enumerate(self._parts)]
        return "".join(parts)

    @staticmethod
    def _marker(index: int) -> str:
        return f"# <cell {index} of the notebook>"

    def leave_out_broken(self) -> Iterator[Finding]:
        """Leaves out the cells that aren't Python 3, and yields a line on each.

        All cells of a file are left out if they aren't Python 3 together.
        """
        for index in reversed(range(len(self.cells))) if self._runs else [None]:
            source = self.source if index is None else self._parts[index]
            try:
                ast.parse(source)
                continue
            except (SyntaxError, ValueError, RecursionError) as found:
                error = found if isinstance(found, SyntaxError) else SyntaxError(str(found))
            line = error.lineno or 1
            cell, line = self.place(line) if index is None else (self.cells[index], line)
            reason = f"this isn't Python 3: {syntax_advice.explain(error)}"
            place = (max(line, 1), error.offset or 1)
            yield Finding(*place, _RULE, reason, _GUIDE, cell=cell.number)
            kept = slice(None) if index is None else slice(index, index + 1)
            del self.cells[kept], self._parts[kept]

    def split(self, source: str) -> list[str]:
        """Returns the sources of the cells, magics as they were."""
        lines: list[str] = []
        for line in source.split("\n"):
            token = line[line.rfind("# <magic ") :] if "# <magic " in line else ""
            lines.append(self._magics.get(token, line))
        text = "\n".join(lines)
        found: list[str] = []
        at = 0
        for index in range(len(self.cells)):
            marker = self._marker(index)
            start = text.index(marker)
            if found:
                found[-1] += text[at : start - 1]
            # What precedes the first marker belongs to the first cell.
            found.append(text[:start] if not found else "")
            at = start + len(marker) + 1
        if found:
            found[-1] += text[at:-1]
        return found

    def place(self, line: int) -> tuple[Cell, int]:
        """Returns the cell, and the line in it, of a line of the source."""
        before = self.source.split("\n")[:line]
        starts = [number for number, text in enumerate(before, 1) if text.startswith("# <cell ")]
        return self.cells[len(starts) - 1], line - starts[-1]

    def placed(self, finding: Finding) -> Finding:
        """Returns a finding with its cell, and the line in it."""
        cell, line = self.place(finding.line)
        return dataclasses.replace(finding, line=line, cell=cell.number)

    def placed_rewrite(self, rewrite: Rewrite) -> Rewrite:
        """Returns a rewrite with the line in its cell."""
        return dataclasses.replace(rewrite, line=self.place(rewrite.line)[1])


def _programs(cells: Sequence[Cell]) -> list[_Program]:
    """Returns the programs in a notebook: its own, the files that it writes, and others."""
    found = [_Program(runs=True)]
    files: dict[str, _Program] = {}
    for cell in cells:
        magic = notebook_magics.cell_magic(cell.source)
        file, appends = notebook_magics.written_file(magic)
        program = files.get(file) if appends else None
        if not magic:
            program = found[0]
        elif file or notebook_magics.is_python(magic):
            if program is None:
                program = _Program()
                found.append(program)
            if file:
                files[file] = program
        if program is not None:
            program.add(cell)
    return found


def _in_shell(cells: Sequence[Cell]) -> Iterator[Finding]:
    """Yields a line for each old name in a magic, or in a cell of another language."""
    sources = [cell.source for cell in cells if not notebook_magics.cell_magic(cell.source)]
    of_notebook = shell_text.aliases_in("\n".join(sources))
    for cell in cells:
        magic = notebook_magics.cell_magic(cell.source)
        if notebook_magics.written_file(magic)[0] or notebook_magics.is_python(magic):
            continue
        if magic:
            texts = [(1, cell.source)]
        else:
            lines = enumerate(notebook_magics.lines(cell.source), 1)
            texts = [(number, line.magic) for number, line in lines if line.magic]
        for first, text in texts:
            is_shell = bool(magic) or "!" in text
            aliases = shell_text.aliases_in(text) if is_shell else of_notebook
            places = Places(text)
            for offset, name in shell_text.old_names_in(text, aliases, tf1=is_shell):
                line, column = places.position(offset)
                reason = f"{name} is in text that isn't parsed; edit it by hand."
                place = (first + line - 1, column)
                yield Finding(*place, _RULE, reason, _GUIDE, cell=cell.number)
