# SPDX-License-Identifier: Apache-2.0
"""The census example on a cluster of parameter servers on this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from estimator_spec import checkpoints

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "examples" / "census" / "census_cluster.py"

pytestmark = pytest.mark.slow


def run(*command):
    """Runs a command with the package; returns its standard output."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("TF_CONFIG", None)
    done = subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, timeout=800
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return done.stdout


def auc(output):
    """Returns the AUC that the program printed."""
    return float(re.search(r"test AUC (\S+) at step", output)[1])


def test_a_cluster_learns_as_one_process(tmp_path):
    """A chief, two workers, two servers and an evaluator reach the AUC of one process."""
    options = ["--train_steps=900", "--learning_rate=0.003"]
    alone = run(str(PROGRAM), f"--model_dir={tmp_path / 'alone'}", *options)
    size = ["--workers=2", "--ps=2", "--evaluator"]
    command = ["-m", "estimator_spec", "launch", *size, str(PROGRAM), "--"]
    together = run(*command, f"--model_dir={tmp_path / 'together'}", *options)
    assert re.search(r"^evaluator 0: test AUC", together, re.MULTILINE)
    assert abs(auc(together) - auc(alone)) < 0.005
    assert checkpoints.inspect(str(tmp_path / "together")).global_step >= 900
