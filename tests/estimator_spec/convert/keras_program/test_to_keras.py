# SPDX-License-Identifier: Apache-2.0
"""`python -m estimator_spec to-keras`: the written program, its weights, and the comparison."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
import forking_python
import tpu_columns
from estimator_spec import __main__ as command_line
from estimator_spec.convert.keras_columns import (
    assembly,
    canned_models,
    serving_source,
    source,
)
from estimator_spec.convert.keras_columns.plan import ModelPlan
from estimator_spec.convert.keras_columns.readings import NUMPY, TENSORFLOW
from estimator_spec.core.common import own_files
from estimator_spec.heads import BinaryClassHead

pytest.importorskip("keras_rs", reason="needs the extra keras-rs")

HERE = Path(__file__).parent
IMPORT = "import os; from estimator_spec.core.common import own_files; Job = own_files.Job"
PROGRAM = HERE / "shoppers.py"
fc = tf.feature_column


def shoppers():
    """Returns the module of the program of these tests."""
    spec = importlib.util.spec_from_file_location("shoppers", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def combined() -> ModelPlan:
    """Plans the model of the program."""
    wide, deep = shoppers().columns()
    estimator = estimator_spec.DNNLinearCombinedEstimator(
        BinaryClassHead(label_vocabulary=["no", "yes"]),
        linear_feature_columns=wide,
        dnn_feature_columns=deep,
        dnn_hidden_units=[6],
    )
    plan = ModelPlan(inline_words=20)
    canned_models.add_canned_model(plan, estimator.canned_model)
    return plan


def sequences() -> ModelPlan:
    """Plans a model of sequences, one of them of TPU columns."""
    identity = fc.sequence_categorical_column_with_identity("clicks", 10)
    words = fc.sequence_categorical_column_with_vocabulary_list("words", ["ant", "bee"])
    columns = [
        tpu_columns.embedding_column(identity, 4, max_sequence_length=3, invalid_ids="clip"),
        fc.indicator_column(words),
        fc.sequence_numeric_column("seconds", default_value=-1.0),
    ]
    plan = ModelPlan(inline_words=20)
    assembly.add_layer(plan, columns, None, 1, "sum")
    return plan


@pytest.mark.parametrize(
    ("make", "reading"),
    [(combined, TENSORFLOW), (sequences, TENSORFLOW), (combined, NUMPY)],
    ids=["combined", "sequences", "combined_by_numpy"],
)
@pytest.mark.parametrize("file", ["model.py", "serve.py"])
def test_what_is_written(make, reading, file, request):
    """The written program is the one in `snapshots`, which ruff and mypy check with this project.

    TPU_COLUMNS_WRITE_SNAPSHOTS=1 writes them anew.
    """
    name = make.__name__ + ("" if reading == TENSORFLOW else "_by_numpy")
    path = HERE / "snapshots" / name / file
    plan = make()
    if file == "model.py":
        text = source.write_model(plan, f"the test {make.__name__}", reading)
    else:
        text = serving_source.write_serving(plan, reading)
    if os.environ.get("TPU_COLUMNS_WRITE_SNAPSHOTS"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
    assert "estimator_spec import" not in text and "tpu_columns" not in text
    assert len(text.splitlines()) < (580 if reading == TENSORFLOW else 900)


@pytest.fixture(scope="module")
def trained(run_once):
    """Returns a directory with the model that the program trained."""

    def fill(directory: Path) -> None:
        command = ["-m", "estimator_spec", "run", PROGRAM, f"--model_dir={directory}"]
        forking_python.run(command, check=True, timeout=300)

    return run_once("shoppers", fill)


def to_keras(*arguments, program=PROGRAM):
    """Runs the command."""
    command = ["-m", "estimator_spec", "to-keras", program, *map(str, arguments)]
    return forking_python.run(command, timeout=300)


@pytest.fixture(scope="module")
def written(run_once, trained):
    """Returns a directory with the written program, which was moved after it was written."""

    def fill(directory: Path) -> None:
        output = directory / "first"
        (directory / "empty").mkdir(mode=0o700)
        output.symlink_to("empty")
        leave = f"job = own_files.create({str(directory / '.out.unfinished')!r}, Job.KERAS_PROGRAM)"
        killed = f"{IMPORT}; {leave}; open(job.path + '/model.py', 'w').close(); os._exit(9)"
        forking_python.run(["-c", killed])
        assert (directory / ".out.unfinished" / "model.py").exists()
        # The program's own --model_dir is new: the checkpoint is another one.
        new = f"--model_dir={directory / 'new'}"
        done = to_keras("--checkpoint", trained, new, "--output", output)
        assert done.returncode == 0, done.stderr[-3000:]
        (directory / "printed").write_text(done.stdout)
        shutil.move(directory / "empty", directory / "moved")

    return run_once("shoppers_in_keras", fill)


def test_a_program_moves_to_keras(written):
    """The program is written with its weights, and everything was compared and agrees."""
    files = {path.name for path in (written / "moved").iterdir()}
    expected = {"model.py", "serve.py", "weights.keras", "vocabularies", "report.md", "report.html"}
    assert files == expected
    assert (written / "moved" / "vocabularies" / "city.txt").read_text().count("\n") == 30
    printed = (written / "printed").read_text()
    assert "The two agree" in printed
    for compared in ("edge values: linear city", "batch 2: classes", "metrics: loss"):
        assert compared in printed
    assert not (written / "new").exists()
    # The directory's mode is kept, its link followed, and what a killed run left is removed.
    assert (written / "moved").stat().st_mode & 0o777 == 0o700
    assert not [path for path in written.iterdir() if path.name.startswith(".")]
    # The losses, and the changes of each variable and slot, of further steps.
    assert "losses: 50 further steps" in printed
    assert "trained values: training/Adagrad/dnn/hiddenlayer_0/kernel/accumulator" in printed
    report = (written / "moved" / "report.md").read_text()
    assert "keras_rs.layers.EmbedReduce(32, 3" in report
    assert "shoppers.py" in (written / "moved" / "model.py").read_text()


def test_a_killed_run_leaves_nothing(trained, tmp_path):
    """What it leaves is beside the output, where the next run removes it."""
    program, output = tmp_path / "killed.py", tmp_path / "parent" / "out"
    program.write_text("import os\nos.kill(os.getpid(), 9)\n")
    (tmp_path / "temporary").mkdir()
    options = ("--checkpoint", str(trained), "--output", str(output))
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    command = ["-m", "estimator_spec", "to-keras", str(program), *options]
    assert forking_python.run(command, env=environment).returncode in (-9, 137)
    assert not [*(tmp_path / "temporary").iterdir()]
    assert [path.name for path in output.parent.iterdir()] == [".out.unfinished"]
    own_files.remove_left(str(output.parent))
    assert not [*output.parent.iterdir()]


USE = """
import sys


class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("estimator_spec", "tpu_columns", "tf_keras"):
            raise ImportError(name)

sys.meta_path.insert(0, Blocked())
folder, out = sys.argv[1:]
sys.path.insert(0, folder)
import keras, numpy as np, tensorflow as tf
import model

features = {
    "age": np.array([20.0, 50.0, 70.0], np.float32),
    "spent": np.array([1.0, 60.0, 90.0], np.float32),
    "city": np.array(["city 1", "elsewhere", ""]),
    "items": tf.ragged.constant([["milk"], [], ["salt", "bread"]]).to_sparse(),
    "counts": tf.ragged.constant([[1.0], [], [2.0, 0.5]]).to_sparse(),
}
trained = keras.models.load_model(model.WEIGHTS)
data = tf.data.Dataset.from_tensor_slices((features, np.array(["no", "yes", "yes"]))).batch(3)
batches = data.map(model.training_batch)
logits = trained.predict(batches.map(lambda x, y: x), verbose=0)["logits"]
losses = trained.fit(batches, epochs=3, verbose=0).history["loss"]
np.savez(out, logits=logits, losses=losses, backend=keras.backend.backend())
"""


@pytest.fixture
def use(written, tmp_path):
    """Returns a function that uses the written program with a backend of Keras."""

    def run(backend: str):
        path = tmp_path / f"{backend}.npz"
        environment = {k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"}
        environment |= {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
        del_path = {"PYTHONPATH": ""}
        command = ["-c", USE, str(written / "moved"), str(path)]
        done = forking_python.run(command, env={**environment, **del_path}, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
        found = np.load(path)
        assert str(found["backend"]) == backend
        return found

    return run


@pytest.mark.nightly("nox -s without_tensorflow shows the same of a program, there where it runs")
def test_the_command_writes_a_program_without_tensorflow(trained, tmp_path):
    """The program has what reads TFRecords, and the recorded comparison; both models agree."""
    pytest.importorskip("farmhash", reason="needs the extra without-tensorflow")
    options = ("--checkpoint", trained, f"--model_dir={tmp_path / 'new'}")
    done = to_keras(*options, "--without-tensorflow", "--output", tmp_path / "out")
    assert done.returncode == 0, done.stderr[-3000:]
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"model.py", "serve.py", "records.py", "check.py", "check.npz", "report.md"} <= files
    done = forking_python.run([tmp_path / "out" / "check.py"], timeout=300)
    assert done.returncode == 0, done.stdout
    compared = re.search(r"(\d+) compared on .*, 0 differ", done.stdout)
    assert compared is not None and int(compared[1]) >= 32


@pytest.mark.nightly("several processes; the snapshots and the comparison show the same in part")
def test_it_needs_nothing_of_this_project(use):
    """The moved program loads, predicts and trains where this project can't be imported."""
    found = use("tensorflow")
    assert found["losses"][-1] < found["losses"][0]


@pytest.mark.nightly("several processes; nothing in build_model is TensorFlow's")
def test_jax_is_equal(use):
    """`build_model` predicts and trains the same on JAX."""
    pytest.importorskip("jax")
    on_jax, on_tensorflow = use("jax"), use("tensorflow")
    np.testing.assert_allclose(on_jax["logits"], on_tensorflow["logits"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(on_jax["losses"], on_tensorflow["losses"], rtol=1e-5, atol=1e-5)


@pytest.mark.nightly("several processes")
def test_it_is_served(written, tmp_path):
    """serve.py exports a SavedModel of tf.Examples, with the classes' labels."""
    environment = {k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"}
    command = [str(written / "moved" / "serve.py"), str(tmp_path / "saved")]
    forking_python.run(command, env=environment, check=True, timeout=300)
    example = tf.train.Example()
    for key, value in (("age", 20.0), ("spent", 90.0), ("counts", 2.0)):
        example.features.feature[key].float_list.value.append(value)
    for key, value in (("city", b"city 1"), ("items", b"milk")):
        example.features.feature[key].bytes_list.value.append(value)
    served = tf.saved_model.load(str(tmp_path / "saved")).signatures["serving_default"]
    outputs = served(examples=tf.constant([example.SerializeToString()]))
    assert outputs["classes"].numpy()[0, 0] in (b"no", b"yes")
    assert outputs["probabilities"].shape == (1, 2)


@pytest.mark.nightly("the comparison's own tests find differences")
def test_a_difference_fails(trained, tmp_path):
    """Over the tolerance the exit status is 1, and the report says where."""
    done = to_keras(
        *("--checkpoint", trained, f"--model_dir={tmp_path / 'new'}", "--output", tmp_path / "out"),
        *("--batches", 1, "--tolerance", "forward-pass/*=0"),
    )
    assert done.returncode == 1, done.stderr[-2000:]
    assert "differs" in done.stdout
    assert "differs" in (tmp_path / "out" / "report.md").read_text()


CONTRIB = """
learn = tf.contrib.learn
model = learn.LinearRegressor([tf.contrib.layers.real_valued_column("x")], model_dir={folder!r})
try:
    model.fit(input_fn=lambda: ({{"x": tf.constant([[1.0]])}}, tf.constant([[1.0]])), steps=3)
except Exception:
    pass
"""

OTHER = """
import tensorflow as tf

{before}
column = tf.feature_column.numeric_column("x", normalizer_fn={normalizer})
estimator = tf.estimator.LinearRegressor([{columns}], model_dir={folder!r})
{after}
"""


@pytest.mark.parametrize(
    "before", ["tf.compat.v1.disable_v2_behavior()", "tf.logging.set_verbosity(tf.logging.INFO)"]
)
def test_a_program_without_v2_behavior(before, tmp_path):
    """It moves as others do, also if it has names of TensorFlow 1 that `run` gives it.

    So has its function: the written one has those of TensorFlow 2.

    Its model_dir stays as it is: further steps train in another directory.
    """
    parts = {"before": before, "normalizer": "lambda x: tf.log(x) / 2.0", "columns": "column"}
    train = "estimator.train(lambda: ({'x': [[3.0]]}, [1.0]), steps=3)"
    program = tmp_path / "old.py"
    program.write_text(OTHER.format(**parts, after=train, folder=str(tmp_path / "models")))
    forking_python.run(["-m", "estimator_spec", "run", program], check=True, timeout=300)
    before = {path: path.stat() for path in (tmp_path / "models").iterdir()}
    done = to_keras("--output", tmp_path / "out", program=program)
    assert "The two agree in all" in done.stdout, done.stderr[-2000:]
    assert "50 further steps" in done.stdout
    assert "tf.math.log(" in (tmp_path / "out" / "model.py").read_text()
    after = {path: path.stat() for path in (tmp_path / "models").iterdir()}
    assert {path: (each.st_mtime_ns, each.st_size) for path, each in after.items()} == {
        path: (each.st_mtime_ns, each.st_size) for path, each in before.items()
    }


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"after": ""}, "used 0 estimators"),
        ({}, "There is no checkpoint"),
        ({"columns": "column, column"}, "Duplicate feature column name"),
        ({"before": "table = {}", "normalizer": "lambda x: x + len(table)"}, "'table'"),
        ({"normalizer": "__import__('numpy').log1p"}, "normalizer_fn of 'x'"),
        ({"after": "raise SystemExit(3)"}, "ended with 3"),
        ({"before": "from {package} import other"}, "-m {package}.other"),
        ({"after": CONTRIB}, "stopped before it could train"),
    ],
)
def test_refused_before_anything_is_written(changed, words, tmp_path):
    """A program that can't move is refused with the reason; nothing is written."""
    parts = {
        "before": "",
        "normalizer": "None",
        "columns": "column",
        "after": "estimator.train(lambda: ({'x': [[1.0]]}, [1.0]))",
        **{key: text.replace("{package}", tmp_path.name) for key, text in changed.items()},
    }
    words = words.replace("{package}", tmp_path.name)
    program = tmp_path / "other.py"
    folder = str(tmp_path / "models")
    parts["after"] = (
        parts["after"].format(folder=folder) if "learn" in parts["after"] else parts["after"]
    )
    program.write_text(OTHER.format(**parts, folder=folder))
    done = to_keras("--output", tmp_path / "out", program=program)
    assert done.returncode == 2
    assert words in done.stderr, done.stderr[-2000:]
    assert not (tmp_path / "out").exists() and not (tmp_path / "models").exists()
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_an_input_fn_that_fails(tmp_path):
    """An error of the program's input_fn is named with its line; nothing is written."""
    program = tmp_path / "other.py"
    good = "estimator.train(lambda: ({'x': [[1.0]]}, [1.0]), steps=1)\n"
    again = f"tf.estimator.LinearRegressor([column], {str(tmp_path / 'models')!r})"
    parts = {"before": "", "normalizer": "None", "columns": "column"}
    text = OTHER.format(
        **parts, folder=str(tmp_path / "models"), after=f"{good}{again}.train(lambda: {{}}['x'])"
    )
    program.write_text(text)
    done = to_keras("--estimator=2", "--output", tmp_path / "out", program=program)
    assert done.returncode == 2
    line = len(text.splitlines())
    assert f"failed with KeyError: 'x' ({program}, line {line})" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_migrate_points_here(capsys):
    """`migrate --to keras` says which command writes the Keras 3 program."""
    with pytest.raises(SystemExit):
        command_line.main(["migrate", "--to", "keras", "train.py"])
    assert "to-keras SCRIPT" in capsys.readouterr().err


@pytest.mark.parametrize("name", [".", "mine", "link", "loop"])
def test_an_output_that_isnt_empty_is_refused(name, tmp_path, capsys):
    """What is there isn't overwritten, whatever link leads there; the program isn't run."""
    (tmp_path / "mine").write_text("keep")
    (tmp_path / "link").symlink_to(".")
    (tmp_path / "loop").symlink_to("loop")
    assert command_line.main(["to-keras", str(PROGRAM), "--output", str(tmp_path / name)]) == 2
    assert "isn't an empty directory" in capsys.readouterr().err
    assert (tmp_path / "mine").read_text() == "keep"


def test_a_module_is_named_as_for_python(capsys):
    """The help has `-m MODULE`, and a number of batches must be one."""
    with pytest.raises(SystemExit):
        command_line.main(["to-keras", "--help"])
    assert "-m MODULE [ARGS...] --output DIR" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        command_line.main(["to-keras", str(PROGRAM), "--output", "out", "--batches", "0"])
    assert "0 is less than 1" in capsys.readouterr().err
