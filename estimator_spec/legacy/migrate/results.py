# SPDX-License-Identifier: Apache-2.0
"""Results of a migration, as values: of each file, and what its report says."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Subject(enum.Enum):
    """Subject of a finding.

    NOT_REWRITTEN: an old name stays, or leads to a stand-in; a person has to edit the program.
    NUMERIC: the numbers of the program depend on something that the target does otherwise.
    TO_INSTALL: the rewritten program needs a package.
    """

    NOT_REWRITTEN = "not rewritten"
    NUMERIC = "numeric"
    TO_INSTALL = "to install"


@dataclass(frozen=True, order=True)
class Finding:
    """A line of the report.

    Attributes:
        line: line in the source before the migration, from 1. In a notebook, of the cell.
        column: column of the expression, from 1.
        rule: name of the rule.
        reason: what was found, and what to do.
        guide: section of migration_guide.md, as a link target.
        kind: subject of the finding.
        cell: number of the notebook's cell, from 1; None in a module.
    """

    line: int
    column: int
    rule: str
    reason: str
    guide: str
    kind: Subject = Subject.NOT_REWRITTEN
    cell: int | None = None

    def place(self, path: str) -> str:
        """Returns path, line and column, as compilers write them.

        >>> Finding(3, 5, "old-names", "", "").place("train.py")
        'train.py:3:5'
        """
        cell = "" if self.cell is None else f":cell {self.cell}"
        return f"{path}{cell}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Rewrite:
    """An edit of the source that a rule made.

    Attributes:
        line: line in the source before the migration, from 1.
        column: column of the first replaced character, from 1.
        rule: name of the rule.
        old: the replaced text.
        new: the text in its place; empty if it was removed.
    """

    line: int
    column: int
    rule: str
    old: str
    new: str


@dataclass(frozen=True)
class Changed:
    """A file that the rules changed.

    Attributes:
        path: the file.
        old: its source.
        new: its source after the migration.
        rewrites: the edits, in the order of the source.
        findings: lines of the report.
    """

    path: str
    old: str
    new: str
    rewrites: tuple[Rewrite, ...]
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Unchanged:
    """A file that the rules left as it is.

    Attributes:
        path: the file.
        findings: lines of the report.
    """

    path: str
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Skipped:
    """A file that wasn't looked at.

    Attributes:
        path: the file.
        reason: why.
    """

    path: str
    reason: str


@dataclass(frozen=True)
class Failed:
    """A file that couldn't be read, parsed or written; it is untouched.

    Attributes:
        path: the file.
        reason: the error.
    """

    path: str
    reason: str


Result = Changed | Unchanged | Skipped | Failed
