# SPDX-License-Identifier: Apache-2.0
"""Definition of a rule, and the targets of a migration."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from estimator_spec.legacy.migrate.program import FollowedCall, ParsedModule
from estimator_spec.legacy.migrate.results import Finding, Subject
from estimator_spec.legacy.old_names import Fate, present_name


class MigrationTarget(enum.Enum):
    """System that a program is migrated to; the values are those of `--to`."""

    SHIM = "shim"
    MID_LEVEL = "mid-level"
    KERAS_RS = "keras-rs"


EVERY_TARGET = frozenset(MigrationTarget)
LEAVING = EVERY_TARGET - {MigrationTarget.SHIM}


@dataclass(frozen=True)
class AddedCall:
    """A call without arguments that a rule adds after the imports.

    Attributes:
        module: module of the function.
        name: name of the function.
        first: the call must precede the program's imports of TensorFlow.
    """

    module: str
    name: str
    first: bool = False


def _nothing(program: ParsedModule, target: MigrationTarget) -> tuple[()]:
    return ()


# Returns an expression for a name of a module: `spell(module, name)`. It may add an import.
Spell = Callable[[str, str], str]


@dataclass(frozen=True)
class Replacement:
    """An edit of a rule whose text contains names of modules.

    Attributes:
        start: offset of the first replaced character.
        end: offset after the last one; equal to `start` for an insertion.
        text: returns the new text; names in it are spelled by the imports that the program has.
    """

    start: int
    end: int
    text: Callable[[Spell], str]


def fixed(text: str) -> Callable[[Spell], str]:
    """Returns the text of a replacement in which no module is named."""
    return lambda spell: text


# Yields the offset and the reason of each line of the report.
FindPlaces = Callable[[ParsedModule, MigrationTarget], Iterable[tuple[int, str]]]


@dataclass(frozen=True)
class MigrationRule:
    """A rule of a migration.

    Attributes:
        name: its name, for `--only`.
        summary: what it does, in a line.
        guide: section of migration_guide.md.
        targets: the targets that it is for.
        fates: the old names that it rewrites, by what becomes of them.
        adds: returns statements that the program needs.
        edits: returns edits of expressions. Old names in a replaced span are left to them.
        places: yields offset and reason of what the report mentions.
        kind: subject of these lines of the report.
    """

    name: str
    summary: str
    guide: str
    targets: frozenset[MigrationTarget] = EVERY_TARGET
    fates: frozenset[Fate] = frozenset()
    adds: Callable[[ParsedModule, MigrationTarget], Iterable[AddedCall]] = _nothing
    edits: Callable[[ParsedModule, MigrationTarget], Iterable[Replacement]] = _nothing
    places: FindPlaces = _nothing
    kind: Subject = Subject.NUMERIC

    def findings(self, program: ParsedModule, target: MigrationTarget) -> Iterator[Finding]:
        """Yields the lines of the report on a program."""
        for offset, reason in self.places(program, target):
            place = program.places.position(offset)
            yield Finding(*place, self.name, reason, self.guide, self.kind)


def report(
    name: str, summary: str, guide: str, targets: frozenset[MigrationTarget] = EVERY_TARGET
) -> Callable[[FindPlaces], MigrationRule]:
    """Returns a decorator that makes a rule of the report of a function, which finds its places."""
    return lambda places: MigrationRule(name, f"report: {summary}", guide, targets, places=places)


def calls_of_ours(program: ParsedModule, *names: str) -> Iterator[FollowedCall]:
    """Yields the calls of names that are ours now, given by their present names without modules."""
    for call in program.calls:
        module, _, name = present_name(program.name_of(call)).rpartition(".")
        if name in names and module.split(".")[0] in ("estimator_spec", "tpu_columns"):
            yield call
