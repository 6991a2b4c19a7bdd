# SPDX-License-Identifier: Apache-2.0
"""Commands `check` and `repair` of `python -m estimator_spec saved-model`."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
from collections.abc import Iterable, Iterator

import tensorflow as tf

from estimator_spec.saved_models.dead_ops.repair import DeadNode
from estimator_spec.saved_models.dead_ops.repair import check as find_dead
from estimator_spec.saved_models.dead_ops.repair import repair as write_repaired

_MAX_NAMES = 3


def check(options: argparse.Namespace) -> tuple[str, int]:
    """Returns the ops of a model that TensorFlow can't run, as text, and the exit status."""
    nodes = find_dead(options.directory)
    status = 1 if nodes else 0
    if options.json:
        return json.dumps([_as_json(node) for node in nodes], indent=1), status
    if not nodes:
        return f"TensorFlow {tf.__version__} has all ops of {options.directory}.", status
    lines = [f"{options.directory} has {_count(nodes)} that TensorFlow {tf.__version__} can't run:"]
    lines += _lines(nodes)
    if any(not node.refusal for node in nodes):
        command = f"python -m estimator_spec saved-model repair {options.directory} OUT"
        lines += ["", f"Rewrite them: {command}"]
    return "\n".join(lines), status


def repair(options: argparse.Namespace) -> tuple[str, int]:
    """Writes a repaired model; returns what was rewritten, as text, and the exit status."""
    nodes = write_repaired(options.directory, options.output, options.dry_run)
    left = [node for node in nodes if node.refusal]
    done = [node for node in nodes if not node.refusal]
    would = "would be " if options.dry_run else ""
    lines = [f"{_count(done)} {would}rewritten in {options.output}:", *_lines(done)]
    if left:
        lines += [f"{_count(left)} {would}left:", *_lines(left)]
    return "\n".join(lines), 1 if left else 0


def _count(nodes: Iterable[DeadNode]) -> str:
    number = len(list(nodes))
    return f"{number} node{'s' * (number != 1)}"


def _lines(nodes: Iterable[DeadNode]) -> Iterator[str]:
    """Yields a line for each op and what becomes of it."""
    groups = collections.defaultdict(list)
    for node in nodes:
        advice = node.refusal or node.op.advice
        groups[node.op.name, advice].append(
            f"{node.name} in {node.function}" if node.function else node.name
        )
    for (op, advice), names in sorted(groups.items()):
        shown = ", ".join(names[:_MAX_NAMES])
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        yield f"  {op} ({shown}{more}): {advice}"


def _as_json(node: DeadNode) -> dict[str, object]:
    return {**dataclasses.asdict(node), "op": node.op._asdict()}
