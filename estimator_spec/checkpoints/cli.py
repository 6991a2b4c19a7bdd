# SPDX-License-Identifier: Apache-2.0
"""Command line: `python -m estimator_spec checkpoint …`.

Exit status: 0; 1 if `diff` finds a difference or `verify` damage; 2 for an error, such as a
`convert` that would change nothing, with the reason on standard error; 130 if interrupted.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from estimator_spec.core.common import command_line, quiet_start

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

_NAMES = "a table: (part of) its variable's name, its key in the spec, or a feature's key"


def main(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit status.

    Args:
        arguments: the command line after `python -m estimator_spec checkpoint`.
    """
    options = _parser().parse_args(list(arguments))
    # `--help` and wrong options don't wait for TensorFlow.
    quiet_start.import_tensorflow()
    from estimator_spec.checkpoints import commands

    return commands.run(options)


def _parser() -> argparse.ArgumentParser:
    description = "Looks at checkpoints, checks them, and converts them; never changes one."
    parser = command_line.new_parser("checkpoint", description, _EXAMPLES)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    inspect = commands.add_parser("inspect", help="lists tables, slots, and what is missing")
    inspect.add_argument("path", help="prefix of a checkpoint, or a directory with one")
    _add_layout(inspect, "--strategy", "--shards")
    inspect.add_argument("--json", action="store_true", help="print JSON")

    convert = commands.add_parser("convert", help="writes a changed copy")
    convert.add_argument("source", help="prefix of a checkpoint, or a directory with one")
    convert.add_argument("target", help="prefix of the new checkpoint")
    _add_changes(convert)
    _add_layout(convert, "--source-strategy", "--source-shards")
    convert.add_argument(
        "--dry-run", action="store_true", help="print the changes and write nothing"
    )

    diff = commands.add_parser("diff", help="compares two checkpoints row by row")
    diff.add_argument("first", help="prefix of a checkpoint, or a directory with one")
    diff.add_argument("second", help="the other one")
    _add_layout(diff, "--strategy", "--shards")

    verify = commands.add_parser("verify", help="checks every byte")
    verify.add_argument("path", help="prefix of a checkpoint, or a directory with one")

    repair = commands.add_parser("repair", help="writes a directory's file 'checkpoint' anew")
    repair.add_argument("directory", help="a directory of checkpoints, such as a model_dir")
    repair.add_argument("--dry-run", action="store_true", help="print what it would name")

    record = commands.add_parser("record", help="writes the record of an old checkpoint's layout")
    record.add_argument("path", help="prefix of a checkpoint, or a directory with one")
    _add_layout(record, "--strategy", "--shards")
    return parser


def _add_layout(parser: argparse.ArgumentParser, strategy: str, shards: str) -> None:
    """Adds the options that name the tables and layout of a checkpoint without a record."""
    group = parser.add_argument_group("a checkpoint that has no record")
    group.add_argument(strategy, choices=("div", "mod"), help="layout of its tables")
    group.add_argument(shards, type=int, metavar="N", help="its number of shards")
    group.add_argument("--table", action="append", metavar="NAME", help=_NAMES)
    parser.add_argument(
        "--spec", metavar="MODULE:NAME", help="an EmbeddingConfigSpec, or a function that makes it"
    )


def _add_changes(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--strategy", choices=("div", "mod"), help="new layout (default: unchanged)")
    add("--shards", type=int, metavar="N", help="shards of each table (default: unchanged)")
    add("--slots", choices=("tpu", "cpu"), help="naming of slot variables")
    add("--rename", action="append", metavar="OLD=NEW", help="slots follow their variable")
    add("--rename-regex", action="append", metavar="PATTERN=NEW", help="the same for many")
    add("--grow", action="append", metavar="TABLE=ROWS", help="new rows get initial values")
    add("--vocabulary", action="append", metavar="TABLE=OLD:NEW", help="vocabulary files")
    add(
        "--objects",
        metavar="{tpu_embedding,serving}",
        help="write a tf.train.Checkpoint of this object",
    )
    add("--root", default="embedding", help="its keyword there (default: embedding)")
    add("--drop", action="append", default=[], metavar="REGEX", help="variables to leave out")
    add("--seed", type=int, default=0, help="for new rows (default: 0)")
