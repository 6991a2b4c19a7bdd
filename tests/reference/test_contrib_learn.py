# SPDX-License-Identifier: Apache-2.0
"""Equality of `tf.contrib.learn`'s canned models with the same models of TensorFlow 2.15.1.

Columns, losses, gradients and optimizers' defaults are compared so. That TensorFlow 1.15 has these
defaults, and its names of variables, isn't: it doesn't run here.
"""

from __future__ import annotations

import pytest

from goldens import CONTRIB_LEARN

pytestmark = [pytest.mark.reference, pytest.mark.slow]


@pytest.mark.parametrize("case", CONTRIB_LEARN.names)
def test_training(sides, case):
    """Losses, variables, metrics and predictions of both sides are the same from equal values."""
    run = sides(CONTRIB_LEARN, case)
    assert len(run.ours["losses"]) == 10
    run.assert_same("losses", "variable", "metric", "predictions")
