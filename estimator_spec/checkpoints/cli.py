# SPDX-License-Identifier: Apache-2.0
"""Command line: `python -m estimator_spec checkpoint …`.

Exit status: 0; 1 if `diff` finds a difference or `verify` damage; 2 for an error, such as a
`convert` that would change nothing, with the reason on standard error; 130 if interrupted.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec import checkpoints
from estimator_spec.checkpoints.objects import TARGETS
from estimator_spec.common import command_line
from estimator_spec.embedding import program_objects
from estimator_spec.embedding.spec import EmbeddingConfigSpec

_EXAMPLES = """\
examples:
  inspect /models/census
  convert /models/census /models/small/model.ckpt-200 --strategy div --shards 1 --dry-run
  convert old/model.ckpt-7 new/model.ckpt-7 --rename-regex '^input_layer/=features/'
  convert old/model.ckpt-7 new/model.ckpt-7 --vocabulary word_embedding=old.txt:new.txt
  convert old/model.ckpt-7 new/embedding --objects tpu_embedding --spec my_model:spec
  verify gs://bucket/model.ckpt-7
  repair /models/census --dry-run
"""


# Options of `convert` that change variables.
_CHANGES = (
    *("strategy", "shards", "slots", "rename", "rename_regex"),
    *("grow", "vocabulary", "objects", "drop"),
)
# Options of `convert` that are its arguments as they are.
_SAME = (
    *("strategy", "shards", "slots", "drop", "seed", "source_strategy", "source_shards"),
    *("objects", "root"),
)


def main(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit status.

    Args:
        arguments: the command line after `python -m estimator_spec checkpoint`.
    """
    options = _parser().parse_args(list(arguments))
    run: Callable[[argparse.Namespace], tuple[object, int]] = options.run
    try:
        result, status = run(options)
        sys.stdout.write(f"{result}\n")
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # such as `… | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, RuntimeError, ValueError, tf.errors.OpError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: nothing was changed, and nothing unfinished is left.\n")
        return 130


def _parser() -> argparse.ArgumentParser:
    description = "Looks at checkpoints, checks them, and converts them; never changes one."
    parser = command_line.new_parser("checkpoint", description, _EXAMPLES)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    inspect = commands.add_parser("inspect", help="lists tables, slots, and what is missing")
    inspect.add_argument("path", help="prefix of a checkpoint, or a directory with one")
    _add_layout(inspect, "--strategy", "--shards")
    inspect.add_argument("--json", action="store_true", help="print JSON")
    inspect.set_defaults(run=_inspect)

    convert = commands.add_parser("convert", help="writes a changed copy")
    convert.add_argument("source", help="prefix of a checkpoint, or a directory with one")
    convert.add_argument("target", help="prefix of the new checkpoint")
    _add_changes(convert)
    _add_layout(convert, "--source-strategy", "--source-shards")
    convert.add_argument(
        "--dry-run", action="store_true", help="print the changes and write nothing"
    )
    convert.set_defaults(run=_convert)

    diff = commands.add_parser("diff", help="compares two checkpoints row by row")
    diff.add_argument("first", help="prefix of a checkpoint, or a directory with one")
    diff.add_argument("second", help="the other one")
    _add_layout(diff, "--strategy", "--shards")
    diff.set_defaults(run=_diff)

    verify = commands.add_parser("verify", help="checks every byte")
    verify.add_argument("path", help="prefix of a checkpoint, or a directory with one")
    verify.set_defaults(run=_verify)

    repair = commands.add_parser("repair", help="writes a directory's file 'checkpoint' anew")
    repair.add_argument("directory", help="a directory of checkpoints, such as a model_dir")
    repair.add_argument("--dry-run", action="store_true", help="print what it would name")
    repair.set_defaults(run=_repair)

    record = commands.add_parser("record", help="writes the record of an old checkpoint's layout")
    record.add_argument("path", help="prefix of a checkpoint, or a directory with one")
    _add_layout(record, "--strategy", "--shards")
    record.set_defaults(run=_record)
    return parser


def _add_layout(parser: argparse.ArgumentParser, strategy: str, shards: str) -> None:
    """Adds the options that name the tables and layout of a checkpoint without a record."""
    group = parser.add_argument_group("a checkpoint that has no record")
    group.add_argument(strategy, choices=("div", "mod"), help="layout of its tables")
    group.add_argument(shards, type=int, metavar="N", help="its number of shards")
    group.add_argument("--table", action="append", metavar="NAME", help="full name of a table")
    parser.add_argument(
        "--spec", metavar="MODULE:NAME", help="an EmbeddingConfigSpec, or a function that makes it"
    )


def _layout(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the arguments that `_add_layout`'s options stand for."""
    return {
        "spec": _spec(options.spec),
        "strategy": options.strategy,
        "shards": options.shards,
        "tables": options.table,
    }


def _add_changes(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--strategy", choices=("div", "mod"), help="new layout (default: unchanged)")
    add("--shards", type=int, metavar="N", help="shards of each table (default: unchanged)")
    add("--slots", choices=("tpu", "cpu"), help="naming of slot variables")
    add("--rename", action="append", metavar="OLD=NEW", help="slots follow their variable")
    add("--rename-regex", action="append", metavar="PATTERN=NEW", help="the same for many")
    add("--grow", action="append", metavar="TABLE=ROWS", help="new rows get initial values")
    add("--vocabulary", action="append", metavar="TABLE=OLD:NEW", help="vocabulary files")
    add("--objects", choices=TARGETS, help="write a tf.train.Checkpoint of this object")
    add("--root", default="embedding", help="its keyword there (default: embedding)")
    add("--drop", action="append", default=[], metavar="REGEX", help="variables to leave out")
    add("--seed", type=int, default=0, help="for new rows (default: 0)")


# Each command returns what is printed, and the exit status.


def _inspect(options: argparse.Namespace) -> tuple[object, int]:
    found = checkpoints.inspect(options.path, **_layout(options))
    return json.dumps(dataclasses.asdict(found), indent=1) if options.json else found, 0


def _convert(options: argparse.Namespace) -> tuple[object, int]:
    rename: Any = dict(_pairs(options.rename, "--rename"))
    patterns = _pairs(options.rename_regex, "--rename-regex")
    if rename and patterns:
        raise ValueError("Give --rename or --rename-regex, not both.")
    vocabulary: dict[str, Any] = {}
    for table, files in _pairs(options.vocabulary, "--vocabulary"):
        paths = re.split(":(?!//)", files)  # not that of gs://
        if len(paths) != 2 or not all(paths):
            raise ValueError(f"--vocabulary {table}={files}: give OLD:NEW, two files.")
        vocabulary[table] = tuple(paths)
    convert = functools.partial(
        checkpoints.convert,
        options.source,
        options.target,
        _spec(options.spec),
        rename=rename or patterns or None,
        grow={table: _rows(rows) for table, rows in _pairs(options.grow, "--grow")},
        vocabulary=vocabulary,
        tables=options.table,
        **{name: getattr(options, name) for name in _SAME},
    )
    asked = [name for name in _CHANGES if getattr(options, name)]
    report = convert(dry_run=True)
    if asked and report.is_copy:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in asked)
        raise ValueError(
            f"{names} would change nothing: every variable of {report.source!r} would be copied as "
            "it is. Nothing was written. `inspect` lists its tables and their layouts; a table "
            "that isn't among them is named by --spec or --table."
        )
    return report if options.dry_run else convert(), 0


def _repair(options: argparse.Namespace) -> tuple[object, int]:
    return checkpoints.repair(options.directory, dry_run=options.dry_run), 0


def _diff(options: argparse.Namespace) -> tuple[object, int]:
    found = checkpoints.diff(options.first, options.second, **_layout(options))
    return found, 1 if found else 0


def _verify(options: argparse.Namespace) -> tuple[object, int]:
    found = checkpoints.verify(options.path)
    return found, 0 if found.ok else 1


def _record(options: argparse.Namespace) -> tuple[object, int]:
    return f"written: {checkpoints.record(options.path, **_layout(options))}", 0


def _pairs(values: Sequence[str] | None, argument: str) -> list[tuple[str, str]]:
    pairs = []
    for value in values or ():
        left, separator, right = (
            value.rpartition("=") if "regex" in argument else (value.partition("="))
        )
        if not separator or not left:
            raise ValueError(f"{argument} {value}: give two parts with an '=' between them.")
        pairs.append((left, right))
    return pairs


def _rows(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f"--grow: {text!r} is no number of rows.") from error


def _spec(name: str | None) -> EmbeddingConfigSpec | None:
    """Returns the spec named by `--spec`, or None."""
    return None if name is None else program_objects.load_spec(name, "--spec")
