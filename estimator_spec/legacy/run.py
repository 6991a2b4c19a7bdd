# SPDX-License-Identifier: Apache-2.0
"""Implements `python -m estimator_spec run`, which runs an unedited program with the old names.

Before the program's first line it installs the removed names (ours on TensorFlow 2.15 too, so that
all versions behave the same), selects a Keras that builds v1 graphs, and gives a program written
for TensorFlow 1 that API under `import tensorflow`.
"""

from __future__ import annotations

import os
import re
import runpy
import sys
from collections.abc import Sequence
from typing import NamedTuple

from estimator_spec.core.common import quiet_start
from estimator_spec.legacy.program_source import program_files

USAGE = """\
usage: python -m estimator_spec run [options] SCRIPT [ARGS...]
       python -m estimator_spec run [options] -m MODULE [ARGS...]

Runs a program written for TPUEstimator, unedited. All that follows SCRIPT or MODULE is its own.

options:
  --cpu        run what asks for a TPU (use_tpu=True) on this host
  --cpu auto   the same, if this machine has no TPU
  --cpu replicas
               run it as a TPU would, on TPUConfig.num_shards replicas on this host: with its
               loops of iterations_per_loop steps, its checks, and tables that the
               embedding_config_spec's optimizers train
  --tf1        `import tensorflow` gives the program TensorFlow 1's names and behaviour;
               without this option it does if SCRIPT or MODULE, or a module of the
               program that it imports, uses names that only TensorFlow 1 had
  --no-tf1     never do that
  --also PACKAGE
               the same for an installed package, which isn't the program's own
  --check      run nothing: list the old names that the program and its modules use, and
               what becomes of each; the exit status is 1 if one isn't supported, or if a
               module that the program needs to start isn't found
  --start      with --check, start TensorFlow and look for the names in it, not in
               what is recorded of its versions
  -h, --help   show this
"""


# Sizes of TensorFlow 2 are numbers, or None.
_OF_DIMENSION = re.compile("'(int|NoneType)' object has no attribute 'value'")
_OF_TENSORFLOW = re.compile(r"module 'tensorflow(?:\._api\.v2)?([.\w]*)' has no attribute '(\w+)'")
_HOSTS = ("auto", "replicas")  # values of --cpu
_TRY_TF1 = "try `run --tf1`"


class UsageError(Exception):
    """The command line is invalid."""


class Command(NamedTuple):
    """A parsed command line.

    Attributes:
        program: path of a script, or name of a module.
        arguments: the program's arguments.
        is_module: whether `program` is a module.
        host: when a TPU program runs on the host, as a value of the environment variable; None
            leaves it to that.
        as_tf1: whether the program gets TensorFlow 1's API; None detects it.
        also: installed packages that get it, too.
        check: whether to check the program instead of running it.
        start: whether the check starts TensorFlow.
        directory: the directory that a module is found from.
    """

    program: str
    arguments: list[str]
    is_module: bool = False
    host: str | None = None
    as_tf1: bool | None = None
    also: tuple[str, ...] = ()
    check: bool = False
    start: bool = False
    directory: str = "."

    @property
    def source(self) -> program_files.StartedProgram:
        """The program, whose files can be found."""
        return program_files.StartedProgram(self.program, self.is_module, self.directory)


def parse(arguments: Sequence[str]) -> Command:
    """Parses the command line of `run`.

    >>> parse(['--cpu', 'auto', 'train.py', '--steps=3']).arguments
    ['--steps=3']

    Raises:
        UsageError: an option or the program is missing or unknown.
    """
    command = Command("", [])
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in ("--cpu", *(f"--cpu={each}" for each in _HOSTS)):
            host = option[6:] or "1"
            if option == "--cpu" and rest and rest[0] in _HOSTS:
                host = rest.pop(0)
            command = command._replace(host=host)
        elif option in ("--tf1", "--no-tf1"):
            command = command._replace(as_tf1=option == "--tf1")
        elif option == "--also" or option.startswith("--also="):
            package = option[7:] or (rest.pop(0) if rest else "")
            if not package:
                raise UsageError("--also needs the name of a package")
            command = command._replace(also=(*command.also, package))
        elif option == "--check":
            command = command._replace(check=True)
        elif option == "--start":
            command = command._replace(start=True)
        elif option == "-m":
            if not rest:
                raise UsageError("-m needs the name of a module")
            return command._replace(program=rest[0], arguments=rest[1:], is_module=True)
        elif option == "--":
            break
        else:
            raise UsageError(f"there is no option {option}; the program's own follow its name")
    if not rest:
        raise UsageError("the name of a script is missing")
    if command.start and not command.check:
        raise UsageError("--start is an option of --check")
    return command._replace(program=rest[0], arguments=rest[1:])


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
        if command.check or not command.is_module:
            file = command.source.file()
            # A pipe is no file to check, but can run.
            if file is None and (command.check or not os.path.exists(command.program)):
                kind = "module" if command.is_module else "file"
                raise UsageError(f"there is no {kind} {command.program!r}")
    except UsageError as error:
        sys.stderr.write(f"estimator_spec run: {error}\n{USAGE}")
        return 2
    if command.check:
        from estimator_spec.legacy import check

        return check.main(command.source, command.as_tf1, command.start)
    run(command)
    return 0


def run(command: Command) -> None:
    """Runs a program in this process, as its main module.

    Changes to names, `sys.argv` and `sys.path` stay, as the program may have started threads or
    registered exit functions.
    """
    # `--help` and wrong options don't wait for TensorFlow.
    quiet_start.import_tensorflow()
    quiet_start.list_devices()
    from estimator_spec import legacy
    from estimator_spec.core.common import legacy_keras
    from estimator_spec.core.run_config import host_fallback
    from estimator_spec.legacy import child_processes, program_api, tensorflow_names, tf1

    if command.host is not None:
        host_fallback.choose_host(host_fallback.Host(command.host))
    legacy_keras.select_legacy_keras()
    as_tf1 = command.as_tf1
    if as_tf1 is None:
        as_tf1 = program_api.uses_tf1_names(command.source)
    child_processes.enable(as_tf1 or command.as_tf1, command.also)
    legacy.install(replace=True)
    tf1.enable(as_tf1, command.also)
    sys.argv = [command.program, *command.arguments]
    try:
        if command.is_module:
            runpy.run_module(command.program, run_name="__main__", alter_sys=True)
        else:
            _set_script_path(command.program)
            runpy.run_path(command.program, run_name="__main__")
    except AttributeError as error:
        if not as_tf1 and _OF_DIMENSION.search(str(error)):
            error.args = (f"{error}. (`.value` of a dimension needs TensorFlow 1: {_TRY_TF1})",)
        missing = _OF_TENSORFLOW.search(str(error))
        name = f"{missing[1]}.{missing[2]}".lstrip(".") if missing else ""
        if not as_tf1 and name and tensorflow_names.is_only_in_tf1(name):
            library = "or `--also PACKAGE` if an installed package uses it"
            error.args = (f"{error}. (Only TensorFlow 1 has it: {_TRY_TF1}, {library})",)
        raise


def _set_script_path(script: str) -> None:
    """Replaces the current directory on `sys.path` by the script's directory, as `python` does."""
    if getattr(sys.flags, "safe_path", False):
        return
    real = os.path.realpath(script)
    sys.path[0] = real if os.path.isdir(real) else os.path.dirname(real)
