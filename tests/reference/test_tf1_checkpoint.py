# SPDX-License-Identifier: Apache-2.0
"""Equality of training continued from a TensorFlow 1.15.5 checkpoint there and in ours.

The checkpoint and what TensorFlow 1.15.5 did next are in `tests/data/tf1_15_checkpoint/`.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

FIXTURE = Path(__file__).resolve().parents[1] / "data" / "tf1_15_checkpoint"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def expected():
    """Returns TensorFlow 1.15.5's results."""
    return json.loads((FIXTURE / "expected.json").read_text())


@pytest.fixture(scope="module")
def actual(tmp_path_factory, run_side):
    """Returns our results."""
    home = tmp_path_factory.mktemp("tf1")
    shutil.copytree(FIXTURE, home / "model")
    script, out = "run_tf1_checkpoint.py", home / "actual.json"
    run_side("ours", sys.executable, str(home / "model"), str(out), script=script)
    return json.loads(out.read_text())


def test_the_old_model_predicts_the_same(actual, expected, tolerance):
    """The restored tables and layers give TensorFlow 1.15.5's logits before any training."""
    np.testing.assert_allclose(
        actual["logits_before"], expected["logits_before"], rtol=tolerance, atol=tolerance
    )


def test_training_goes_on_the_same(actual, expected, tolerance):
    """Each of the next 60 losses is TensorFlow 1.15.5's, so the Adagrad slots were restored."""
    assert expected["tensorflow"] == "1.15.5"
    assert len(expected["losses"]) == 60
    np.testing.assert_allclose(actual["losses"], expected["losses"], rtol=tolerance)


def test_it_ends_the_same(actual, expected, tolerance):
    """Predictions and metrics at the last step are TensorFlow 1.15.5's."""
    np.testing.assert_allclose(
        actual["logits_after"], expected["logits_after"], rtol=10 * tolerance, atol=tolerance
    )
    assert actual["metrics"] == pytest.approx(expected["metrics"], rel=10 * tolerance)
