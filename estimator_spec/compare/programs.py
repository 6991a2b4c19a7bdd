# SPDX-License-Identifier: Apache-2.0
"""Runs programs in processes of their own and returns their recordings."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

from estimator_spec.compare.estimator_collector.options import EstimatorApi, RecordingOptions
from estimator_spec.compare.recording import Recording
from estimator_spec.legacy.program_source import program_files

# Text in a program's arguments that stands for the directory of its side.
RUN_DIRECTORY = "{run}"

_LOG_LINES = 30
_FOLDER = Path(__file__).resolve().parent
# Puts the collector alone on the path: a module here could have the name of one of the program's.
_START = (
    "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); "
    "runpy.run_module('estimator_collector', run_name='__main__', alter_sys=True)"
)


class ProgramError(RuntimeError):
    """A program failed, ran too long, or called no estimator."""


@dataclasses.dataclass(frozen=True)
class Program:
    """A program to compare.

    Attributes:
        script: its file; with `directory`, the full name of its module.
        arguments: its arguments; '{run}' in one stands for a new directory of its side.
        python: the interpreter. None: this one, where the program gets this project's estimators.
            Another one runs the program as it is if its TensorFlow has an Estimator.
        run_options: options of `python -m estimator_spec run`, such as '--cpu'; without effect
            where the program runs as it is.
        directory: the directory that is first on its path, if it is a module; else None.
        python_path: its PYTHONPATH. None: this process's.
    """

    script: str
    arguments: tuple[str, ...] = ()
    python: str | None = None
    run_options: tuple[str, ...] = ()
    directory: str | None = None
    python_path: str | None = None

    @property
    def source(self) -> program_files.Program:
        """The program, whose files can be found."""
        if self.directory is None:
            return program_files.Program(self.script)
        return program_files.Program(self.script, is_module=True, directory=self.directory)

    @property
    def text(self) -> str:
        """Its file, or module and directory."""
        if self.directory is None:
            return self.script
        return f"-m {self.script} in {self.directory}"


def record(
    program: Program,
    label: str,
    folder: str,
    options: RecordingOptions,
    timeout: float | None = None,
) -> Recording:
    """Runs a program and returns the recording of its estimators' calls.

    Args:
        program: the program.
        label: 'old' or 'new', for errors.
        folder: directory of the recording, the program's log and what it writes; is created.
        options: options of the recording; those that `program` or `folder` decide are replaced.
        timeout: seconds after which the program is ended; None waits.

    Raises:
        ProgramError: the program failed, ran too long, or called no estimator. The message has
            the end of its output.
        ValueError: there is no such script or interpreter.
    """
    _check(program, label)
    run_dir = os.path.join(folder, "run")
    os.makedirs(os.path.join(run_dir, "tmp"))
    options = dataclasses.replace(
        options,
        out=os.path.join(folder, "recording"),
        run_dir=run_dir,
        api=EstimatorApi.OURS if program.python is None else EstimatorApi.AUTO,
        run_options=program.run_options,
        directory=None if program.directory is None else os.path.realpath(program.directory),
    )
    options_file = os.path.join(folder, "options.json")
    with open(options_file, "w", encoding="utf-8") as file:
        json.dump(dataclasses.asdict(options), file, indent=1)
    arguments = [argument.replace(RUN_DIRECTORY, run_dir) for argument in program.arguments]
    command = [program.python or sys.executable, "-c", _START, str(_FOLDER)]
    command += [options_file, program.script, *arguments]
    log = os.path.join(folder, "log.txt")
    with open(log, "wb") as output:
        try:
            status = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_environment(program, run_dir),
                timeout=timeout,
            ).returncode
        except subprocess.TimeoutExpired:
            raise ProgramError(
                f"The {label} program, {program.text!r}, ran for {timeout:g} s and was ended. "
                f"Allow it more, or give --steps.\n{_end(log)}"
            ) from None
    if status:
        hint = ""
        if options.steps is not None:
            hint = f"Its trainings stop after {options.steps} steps; it may need more (--steps). "
        raise ProgramError(
            f"The {label} program, {program.text!r}, failed with exit status {status}. {hint}"
            f"The end of its output:\n{_end(log)}"
        )
    recording = Recording(options.out)
    if not recording.calls:
        raise ProgramError(
            f"The {label} program, {program.text!r}, called no estimator's train, evaluate, "
            f"predict or export method, and no compare.record_loop, so there is nothing to "
            f"compare. Are arguments missing (after --)? The end of its output:\n{_end(log)}"
        )
    return recording


def _check(program: Program, label: str) -> None:
    if program.source.file() is None:
        what = "a file" if program.directory is None else f"a module in {program.directory!r}"
        raise ValueError(f"The {label} program, {program.script!r}, isn't {what}.")
    if program.python is not None and not os.access(program.python, os.X_OK):
        raise ValueError(
            f"The {label} program's interpreter, {program.python!r}, isn't an executable file."
        )


def _environment(program: Program, run_dir: str) -> dict[str, str]:
    """Returns the environment variables of a program's process."""
    # Imported when used: it loads TensorFlow.
    from tpu_columns.optimizations import Optimization

    variables = dict(os.environ)
    if program.python_path is not None:
        variables["PYTHONPATH"] = program.python_path
    # Temporary model_dirs belong to the run, and are removed with it.
    variables["TMPDIR"] = os.path.join(run_dir, "tmp")
    # The collector reads and assigns tables as variables of the graph.
    variables[Optimization.STACKED_TABLES.value] = "0"
    if program.python is None:
        root = str(_FOLDER.parents[1])
        paths = [root, *filter(None, [variables.get("PYTHONPATH")])]
        variables["PYTHONPATH"] = os.pathsep.join(paths)
    else:
        # The choice of this environment's Keras; TensorFlow 2.15 takes its own without it.
        variables.pop("TF_USE_LEGACY_KERAS", None)
    return variables


def _end(log: str) -> str:
    """Returns the last lines of a log."""
    with open(log, encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines()
    return "\n".join(lines[-_LOG_LINES:])
