# SPDX-License-Identifier: Apache-2.0
"""Command line: `python -m estimator_spec doctor [SCRIPT | SAVED_MODEL | -m MODULE]`.

Exit status: 0 if nothing is wrong, 1 if there is a problem, the script has a name that `run`
refuses or the model an op that TensorFlow can't run, 2 for an error in the command line.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import sys
from collections.abc import Iterator, Sequence

from estimator_spec.core.common import command_line, quiet_start
from estimator_spec.core.common.terminal import format_table
from estimator_spec.legacy.doctor.breakages import Level, Misfit, diagnose
from estimator_spec.legacy.doctor.installation import SHOWN, Installation, read_installation
from estimator_spec.legacy.doctor.script_names import ScriptNames, read_names
from estimator_spec.legacy.program_source.program_files import StartedProgram
from estimator_spec.saved_models import cli as saved_models_cli
from tpu_columns.kernels import libraries

# Names and files of a program that are listed; `run --check` has all.
_MAX_NAMES = 12


def format_text(
    installation: Installation,
    findings: Sequence[Misfit],
    engine: str | None,
    names: ScriptNames | None,
    script: str,
) -> str:
    """Returns a diagnosis as one screen of text."""
    num_problems = sum(finding.level is Level.PROBLEM for finding in findings)
    verdict = f"{num_problems} problem{'s' * (num_problems != 1)}."
    lines = [verdict if num_problems else "The versions fit together.", ""]
    if names is not None and not names.is_supported:
        lines[0] += f" {script} has to be changed before it runs."
    wrong = {finding.package: finding.level.value for finding in findings}
    rows = [["python", installation.python, ""]]
    for name in SHOWN:
        version = installation.versions.get(name, "")
        if version or name in wrong:
            rows.append([name, version or "not installed", wrong.get(name, "")])
    lines.append(format_table(["package", "version", ""], rows))
    # What must be changed stands after what may be.
    for finding in sorted(findings, key=lambda each: each.level is Level.PROBLEM):
        lines += ["", f"{finding.level.value}: {finding.text}", f"  cure: {finding.cure}"]
    if engine is not None:
        lines += ["", f"Tables are trained on a CPU by {engine}"]
    if names is not None:
        lines += ["", *_name_lines(names, script, num_problems > 0)]
    return "\n".join(lines)


def _name_lines(names: ScriptNames, script: str, has_problems: bool) -> Iterator[str]:
    yield f"{script}: {', '.join(f'{n} {what}' for what, n in names.counts.items())}."
    more = "" if len(names.files) <= _MAX_NAMES else ", …"
    files = f"{', '.join(names.files[:_MAX_NAMES])}{more}"
    yield f"  {len(names.files)} file{'s' * (len(names.files) != 1)} read: {files}"
    for listed in (names.advice, names.unread):
        yield from (f"  {line}" for line in listed[:_MAX_NAMES])
        if len(listed) > _MAX_NAMES:
            yield f"  and {len(listed) - _MAX_NAMES} more: {names.check}"
    if names.command:
        can = "With these problems mended it can" if has_problems else "It can"
        yield f"  {can} run unedited: {names.command}"
    else:
        yield "  Change what is refused, as said, before it runs."


def _failed_start() -> Iterator[Misfit]:
    """Yields what is wrong if TensorFlow can't be imported."""
    try:
        quiet_start.import_tensorflow()
        importlib.import_module("tensorflow")
    except Exception as error:  # whatever a broken installation raises
        text = f"Importing TensorFlow fails: {type(error).__name__}: {error}"
        yield Misfit(Level.PROBLEM, "tensorflow", text, "install it anew")


def _is_saved_model(path: str) -> bool:
    names = ("saved_model.pb", "saved_model.pbtxt")
    return any(os.path.isfile(os.path.join(path, name)) for name in names)


def main(arguments: Sequence[str]) -> int:
    """Prints the diagnosis and returns the exit status.

    Args:
        arguments: the command line after `python -m estimator_spec doctor`.
    """
    parser = command_line.new_parser(
        "doctor",
        "Finds versions that don't fit together, known breakages, and their cures.",
        "exit status: 0 nothing is wrong, 1 a problem or a refused name, 2 error",
    )
    parser.add_argument(
        "script", nargs="?", help="a program whose old names are checked, or a SavedModel"
    )
    parser.add_argument("-m", dest="module", help="the same, for a module, as `python -m` runs it")
    parser.add_argument(
        "--start", action="store_true", help="import TensorFlow, too, and say if that fails"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(list(arguments))
    if None not in (options.script, options.module):
        parser.error("give SCRIPT or -m MODULE, not both")
    if options.script is not None and _is_saved_model(options.script):
        wanted = ["--json"] if options.json else []
        return saved_models_cli.main(["check", options.script, *wanted])
    shown_name, program = options.script or "", None
    if options.script is not None:
        program = StartedProgram(options.script)
    elif options.module is not None:
        shown_name, program = f"-m {options.module}", StartedProgram(options.module, is_module=True)
    if program is not None and program.file() is None:
        kind = "module" if program.is_module else "file"
        sys.stderr.write(f"error: there is no {kind} {program.name!r}.\n")
        return 2
    installation = read_installation()
    names = None if program is None else read_names(program)
    findings = diagnose(installation, () if names is None else names.used)
    if options.start:
        findings = [*_failed_start(), *findings]
    version = installation.versions.get("tensorflow")
    engine = None if version is None else libraries.describe_engine(version)
    is_well = all(finding.level is not Level.PROBLEM for finding in findings)
    is_well = is_well and (names is None or names.is_supported)
    if options.json:
        versions = installation.versions
        shown_names = None if names is None else dataclasses.asdict(names)
        if shown_names is not None:
            del shown_names["used"]
        data = {
            "ok": is_well,
            "python": installation.python,
            "versions": {name: versions[name] for name in SHOWN if name in versions},
            "findings": [
                {**dataclasses.asdict(each), "level": each.level.value} for each in findings
            ],
            "engine": engine,
            "names": shown_names,
        }
        shown = json.dumps(data, indent=1)
    else:
        shown = format_text(installation, findings, engine, names, shown_name)
    sys.stdout.write(shown + "\n")
    return 0 if is_well else 1
