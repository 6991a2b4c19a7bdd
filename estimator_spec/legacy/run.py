# SPDX-License-Identifier: Apache-2.0
"""`python -m estimator_spec run`: runs an old program as `python` would, with the old names.

The program is not edited. Before its first line the removed names are put back, ours even where
TensorFlow 2.15 has its own, so that both behave the same; a Keras is chosen that builds v1 graphs;
and a program for TensorFlow 1 finds that under `import tensorflow`.
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
    """The command line can't be understood."""


class Command(NamedTuple):
    """A command line.

    Attributes:
        program: the path of a script, or the name of a module.
        arguments: the program's own.
        is_module: whether it is a module.
        host: when a program of a TPU runs on the host; None leaves the environment's choice.
        as_tf1: whether the program gets TensorFlow 1's names; None if it should be found out.
    """

    program: str
    arguments: list[str]
    is_module: bool = False
    host: host_fallback.Host | None = None
    as_tf1: bool | None = None


def parse(arguments: Sequence[str]) -> Command:
    """Reads the command line of `run`.

    >>> parse(['--cpu', 'auto', 'train.py', '--steps=3']).arguments
    ['--steps=3']

    Raises:
        UsageError: says what is wrong.
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
    """Runs a program; returns the exit status, unless the program exits by itself.

    Args:
        arguments: the command line behind `run`.
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

    What is changed for it (the names, `sys.argv`, `sys.path`) stays: the program may have started
    threads, or registered functions for the exit.

    Args:
        command: what to run.
    """
    if command.host is not None:
        host_fallback.choose_host(command.host)
    legacy_keras.prefer()
    as_tf1 = command.as_tf1
    if as_tf1 is None:
        as_tf1 = not command.is_module and tf1.is_written_for(command.program)
    legacy.install(replace=True)
    if as_tf1:
        tf1.become()
    sys.argv = [command.program, *command.arguments]
    if command.is_module:
        runpy.run_module(command.program, run_name="__main__", alter_sys=True)
        return
    _put_on_path(command.program)
    runpy.run_path(command.program, run_name="__main__")


def _put_on_path(script: str) -> None:
    """Makes the script's neighbours importable in place of the current directory's files."""
    if getattr(sys.flags, "safe_path", False):
        return
    real = os.path.realpath(script)
    sys.path[0] = real if os.path.isdir(real) else os.path.dirname(real)
