# SPDX-License-Identifier: Apache-2.0
"""Programs that are written from SavedModels: they predict what older TensorFlows recorded."""

from __future__ import annotations

import os
import pathlib
import re
import runpy
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recordings
from estimator_spec import saved_models
from estimator_spec.__main__ import main
from estimator_spec.convert.keras_program.written import load_module

pytest.importorskip("keras_rs", reason="needs the extra keras-rs")

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


@pytest.mark.parametrize(
    ("missing", "words"),
    [("assets/words.txt", "words.txt"), ("variables/variables.index", "variables are missing")],
)
def test_what_is_missing_is_named(tmp_path, capsys, missing, words):
    """A SavedModel without one of its files isn't converted, and a line names the file."""
    saved = recordings.unpack("linear_weighted-1.15", tmp_path) / "saved"
    (saved / missing).unlink()
    output = tmp_path / "out"
    assert main(["to-keras", "--saved-model", str(saved), "--output", str(output)]) == 2
    assert words in capsys.readouterr().err
    assert not output.exists()


class StartValues(tf.compat.v1.train.SessionRunHook):
    """Hook that records the variables before the first step."""

    def begin(self):
        self.found = {variable.op.name: variable for variable in tf.compat.v1.global_variables()}

    def after_create_session(self, session, coord):
        self.found = session.run(self.found)


OTHERS = pytest.mark.nightly("a deep and linear model, and a baseline, are with every change")
PARSED = ("combined-1.15", "dnn_parts-1.15", "dnn_reg-2.8", "linear_weighted-1.15")


@pytest.mark.parametrize(
    "name",
    [
        *("combined3-2.15", "baseline_reg-2.15"),
        *(pytest.param(name, marks=OTHERS) for name in PARSED),
    ],
)
def test_an_estimator_trains_on(tmp_path, capsys, name):
    """The estimator of a SavedModel predicts as recorded, and trains on from all its variables."""
    home = recordings.unpack(name, tmp_path)
    saved, program = home / "saved", tmp_path / "train.py"
    assert main(["saved-model", "estimator", str(saved), "--output", str(program)]) == 0
    names = runpy.run_path(str(program))
    inputs, expected = (recordings.load(home / name) for name in ("inputs.npz", "outputs.npz"))
    estimator = names["make_estimator"](tmp_path / "model")
    shape = [len(inputs["examples"]), *names["LABEL"].shape]
    labels = np.ones(shape, names["LABEL"].dtype.as_numpy_dtype)

    def input_fn():
        features = tf.io.parse_example(inputs["examples"].tolist(), names["FEATURES"])
        return tf.data.Dataset.from_tensors((features, labels))

    found = estimator.predict(
        input_fn, checkpoint_path=names["VARIABLES"], yield_single_examples=False
    )
    key = "logits" if "logits" in expected else "predictions"
    np.testing.assert_allclose(next(found)[key], expected[key], rtol=1e-6, atol=1e-6)
    found.close()
    start = estimator.evaluate(input_fn, checkpoint_path=names["VARIABLES"])["loss"]
    hook = StartValues()
    estimator.train(input_fn, hooks=[hook], steps=1)
    saved_values = {
        name: tf.train.load_variable(names["VARIABLES"], name)
        for name, _ in tf.train.list_variables(names["VARIABLES"])
    }
    for variable, value in saved_values.items():
        pattern = re.escape(variable) + r"(/part_\d+)?"  # and not its slots
        parts = [part for part in hook.found if re.fullmatch(pattern, part)]
        values = np.concatenate([hook.found[part].reshape(-1) for part in sorted(parts)])
        np.testing.assert_array_equal(values, np.reshape(value, -1), variable)
    assert estimator.evaluate(input_fn)["loss"] < start + 0.1


def test_a_variable_that_a_program_leaves_out_is_named(tmp_path, capsys):
    """A program without one of the SavedModel's columns trains no step; the error names it."""
    saved = recordings.unpack("linear_weighted-1.15", tmp_path) / "saved"
    assert main(["saved-model", "estimator", str(saved)]) == 0
    text = capsys.readouterr().out
    names: dict[str, Any] = {"__name__": "program"}
    column = "        fc.numeric_column("
    kept = [line for line in text.splitlines(True) if column not in line]
    exec("".join(kept), names)
    estimator = names["make_estimator"](tmp_path / "model")

    def input_fn():
        features = {key: tf.sparse.from_dense([["w1"]]) for key in ("tags",)}
        features["tag_weights"] = tf.sparse.from_dense([[1.0]])
        return tf.data.Dataset.from_tensors((features, [[1.0]]))

    with pytest.raises(ValueError, match="linear/linear_model/income/weights"):
        estimator.train(input_fn, steps=1)
    assert tf.train.latest_checkpoint(str(tmp_path / "model")) is None


def test_no_program_is_written_for_several_heads(tmp_path, capsys):
    """A MultiHead, whose labels are several features, is refused by the names of its heads."""
    saved = recordings.unpack("multihead-2.15", tmp_path) / "saved"
    assert main(["saved-model", "estimator", str(saved)]) == 2
    assert "a MultiHead of one, two" in capsys.readouterr().err


def test_outputs_have_names_of_their_own(tmp_path, capsys):
    """A model is moved whose outputs aren't called as heads call them; a feature is passed on."""
    saved = recordings.unpack("linear_weighted-1.15", tmp_path) / "saved"
    content = saved_models.files.load(saved).content
    (meta,) = content.meta_graphs
    graph = meta.graph_def
    outputs = meta.signature_def["predict"].outputs
    predictions = outputs["predictions"].name
    flat = graph.node.add(name="flat", op="Squeeze", input=[predictions.partition(":")[0]])
    flat.attr["T"].type = tf.float32.as_datatype_enum
    flat.attr["squeeze_dims"].list.i.append(1)
    for signature in list(meta.signature_def):
        if signature != "predict":
            del meta.signature_def[signature]
    del outputs["predictions"]
    outputs["predicted_income"].name, outputs["predicted_income"].dtype = "flat:0", 1
    outputs["predicted_income"].tensor_shape.dim.add(size=-1)
    (saved / "saved_model.pb").write_bytes(content.SerializeToString())
    assert saved_models.read(saved).heads[0].kind == "RegressionHead"
    arguments = ["--saved-model", str(saved), "--output", str(tmp_path / "program")]
    assert main(["to-keras", *arguments]) == 0
    assert "The two agree in all" in capsys.readouterr().out


@pytest.mark.nightly("exports 70 models by other interpreters")
@pytest.mark.timeout(3600)
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
