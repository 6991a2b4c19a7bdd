# SPDX-License-Identifier: Apache-2.0
"""From a checkpoint of TensorFlow 2.15.1's own Estimator to a served Keras model."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import forking_python

pytest.importorskip("keras_rs", reason="needs the extra keras-rs")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.reference,
    pytest.mark.nightly("trains in another environment; a program of ours moves with every change"),
]

PROGRAM = Path(__file__).resolve().parents[2] / "programs" / "wide_deep_census.py"
MODELS = ("wide", "deep", "wide_deep")


@pytest.fixture(scope="module")
def reference(run_once, reference_python):
    """Returns the directory in which the reference ran the program."""

    def fill(directory: Path) -> None:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        command = [reference_python, str(PROGRAM), f"--model_dir={directory}"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]

    return run_once("census_of_the_reference", fill)


@pytest.mark.parametrize("number", [1, 2, 3], ids=MODELS)
def test_the_reference_is_served_by_keras(number, reference, tmp_path):
    """Predictions, and scores served for tf.Examples, are those of the reference to 1e-5."""
    name = MODELS[number - 1]
    output = tmp_path / "written"
    command = ["-m", "estimator_spec", "to-keras", PROGRAM, f"--model_dir={tmp_path / 'other'}"]
    command += ["--checkpoint", reference / name, "--output", output, f"--estimator={number}"]
    done = forking_python.run(command, timeout=600)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert "metrics: auc" in done.stdout
    environment = {k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"}
    saved = tmp_path / "saved"
    forking_python.run([output / "serve.py", saved], env=environment, check=True, timeout=300)
    served = tf.saved_model.load(str(saved)).signatures["serving_default"]
    results = json.loads((reference / "results.json").read_text())
    found = served(examples=census().serialized(census().make_people(7, 3)[0]))
    expected = results["predictions"][name]
    np.testing.assert_allclose(found["probabilities"], expected["probabilities"], rtol=1e-5)
    np.testing.assert_allclose(found["probabilities"], results["served"][name], rtol=1e-5)
    assert [value.decode() for value in found["classes"].numpy()[:, 0]] == expected["classes"]


def census():
    """Returns the program's module, without its estimators."""
    if "wide_deep_census" not in sys.modules:
        import estimator_spec

        estimator_spec.install()
        try:
            spec = importlib.util.spec_from_file_location("wide_deep_census", PROGRAM)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            sys.modules["wide_deep_census"] = module
        finally:
            estimator_spec.uninstall()
    return sys.modules["wide_deep_census"]
