# SPDX-License-Identifier: Apache-2.0
"""The benchmark that compares the C++ ops with the time that memory alone takes."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_the_floor_touches_the_rows_of_a_step_once(tmp_path, monkeypatch):
    """Each distinct row of a batch is written once, with its slots; no other row is."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    floor = importlib.import_module("floor")
    workloads = importlib.import_module("training_time.workloads")
    features = workloads.of_table(3, rows=50, width=20, ids=4)
    workload = workloads.Workload("small", features, batch_size=8)
    touch = floor.make_touch(floor.compile_program(tmp_path), workload, threads=2)
    touch(1)
    batch = workloads.batch_of(workload, 1, 8)
    tables, slots, *_ = touch.arrays
    for feature, table, slot in zip(features, tables, slots, strict=True):
        rows = np.unique(batch[feature.name])
        for array in (table, slot):
            # One float of each of a row's two cache lines.
            assert np.all(array[rows][:, [0, 16]] == 1.5)
            assert array.sum() == 0.5 * array.size + 2 * len(rows)
