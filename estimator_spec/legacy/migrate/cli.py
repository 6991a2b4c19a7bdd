# SPDX-License-Identifier: Apache-2.0
"""Command line: `python -m estimator_spec migrate PATH…`.

Exit status: 0 if nothing is left to do; 1 if `--diff` shows a change, or an old name remains that
can't be rewritten; 2 for an error of the command line; 3 if a file can't be read, parsed or
written; 4 if `--verify` finds a difference. The largest one that applies.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from estimator_spec.core.common import command_line
from estimator_spec.legacy.migrate import files, reports, runner, verification
from estimator_spec.legacy.migrate.migration import MigrationOptions
from estimator_spec.legacy.migrate.results import Changed, Failed, Result, Subject
from estimator_spec.legacy.migrate.rule import MigrationTarget
from estimator_spec.legacy.migrate.rules import RULES

_EPILOG = """\
examples:
  train.py models/                       shows what would change
  --write train.py models/               changes the files
  --outtree new models/                  writes the tree elsewhere
  --to keras-rs --only old-names models/

A file with the comment `# migrate: skip-file` is skipped. Exit status: 0 nothing is left to do,
1 `--diff` shows a change or an old name remains, 2 usage, 3 a file failed, 4 `--verify` failed.
"""


# No target of rules: another command does it.
_KERAS = "keras"


def main(arguments: Sequence[str]) -> int:
    """Migrates files; returns the exit status.

    Args:
        arguments: the command line after `python -m estimator_spec migrate`.
    """
    parser = _parser()
    options = parser.parse_args(list(arguments))
    if options.list_rules:
        for rule in RULES:
            targets = ", ".join(
                target.value for target in MigrationTarget if target in rule.targets
            )
            sys.stdout.write(f"{rule.name:<20} {rule.summary} ({targets})\n")
        return 0
    if options.to == _KERAS:
        parser.error(
            "--to keras: this command edits sources, and columns with their trained weights need "
            "the running program. `python -m estimator_spec to-keras SCRIPT [ARGS...] --output DIR`"
            " writes its Keras 3 program; `--to keras-rs` rewrites specs."
        )
    if not options.paths:
        parser.error("the following arguments are required: PATH")
    if options.verify and options.to != MigrationTarget.SHIM.value:
        parser.error(
            f"--verify runs what --to shim writes. A program rewritten --to {options.to} needs its "
            "training loop first: compare its checkpoints then, by `compare OLD NEW`."
        )
    try:
        rules = MigrationOptions(
            MigrationTarget(options.to), frozenset(options.only), options.markers
        )
        found = list(files.find(options.paths, options.outtree))
        if options.outtree:
            files.check_places(found, options.outtree, options.overwrite)
        results = list(runner.migrate_files([file for file, _ in found], rules, options.jobs))
    except (ValueError, FileNotFoundError) as error:
        parser.error(str(error))
    if options.write or options.outtree:
        tree = options.outtree
        files.remove_left(os.path.join(tree, place) if tree else file for file, place in found)
        results = [
            _written(result, relative, options.outtree)
            for result, (_, relative) in zip(results, found, strict=True)
        ]
    _print(results, options)
    status = _status(results, is_diff=not (options.write or options.outtree))
    if options.verify and status < 3:
        changed = [result for result in results if isinstance(result, Changed)]
        try:
            differs = verification.verify(
                options.verify, changed, options.root, options.verify_options
            )
        except ValueError as error:
            parser.error(str(error))
        status = 4 if differs else status
    return status


def _parser() -> argparse.ArgumentParser:
    description = "Rewrites programs that use names which TensorFlow removed."
    parser = command_line.new_parser("migrate", description, _EPILOG)
    add = parser.add_argument
    add("paths", nargs="*", metavar="PATH", help="a Python file, a notebook, or a directory")
    targets = [*(target.value for target in MigrationTarget), _KERAS]
    add(
        "--to",
        choices=targets,
        default=MigrationTarget.SHIM.value,
        help="the target; default: shim",
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--diff", action="store_true", help="show the changes (the default)")
    mode.add_argument("--write", action="store_true", help="change the files")
    mode.add_argument(
        "--outtree",
        metavar="DIR",
        help="write all files below DIR instead, each at its path from this directory",
    )
    add("--overwrite", action="store_true", help="let --outtree replace files that DIR has")
    add("--only", action="append", default=[], metavar="RULE", help="apply this rule; repeatable")
    add("--list-rules", action="store_true", help="list the rules")
    add("--markers", action="store_true", help="add a comment where an old name remains")
    add(
        "--jobs",
        type=command_line.number_from(1),
        default=1,
        metavar="N",
        help="number of processes",
    )
    add("--json", action="store_true", help="print the report as JSON")
    add(
        "--verify",
        metavar="COMMAND",
        help="compare runs of this program, before and after: 'SCRIPT ARGS' or '-m MODULE ARGS'",
    )
    add("--verify-options", default="", metavar="TEXT", help="options of `compare` for --verify")
    add("--root", default=".", metavar="DIR", help="directory of the program that --verify runs")
    return parser


def _written(result: Result, relative: str, tree: str | None) -> Result:
    """Writes a file, in place or below `tree`; returns its result, or the failure."""
    try:
        if tree is None and isinstance(result, Changed):
            files.SourceFile(result.path).replace(result.new)
        elif tree is not None and not isinstance(result, Failed):
            source = files.SourceFile(result.path)
            text = result.new if isinstance(result, Changed) else source.text
            files.write(os.path.join(tree, relative), source.encode(text), like=result.path)
    except OSError as error:
        return Failed(result.path, f"can't be written: {error}")
    return result


def _print(results: Sequence[Result], options: argparse.Namespace) -> None:
    if options.json:
        sys.stdout.write(f"{reports.as_json(results)}\n")
        return
    if not options.write and not options.outtree:
        for result in results:
            if isinstance(result, Changed):
                sys.stdout.write(reports.difference(result))
    sys.stdout.flush()
    for line in reports.lines(results):
        sys.stderr.write(f"{line}\n")


def _status(results: Sequence[Result], is_diff: bool) -> int:
    if any(isinstance(result, Failed) for result in results):
        return 3
    remains = any(
        finding.kind is Subject.NOT_REWRITTEN
        for result in results
        for finding in reports.findings_of(result)
    )
    changes = is_diff and any(isinstance(result, Changed) for result in results)
    return 1 if remains or changes else 0
