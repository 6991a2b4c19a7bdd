# SPDX-License-Identifier: Apache-2.0
"""Implements `python -m estimator_spec run --check`: what becomes of a program's old names.

The program isn't run. Names are read from its source and from that of the modules it imports.
"""

from __future__ import annotations

import dataclasses
import enum
import os
import sys
from collections.abc import Iterator
from typing import NamedTuple

from estimator_spec.legacy import (
    old_names,
    program_api,
    program_names,
    python2_names,
    tensorflow_names,
    unsupported_names,
)
from estimator_spec.legacy.handling import Handling
from estimator_spec.legacy.old_names import Fate
from estimator_spec.legacy.program_names import Use
from estimator_spec.legacy.program_source import program_files
from estimator_spec.legacy.program_source.modules import Modules


class Outcome(enum.Enum):
    """Treatment of an old name by `run`."""

    RESTORED = "put back"
    STAND_IN = "stood in for"
    HANDLED = "left to the program"
    REFUSED = "refused"


class Finding(NamedTuple):
    """An old name that a program imports or uses.

    Attributes:
        place: file and line.
        name: the full dotted name.
        outcome: what `run` does about it.
        text: the present name, or the reason and what to use instead.
    """

    place: str
    name: str
    outcome: Outcome
    text: str


@dataclasses.dataclass(frozen=True)
class Check:
    """Results of a check of a program's old names.

    Attributes:
        findings: the old names, by file and line, each once a line; and, as refused, the modules
            that the program needs to start and that can't be read.
        files: the files that were read, relative to the program's directory.
        unread: modules that couldn't be read.
        names: all names of TensorFlow that the program uses, old or not.
    """

    findings: tuple[Finding, ...]
    files: tuple[str, ...]
    unread: tuple[program_files.Unread, ...]
    names: frozenset[str] = frozenset()

    def count(self, outcome: Outcome) -> int:
        """Returns the number of names with an outcome."""
        return sum(finding.outcome is outcome for finding in self.findings)

    @property
    def is_supported(self) -> bool:
        """Whether nothing is refused: `run` starts the program."""
        return not self.count(Outcome.REFUSED)

    def lines(self) -> Iterator[str]:
        """Yields what was read and what wasn't, as text."""
        yield f"Files read: {len(self.files)}: {', '.join(self.files)}."
        installed = tensorflow_names.installed()
        known = tensorflow_names.recorded(installed)
        if installed is None or installed.split(".")[:2] != known.split(".")[:2]:
            what = f"TensorFlow {installed}'s" if installed else "TensorFlow isn't installed: its"
            yield f"{what} names are taken to be those of {known}."
        for each in self.unread:
            if not each.stops:  # else it is a finding
                yield f"{each.place}: not read: {each.name or 'a module'}. {each.reason}"


def main(program: program_files.StartedProgram, as_tf1: bool | None) -> int:
    """Prints the findings; returns 1 if a name is refused, else 0.

    Args:
        program: the program.
        as_tf1: whether the program gets TensorFlow 1's API; None detects it.
    """
    result = check(program, as_tf1)
    for line in result.lines():
        sys.stdout.write(f"{line}\n")
    # What must be changed stands last.
    for finding in sorted(result.findings, key=lambda each: each.outcome is Outcome.REFUSED):
        outcome = finding.outcome.value
        sys.stdout.write(f"{finding.place}: {outcome}: {finding.name}. {finding.text}\n")
    total = ", ".join(f"{result.count(outcome)} {outcome.value}" for outcome in Outcome)
    sys.stdout.write(f"Old names: {total}.\n")
    return 0 if result.is_supported else 1


def check(program: program_files.StartedProgram, as_tf1: bool | None = None) -> Check:
    """Returns what becomes of the old names of a program and its modules; see `main`."""
    if as_tf1 is None:
        as_tf1 = program_api.uses_tf1_names(program)
    files = program_files.find_files(program)
    found: list[Finding] = []
    used = set[str]()
    for source, read in Modules(files).all():
        shown = os.path.relpath(source.path, program.root)
        uses = sorted(set(program_names.uses(read)), key=lambda use: use[:-1])
        used.update(use.name for use in uses)
        handling = program_names.handling_of(read, _is_there) if uses else Handling(source.tree)
        verdicts = ((use, _verdict(use, handling, as_tf1)) for use in uses)
        found += dict.fromkeys(
            Finding(f"{shown}:{use.line}", use.name, *verdict)
            for use, verdict in verdicts
            if verdict is not None
        )
        for line, name, text in python2_names.find(source.tree):
            found.append(Finding(f"{shown}:{line}", name, Outcome.REFUSED, text))
    for each in files.unread:
        if each.stops:
            found.append(Finding(each.place, each.name, Outcome.REFUSED, each.reason))
    return Check(
        tuple(found),
        tuple(os.path.relpath(source.path, program.root) for source in files.read),
        files.unread,
        frozenset(used),
    )


def _is_there(full: str) -> bool:
    """Returns whether `run` puts a name back, so that `hasattr` is true."""
    old = old_names.find(full, also_on_tpu=False)
    return old is not None and (old.fate is Fate.MODULE or bool(old.ours))


def _verdict(use: Use, handling: Handling, as_tf1: bool) -> tuple[Outcome, str] | None:
    """Returns the outcome of a use, and its text; None for a name that isn't old."""
    # A program of TensorFlow 1 has the first generation of canned estimators.
    full = program_api.name_in_tf1(use.name) if as_tf1 and use.from_tensorflow else use.name
    old = old_names.find(full, also_on_tpu=False)
    is_listed = old is not None and old.fate is not Fate.GONE
    if old is not None and is_listed:
        if old.fate is Fate.MODULE:
            return Outcome.RESTORED, "Now a module with the restored names."
        if old.ours:
            return Outcome.RESTORED, f"Now {old.ours}."
        reason = old.advice or unsupported_names.advice(*use.name.rpartition(".")[::2])
    else:
        version = tensorflow_names.recorded(tensorflow_names.installed())
        relative = use.name.partition(".")[2]
        if use.from_tensorflow and tensorflow_names.is_only_in_tf1(relative, version):
            if as_tf1:
                return Outcome.RESTORED, f"Now tensorflow.compat.v1.{relative}."
            reason = f"Only TensorFlow 1 has it: try `run --tf1`, or tf.compat.v1.{relative}."
        elif tensorflow_names.exists(use.name, version):
            return None
        else:
            reason = f"TensorFlow {version} doesn't have it."
    if handling.handles(use.name, use.start, use.errors):
        return Outcome.HANDLED, "The program handles that it is missing."
    if use.is_import and is_listed:
        return Outcome.STAND_IN, f"It can be imported, not used. {reason}"
    return Outcome.REFUSED, reason
