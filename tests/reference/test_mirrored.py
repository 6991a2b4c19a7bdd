# SPDX-License-Identifier: Apache-2.0
"""Equality of training and evaluation under a MirroredStrategy with TensorFlow 2.15.1's own."""

from __future__ import annotations

import sys

import numpy as np
import pytest

pytestmark = [pytest.mark.reference, pytest.mark.slow]


def test_same_numbers(run_side, reference_python, tmp_path):
    """Variables, metrics and summaries are equal: own and canned model, both kinds of strategy."""
    records = []
    for side, python in (("reference", reference_python), ("ours", sys.executable)):
        path = tmp_path / f"{side}.npz"
        run_side(side, python, str(path), script="run_mirrored.py")
        with np.load(path) as record:
            records.append(dict(record))
    expected, actual = records
    assert sorted(actual) == sorted(expected)
    assert actual["MirroredStrategy:global_step"] == 3
    assert len([name for name in actual if "summary:.:" in name]) >= 4
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
