# SPDX-License-Identifier: Apache-2.0
"""Implements `python -m estimator_spec run --check`: what becomes of a program's old names.

The program isn't run. Names are read from its source and from that of the modules it imports.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import os
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import tensorflow as tf

from estimator_spec.common import program_files
from estimator_spec.legacy import (
    call_sites,
    modules,
    names,
    program_api,
    program_names,
    tf1,
    unsupported_names,
)
from estimator_spec.legacy.module_spellings import is_removed, prefixes
from estimator_spec.legacy.program_names import Use
from estimator_spec.program_source.modules import Modules

_ERRORS = call_sites.Access.IMPORT.value | call_sites.Access.READ.value


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
    """

    findings: tuple[Finding, ...]
    files: tuple[str, ...]
    unread: tuple[program_files.Unread, ...]

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
        for each in self.unread:
            if not each.stops:  # else it is a finding
                yield f"{each.place}: not read: {each.name or 'a module'}. {each.reason}"


def main(program: program_files.Program, as_tf1: bool | None) -> int:
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


def check(program: program_files.Program, as_tf1: bool | None = None) -> Check:
    """Returns what becomes of the old names of a program and its modules; see `main`."""
    if as_tf1 is None:
        as_tf1 = program_api.uses_tf1_names(program)
    files = program_files.find_files(program)
    found = []
    for source, read in Modules(files).all():
        shown = os.path.relpath(source.path, program.root)
        for use in sorted(set(program_names.uses(read))):
            verdict = _verdict(use, source.tree, as_tf1)
            if verdict is not None:
                found.append(Finding(f"{shown}:{use.line}", use.name, *verdict))
    for each in files.unread:
        if each.stops:
            found.append(Finding(each.place, each.name, Outcome.REFUSED, each.reason))
    return Check(
        tuple(found),
        tuple(os.path.relpath(source.path, program.root) for source in files.read),
        files.unread,
    )


def _verdict(use: Use, tree: ast.Module, as_tf1: bool) -> tuple[Outcome, str] | None:
    """Returns the outcome of a use, and its text; None for a name that isn't old."""
    # A program of TensorFlow 1 has the first generation of canned estimators.
    full = program_api.name_in_tf1(use.name) if as_tf1 and use.from_tensorflow else use.name
    module, name = _split(full)
    if module is not None:
        now = _restored(module, name)
        if now is not None:
            return Outcome.RESTORED, f"Now {now}."
    parent, _, last = use.name.rpartition(".")
    has_stand_in = is_removed(use.name) or unsupported_names.is_listed(parent, last)
    if has_stand_in:
        reason = unsupported_names.advice(parent, last)
    else:
        relative = use.name.partition(".")[2]
        if use.from_tensorflow and tf1.is_only_in_tf1(relative):
            if as_tf1:
                return Outcome.RESTORED, f"Now tensorflow.compat.v1.{relative}."
            reason = f"Only TensorFlow 1 has it: try `run --tf1`, or tf.compat.v1.{relative}."
        elif _is_in_tensorflow(use, as_tf1):
            return None
        else:
            reason = f"TensorFlow {tf.__version__} doesn't have it."
    if call_sites.handled_at(tree, use.line) & _ERRORS:
        return Outcome.HANDLED, "The program handles that it is missing."
    if use.is_import and has_stand_in:
        return Outcome.STAND_IN, f"It can be imported, not used. {reason}"
    return Outcome.REFUSED, reason


@functools.cache
def _table() -> dict[str, dict[str, str]]:
    """Returns the present names by removed module and old name."""
    table: dict[str, dict[str, str]] = {}
    for row in names.rows():
        if row.when is names.When.ALWAYS:
            for module in row.modules():
                table.setdefault(module, {})[row.name] = row.ours
    for module in (*table, *names.libraries_by_module()):
        for prefix in prefixes(module):
            table.setdefault(prefix, {})
    return table


def _split(full: str) -> tuple[str | None, str]:
    """Returns the longest module of the table that a name is in, and the next part of the name."""
    for module in prefixes(full):
        if module in _table():
            return module, full[len(module) + 1 :].partition(".")[0]
    return None, ""


def _restored(module: str, name: str) -> str | None:
    """Returns the present name of an old one, or None."""
    if not name:
        return "a module with the restored names" if is_removed(module) else None
    if name in _table()[module]:
        return _table()[module][name]
    for library in names.libraries_by_module().get(module, ()):
        if name in modules.public_names(library):
            return f"{library}.{name}"
    return None


def _is_in_tensorflow(use: Use, as_tf1: bool) -> bool:
    """Returns whether this TensorFlow has a name, as far as its modules tell."""
    if use.name.startswith("tensorflow.python"):
        return _has_file(use.name.split(".")[1:])
    if not use.name.startswith("tensorflow."):
        return True
    roots = (tf.compat.v1, tf) if as_tf1 and use.from_tensorflow else (tf,)
    return any(_has(root, use.name.split(".")[1:]) for root in roots)


def _has(found: object, parts: Sequence[str]) -> bool:
    for part in parts:
        if not tf1.is_plain_module(found):
            return True  # a class or a function; or Keras, which must not be loaded here
        if part not in dir(found):
            return False
        found = vars(found).get(part)
    return True


def _has_file(parts: Sequence[str]) -> bool:
    """Returns whether TensorFlow has the file of a private module or of what may be in it."""
    folder = os.path.dirname(tf.__file__)
    for number, part in enumerate(parts):
        inside = os.path.join(folder, part)
        if not os.path.isdir(inside):
            return os.path.isfile(inside + ".py") or number == len(parts) - 1
        folder = inside
    return True
