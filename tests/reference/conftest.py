# SPDX-License-Identifier: Apache-2.0
"""Runs the programs under TensorFlow 2.15.1's own TPUEstimator and under ours, each once.

Which interpreter is the reference, the fixture `reference_python` says.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import forking_python

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

Record = dict[str, Any]


class Runs(NamedTuple):
    """Records of one program; `*_continued` started at the other side's checkpoint of step 100."""

    reference: Record
    ours: Record
    ours_continued: Record
    reference_continued: Record


def start_side(
    side: str, python: str, *arguments: str, script: str = "run_side.py", timeout: float = 300
) -> None:
    """Runs a script in a process for `timeout` seconds at most; shows the output of a failure."""
    environment = {
        name: value for name, value in os.environ.items() if name != "TF_USE_LEGACY_KERAS"
    }
    environment.update(
        SIDE=side,
        TF_CPP_MIN_LOG_LEVEL="2",
        PYTHONPATH=os.pathsep.join([str(HERE)] + ([str(ROOT)] if side == "ours" else [])),
    )
    command = [HERE / script, *arguments]
    done = forking_python.run(command, executable=python, env=environment, timeout=timeout)
    if done.returncode:
        pytest.fail(f"{side} of {' '.join(arguments)} failed:\n{done.stderr[-6000:]}")


@pytest.fixture(scope="session")
def run_side() -> Callable[..., None]:
    """Returns a function that runs a script of this folder on one side in a process of its own."""
    return start_side


def load(path: Path) -> Record:
    """Reads a whole record."""
    with np.load(path) as record:
        return dict(record)


@pytest.fixture(scope="session")
def runs(reference_python: str, run_once: Callable[..., Path]) -> Callable[[str], Runs]:
    """Returns a function that returns the records of a program, which it runs once."""
    done: dict[str, Runs] = {}

    def run(program: str) -> Runs:
        if program not in done:
            out = run_once(program, lambda out: start_both_sides(program, reference_python, out))
            done[program] = Runs(
                load(out / "reference" / "straight.npz"),
                load(out / "ours" / "straight.npz"),
                load(out / "ours" / "continued.npz"),
                load(out / "reference" / "continued.npz"),
            )
        return done[program]

    return run


def start_both_sides(program: str, reference_python: str, out: Path) -> None:
    """Runs a program on both sides, and then from the other side's checkpoint."""
    theirs, ours = out / "reference", out / "ours"
    theirs.mkdir()
    ours.mkdir()
    both = ["straight", "continued"]
    start_side("reference", reference_python, program, str(theirs), "straight")
    donor = ["--donor", str(theirs / "straight")]
    start_side("ours", sys.executable, program, str(ours), *both, *donor)
    donor = ["--donor", str(ours / "straight")]
    start_side("reference", reference_python, program, str(theirs), "continued", *donor)
