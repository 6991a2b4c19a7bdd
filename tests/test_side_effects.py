# SPDX-License-Identifier: Apache-2.0
"""What importing this project changes for programs that don't use it: nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

DATA = Path(__file__).parent / "data"
KERAS_2 = {} if tf.__version__.startswith("2.15.") else {"TF_USE_LEGACY_KERAS": "1"}


def printed(*arguments: Any) -> Any:
    """Returns what a program in a process of its own prints as JSON, in its last line."""
    env = {name: value for name, value in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}
    env |= {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(DATA.parent.parent), **KERAS_2}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def round_trips() -> dict[str, Any]:
    """Returns the outcomes of `column_round_trips`, by stage."""
    return printed(DATA / "column_round_trips.py")


@pytest.mark.slow
def test_importing_everything_adds_only_own_names():
    """TensorFlow's and Keras' registries, logging, flags, environment and others stay."""
    assert set(printed(DATA / "process_state.py")) == {
        "columns: tpu_columns>EmbeddingColumn",
        "columns: tpu_columns>SharedEmbeddingColumn",
        "gradients: EstimatorSpecActivation",
        "gradients: TpuColumnsLookUpTables",
        "gradients: TpuColumnsWeights",
    }


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["imported", "restored", "trained"])
def test_columns_of_tensorflow_are_copied_and_saved_as_without_this_project(round_trips, stage):
    """Keras copies, saves and loads them with the same outcome, whatever was used before."""
    plain = round_trips["plain"]
    assert plain["embedding of identity"] == dict.fromkeys(
        ("clone_model", "from_config", ".keras", ".h5"),
        "equal, of tensorflow.python.feature_column.feature_column_v2.EmbeddingColumn",
    )
    assert round_trips[stage] == plain


@pytest.mark.slow
def test_columns_of_tensorflow_are_copied_and_saved_under_run(round_trips):
    """A program under `run` has the same outcomes."""
    program = DATA / "column_round_trips.py"
    assert printed("-m", "estimator_spec", "run", program, "plain") == {
        "plain": round_trips["plain"]
    }
