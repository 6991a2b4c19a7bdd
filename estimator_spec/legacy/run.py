# SPDX-License-Identifier: Apache-2.0
"""Implements `python -m estimator_spec run`, which runs an unedited program with the old names.

Before the program's first line it installs the removed names (ours on TensorFlow 2.15 too, so that
all versions behave the same), selects a Keras that builds v1 graphs, and gives a program written
for TensorFlow 1 that API under `import tensorflow`.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from typing import NamedTuple

from estimator_spec import legacy, legacy_keras
from estimator_spec.config import host_fallback
from estimator_spec.legacy import tf1

USAGE = """\
usage: python -m estimator_spec run [options] SCRIPT [ARGS...]
       python -m estimator_spec run [options] -m MODULE [ARGS...]

Runs a program written for TPUEstimator, unedited. All that follows SCRIPT or MODULE is its own.

options:
  --cpu        run what asks for a TPU (use_tpu=True) on this host
  --cpu auto   the same, if this machine has no TPU
  --tf1        `import tensorflow` gives the program TensorFlow 1's names and behaviour;
               without this option it does if SCRIPT uses names that only TensorFlow 1 had
  --no-tf1     never do that
  -h, --help   show this
"""


class UsageError(Exception):
    """The command line is invalid."""


class Command(NamedTuple):
    """A parsed command line.

    Attributes:
        program: path of a script, or name of a module.
        arguments: the program's arguments.
        is_module: whether `program` is a module.
        host: when a TPU program runs on the host; None leaves it to the environment variable.
        as_tf1: whether the program gets TensorFlow 1's API; None detects it.
    """

    program: str
    arguments: list[str]
    is_module: bool = False
    host: host_fallback.Host | None = None
    as_tf1: bool | None = None


def parse(arguments: Sequence[str]) -> Command:
    """Parses the command line of `run`.

    >>> parse(['--cpu', 'auto', 'train.py', '--steps=3']).arguments
    ['--steps=3']

    Raises:
        UsageError: an option or the program is missing or unknown.
    """
    host: host_fallback.Host | None = None
    as_tf1: bool | None = None
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in ("--cpu=auto", "--cpu"):
            automatic = option == "--cpu=auto"
            if option == "--cpu" and rest and rest[0] == "auto":
                automatic = bool(rest.pop(0))
            host = host_fallback.Host.WITHOUT_TPU if automatic else host_fallback.Host.ALWAYS
        elif option in ("--tf1", "--no-tf1"):
            as_tf1 = option == "--tf1"
        elif option == "-m":
            if not rest:
                raise UsageError("-m needs the name of a module")
            return Command(rest[0], rest[1:], True, host, as_tf1)
        elif option == "--":
            break
        else:
            raise UsageError(f"there is no option {option}; the program's own follow its name")
    if not rest:
        raise UsageError("the name of a script is missing")
    return Command(rest[0], rest[1:], False, host, as_tf1)


def main(arguments: Sequence[str]) -> int:
    """Runs a program and returns the exit status, unless the program exits itself.

    Args:
        arguments: the command line after `run`.
    """
    if arguments and arguments[0] in ("-h", "--help"):
        sys.stdout.write(USAGE)
        return 0
    try:
        command = parse(arguments)
        if not command.is_module and not os.path.exists(command.program):
            raise UsageError(f"there is no file {command.program!r}")
    except UsageError as error:
        sys.stderr.write(f"estimator_spec run: {error}\n{USAGE}")
        return 2
    run(command)
    return 0


def run(command: Command) -> None:
    """Runs a program in this process, as its main module.

    Changes to names, `sys.argv` and `sys.path` stay, as the program may have started threads or
    registered exit functions.

    Args:
        command: the parsed command line.
    """
    if command.host is not None:
        host_fallback.choose_host(command.host)
    legacy_keras.select_legacy_keras()
    as_tf1 = command.as_tf1
    if as_tf1 is None:
        as_tf1 = not command.is_module and tf1.uses_tf1_names(command.program)
    legacy.install(replace=True)
    if as_tf1:
        tf1.enable()
    sys.argv = [command.program, *command.arguments]
    if command.is_module:
        runpy.run_module(command.program, run_name="__main__", alter_sys=True)
        return
    _set_script_path(command.program)
    runpy.run_path(command.program, run_name="__main__")


def _set_script_path(script: str) -> None:
    """Replaces the current directory on `sys.path` by the script's directory, as `python` does."""
    if getattr(sys.flags, "safe_path", False):
        return
    real = os.path.realpath(script)
    sys.path[0] = real if os.path.isdir(real) else os.path.dirname(real)
