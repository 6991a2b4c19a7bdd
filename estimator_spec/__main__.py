# SPDX-License-Identifier: Apache-2.0
"""The command line: `python -m estimator_spec COMMAND ...`; each command is one module."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

# Each module has `main(arguments)`, which returns the exit status.
COMMANDS = {
    "checkpoint": ("estimator_spec.checkpoints.cli", "looks at checkpoints, and converts them"),
    "run": ("estimator_spec.legacy.run", "runs an old program without an edit"),
}


def usage() -> str:
    """What there is."""
    lines = ["usage: python -m estimator_spec COMMAND ...", "", "commands:"]
    lines += [f"  {name:<12}{what}" for name, (_, what) in COMMANDS.items()]
    return "\n".join([*lines, "", "`COMMAND --help` says more about one.", ""])


def main(arguments: Sequence[str]) -> int:
    """Runs a command; returns the exit status.

    Args:
        arguments: the command line behind `python -m estimator_spec`.
    """
    if arguments and arguments[0] in ("-h", "--help"):
        sys.stdout.write(usage())
        return 0
    if not arguments or arguments[0] not in COMMANDS:
        wrong = f"no command {arguments[0]!r}\n" if arguments else ""
        sys.stderr.write(wrong + usage())
        return 2
    module, _ = COMMANDS[arguments[0]]
    status: int = importlib.import_module(module).main(arguments[1:])
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
