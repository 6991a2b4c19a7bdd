# SPDX-License-Identifier: Apache-2.0
"""From a checkpoint of TensorFlow 2.15.1's own Estimator to a served Keras model."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
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

PROGRAM = Path(__file__).resolve().parents[3] / "programs" / "wide_deep_census.py"
EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "wide_deep" / "wide_deep.py"
# Neither this tree nor this environment's choice of Keras is the reference's.
LEFT_OUT = ("PYTHONPATH", "TF_USE_LEGACY_KERAS")
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


# Trains on the reference; then 200 more steps on rows in the order of the file.
REFERENCE = """
import sys
import types

import numpy as np
import tensorflow as tf

shim = types.ModuleType("estimator_spec")  # the program's import as it was
for name in ("RunConfig", "DNNLinearCombinedClassifier"):
    setattr(shim, name, getattr(tf.estimator, name))
sys.modules["estimator_spec"] = shim
example, folder = sys.argv[1:]
sys.path.insert(0, example)
import wide_deep
import wide_deep_data as data

wide_deep.FLAGS([example])


def arrays(name, rows):
    batch = data.input_fn_builder(data.DATA_DIR, name, rows)().take(1)
    return next(batch.as_numpy_iterator())


def input_fn(values, size):
    return lambda: tf.data.Dataset.from_tensor_slices(values).batch(size)


class Losses(tf.estimator.SessionRunHook):
    values = []

    def before_run(self, context):
        losses = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.LOSSES)
        return tf.estimator.SessionRunArgs(losses[-1])

    def after_run(self, context, found):
        self.values.append(float(found.results))


train, test = arrays(data.TRAIN_FILE, 200 * 128), arrays(data.TEST_FILE, 20_000)
estimator = wide_deep.make_estimator("wide_deep", folder + "/model")
shuffled = data.input_fn_builder(data.DATA_DIR, data.TRAIN_FILE, 128, is_training=True)
estimator.train(shuffled, max_steps=300)
metrics = estimator.evaluate(input_fn(test, 1024))
rows = estimator.predict(input_fn(test, 1024), predict_keys=["probabilities"])
probabilities = [row["probabilities"] for row in rows]
estimator.train(input_fn(train, 128), hooks=[Losses()])
parts = {"train": train, "test": test}
np.savez(
    folder + "/results.npz",
    auc=metrics["auc"],
    probabilities=probabilities,
    losses=Losses.values,
    **{f"{part}_labels": labels for part, (_, labels) in parts.items()},
    **{f"{part}/{key}": v for part, (values, _) in parts.items() for key, v in values.items()},
)
"""

# The same on the written program, and the SavedModel of its serve.py.
KERAS = """
import sys

folder, saved, results, out = sys.argv[1:]
sys.path.insert(0, folder)
import keras
import numpy as np
import tensorflow as tf

import model

found = np.load(results, allow_pickle=True)


def dataset(part, size):
    prefix = part + "/"
    keys = [key for key in found if key.startswith(prefix)]
    values = {key[len(prefix):]: found[key] for key in keys}
    values = {k: v.astype(bytes) if v.dtype == object else v for k, v in values.items()}
    return values, tf.data.Dataset.from_tensor_slices((values, found[part + "_labels"])).batch(size)


trained = keras.models.load_model(model.WEIGHTS)
values, test = dataset("test", 1024)
test = test.map(model.training_batch)
metrics = trained.evaluate(test, return_dict=True, verbose=0)
predicted = trained.predict(test.map(lambda x, y: x), verbose=0)
examples = []
for row in range(100):
    example = tf.train.Example()
    for key, column in values.items():
        feature = example.features.feature[key]
        if column.dtype.kind == "S":
            feature.bytes_list.value.append(column[row])
        else:
            feature.float_list.value.append(column[row])
    examples.append(example.SerializeToString())
served = tf.saved_model.load(saved).signatures["serving_default"](examples=tf.constant(examples))
losses = []
for x, y in dataset("train", 128)[1].map(model.training_batch):
    trained.reset_metrics()
    losses.append(trained.train_on_batch(x, y, return_dict=True)["loss"])
np.savez(
    out,
    auc=metrics["logistic_auc"],
    probabilities=predicted["probabilities"],
    served=served["probabilities"],
    losses=losses,
)
"""


def test_the_adult_data_from_the_reference_to_a_served_model(reference_python, tmp_path):
    """Wide and deep on the Adult data: predictions, AUC, and the losses of 200 more steps."""
    environment = {k: v for k, v in os.environ.items() if k not in LEFT_OUT}
    run = [reference_python, "-c", REFERENCE, EXAMPLE.parent, tmp_path]
    done = subprocess.run(run, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    output = tmp_path / "written"
    command = ["-m", "estimator_spec", "to-keras", EXAMPLE, "--model=wide_deep"]
    command += [f"--model_dir={tmp_path / 'other'}", "--output", output]
    command += ["--checkpoint", tmp_path / "model" / "model.ckpt-300"]
    forking_python.run(command, check=True, timeout=600)
    arguments = [output, tmp_path / "saved", tmp_path / "results.npz", tmp_path / "found.npz"]
    for program in ([output / "serve.py", tmp_path / "saved"], ["-c", KERAS, *arguments]):
        done = subprocess.run(
            [sys.executable, *program], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-3000:]
    expected, found = np.load(tmp_path / "results.npz", allow_pickle=True), np.load(arguments[-1])
    np.testing.assert_allclose(found["probabilities"], expected["probabilities"], 1e-5, 1e-5)
    np.testing.assert_allclose(found["served"], expected["probabilities"][:100], 1e-5, 1e-5)
    assert abs(found["auc"] - expected["auc"]) < 5e-5
    assert len(found["losses"]) == 200
    np.testing.assert_allclose(found["losses"], expected["losses"], rtol=1e-4, atol=1e-4)


# 200 more steps of the reference on the rows in the order of the file.
MORE_OF_IRIS = """
import sys

import tensorflow.compat.v1 as tf

folder, programs = sys.argv[1:]
sys.path.insert(0, programs)
import iris_premade

iris_premade.train_input_fn = lambda x, y, size: (
    tf.data.Dataset.from_tensor_slices((dict(x), y)).repeat().batch(size)
)
iris_premade.main(["iris_premade", "--model_dir=" + folder, "--train_steps=200"])
"""

# The same steps of the written model, with the program's schedule, which moves with it.
KERAS_OF_IRIS = """
import json
import sys

folder, programs, out = sys.argv[1:]
sys.path[:0] = [folder, programs]
import keras
import tensorflow as tf

import iris_premade
import model

trained = keras.models.load_model(model.WEIGHTS)
batches = tf.data.Dataset.from_tensor_slices(iris_premade.load_data(120, 1)).repeat().batch(30)
losses = []
for x, y in batches.take(200).map(model.training_batch):
    trained.reset_metrics()
    losses.append(float(trained.train_on_batch(x, y, return_dict=True)["loss"]))
json.dump(losses, open(out, "w"))
"""


def test_a_program_of_tensorflow_1(reference_python, tmp_path):
    """The premade DNNClassifier of 2017: predictions, served outputs, losses of 200 more steps."""
    program = PROGRAM.with_name("iris_premade.py")
    environment = {k: v for k, v in os.environ.items() if k not in LEFT_OUT}
    command = [reference_python, program, f"--model_dir={tmp_path}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    output, saved = tmp_path / "written", tmp_path / "saved"
    (tmp_path / "other" / "start").mkdir(parents=True)
    command = ["-m", "estimator_spec", "to-keras", program, f"--model_dir={tmp_path / 'other'}"]
    command += ["--checkpoint", tmp_path / "model", "--output", output]
    done = forking_python.run(command, check=True, timeout=600)
    assert "The two agree in all" in done.stdout
    assert "def dnn_learning_rate(step: Any)" in (output / "model.py").read_text()
    done = subprocess.run([sys.executable, output / "serve.py", saved], env=environment, check=True)
    numbers = {
        "SepalLength": [5.1, 5.9, 6.9],
        "SepalWidth": [3.3, 3.0, 3.1],
        "PetalLength": [1.7, 4.2, 5.4],
        "PetalWidth": [0.5, 1.5, 2.1],
    }
    examples = [tf.train.Example() for _ in range(3)]
    for key, column in numbers.items():
        for example, value in zip(examples, column, strict=True):
            example.features.feature[key].float_list.value.append(value)
    serialized = tf.constant([example.SerializeToString() for example in examples])
    served = tf.saved_model.load(str(saved)).signatures["serving_default"](examples=serialized)
    rows = json.loads((tmp_path / "results.json").read_text())["predictions"]
    for key in ("logits", "probabilities", "class_ids"):
        np.testing.assert_allclose(served[key], [row[key] for row in rows], 1e-5, 1e-5)
    more = shutil.copytree(tmp_path / "model", tmp_path / "more" / "model").parent
    for python, text, arguments in (
        (reference_python, MORE_OF_IRIS, [more, program.parent]),
        (sys.executable, KERAS_OF_IRIS, [output, program.parent, tmp_path / "losses.json"]),
    ):
        run = [python, "-c", text, *arguments]
        done = subprocess.run(run, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
    expected = json.loads((more / "results.json").read_text())["losses"]
    found = json.loads((tmp_path / "losses.json").read_text())
    assert len(found) == 200
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


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
