# SPDX-License-Identifier: Apache-2.0
"""Equality of training and evaluation under a MirroredStrategy with TensorFlow 2.15.1's own."""

from __future__ import annotations

import pytest

from goldens import MIRRORED

pytestmark = [pytest.mark.reference, pytest.mark.slow]


def test_same_numbers(sides):
    """Variables, metrics and summaries are equal: own and canned model, both kinds of strategy."""
    run = sides(MIRRORED, "mirrored")
    assert run.ours["MirroredStrategy:global_step"] == 3
    assert len([name for name in run.ours if "summary:.:" in name]) >= 4
    run.assert_same("MirroredStrategy", "MirroredStrategyV1", "canned")


def test_last_step(sides):
    """An evaluation counts batches that aren't enough for all replicas; training leaves them out.

    With a batch for one of two replicas alone, it makes no step and saves the initial values.
    """
    run = sides(MIRRORED, "mirrored")
    assert run.ours["evaluate:12:4:rows"] == 12
    assert run.ours["train:12:12:global_step"] == 0
    run.assert_same("train", "evaluate")
