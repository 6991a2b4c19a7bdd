# SPDX-License-Identifier: Apache-2.0
"""Tests that two trainings with seeds write the same bytes, whatever else the machine does.

TPU_COLUMNS_TEST_PAIRS=20 python -m pytest tests/estimator_spec/core/driver/test_reproducible.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(__file__).with_name("train_reproducibly.py")
PAIRS = int(os.environ.get("TPU_COLUMNS_TEST_PAIRS", "1"))

pytestmark = pytest.mark.slow


@pytest.fixture
def load():
    """Keeps each CPU busy with another process."""
    # They end with this process, however it ends.
    program = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(1000))"
    command = [sys.executable, "-c", program]
    busy = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
    yield
    for process in busy:
        process.kill()
        process.wait()


@pytest.mark.timeout(900 * PAIRS)
@pytest.mark.parametrize(
    "variant",
    [
        "host",
        *(
            pytest.param(variant, marks=pytest.mark.nightly("more pairs of processes"))
            for variant in (
                *("default", "reference_variables", "host_reference_variables"),
                *("host 1", "host 8", "default 1", "default 8"),
            )
        ),
    ],
)
def test_two_trainings_on_a_loaded_machine(variant, load, tmp_path):
    """Two trainings at a time, on some number of threads, write the same bytes to checkpoints."""
    variant, *threads = variant.split()
    paths = [os.fspath(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    for pair in range(PAIRS):
        model_dirs = [tmp_path / f"{pair}_{side}" for side in "ab"]
        trainings = [
            subprocess.Popen(
                [sys.executable, os.fspath(PROGRAM), variant, os.fspath(model_dir), *threads],
                env=environment,
                stderr=subprocess.PIPE,
                text=True,
            )
            for model_dir in model_dirs
        ]
        for training in trainings:
            _, log = training.communicate(timeout=900)
            assert training.returncode == 0, log[-3000:]
        first, second = (checkpoint_bytes(model_dir) for model_dir in model_dirs)
        assert sorted(first) == sorted(second)
        assert any(name.startswith("model.ckpt-40.data") for name in first)
        differing = [name for name in first if first[name] != second[name]]
        assert not differing, f"pair {pair} of {PAIRS}"


def checkpoint_bytes(model_dir):
    """Returns the data and index files of a directory's checkpoints, by name."""
    return {
        path.name: path.read_bytes()
        for path in model_dir.glob("model.ckpt-*")
        if path.suffix != ".meta"
    }
