# SPDX-License-Identifier: Apache-2.0
"""Conversion of TensorFlow 1.15.5 and 2.15.1 checkpoints to Keras 3 models."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import forking_python

pytest.importorskip("keras_rs", reason="needs the extra keras-rs")

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tests" / "data"

pytestmark = pytest.mark.slow


def convert(program, folder, out):
    """Returns predictions and losses of a checkpoint's Keras 3 model."""
    script = Path(__file__).with_name("legacy_to_keras.py")
    environment = {k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"}
    environment |= {
        "SIDE": "ours",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "reference"), str(ROOT)]),
    }
    done = forking_python.run([script, program, DATA / folder, out], env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    expected = json.loads((DATA / folder / "expected.json").read_text())
    with np.load(out) as found:
        return dict(found), expected


def test_a_checkpoint_of_tensorflow_1_15_5(tmp_path):
    """Predictions are equal to 1e-5, and 60 further losses equal TensorFlow 1.15.5's."""
    found, expected = convert("tf1_columns", "tf1_15_checkpoint", tmp_path / "out.npz")
    assert expected["tensorflow"] == "1.15.5"
    logits = np.reshape(expected["logits_before"], (-1, 1))
    np.testing.assert_allclose(found["logits"], logits, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["losses"], expected["losses"], rtol=1e-4)
    after = np.reshape(expected["logits_after"], (-1, 1))
    np.testing.assert_allclose(found["logits_after"], after, rtol=1e-3, atol=1e-4)


def test_a_checkpoint_of_tensorflow_2_15_1(tmp_path):
    """With shared sequences, predictions are equal to 1e-5, and training continues."""
    found, expected = convert("sequences", "tf2_15_checkpoint", tmp_path / "out.npz")
    assert expected["tensorflow"] == "2.15.1"
    logits = np.reshape(expected["logits"], (-1, 1))
    np.testing.assert_allclose(found["logits"], logits, rtol=1e-5, atol=1e-5)
    assert np.mean(found["losses"][-20:]) < np.mean(found["losses"][:20])
