# SPDX-License-Identifier: Apache-2.0
"""Checks the old names that a program uses, and finds the command that runs it."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Mapping

from estimator_spec.legacy import check, program_api
from estimator_spec.legacy.program_source import program_files
from estimator_spec.legacy.program_source.program_files import StartedProgram


@dataclasses.dataclass(frozen=True)
class ScriptNames:
    """Old names of a program.

    Attributes:
        counts: number of names by what becomes of them.
        advice: a line for each name that isn't put back: place, name, what to use instead.
        is_supported: whether none is refused.
        files: the files that were read.
        unread: a line for each module that couldn't be read, and isn't among the refused names.
        command: the command that runs the program, as `run --check` has found; '' if none does.
        check: the command that lists all names.
        used: all names of TensorFlow that the program uses.
    """

    counts: Mapping[str, int]
    advice: tuple[str, ...]
    is_supported: bool
    files: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    command: str = ""
    check: str = ""
    used: frozenset[str] = frozenset()


def read_names(program: StartedProgram) -> ScriptNames:
    """Returns what becomes of the old names that a program and its modules use.

    A script that doesn't find its modules from its own directory is tried as a module of the
    packages around it, too.

    Args:
        program: the program; it isn't run.
    """
    # `run --check` says the same: it is the same function.
    tried = [(check.check(program), program, "")]
    for module in program_files.as_modules(program):
        if not _num_missing(tried[-1][0]):
            break
        tried.append((check.check(module), module, ""))
    tried += [
        (check.check(each, as_tf1=True), each, "--tf1 ")
        for result, each, _ in tried
        if not result.is_supported and not program_api.uses_tf1_names(each)
    ]
    refused = check.NameOutcome.REFUSED
    result, found, option = min(
        tried,
        key=lambda each: (_num_missing(each[0]), -len(each[0].files), each[0].count(refused)),
    )
    findings = sorted(result.findings, key=lambda finding: finding.outcome is not refused)
    return ScriptNames(
        {outcome.value: result.count(outcome) for outcome in check.NameOutcome},
        tuple(
            f"{finding.place}: {finding.outcome.value}: {finding.name}. {finding.text}"
            for finding in findings
            if finding.outcome is not check.NameOutcome.RESTORED
        ),
        result.is_supported,
        result.files,
        tuple(result.lines())[1:],
        _command(f"--cpu auto {option}", found) if result.is_supported else "",
        _command(f"--check {option}", found),
        result.names,
    )


def _num_missing(result: check.Check) -> int:
    """Returns the number of modules that the program needs to start, and that can't be read."""
    return sum(each.stops for each in result.unread)


def _command(options: str, program: StartedProgram) -> str:
    """Returns the command line of `run` for a program."""
    start = f"python -m estimator_spec run {options}"
    if not program.is_module:
        return f"{start}{shlex.quote(program.name)}"
    is_here = os.path.realpath(program.directory) == os.path.realpath(".")
    change = "" if is_here else f"cd {shlex.quote(program.directory)} && "
    return f"{change}{start}-m {program.name}"
