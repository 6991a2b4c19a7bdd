# SPDX-License-Identifier: Apache-2.0
"""Runs the programs under TensorFlow 2.15.1's own TPUEstimator and under ours, each once.

The reference is the interpreter that TPU_COLUMNS_REFERENCE_PYTHON names (TensorFlow 2.15.1 with
tensorflow-estimator 2.15.0), or this one if it has them. Without either the tests skip.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
VARIABLE = "TPU_COLUMNS_REFERENCE_PYTHON"

Record = dict[str, Any]


class Runs(NamedTuple):
    """The records of one program; `*_continued` started at the other side's checkpoint of 100."""

    reference: Record
    ours: Record
    ours_continued: Record
    reference_continued: Record


@pytest.fixture(scope="session")
def reference_python() -> str:
    """The interpreter of the reference."""
    named = os.environ.get(VARIABLE)
    if named:
        assert os.access(named, os.X_OK), f"{VARIABLE}={named} isn't an executable file."
        return named
    if importlib.util.find_spec("tensorflow_estimator") and tf.__version__.startswith("2.15."):
        return sys.executable
    return pytest.skip(
        f"no reference: set {VARIABLE} to a python with TensorFlow 2.15.1 "
        "(pip install tensorflow==2.15.1 'numpy<2' on Python 3.10 or 3.11)"
    )


@pytest.fixture(scope="session")
def tolerance() -> float:
    """The relative difference that is left between two versions' kernels."""
    return 1e-5 if tf.__version__.startswith("2.15.") else 1e-4


def start_side(side: str, python: str, *arguments: str, script: str = "run_side.py") -> None:
    """One process of a script; a failure shows its last words."""
    environment = {
        name: value for name, value in os.environ.items() if name != "TF_USE_LEGACY_KERAS"
    }
    environment.update(
        SIDE=side,
        TF_CPP_MIN_LOG_LEVEL="2",
        PYTHONPATH=os.pathsep.join([str(HERE)] + ([str(ROOT)] if side == "ours" else [])),
    )
    command = [python, str(HERE / script), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.fail(f"{side} of {' '.join(arguments)} failed:\n{done.stderr[-6000:]}")


@pytest.fixture(scope="session")
def run_side() -> Callable[..., None]:
    """Runs a script of this folder on one side, in a process of its own."""
    return start_side


def load(path: Path) -> Record:
    """A record, whole."""
    with np.load(path) as record:
        return dict(record)


@pytest.fixture(scope="session")
def runs(reference_python: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Runs]:
    """Gives the records of a program, and runs it the first time it is asked for."""
    done: dict[str, Runs] = {}

    def run(program: str) -> Runs:
        if program not in done:
            theirs = tmp_path_factory.mktemp(f"{program}_reference")
            ours = tmp_path_factory.mktemp(f"{program}_ours")
            both = ["straight", "continued"]
            start_side("reference", reference_python, program, str(theirs), "straight")
            donor = ["--donor", str(theirs / "straight")]
            start_side("ours", sys.executable, program, str(ours), *both, *donor)
            donor = ["--donor", str(ours / "straight")]
            start_side("reference", reference_python, program, str(theirs), "continued", *donor)
            done[program] = Runs(
                load(theirs / "straight.npz"),
                load(ours / "straight.npz"),
                load(ours / "continued.npz"),
                load(theirs / "continued.npz"),
            )
        return done[program]

    return run
