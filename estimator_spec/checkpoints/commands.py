# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of `python -m estimator_spec checkpoint`, once their options are read."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import re
from collections.abc import Sequence
from typing import Any

from estimator_spec import checkpoints
from estimator_spec.core.common import command_line
from estimator_spec.core.embedding import program_objects
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec

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


def run(options: argparse.Namespace) -> int:
    """Runs a command and returns its exit status.

    Args:
        options: the command's options; `command` is its name.
    """
    return command_line.run_command(
        _COMMANDS[options.command], options, "nothing was changed, and nothing unfinished is left"
    )


def _layout(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the arguments that `_add_layout`'s options stand for."""
    return {
        "spec": _spec(options.spec),
        "strategy": options.strategy,
        "shards": options.shards,
        "tables": options.table,
    }


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


_COMMANDS = {
    "inspect": _inspect,
    "convert": _convert,
    "diff": _diff,
    "verify": _verify,
    "repair": _repair,
    "record": _record,
}
