# SPDX-License-Identifier: Apache-2.0
"""`python -m estimator_spec doctor`: breakages and their cures, names of a script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import forking_python
from estimator_spec.legacy.doctor import cli
from estimator_spec.legacy.doctor.breakages import Level, diagnose
from estimator_spec.legacy.doctor.installation import Installation, read_installation
from estimator_spec.legacy.doctor.script_names import read_names
from estimator_spec.legacy.program_source.program_files import StartedProgram

ROOT = Path(__file__).resolve().parents[4]
SOUND = {
    "tensorflow": "2.21.0",
    "tf-keras": "2.21.0",
    "keras": "3.15.1",
    "protobuf": "6.33.0",
    "numpy": "2.3.0",
    "tensorboard": "2.21.0",
}


def found(versions=(), without=(), python="3.11.4", tensorflows=(), variables=(), **requirements):
    """Returns the findings of an environment that is sound but for some versions."""
    kept = {name: version for name, version in SOUND.items() if name not in without}
    kept |= dict(versions)
    wanted = {name.replace("_", "-"): texts for name, texts in requirements.items()}
    return diagnose(Installation(python, kept, tuple(tensorflows), wanted, dict(variables)))


def test_a_sound_environment_has_no_findings():
    """Versions that fit together are left alone."""
    assert found() == []


@pytest.mark.parametrize(
    ("broken", "package", "level", "cure"),
    [
        ({"without": ["tensorflow"]}, "tensorflow", "problem", "pip install tensorflow tf_keras"),
        (
            {"without": ["tensorflow"], "python": "3.14.0"},
            "tensorflow",
            "problem",
            "take Python 3.10 to 3.13",
        ),
        ({"tensorflows": ["tensorflow", "tf-nightly"]}, "tensorflow", "problem", "pip uninstall"),
        ({"without": ["tf-keras"]}, "tf-keras", "problem", 'pip install "tf_keras==2.21.*"'),
        (
            {"versions": {"tf-keras": "2.19.0"}},
            "tf-keras",
            "problem",
            'pip install "tf_keras==2.21.*"',
        ),
        (
            {"variables": {"TF_USE_LEGACY_KERAS": "0"}},
            "TF_USE_LEGACY_KERAS",
            "problem",
            "set it to 1",
        ),
        (
            {
                "versions": {"tensorflow": "2.15.1", "tf-keras": "2.15.1"},
                "variables": {"TF_USE_LEGACY_KERAS": "1"},
            },
            "TF_USE_LEGACY_KERAS",
            "note",
            "unset",
        ),
        (
            {"versions": {"tensorflow": "2.20.0", "tf-keras": "2.20.1", "protobuf": "7.34.0"}},
            "protobuf",
            "problem",
            'pip install "protobuf<7"',
        ),
        ({"without": ["tensorboard"]}, "tensorboard", "problem", "pip install tensorboard"),
        (
            {"versions": {"tensorflow-estimator": "2.15.0"}},
            "tensorflow-estimator",
            "note",
            "pip uninstall tensorflow-estimator",
        ),
        (
            {"versions": {"tensorflow-recommenders": "0.7.7"}},
            "tensorflow-recommenders",
            "note",
            "TF_USE_LEGACY_KERAS=1",
        ),
    ],
)
def test_a_known_breakage_has_its_cure(broken, package, level, cure):
    """Each known breakage is the only finding, with its weight and its cure."""
    (finding,) = found(**broken)
    assert (finding.package, finding.level.value) == (package, level)
    assert cure in finding.cure


def test_a_breakage_of_some_names_is_named_where_they_are_used():
    """A plain installation has no note; a program that uses what protobuf 7 breaks has one."""
    installation = Installation("3.11.4", {**SOUND, "protobuf": "7.34.1"})
    assert diagnose(installation) == diagnose(installation, ["tensorflow.nn.relu"]) == []
    (finding,) = diagnose(installation, ["tensorflow.tpu.experimental.embedding.Adam"])
    assert (finding.package, finding.level) == ("protobuf", Level.NOTE)
    assert 'pip install "protobuf<7.34"' in finding.cure


def test_unmet_requirements_are_named():
    """A requirement of TensorFlow or of ours that isn't met says who needs what."""
    versions = {"tensorflow": "2.15.1", "tf-keras": "2.15.1", "keras": "2.15.0"}
    (finding,) = found(versions, tensorflow=("numpy (<2.0.0,>=1.23.5)", "wrapt<1.15", "keras<3"))
    assert finding.text == "tensorflow 2.15.1 needs numpy<2.0.0,>=1.23.5; 2.3.0 is installed."
    assert finding.cure == 'pip install "numpy<2.0.0,>=1.23.5"'
    own = {"tpu-columns": "0.1"}
    (finding,) = found(own, tpu_columns=("tensorflow<2.21,>=2.15", "keras-rs; extra == 'keras-rs'"))
    assert finding.package == "tensorflow"


def test_requirements_of_an_extra_count_where_it_is_used():
    """The versions that an extra needs matter if its package is installed."""
    requirements = ("keras>=3.16; extra == 'keras-rs'", "pytest; extra == 'test'")
    own = {"tpu-columns": "0.1"}
    assert found(own, tpu_columns=requirements) == []
    (finding,) = found(own | {"keras-rs": "0.4.0"}, tpu_columns=requirements)
    assert finding.package == "keras"


def test_a_note_hides_no_problem():
    """A requirement that isn't met is found beside a note on the same package."""
    versions = {"tensorflow-estimator": "2.15.0"}
    levels = [f.level for f in found(versions, tensorflow=("tensorflow-estimator<2.15",))]
    assert levels == [Level.PROBLEM, Level.NOTE]


def test_the_first_line_is_the_verdict():
    """It counts the problems; notes leave it at versions that fit together."""

    def verdict(**broken):
        installation = Installation("3.11.4", SOUND, (), {}, {})
        return cli.format_text(installation, found(**broken), None, None, "").splitlines()[0]

    assert verdict() == verdict(versions={"protobuf": "7.34.1"}) == "The versions fit together."
    assert verdict(without=["tensorboard"]) == "1 problem."
    assert verdict(without=["tensorboard", "tf-keras"]) == "2 problems."


def test_a_nightly_build_satisfies_the_requirement():
    """A development version below the upper bound fits."""
    versions = {"tensorflow": "2.23.0.dev20261026", "tf-keras": "2.23.0.dev2026102609"}
    versions |= {"tpu-columns": "0.1"}
    assert found(versions, tpu_columns=("tensorflow<2.24,>=2.15", "tf_keras<2.24,>=2.15.1")) == []


def test_this_environment_is_read():
    """The running environment's versions are found under the releases' names."""
    installation = read_installation()
    assert installation.release("tensorflow") >= (2, 15)
    assert "numpy" in installation.versions


def run(*arguments, without_tensorflow=False):
    """Runs the command in a process, and returns its status and output."""
    block = "sys.modules['tensorflow'] = None; " if without_tensorflow else ""
    code = (
        f"import sys; {block}from estimator_spec.__main__ import main; "
        f"status = main(['doctor', *{list(arguments)!r}]); "
        "loaded = sys.modules.get('tensorflow') is not None; "
        "print(loaded, file=sys.stderr); sys.exit(status)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    return done.returncode, done.stdout, done.stderr


def test_it_runs_without_tensorflow():
    """Where TensorFlow can't be imported the command works, in text and in JSON."""
    status, shown, errors = run(without_tensorflow=True)
    assert status in (0, 1), errors
    assert "tensorflow" in shown
    status, shown, errors = run("--json", without_tensorflow=True)
    data = json.loads(shown)
    assert data["ok"] is (status == 0)
    assert data["versions"]["numpy"]


def test_it_imports_no_tensorflow():
    """Without a script nothing is imported that could fail."""
    _, _, errors = run()
    assert errors.strip() == "False"


def test_a_script_needs_no_tensorflow(script):
    """The names of a script are checked without importing TensorFlow."""
    status, shown, errors = run(script, without_tensorflow=True)
    assert status == 1
    assert "train.py:4: refused: tensorflow.contrib.quantize.create_training_graph" in shown
    assert errors.strip() == "False"


def test_a_broken_tensorflow_is_named(script):
    """With --start an import of TensorFlow that fails is a problem; the versions are shown."""
    status, shown, _ = run(script, "--start", without_tensorflow=True)
    assert status == 1
    assert "problem: Importing TensorFlow fails: ModuleNotFoundError" in shown
    assert "package" in shown


PROGRAM = """\
import tensorflow as tf
from tensorflow.contrib import quantize
estimator = tf.estimator.tpu.TPUEstimator
quantize.create_training_graph()
"""


@pytest.fixture
def script(tmp_path):
    """Returns the path of a program that uses a restored name, and one that isn't."""
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return str(path)


def test_names_of_a_script(script, capsys):
    """Names that are put back are counted; others have a line that says what to do."""
    assert cli.main([script]) == 1
    shown = capsys.readouterr().out
    assert "put back" in shown
    assert "train.py:4: refused: tensorflow.contrib.quantize.create_training_graph" in shown


def test_a_script_that_can_run(script, capsys):
    """A script whose names are all put back gets the command that runs it."""
    Path(script).write_text(PROGRAM.splitlines()[0] + "\ntf.estimator.tpu.TPUEstimator\n")
    cli.main([script, "--json"])
    names = json.loads(capsys.readouterr().out)["names"]
    assert names["is_supported"] is True
    assert names["counts"]["put back"] == 1
    cli.main([script])
    assert f"python -m estimator_spec run --cpu auto {script}" in capsys.readouterr().out


def test_one_verdict(script):
    """With a problem of the installation a program can't run yet, and nothing says that it can."""
    names = read_names(StartedProgram(script))
    installation = Installation("3.11.4", SOUND)
    text = cli.format_text(installation, found(), None, names, "train.py")
    assert text.startswith("The versions fit together. train.py has to be changed before it runs.")
    Path(script).write_text("import tensorflow as tf\ntf.estimator.tpu.TPUEstimator\n")
    names = read_names(StartedProgram(script))
    text = cli.format_text(installation, found(), None, names, "train.py")
    assert text.startswith("The versions fit together.\n")
    assert "\n  It can run unedited: python -m" in text
    text = cli.format_text(installation, found(without=["tf-keras"]), None, names, "train.py")
    assert text.startswith("1 problem.\n")
    assert "It can" not in text
    assert "\n  With these problems mended it can run unedited: python -m" in text


def test_what_will_train_is_named(capsys, monkeypatch, tmp_path):
    """The kernels of the installed TensorFlow, or that there are none and how to get them."""
    monkeypatch.setenv("TPU_COLUMNS_CACHE", str(tmp_path))
    monkeypatch.setattr(cli.libraries, "OF_THE_WHEEL", tmp_path)
    cli.main([])
    text = capsys.readouterr().out
    assert "Tables are trained on a CPU by TensorFlow's own ops: this installation has none" in text
    assert "kernels build" in text
    monkeypatch.setattr(cli.libraries, "describe_engine", lambda version: f"kernels of {version}")
    cli.main(["--json"])
    version = read_installation().versions["tensorflow"]
    assert json.loads(capsys.readouterr().out)["engine"] == f"kernels of {version}"


def test_a_missing_script_is_an_error(capsys):
    """The status is 2, and the error names the file."""
    assert cli.main(["gone.py"]) == 2
    assert "there is no file 'gone.py'" in capsys.readouterr().err
    assert cli.main(["-m", "gone"]) == 2
    assert "there is no module 'gone'" in capsys.readouterr().err


TASK = "import sys\nfrom trainer import model\nprint('ran', model.x, sys.argv[1:])\n"


def test_the_command_runs(tmp_path, monkeypatch, capfd):
    """For a script in a package doctor reads its modules, and prints the command that runs it."""
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "task.py").write_text(TASK)
    model = tmp_path / "trainer" / "model.py"
    model.write_text("import tensorflow as tf\nx = tf.estimator.ModeKeys.TRAIN\n")
    monkeypatch.chdir(tmp_path)
    cli.main(["trainer/task.py"])
    shown = capfd.readouterr().out
    assert "trainer/task.py: 1 put back, 0 stood in for" in shown
    assert "  2 files read: trainer/task.py, trainer/model.py\n" in shown
    command = shown.splitlines()[-1].partition("unedited: ")[2]
    assert command == "python -m estimator_spec run --cpu auto -m trainer.task"
    cli.main(["-m", "trainer.task"])
    assert shown.splitlines()[-1] in capfd.readouterr().out
    monkeypatch.chdir(tmp_path.parent)
    cli.main([str(tmp_path / "trainer" / "task.py")])
    elsewhere = capfd.readouterr().out.splitlines()[-1].partition("unedited: ")[2]
    assert elsewhere == f"cd {tmp_path} && {command}"
    monkeypatch.chdir(tmp_path)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    arguments = command.removeprefix("python ").split()
    ran = forking_python.run(arguments, env=env)
    assert "ran train []" in ran.stdout, ran.stderr
    model.write_text("import tensorflow as tf\ntf.placeholder\nimport nothing\n")
    assert cli.main([str(tmp_path / "trainer" / "task.py")]) == 1
    shown = capfd.readouterr().out
    assert "trainer/model.py:3: refused: nothing. There is no such module" in shown
    assert "trainer/model.py:2: refused" not in shown
    assert "run --cpu" not in shown
