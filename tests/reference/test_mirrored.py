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
