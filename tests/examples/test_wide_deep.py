# SPDX-License-Identifier: Apache-2.0
"""The wide-and-deep example: training, evaluation, export, and evaluation by another process."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

import forking_python

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "wide_deep"
NAMES_OF_THE_REFERENCE = Path(__file__).with_name("reference_names")
MODELS = ("linear", "deep", "wide_deep")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly("trains three models; canned estimators are compared in tests/reference"),
]


def run(python: str, path: Path, model_dir: Path) -> dict[str, list[float]]:
    """Runs the example; returns AUC, AUC when served, accuracy and difference of each model."""
    command = [EXAMPLE / "wide_deep.py", f"--model_dir={model_dir}", "--train_steps=400"]
    environment = {k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"}
    environment["PYTHONPATH"] = str(path)
    done = forking_python.run(command, executable=python, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr[-6000:]
    rows = re.findall(rf"^({'|'.join(MODELS)})((?: +[\d.e+-]+){{4}})$", done.stdout, re.MULTILINE)
    return {name: [float(number) for number in numbers.split()] for name, numbers in rows}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[float]]:
    """Returns what the example prints with our estimators."""
    return run(sys.executable, ROOT, tmp_path_factory.mktemp("ours"))


def test_each_model_learns(ours):
    """After a short training each model has an AUC well above chance."""
    assert sorted(ours) == sorted(MODELS)
    assert all(auc > 0.86 for auc, *_ in ours.values())


def test_another_process_evaluates_the_same(ours):
    """Exported models give the same probabilities, and with them the same AUC up to its grid."""
    for auc, served, _, difference in ours.values():
        assert difference < 1e-5
        assert served == pytest.approx(auc, abs=0.002)  # the metric has 200 thresholds


@pytest.mark.reference
def test_same_auc_as_the_reference(ours, reference_python, tmp_path):
    """TensorFlow 2.15.1's own estimators find the same AUC; layers start at random, so nearly."""
    expected = run(reference_python, NAMES_OF_THE_REFERENCE, tmp_path)
    for name in MODELS:
        tolerance = 1e-4 if name == "linear" else 0.005
        assert ours[name][:3] == pytest.approx(expected[name][:3], abs=tolerance), name
