# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the mid-level API runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "mid_level.py"


@pytest.mark.nightly("starts a process for each side")
@pytest.mark.slow
def test_the_command_measures_its_sides():
    """The command prints two times for the host core in a session and for a TPUEmbedding."""
    options = ["--rows=100", "--batch_size=8", "--steps=100", "--rounds=1"]
    sides = ["session", "mid-level", "mid-level loop"]
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), *options, f"--sides={','.join(sides)}"],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()[-3:]
    assert [line.rsplit(maxsplit=2)[0] for line in lines] == sides
    times = [[float(number) for number in line.split()[-2:]] for line in lines]
    assert all(wall > 0 for wall, _ in times)
