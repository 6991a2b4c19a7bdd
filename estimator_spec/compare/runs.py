# SPDX-License-Identifier: Apache-2.0
"""Compares two programs: runs both, and compares their recordings."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Callable, Sequence

from estimator_spec.compare.comparison import Comparison, Side
from estimator_spec.compare.estimator_collector.options import Limits, RecordingOptions
from estimator_spec.compare.matching import KINDS, compare_recordings
from estimator_spec.compare.origins import Trees
from estimator_spec.compare.programs import Program, ProgramError, record
from estimator_spec.compare.recording import Recording
from estimator_spec.compare.stages import Tolerances


def compare_programs(
    old: Program,
    new: Program,
    *,
    limits: Limits | None = None,
    tolerances: Tolerances | None = None,
    same_start: bool = False,
    folder: str | None = None,
    timeout: float | None = None,
    report: Callable[[str], None] | None = None,
    never_from: Sequence[str] = (),
    only: Sequence[str] = (),
) -> Comparison:
    """Runs two programs, one after the other, and compares what their estimators compute.

    Each runs in a process of its own. A `model_dir` or export directory that isn't in the run's
    own directory is replaced by one that is; the program's other files stay where they are.

    Args:
        old: the old program.
        new: the new program.
        limits: limits of both runs. None: the defaults.
        tolerances: bounds of what agrees. None: those of the stages.
        same_start: whether the new side's trainings start with the initial values of the old
            side's, by variable name. The initial values are compared before.
        folder: directory that keeps recordings, logs and checkpoints; it must not exist. None: a
            temporary one.
        timeout: seconds after which a program is ended; None waits.
        report: called with a line of text when a program starts.
        never_from: directories that neither program may import modules from.
        only: kinds of calls that are compared: 'train', 'evaluate', 'predict', 'export'. Empty:
            all. A loop that `record_loop` records is a 'train'.

    Returns:
        The comparison.

    Raises:
        ProgramError: a program failed, ran too long, or called no estimator; or it imports
            modules of the other one in place of its own.
        ValueError: a script or interpreter doesn't exist, or both a checkpoint and `same_start`
            say what trainings start from.
        FileExistsError: the folder exists.
    """
    options = _recording_options(limits or Limits(), same_start)
    with contextlib.ExitStack() as stack:
        if folder is None:
            temporary = tempfile.TemporaryDirectory(prefix="estimator_compare_")
            folder = stack.enter_context(temporary)
        else:
            os.makedirs(folder)
        folder = os.path.realpath(folder)
        trees = Trees(old, new, never_from)
        trees.check_sources()
        report = report or (lambda _: None)
        report(f"running the old program, {old.text}")
        first = _run(old, "old", folder, options, timeout, trees)
        if same_start:
            start = os.path.join(folder, "old", "recording")
            options = dataclasses.replace(options, initial_values=start)
        report(f"running the new program, {new.text}")
        second = _run(new, "new", folder, options, timeout, trees)
        sides = Side(old.text, first.environment), Side(new.text, second.environment)
        result = compare_recordings(first, second, sides, tolerances or Tolerances(), only or KINDS)
        shared = trees.shared(first.modules, second.modules)
        return dataclasses.replace(result, notes=(*result.notes, *shared))


def _recording_options(limits: Limits, same_start: bool) -> RecordingOptions:
    """Returns the options of both runs."""
    options = RecordingOptions(**dataclasses.asdict(limits))
    if options.checkpoint is None:
        return options
    if same_start:
        raise ValueError("Give a checkpoint or same_start: both say what trainings start from.")
    if "://" in options.checkpoint:
        return options
    # The programs may run in other directories.
    return dataclasses.replace(options, checkpoint=os.path.abspath(options.checkpoint))


def _run(
    program: Program,
    label: str,
    folder: str,
    options: RecordingOptions,
    timeout: float | None,
    trees: Trees,
) -> Recording:
    """Runs a program, and returns its recording; checks which modules it imported."""
    place = os.path.join(folder, label)
    try:
        recording = record(program, label, place, options, timeout)
    except ProgramError:  # It may have failed for that reason.
        with contextlib.suppress(OSError, ValueError):
            trees.check(label, Recording(os.path.join(place, "recording")).modules)
        raise
    trees.check(label, recording.modules)
    return recording
