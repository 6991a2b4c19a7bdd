# SPDX-License-Identifier: Apache-2.0
"""The page of measurements without TensorFlow shows ratios, and which goals are met."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import torch_side
import without_tensorflow


def test_the_page_says_which_goals_are_met():
    """A rate must be above its share of TensorFlow's, a time below; processor time has no goal."""
    old = {
        "512": [100.0, 300.0],
        "4096": [100.0, 100.0],
        "predict": [2.0, 2.0],
        "train": [1.0, 1.0],
    }
    new = {"512": [70.0, 150.0], "4096": [50.0, 40.0], "predict": [1.5, 2.0], "train": [1.0, 2.5]}
    for side in (old, new):
        side |= {f"{name} cpu": side[name] for name in ("predict", "train")}
    results = {"census": [{**old, "start": [9.0]}, {**new, "start": [2.0]}]}
    rows = [
        [cell.strip() for cell in line.split("|")[2:-1]]
        for line in without_tensorflow.page(results, "the command", 0.0).splitlines()
        if line.startswith("| `census`")
    ]
    assert [row[-3:] for row in rows] == [
        ["0.60 (0.50 to 0.70)", "≥ 0.6", "yes"],
        ["0.45 (0.40 to 0.50)", "≥ 0.6", "no"],
        ["0.88 (0.75 to 1.00)", "≤ 1.0", "yes"],
        ["0.88 (0.75 to 1.00)", "", ""],
        ["1.75 (1.00 to 2.50)", "≤ 1.5", "no"],
        ["1.75 (1.00 to 2.50)", "", ""],
        ["0.22 (0.22 to 0.22)", "≤ 2.5 s", "yes"],
    ]


def test_arrays_are_the_same_without_tensorflow(tmp_path):
    """Texts of the file of arrays are bytes again, and batches are whole ones."""
    arrays = {"word": np.array([b"a", b"bc", b""]), "x": np.arange(3.0)}
    np.savez(tmp_path / "features.npz", label=np.zeros(3), **arrays)
    features, labels = torch_side.read_arrays(tmp_path)
    assert features["word"].tolist() == [b"a", b"bc", b""]
    ((batch, own),) = torch_side.batches(features, labels, 2)
    assert batch["x"].tolist() == [0.0, 1.0] and len(own) == 2
