# SPDX-License-Identifier: Apache-2.0
"""Compares two programs: runs both, and compares their recordings."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Callable

from estimator_spec.compare.comparison import Comparison, Side
from estimator_spec.compare.estimator_collector.options import Limits, Options
from estimator_spec.compare.matching import compare_recordings
from estimator_spec.compare.programs import Program, record
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

    Returns:
        The comparison.

    Raises:
        ProgramError: a program failed, ran too long, or called no estimator.
        ValueError: a script or interpreter doesn't exist, or both a checkpoint and `same_start`
            say what trainings start from.
        FileExistsError: the folder exists.
    """
    limits, tolerances = limits or Limits(), tolerances or Tolerances()
    if limits.checkpoint is not None:
        if same_start:
            raise ValueError("Give a checkpoint or same_start: both say what trainings start from.")
        if "://" not in limits.checkpoint:  # the programs may run in other directories
            limits = dataclasses.replace(limits, checkpoint=os.path.abspath(limits.checkpoint))
    with contextlib.ExitStack() as stack:
        if folder is None:
            temporary = tempfile.TemporaryDirectory(prefix="estimator_compare_")
            folder = stack.enter_context(temporary)
        else:
            os.makedirs(folder)
        folder = os.path.realpath(folder)
        options = Options(**dataclasses.asdict(limits))
        report = report or (lambda _: None)
        report(f"running the old program, {old.script}")
        first = record(old, "old", os.path.join(folder, "old"), options, timeout)
        if same_start:
            start = os.path.join(folder, "old", "recording")
            options = dataclasses.replace(options, initial_values=start)
        report(f"running the new program, {new.script}")
        second = record(new, "new", os.path.join(folder, "new"), options, timeout)
        sides = Side(old.script, first.environment), Side(new.script, second.environment)
        return compare_recordings(first, second, sides, tolerances)
