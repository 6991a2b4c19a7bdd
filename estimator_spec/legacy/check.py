# SPDX-License-Identifier: Apache-2.0
"""Implements `python -m estimator_spec run --check`: what becomes of a program's old names.

The program isn't run. Names are read from its source and from that of the modules it imports, and
looked up in what is recorded of TensorFlow's versions, or in the installed one, once it is started.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from estimator_spec.core.common import quiet_start
from estimator_spec.legacy import (
    old_names,
    program_api,
    program_names,
    python2_names,
    renamed_arguments,
    tensorflow_names,
    unsupported_names,
)
from estimator_spec.legacy.handling import Handling
from estimator_spec.legacy.old_names import Fate
from estimator_spec.legacy.program_names import NameUse
from estimator_spec.legacy.program_source import program_files
from estimator_spec.legacy.program_source.modules import Modules


class NameOutcome(enum.Enum):
    """Treatment of an old name by `run`."""

    RESTORED = "put back"
    STAND_IN = "stood in for"
    HANDLED = "left to the program"
    REFUSED = "refused"


class CheckedName(NamedTuple):
    """An old name that a program imports or uses.

    Attributes:
        place: file and line.
        name: the full dotted name.
        outcome: what `run` does about it.
        text: the present name, or the reason and what to use instead.
    """

    place: str
    name: str
    outcome: NameOutcome
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
        started: whether names were looked up in the installed TensorFlow.
    """

    findings: tuple[CheckedName, ...]
    files: tuple[str, ...]
    unread: tuple[program_files.Unread, ...]
    names: frozenset[str] = frozenset()
    started: bool = False

    def count(self, outcome: NameOutcome) -> int:
        """Returns the number of names with an outcome."""
        return sum(finding.outcome is outcome for finding in self.findings)

    @property
    def is_supported(self) -> bool:
        """Whether nothing is refused: `run` starts the program."""
        return not self.count(NameOutcome.REFUSED)

    def lines(self) -> Iterator[str]:
        """Yields what was read and what wasn't, as text."""
        yield f"Files read: {len(self.files)}: {', '.join(self.files)}."
        installed = tensorflow_names.installed()
        known = tensorflow_names.recorded(installed)
        if self.started:
            yield f"The names are looked up in TensorFlow {installed}."
        elif installed is None or installed.split(".")[:2] != known.split(".")[:2]:
            what = f"TensorFlow {installed}'s" if installed else "TensorFlow isn't installed: its"
            yield f"{what} names are taken to be those of {known}."
        for each in self.unread:
            if not each.stops:  # else it is a finding
                yield f"{each.place}: not read: {each.name or 'a module'}. {each.reason}"


def main(program: program_files.StartedProgram, as_tf1: bool | None, start: bool = False) -> int:
    """Prints the findings; returns 1 if a name is refused, else 0.

    Args:
        program: the program.
        as_tf1: whether the program gets TensorFlow 1's API; None detects it.
        start: starts TensorFlow, and looks for the names in it.
    """
    result = check(program, as_tf1, start)
    for line in result.lines():
        sys.stdout.write(f"{line}\n")
    # What must be changed stands last.
    for finding in sorted(result.findings, key=lambda each: each.outcome is NameOutcome.REFUSED):
        outcome = finding.outcome.value
        sys.stdout.write(f"{finding.place}: {outcome}: {finding.name}. {finding.text}\n")
    total = ", ".join(f"{result.count(outcome)} {outcome.value}" for outcome in NameOutcome)
    sys.stdout.write(f"Old names: {total}.\n")
    return 0 if result.is_supported else 1


def check(
    program: program_files.StartedProgram, as_tf1: bool | None = None, start: bool = False
) -> Check:
    """Returns what becomes of the old names of a program and its modules; see `main`."""
    version = tensorflow_names.recorded(tensorflow_names.installed())
    exists: Callable[[str], bool] = functools.partial(tensorflow_names.exists, version=version)
    if start:
        quiet_start.import_tensorflow()
        from estimator_spec.core.common import legacy_keras

        legacy_keras.select_legacy_keras()
        exists = _exists_here
    if as_tf1 is None:
        as_tf1 = program_api.uses_tf1_names(program)
    files = program_files.find_files(program)
    found: list[CheckedName] = []
    used = set[str]()
    for source, read in Modules(files).all():
        shown = os.path.relpath(source.path, program.root)
        uses = sorted(set(program_names.uses(read)), key=lambda use: use[:-1])
        used.update(use.name for use in uses)
        handling = program_names.handling_of(read, _is_there) if uses else Handling(source.tree)
        verdicts = ((use, _verdict(use, handling, as_tf1, version, exists)) for use in uses)
        found += dict.fromkeys(
            CheckedName(f"{shown}:{use.line}", use.name, *verdict)
            for use, verdict in verdicts
            if verdict is not None
        )
        calls = program_names.arguments(read) if uses else ()
        for use, keyword in calls:
            text = _of_argument(use, keyword, as_tf1)
            if text and not handling.handles(use.name, use.start, use.errors):
                found.append(
                    CheckedName(f"{shown}:{use.line}", use.name, NameOutcome.REFUSED, text)
                )
        for line, name, text in python2_names.find(source.tree):
            found.append(CheckedName(f"{shown}:{line}", name, NameOutcome.REFUSED, text))
    for each in files.unread:
        if each.stops:
            found.append(CheckedName(each.place, each.name, NameOutcome.REFUSED, each.reason))
    return Check(
        tuple(found),
        tuple(os.path.relpath(source.path, program.root) for source in files.read),
        files.unread,
        frozenset(used),
        start,
    )


def _is_there(full: str) -> bool:
    """Returns whether `run` puts a name back, so that `hasattr` is true."""
    old = old_names.find(full, also_on_tpu=False)
    return old is not None and (old.fate is Fate.MODULE or bool(old.ours))


def _exists_here(full: str) -> bool:
    """Returns whether this process' TensorFlow has a name; attributes of objects count as there."""
    found: Any = sys.modules["tensorflow"]
    parts = full.split(".")
    for end in range(1, len(parts)):
        if not isinstance(found, types.ModuleType | type):
            return True
        try:
            found = getattr(found, parts[end])
        except (AttributeError, ImportError):
            try:
                found = importlib.import_module(".".join(parts[: end + 1]))
            except ImportError:
                return False
    return True


def _of_argument(use: NameUse, keyword: str, as_tf1: bool) -> str:
    """Returns why a function can't be called with a keyword; '' if that isn't known."""
    full = program_api.name_in_tf1(use.name) if as_tf1 and use.from_tensorflow else use.name
    old = old_names.find(full, also_on_tpu=False)
    renamed = renamed_arguments.find(old.ours if old is not None and old.ours else full, keyword)
    if renamed is None:
        return ""
    also = " Or try `run --tf1`." if renamed.since == 2 and use.from_tensorflow else ""
    return f"It {renamed.reason}{also}"


def _verdict(
    use: NameUse, handling: Handling, as_tf1: bool, version: str, exists: Callable[[str], bool]
) -> tuple[NameOutcome, str] | None:
    """Returns the outcome of a use, and its text; None for a name that isn't old.

    Args:
        use: the use.
        handling: what the program does about missing names.
        as_tf1: whether it gets TensorFlow 1's API.
        version: the recorded version of TensorFlow.
        exists: returns whether TensorFlow has a name.
    """
    # A program of TensorFlow 1 has the first generation of canned estimators.
    full = program_api.name_in_tf1(use.name) if as_tf1 and use.from_tensorflow else use.name
    old = old_names.find(full, also_on_tpu=False)
    is_listed = old is not None and old.fate is not Fate.GONE
    if old is not None and is_listed:
        if old.fate is Fate.MODULE:
            return NameOutcome.RESTORED, "Now a module with the restored names."
        if old.ours:
            return NameOutcome.RESTORED, f"Now {old.ours}."
        reason = old.advice or unsupported_names.advice(*use.name.rpartition(".")[::2])
    else:
        relative = use.name.partition(".")[2]
        if use.from_tensorflow and tensorflow_names.is_only_in_tf1(relative, version):
            if as_tf1:
                return NameOutcome.RESTORED, f"Now tensorflow.compat.v1.{relative}."
            reason = f"Only TensorFlow 1 has it: try `run --tf1`, or tf.compat.v1.{relative}."
        elif exists(use.name):
            return None
        else:
            reason = f"TensorFlow {version} doesn't have it."
    if handling.handles(use.name, use.start, use.errors):
        return NameOutcome.HANDLED, "The program handles that it is missing."
    if use.is_import and is_listed:
        return NameOutcome.STAND_IN, f"It can be imported, not used. {reason}"
    return NameOutcome.REFUSED, reason
