# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of `python -m estimator_spec saved-model`, once their options are read."""

from __future__ import annotations

import argparse

from estimator_spec import saved_models
from estimator_spec.core.common import command_line, own_files
from estimator_spec.saved_models import estimator_source, page, text
from estimator_spec.saved_models.dead_ops import commands as dead_ops


def run(options: argparse.Namespace) -> int:
    """Runs a command and returns its exit status.

    Args:
        options: the command's options; `command` is its name.
    """
    return command_line.run_command(_COMMANDS[options.command], options, "nothing was written")


def _show(options: argparse.Namespace) -> tuple[str, int]:
    model = saved_models.read(options.model, options.tag)
    if options.html is not None:
        page.make_page(model).write(options.html)
        return f"written: {options.html}", 1 if model.unknown else 0
    return text.describe(model), 1 if model.unknown else 0


def _estimator(options: argparse.Namespace) -> tuple[str, int]:
    program = estimator_source.write_program(saved_models.read(options.model, options.tag))
    if options.output is None:
        return program.rstrip(), 0
    own_files.write_file(options.output, program.encode())
    return f"written: {options.output}", 0


_COMMANDS = {
    "check": dead_ops.check,
    "estimator": _estimator,
    "repair": dead_ops.repair,
    "show": _show,
}
