# SPDX-License-Identifier: Apache-2.0
"""Programs that are written from SavedModels: they predict what older TensorFlows recorded."""

from __future__ import annotations

import os
import pathlib
import runpy
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import recordings
from estimator_spec import saved_models
from estimator_spec.__main__ import main
from estimator_spec.convert.keras_program.written import load_module

# Environment variables that name interpreters with TensorFlow 1.15, 2.8 and 2.15.
PYTHONS = ("TPU_COLUMNS_TF1_PYTHON", "TPU_COLUMNS_TF28_PYTHON", "TPU_COLUMNS_REFERENCE_PYTHON")


def check_program(home: pathlib.Path, output: pathlib.Path) -> None:
    """Writes the Keras program of a recording; compares its predictions with the recorded ones."""
    import keras

    saved = home / "saved"
    tolerance = "predictions/*=1e-6,1e-6"
    arguments = ["--saved-model", str(saved), "--output", str(output), "--tolerance", tolerance]
    assert main(["to-keras", *arguments]) == 0
    inputs, expected = (recordings.load(home / name) for name in ("inputs.npz", "outputs.npz"))
    model = saved_models.read(saved)
    if model.parsing_spec:
        features = tf.io.parse_example(inputs["examples"].tolist(), model.parsing_spec)
    elif any(feature.is_sparse for feature in model.features.values()):
        features = {key: sparse(value) for key, value in inputs.items()}
    else:
        features = {key: tf.constant(value) for key, value in inputs.items()}
    module = load_module(output)
    trained = keras.models.load_model(output / "weights.keras")
    outputs = trained(module.preprocess(features))
    compared = 0
    for key, value in expected.items():
        if key in outputs and value.dtype.kind == "f":
            np.testing.assert_allclose(outputs[key], value, rtol=1e-6, atol=1e-6)
            compared += 1
    assert compared


def sparse(value: np.ndarray) -> tf.SparseTensor:
    """Returns the values of an array that aren't missing."""
    kept = value != ("" if value.dtype == object else -1)
    return tf.SparseTensor(np.argwhere(kept), value[kept], value.shape)


@pytest.mark.parametrize("name", recordings.NAMES)
def test_predictions_are_the_recorded_ones(tmp_path, name):
    """The Keras program of a SavedModel predicts what the TensorFlow that exported it did."""
    check_program(recordings.unpack(name, tmp_path), tmp_path / "program")


def test_an_estimator_trains_on(tmp_path, capsys):
    """The canned estimator of a SavedModel predicts as recorded, and trains on from there."""
    home = recordings.unpack("combined3-2.15", tmp_path)
    saved, program = home / "saved", tmp_path / "train.py"
    assert main(["saved-model", "estimator", str(saved), "--output", str(program)]) == 0
    names = runpy.run_path(str(program))
    inputs, expected = (recordings.load(home / name) for name in ("inputs.npz", "outputs.npz"))
    estimator = names["make_estimator"](tmp_path / "model")

    def input_fn():
        examples = inputs["examples"].tolist()
        features = tf.io.parse_example(examples, names["FEATURES"])
        return tf.data.Dataset.from_tensors((features, np.ones([len(examples), 1], np.int64)))

    found = estimator.predict(
        input_fn, checkpoint_path=names["VARIABLES"], yield_single_examples=False
    )
    np.testing.assert_allclose(next(found)["logits"], expected["logits"], rtol=1e-6, atol=1e-6)
    found.close()
    estimator.train(input_fn, steps=1)
    for name in ("dnn/hiddenlayer_0/kernel", "dnn/hiddenlayer_0/batchnorm_0/moving_variance"):
        old = tf.train.load_variable(names["VARIABLES"], name)
        np.testing.assert_allclose(estimator.get_variable_value(name), old, atol=0.1)
        assert np.ptp(old) > 0.3


@pytest.mark.nightly("exports 70 models by other interpreters")
@pytest.mark.parametrize("variable", PYTHONS)
def test_all_recipes(tmp_path, variable):
    """Each model of record.py is recovered, and its Keras program predicts the same."""
    python = os.environ.get(variable)
    if not python:
        pytest.skip(f"{variable} names no interpreter")
    script = pathlib.Path(recordings.__file__).with_name("record.py")
    subprocess.run([python, script, tmp_path / "models"], check=True, stdout=sys.stderr)
    homes = sorted((tmp_path / "models").iterdir())
    assert len(homes) > 15
    for home in homes:
        check_program(home, tmp_path / "programs" / home.name)
