# SPDX-License-Identifier: Apache-2.0
"""Command line: `python -m estimator_spec compare OLD [NEW]`, or `-m MODULE [OLD [NEW]]`.

Exit status: 0 if the two agree, 1 if they differ, 2 for an error, such as a program that failed,
with the reason on standard error, 130 if interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Sequence

from estimator_spec.compare import page, text
from estimator_spec.compare.comparison import Comparison
from estimator_spec.compare.estimator_collector.options import Limits
from estimator_spec.compare.matching import KINDS
from estimator_spec.compare.programs import Program, ProgramError
from estimator_spec.compare.runs import compare_programs
from estimator_spec.compare.stages import Tolerances, parse_rule
from estimator_spec.core.common import command_line
from estimator_spec.core.common.terminal import StatusLine, is_terminal

_EPILOG = """\
examples:
  compare old.py new.py                     two programs, each in a process of its own
  compare train.py --old-python OLD/bin/python -- --model_dir={run}/model
                                            one program in two environments
  compare -m trainer.task old_tree new_tree a module of each of two directories
  compare /models/old/model.ckpt-200 /models/new
                                            two checkpoints

What follows -- are arguments of both programs; {run} in them is a new directory of each side.
Tolerances: --tolerance 'metrics/*auc=1e-3' --tolerance 'losses/*=1e-4,1e-6' (relative, absolute).
A table can be named by its variable, its key or a feature: trained-values/user=1e-2.
exit status: 0 they agree, 1 they differ, 2 error, 130 interrupted
"""

_SIDES = ("old", "new")


def main(arguments: Sequence[str]) -> int:
    """Compares, prints one page, and returns the exit status.

    Args:
        arguments: the command line after `python -m estimator_spec compare`.
    """
    own, of_programs = command_line.split_arguments(arguments)
    parser = _parser()
    options = parser.parse_args(own)
    if options.old is None:
        if options.module is None:
            parser.error("the following arguments are required: old")
        options.old = os.curdir
    try:
        if options.dry_run:
            sys.stdout.write("\n".join([*_plan(options, of_programs), "Nothing was run.", ""]))
            return 0
        tolerances = Tolerances(*map(parse_rule, options.tolerance))
        result = _compare(options, of_programs, tolerances)
        _write(result, options)
        tolerances.check_names((item.stage, item.name) for item in result.items)
    except (OSError, ProgramError, RuntimeError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: no page was written.\n")
        return 130
    return 0 if result.agrees else 1


def _parser() -> argparse.ArgumentParser:
    description = "Compares two programs, two checkpoints, or one program in two environments."
    parser = command_line.new_parser("compare", description, _EPILOG)
    add = parser.add_argument
    add(
        "old",
        nargs="?",
        help="a program, or the prefix of a checkpoint or a directory with one; with -m the "
        "directory that the module is found from (default: this one)",
    )
    add("new", nargs="?", help="the other one; without it the old program in this environment")
    add("-m", dest="module", help="compare this module of two directories, as `python -m` runs it")
    for side in _SIDES:
        program = f"of the {side} program"
        add(f"--{side}-python", metavar="PATH", help=f"interpreter {program} (default: this one)")
        add(f"--{side}-path", metavar="PATHS", help=f"PYTHONPATH {program} (default: as it is)")
        add(f"--{side}-args", default="", metavar="TEXT", help=f"further arguments {program}")
    add(
        "--never-from",
        action="append",
        default=[],
        metavar="DIR",
        help="an error if a program imports a module from DIR",
    )
    add(
        "--run-option",
        action="append",
        default=[],
        metavar="OPTION",
        help="option of `estimator_spec run` for programs on our estimators, such as --cpu",
    )
    defaults = Limits()
    add(
        "--steps",
        type=_steps,
        default=defaults.steps,
        metavar="N",
        help=f"steps of each training, or `all` (default: {defaults.steps})",
    )
    add("--eval-steps", type=int, metavar="N", help="batches of each evaluation (default: all)")
    add("--examples", type=int, default=defaults.examples, metavar="N", help="of each `predict`")
    add("--seed", type=int, default=defaults.seed, help="seed of whatever has none")
    add("--checkpoint", metavar="PATH", help="both sides start from it")
    add(
        "--only",
        action="append",
        default=[],
        choices=tuple(KINDS),
        help="kind of calls that are compared; may be repeated (default: all)",
    )
    add("--same-start", action="store_true", help="the new side starts with the old one's values")
    add("--timeout", type=float, metavar="SECONDS", help="of each program")
    add("--tolerance", action="append", default=[], metavar="PATTERN=REL[,ABS]", help="see below")
    add("--json", action="store_true", help="print JSON")
    add("--html", metavar="FILE", help="also write a page with pictures")
    add("--keep", metavar="DIR", help="keep recordings, logs and checkpoints in a new directory")
    add("--dry-run", action="store_true", help="print what would be run and written")
    return parser


def _steps(text: str) -> int | None:
    """Returns a number of steps; None for 'all'."""
    return None if text == "all" else int(text)


def _is_program(path: str) -> bool:
    """Returns whether a path is a program's, and not a checkpoint's."""
    return path.endswith(".py") or (os.path.isfile(path) and not path.endswith(".index"))


def _programs(options: argparse.Namespace, arguments: list[str]) -> tuple[Program, Program]:
    new = options.new or options.old
    if options.new is None and options.old_python is None and options.new_python is None:
        raise ValueError(
            f"{options.module or options.old} is compared with nothing: give a second "
            f"{'directory' if options.module else 'program'}, or --old-python for the environment "
            "that it is compared with."
        )
    for path in (options.old, new):
        if options.module is None and not _is_program(path):
            raise ValueError(f"{path!r} isn't the file of a program, but the other one is.")

    def program(side: str, place: str) -> Program:
        python, path, more = (
            getattr(options, f"{side}_{name}") for name in ("python", "path", "args")
        )
        place = os.path.abspath(place)
        return Program(
            options.module or place,
            (*arguments, *shlex.split(more)),
            python,
            tuple(options.run_option),
            place if options.module else None,
            path,
        )

    return program("old", options.old), program("new", new)


def _limits(options: argparse.Namespace) -> Limits:
    names = ("steps", "eval_steps", "examples", "seed", "checkpoint")
    return Limits(**{name: getattr(options, name) for name in names})


def _are_programs(options: argparse.Namespace) -> bool:
    paths = (options.old, options.new)
    return bool(options.module) or any(_is_program(path) for path in paths if path is not None)


def _compare(
    options: argparse.Namespace, arguments: list[str], tolerances: Tolerances
) -> Comparison:
    if not _are_programs(options):
        if options.new is None:
            raise ValueError(f"{options.old} is compared with nothing: give a second checkpoint.")
        from estimator_spec.compare.checkpoint_values import compare_checkpoints

        return compare_checkpoints(options.old, options.new, tolerances=tolerances)
    status = StatusLine(sys.stderr) if is_terminal(sys.stderr) else None
    try:
        return compare_programs(
            *_programs(options, arguments),
            limits=_limits(options),
            tolerances=tolerances,
            same_start=options.same_start,
            folder=options.keep,
            timeout=options.timeout,
            never_from=options.never_from,
            only=options.only,
            report=None if status is None else status.show,
        )
    finally:
        if status is not None:
            status.erase()


def _plan(options: argparse.Namespace, arguments: list[str]) -> list[str]:
    """Returns what would be run and written, a line each."""
    lines = []
    if _are_programs(options):
        for label, program in zip(_SIDES, _programs(options, arguments), strict=True):
            what = [program.script] if program.directory is None else ["-m", program.script]
            command = [program.python or sys.executable, *what, *program.arguments]
            place = "" if program.directory is None else f" in {program.directory}"
            lines.append(f"{label}: {shlex.join(command)}{place}")
        lines.append(f"limits: {_limits(options)}")
    else:
        lines.append(f"checkpoints: {options.old} and {options.new}")
    written = [path for path in (options.html, options.keep) if path is not None]
    return [*lines, *(f"would write: {path}" for path in written)]


def _write(result: Comparison, options: argparse.Namespace) -> None:
    if options.html is not None:
        page.make_page(result).write(options.html)
    if options.json:
        shown = json.dumps(text.plain_data(result), indent=1, ensure_ascii=False)
    else:
        shown = text.format_text(result)
    sys.stdout.write(shown + "\n")
