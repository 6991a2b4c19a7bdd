# SPDX-License-Identifier: Apache-2.0
"""Memory of training with a large table, by the benchmark that measures it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(__file__).resolve().parents[2] / "benchmarks" / "large_table.py"
MORE = pytest.mark.nightly("shows what the switch saves")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("switch", "low", "high"), [("1", 1.0, 1.5), pytest.param("0", 1.8, 3.2, marks=MORE)]
)
def test_saves_copy_no_table(switch, low, high):
    """A training that saves holds table and slot once in memory; without the switch, more often."""
    done = subprocess.run(
        [sys.executable, COMMAND, "--rows", "1000000", "--cores", "default"],
        env={**os.environ, "TPU_COLUMNS_LESS_MEMORY": switch},
        check=True,
        capture_output=True,
        text=True,
    )
    ratios = [float(ratio) for ratio in re.findall(r"([\d.]+) times", done.stdout)]
    assert len(ratios) == 2
    assert all(low <= ratio <= high for ratio in ratios), ratios
