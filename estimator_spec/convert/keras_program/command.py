# SPDX-License-Identifier: Apache-2.0
"""Runs `python -m estimator_spec to-keras`, once its options are read."""

from __future__ import annotations

import argparse
import contextlib
import os
import stat
import sys
import tempfile

import tensorflow as tf

from estimator_spec.compare.comparison import Comparison
from estimator_spec.compare.stages import Tolerance, parse_rule
from estimator_spec.convert.keras_columns import keras_layers, readings
from estimator_spec.convert.keras_program import (
    batches,
    exported,
    first_use,
    proof,
    report,
    training,
    written,
)
from estimator_spec.convert.keras_program.checkpoint_files import link_checkpoint
from estimator_spec.convert.keras_program.recording import ProofRecording
from estimator_spec.convert.optional_packages import load_extra
from estimator_spec.core._tensorflow import private
from estimator_spec.core.common import own_files
from estimator_spec.core.common.terminal import format_table
from estimator_spec.legacy import run as run_program
from estimator_spec.legacy import tf1


def run(options: argparse.Namespace, program: list[str]) -> int:
    """Writes the program, compares it, and returns the exit status.

    Args:
        options: the command's options.
        program: the command line after `python -m estimator_spec run`.
    """
    try:
        if bool(program) == bool(options.saved_model):
            raise ValueError(
                "Name either a script or a SavedModel: to-keras SCRIPT --output DIR, or to-keras "
                "--saved-model DIR --output DIR."
            )
        result = _convert(options, program)
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
    return 0 if result.agrees else 1


def _convert(options: argparse.Namespace, program: list[str]) -> Comparison:
    keras_layers.check_versions()
    if options.without_tensorflow:
        load_extra("farmhash", "without-tensorflow")
    rules = [parse_rule(text) for text in options.tolerance]
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
                checkpoint = checkpoint or shown
                result = _write(use, checkpoint, program, path, scratch, options, rules, shown)
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


def _write(
    use: first_use.EstimatorUse,
    checkpoint: str,
    program: list[str],
    directory: str,
    scratch: str,
    options: argparse.Namespace,
    rules: list[tuple[str, Tolerance]],
    shown: str,
) -> Comparison:
    name = os.path.basename(run_program.parse(program).program)
    reading = readings.NUMPY if options.without_tensorflow else readings.TENSORFLOW
    sources = written.plan_program(use, checkpoint, name, shown, options.embeddings, reading)
    recording = ProofRecording()
    more = 0 if options.no_training else training.STEPS
    trained = batches.read_batches(use, max(options.batches, more))
    found = trained[: options.batches]
    if found:
        found.append(batches.edge_batch(found[0], batches.known_values(use)))
    module, model = written.write_program(sources, directory)
    result = proof.compare(
        use, sources, module, model, found, rules, trained[:more], recording, scratch
    )
    if reading == readings.NUMPY:
        own_files.write_file(os.path.join(directory, "check.npz"), recording.to_bytes())
    text = report.markdown(use, sources, result)
    own_files.write_file(os.path.join(directory, "report.md"), text.encode())
    report.make_page(sources, result).write(os.path.join(directory, "report.html"))
    return result
