# SPDX-License-Identifier: Apache-2.0
"""Runs a command that writes the program of an estimator, once its options are read."""

from __future__ import annotations

import argparse
import contextlib
import os
import stat
import sys
import tempfile
from typing import NamedTuple, Protocol

import tensorflow as tf

from estimator_spec.compare.comparison import Comparison
from estimator_spec.compare.stages import Tolerance, Tolerances, parse_rule
from estimator_spec.convert.keras_program import batches, exported, first_use, report, training
from estimator_spec.convert.keras_program.checkpoint_files import link_checkpoint
from estimator_spec.core._tensorflow import private
from estimator_spec.core.common import own_files
from estimator_spec.core.common.terminal import format_table
from estimator_spec.legacy import run as run_program
from estimator_spec.legacy import tf1


class Request(NamedTuple):
    """An estimator to convert, with its checkpoint and options.

    Attributes:
        use: the use of the estimator.
        program: name of the program.
        checkpoint: the estimator's checkpoint, or a directory with the latest one.
        shown: what the user calls the checkpoint.
        options: the command's options.
        rules: tolerances by name.
        scratch: directory for temporary files.
    """

    use: first_use.EstimatorUse
    program: str
    checkpoint: str
    shown: str
    options: argparse.Namespace
    rules: list[tuple[str, Tolerance]]
    scratch: str


class ProgramTarget(Protocol):
    """A kind of programs that a command writes."""

    command: str
    may_skip: bool
    """Whether it is no failure that nothing was compared."""

    def check(self, options: argparse.Namespace) -> None:
        """Checks that the needed packages are there, or raises an ImportError."""

    def write(self, request: Request, directory: str) -> Comparison:
        """Writes the program into a directory; returns how it compares with the estimator."""


def run(target: ProgramTarget, options: argparse.Namespace, program: list[str]) -> int:
    """Writes the program, compares it, and returns the exit status.

    Args:
        target: what is written.
        options: the command's options.
        program: the command line after `python -m estimator_spec run`.
    """
    try:
        if bool(program) == (options.saved_model is not None):
            raise ValueError(
                f"Name one script, or one SavedModel: {target.command} SCRIPT --output DIR, or "
                f"{target.command} --saved-model DIR --output DIR."
            )
        target.check(options)
        rules = [parse_rule(text) for text in options.tolerance]
        result = _convert(target, options, rules, program)
    except (OSError, ValueError, ImportError, RuntimeError, run_program.UsageError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: nothing was written.\n")
        return 130
    sys.stdout.write(f"{result.headline}\n\n")
    rows = report.compared_rows(result)
    sys.stdout.write(
        format_table(report.COMPARED, rows) + "\n" if rows else "Nothing was compared.\n"
    )
    sys.stdout.writelines(f"note: {remark}\n" for remark in result.remarks)
    sys.stdout.write(f"\nwritten: {options.output}\n")
    try:
        if result.items:
            Tolerances(*rules).check_names((item.stage, item.name) for item in result.items)
    except ValueError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0 if result.agrees or (target.may_skip and not result.items) else 1


def _convert(
    target: ProgramTarget,
    options: argparse.Namespace,
    rules: list[tuple[str, Tolerance]],
    program: list[str],
) -> Comparison:
    output = os.path.realpath(options.output)  # of a link, where it leads
    if os.path.lexists(output) and (not os.path.isdir(output) or os.listdir(output)):
        raise ValueError(f"--output {options.output!r} isn't an empty directory. Name a new one.")
    folder, name = os.path.split(output)
    created = _missing(folder)
    os.makedirs(folder, exist_ok=True)
    own_files.remove_left(folder)
    path = os.path.join(folder, f".{name}.unfinished")
    unfinished = own_files.create(path, own_files.Job.KERAS_PROGRAM)
    try:
        # What a kill leaves in it goes with the directory of the job.
        with tempfile.TemporaryDirectory(prefix="scratch", dir=path) as scratch:
            checkpoint = None
            if options.checkpoint is not None:
                checkpoint = link_checkpoint(options.checkpoint, scratch)
            if options.saved_model is not None:
                use = exported.find_use(options.saved_model, options.tag)
                checkpoint = checkpoint or use.estimator.checkpoint
                program = [os.path.basename(os.path.realpath(options.saved_model))]
            else:
                use = first_use.find_use(program, options.estimator)
            shown = options.checkpoint or use.estimator.model_dir
            with _v2_behavior():
                request = Request(
                    use,
                    os.path.basename(run_program.parse(program).program),
                    checkpoint or shown,
                    shown,
                    options,
                    rules,
                    scratch,
                )
                result = target.write(request, path)
        if os.path.isdir(output):
            os.chmod(path, stat.S_IMODE(os.stat(output).st_mode))
        unfinished.finish(output)
    except BaseException:
        unfinished.remove()
        own_files.remove_empty(created)
        raise
    return result


def _missing(folder: str) -> list[str]:
    """Returns the directories that have to be created for one."""
    missing = []
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing


def _v2_behavior() -> contextlib.AbstractContextManager[None]:
    """Returns a context for Keras 3, which needs what programs of TensorFlow 1 switch off."""
    if tf.executing_eagerly():
        return contextlib.nullcontext()
    tf1.restore_v2_names_and_switches()
    return private.eager_mode()


def read_input(request: Request) -> tuple[list[batches.Batch], list[batches.Batch]]:
    """Returns batches for the comparison, one of edge values among them, and for training."""
    use, options = request.use, request.options
    without_training = options.no_training or use.make_batches is not None
    more = 0 if without_training else training.STEPS
    trained = batches.read_batches(use, max(options.batches, more))
    found = trained[: options.batches]
    if found:
        found.append(batches.edge_batch(found[0], batches.known_values(use)))
    return found, trained[:more]
