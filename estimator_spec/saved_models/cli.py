# SPDX-License-Identifier: Apache-2.0
"""Command line: `python -m estimator_spec saved-model COMMAND …`.

Exit status: 0; 1 if `show` can't recover something; 2 for an error, with the reason on standard
error; 130 if interrupted.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from estimator_spec.core.common import command_line, quiet_start

_EXAMPLES = """\
examples:
  show /models/census/export/1589
  show /models/census/model.ckpt-900.meta
  estimator /models/census/export/1589 --output train.py
"""


def main(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit status.

    Args:
        arguments: the command line after `python -m estimator_spec saved-model`.
    """
    options = _parser().parse_args(list(arguments))
    # `--help` and wrong options don't wait for TensorFlow.
    quiet_start.import_tensorflow()
    from estimator_spec.saved_models import commands

    return commands.run(options)


def _parser() -> argparse.ArgumentParser:
    description = "Says what a SavedModel's graph computes; nothing of it is run."
    parser = command_line.new_parser("saved-model", description, _EXAMPLES)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    show = commands.add_parser("show", help="prints signatures, columns, layers and the head")
    _add_model(show)
    show.add_argument("--html", metavar="FILE", help="write a page with a picture in place of text")

    estimator = commands.add_parser(
        "estimator", help="writes a program that trains on the model with a canned estimator"
    )
    _add_model(estimator)
    estimator.add_argument("--output", metavar="FILE", help="of the program (default: printed)")
    return parser


def _add_model(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that name a graph."""
    parser.add_argument(
        "model", help="directory of a SavedModel; a model.ckpt-N.meta; a model_dir with graph.pbtxt"
    )
    parser.add_argument("--tag", help="of the graph (default: 'serve', or the only one)")
