# SPDX-License-Identifier: Apache-2.0
"""Command line: `python -m estimator_spec COMMAND ...`; each command is a module."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import tpu_columns

# Each module has a function `main(arguments)` that returns the exit status.
COMMANDS = {
    "checkpoint": ("estimator_spec.checkpoints.cli", "looks at checkpoints, and converts them"),
    "compare": ("estimator_spec.compare.cli", "compares two programs or two checkpoints"),
    "doctor": ("estimator_spec.legacy.doctor.cli", "finds versions that don't fit together"),
    "kernels": (
        "estimator_spec.core.kernels_cli",
        "builds the C++ ops that update tables",
    ),
    "launch": ("estimator_spec.core.cluster.launch", "runs a program as a cluster on this machine"),
    "migrate": ("estimator_spec.legacy.migrate.cli", "rewrites programs to today's names"),
    "plan": ("estimator_spec.planning.cli", "says what memory tables need, and what doesn't fit"),
    "run": ("estimator_spec.legacy.run", "runs an old program without an edit"),
    "saved-model": ("estimator_spec.saved_models.cli", "reads SavedModels without a program"),
    "to-keras": (
        "estimator_spec.convert.keras_program.cli",
        "writes the Keras 3 program of an estimator",
    ),
    "to-torch": (
        "estimator_spec.convert.torch_program.cli",
        "writes the PyTorch program of an estimator",
    ),
}


def usage() -> str:
    """Returns the help text."""
    lines = ["usage: python -m estimator_spec COMMAND ...", "", "commands:"]
    lines += [f"  {name:<12}{help_text}" for name, (_, help_text) in COMMANDS.items()]
    return "\n".join(
        [*lines, "", "`COMMAND --help` says more about one, `--version` which release this is.", ""]
    )


def main(arguments: Sequence[str]) -> int:
    """Runs a command; returns the exit status.

    Args:
        arguments: the command line after `python -m estimator_spec`.
    """
    if arguments and arguments[0] in ("-h", "--help"):
        sys.stdout.write(usage())
        return 0
    if arguments and arguments[0] == "--version":
        sys.stdout.write(f"tpu-columns {tpu_columns.__version__}\n")
        return 0
    if not arguments or arguments[0] not in COMMANDS:
        error = f"no command {arguments[0]!r}\n" if arguments else ""
        sys.stderr.write(error + usage())
        return 2
    module, _ = COMMANDS[arguments[0]]
    status: int = importlib.import_module(module).main(arguments[1:])
    return status


def run() -> None:
    """Runs the command line of this process, and ends it: the script `estimator-spec`."""
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
