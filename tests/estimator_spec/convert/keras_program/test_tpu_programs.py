# SPDX-License-Identifier: Apache-2.0
"""`to-keras` on a TPUEstimator with a model_fn of the program's own: the columns move."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import forking_python

pytest.importorskip("keras_rs", reason="needs the extra keras-rs")

ROOT = Path(__file__).resolve().parents[4]
CTR = (ROOT / "tests/programs/ctr_columns.py", "--job-dir")
CENSUS = (ROOT / "examples/census/census.py", "--model_dir")

# The first estimator trains, the second one is moved.
PROGRAM = """
import tensorflow as tf

tf1 = tf.compat.v1
tpu = tf1.estimator.tpu
fc = tf.feature_column
WORDS = fc.categorical_column_with_vocabulary_list("words", ["ant", "bee"], num_oov_buckets=1)
CLICKS = fc.sequence_categorical_column_with_identity("clicks", 9, default_value=0)
COLUMNS = [
    tf1.tpu.experimental.embedding_column(WORDS, 4),
    tf1.tpu.experimental.embedding_column(CLICKS, 2, max_sequence_length=3),
]


def input_fn(params):
    features = {
        "words": tf.constant([["ant", "bee"], ["cow", ""]]),
        "clicks": tf.ragged.constant([[1, 2, 3, 4], [8]], tf.int64).to_sparse(),
    }
    labels = tf.constant([[0.0], [1.0]])
    examples = tf.data.Dataset.from_tensor_slices((features, labels)).repeat(4)
    return examples.batch(params["batch_size"], drop_remainder=True)


def model_fn(features, labels, mode, params):
    words = tf1.feature_column.input_layer(features, COLUMNS[:1])
    clicks, _ = tf.keras.experimental.SequenceFeatures(COLUMNS[1:])(features)
    net = tf.concat([words, tf.reduce_sum(clicks, 1)], 1)
    net = tf1.layers.dense(net, 1, name="output")
    loss = tf1.losses.mean_squared_error(labels, net)
    step = tf1.train.get_global_step()
    train = tf1.train.AdamOptimizer(0.1).minimize(loss, step)
    return tpu.TPUEstimatorSpec(mode, loss=loss, train_op=train)


def main():
    for _ in range(2):
        estimator = tpu.TPUEstimator(
            model_fn, {folder!r}, tpu.RunConfig(), use_tpu=False, train_batch_size=2,
            embedding_config_spec=tpu.experimental.EmbeddingConfigSpec(
                COLUMNS, tf1.tpu.experimental.AdagradParameters(0.1)
            ),
        )
        estimator.train(input_fn, steps=2)


main()
"""

USE = """
import sys

folder, out = sys.argv[1:]
sys.path.insert(0, folder)
import keras, numpy as np, tensorflow as tf
import model

columns = keras.models.load_model(model.WEIGHTS)
features = {
    "words": tf.constant([["ant", "bee"], ["cow", ""]]),
    "clicks": tf.ragged.constant([[1, 2, 3, 4], [8]], tf.int64),
}
data = tf.data.Dataset.from_tensors(features).map(model.preprocess)
np.savez(out, backend=keras.backend.backend(), **columns.predict(data, verbose=0))
"""


def to_keras(*arguments):
    """Runs the command; returns what it printed."""
    command = ["-m", "estimator_spec", "to-keras", *map(str, arguments)]
    done = forking_python.run(command, timeout=600)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def written(run_once):
    """Returns a directory with the written program."""

    def fill(directory: Path) -> None:
        program = directory / "clicks.py"
        program.write_text(PROGRAM.replace("{folder!r}", repr(str(directory / "models"))))
        given = ("--estimator=2", "--embeddings=distributed", "--output", directory / "out")
        (directory / "printed").write_text(to_keras(*given, program))

    return run_once("clicks_in_keras", fill)


def test_the_columns_of_a_tpu_estimator(written):
    """Columns of a specification are written and compared; what model_fn adds is named."""
    printed = (written / "printed").read_text()
    assert "The two agree" in printed
    for compared in ("batch 2: words_embedding", "edge values: clicks_embedding", "batch 1: seq"):
        assert compared in printed
    model = (written / "out" / "model.py").read_text()
    assert model.count("keras_rs.layers.DistributedEmbedding(") == 1
    assert "keras.optimizers.Adagrad(learning_rate=0.1" in model
    report = (written / "out" / "report.md").read_text()
    rest = report.partition("## Where the rest begins")[2]
    assert "`input_layer`, `sequence_input`, `sequence_length`" in rest
    assert "| `output/kernel` | [6, 1] |" in rest
    assert "Adam" not in rest and "words" not in rest


@pytest.mark.nightly("several processes; the comparison of the command is on one of the backends")
def test_backends_are_equal(written, tmp_path):
    """The layer with all tables gives the same on JAX, where this project isn't imported."""
    pytest.importorskip("jax")
    found = {}
    for backend in ("jax", "tensorflow"):
        environment = {k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"}
        environment |= {"KERAS_BACKEND": backend, "PYTHONPATH": ""}
        command = ["-c", USE, str(written / "out"), str(tmp_path / f"{backend}.npz")]
        forking_python.run(command, env=environment, check=True, timeout=300)
        found[backend] = np.load(tmp_path / f"{backend}.npz")
        assert str(found[backend]["backend"]) == backend
    for name in ("input_layer", "sequence_input", "sequence_length"):
        np.testing.assert_allclose(found["jax"][name], found["tensorflow"][name], rtol=1e-6)


def run_program(python, program, *arguments):
    """Runs a program to its end in an environment, of which it names the project itself."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    if python == sys.executable:
        environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        [python, program, *arguments], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]


def train_ctr(python, directory):
    """Runs the program in an environment."""
    program, option = CTR
    run_program(python, program, f"{option}={directory}", "--train-steps=30")


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.nightly("trains in another environment; a small program is with every change")
@pytest.mark.parametrize("embeddings", ["layers", "distributed"])
def test_a_program_of_the_reference(embeddings, run_once, reference_python, tmp_path):
    """The columns of an unedited program move with the tables that TensorFlow 2.15.1 trained."""
    program, option = CTR
    trained = run_once("ctr_of_the_reference", functools.partial(train_ctr, reference_python))
    printed = to_keras(
        *("--embeddings", embeddings, "--checkpoint", trained / "model"),
        *("--output", tmp_path / "out", program, f"{option}={tmp_path / 'other'}"),
    )
    assert "The two agree in all" in printed


# The rest of the program's model_fn, written by hand below the columns of model.py.
REST = """
import json
import sys

folder, programs, out = sys.argv[1:]
sys.path[:0] = [out, programs]
import keras
import numpy as np
import tensorflow as tf

import ctr_columns as program
import model

spec = tf.feature_column.make_parse_example_spec(program.embedding_columns())
spec["hour"] = tf.io.FixedLenFeature([1], tf.float32)
spec[program.LABEL] = tf.io.FixedLenFeature([1], tf.int64)


def batch(count, seed):
    features = tf.io.parse_example(program.make_examples(count, seed), spec)
    return {**model.preprocess(features), "hour": features["hour"]}, features[program.LABEL]


columns = keras.models.load_model(model.WEIGHTS)
hour = keras.Input((1,), name="hour")
past, shown, tags, user = keras.ops.split(columns.output, [8, 16, 20], axis=-1)
net = keras.layers.concatenate([hour, tags, user, past, shown])
layers = [keras.layers.Dense(16, "relu"), keras.layers.Dense(1)]
for layer in layers:
    net = layer(net)
whole = keras.Model({**columns.input, "hour": hour}, net)
reader = tf.train.load_checkpoint(folder + "/model")
for layer, name in zip(layers, ("dense", "dense_1"), strict=True):
    layer.set_weights([reader.get_tensor(f"{name}/{part}") for part in ("kernel", "bias")])
expected = json.load(open(folder + "/results.json"))
logits = whole(batch(20, 3)[0])[:, 0]
np.testing.assert_allclose(logits, expected["logits"], rtol=1e-5, atol=1e-5)
np.testing.assert_allclose(logits, expected["served_logits"], rtol=1e-5, atol=1e-5)
area = keras.metrics.AUC()
inputs, labels = batch(200, 2)
area.update_state(labels, keras.ops.sigmoid(whole(inputs)))
assert abs(float(area.result()) - expected["metrics"]["auc"]) < 5e-5, area.result()
print("equal")
"""


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.nightly("trains in another environment; a small program is with every change")
def test_the_whole_model_of_the_reference(run_once, reference_python, tmp_path):
    """With its own layers below, the Keras model has the reference's predictions and its AUC."""
    program, option = CTR
    trained = run_once("ctr_of_the_reference", functools.partial(train_ctr, reference_python))
    out = tmp_path / "out"
    to_keras(
        *("--checkpoint", trained / "model", "--output", out),
        *(program, f"{option}={tmp_path / 'other'}"),
    )
    rest = tmp_path / "rest.py"
    rest.write_text(REST)
    command = ["-m", "estimator_spec", "run", rest, trained, program.parent, out]
    done = forking_python.run(list(map(str, command)), timeout=600)
    assert done.stdout.endswith("equal\n"), done.stderr[-3000:]


@pytest.mark.nightly("trains a whole program; a small one is with every change")
def test_the_census_example(tmp_path):
    """The columns of examples/census move, with its vocabulary files and its sequence."""
    program, option = CENSUS
    run_program(sys.executable, program, f"{option}={tmp_path / 'trained'}", "--train_steps=5")
    printed = to_keras(
        *("--embeddings=distributed", "--checkpoint", tmp_path / "trained"),
        *("--output", tmp_path / "out", program, f"{option}={tmp_path / 'other'}"),
    )
    assert "The two agree in all" in printed
    words = {path.name for path in (tmp_path / "out" / "vocabularies").iterdir()}
    assert {"profile.txt", "native_country.txt"} <= words
