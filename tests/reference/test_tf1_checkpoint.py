# SPDX-License-Identifier: Apache-2.0
"""Equality of training continued from a TensorFlow 1.15.5 checkpoint there and in ours.

The checkpoint and what TensorFlow 1.15.5 did next are in `tests/data/tf1_15_checkpoint/`.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

FIXTURE = Path(__file__).resolve().parents[1] / "data" / "tf1_15_checkpoint"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def expected():
    """Returns TensorFlow 1.15.5's results."""
    return json.loads((FIXTURE / "expected.json").read_text())


def test_training_goes_on_the_same(continue_training, tmp_path, expected, tolerance):
    """Logits, each of the next 60 losses, and what follows are TensorFlow 1.15.5's."""
    shutil.copytree(FIXTURE, tmp_path / "model")
    actual = continue_training(str(tmp_path / "model"))
    # Tables and layers were restored.
    np.testing.assert_allclose(
        actual["logits_before"], expected["logits_before"], rtol=tolerance, atol=tolerance
    )
    # So were the slots of Adagrad.
    assert expected["tensorflow"] == "1.15.5"
    assert len(expected["losses"]) == 60
    np.testing.assert_allclose(actual["losses"], expected["losses"], rtol=tolerance)
    np.testing.assert_allclose(
        actual["logits_after"], expected["logits_after"], rtol=10 * tolerance, atol=tolerance
    )
    assert actual["metrics"] == pytest.approx(expected["metrics"], rel=10 * tolerance)
