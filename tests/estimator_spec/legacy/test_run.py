# SPDX-License-Identifier: Apache-2.0
"""`python -m estimator_spec run` runs a program as `python program.py` would."""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path

import pytest

import forking_python
from estimator_spec import __main__ as command_line
from estimator_spec.legacy import program_api, run
from estimator_spec.legacy.program_source.program_files import StartedProgram
from tpu_columns import environment

ROOT = Path(__file__).resolve().parents[3]


def start(arguments, cwd):
    """Runs a child process without this process's choices."""
    dropped = ("TF_USE_LEGACY_KERAS", environment.CPU, "PYTHONSAFEPATH")
    env = {name: value for name, value in os.environ.items() if name not in dropped}
    env["PYTHONPATH"] = str(ROOT)
    return forking_python.run(["-m", "estimator_spec", *arguments], env=env, cwd=cwd, timeout=300)


# The command line


def test_options_end_at_the_script():
    """What follows the script is the script's, even if it looks like an option of ours."""
    command = run.parse(["--cpu", "train.py", "--cpu", "auto", "-m"])
    assert command == run.Command("train.py", ["--cpu", "auto", "-m"], False, "1", None)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["a.py"], run.Command("a.py", [])),
        (["--cpu", "auto", "a.py"], run.Command("a.py", [], host="auto")),
        (["--cpu=auto", "a.py"], run.Command("a.py", [], host="auto")),
        (["--cpu", "./auto"], run.Command("./auto", [], host="1")),
        (["--cpu", "replicas", "a.py"], run.Command("a.py", [], host="replicas")),
        (["--cpu=replicas", "a.py"], run.Command("a.py", [], host="replicas")),
        (
            ["--tf1", "--cpu", "a.py"],
            run.Command("a.py", [], False, "1", True),
        ),
        (["--no-tf1", "-m", "a.b", "-x"], run.Command("a.b", ["-x"], True, None, False)),
        (["--", "-odd.py", "x"], run.Command("-odd.py", ["x"])),
        (["--also", "t2t", "--also=slim", "a.py"], run.Command("a.py", [], also=("t2t", "slim"))),
        (["--check", "-m", "a.b"], run.Command("a.b", [], True, check=True)),
    ],
)
def test_options(arguments, expected):
    """Each option is parsed in each of its forms."""
    assert run.parse(arguments) == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no command|usage: python -m estimator_spec COMMAND"),
        (["walk"], "no command 'walk'"),
        (["run"], "the name of a script is missing"),
        (["run", "--cpu"], "the name of a script is missing"),
        (["run", "--gpu", "a.py"], "there is no option --gpu"),
        (["run", "-m"], "-m needs the name of a module"),
        (["run", "no_such_file.py"], "there is no file 'no_such_file.py'"),
        (["run", "--start", "a.py"], "--start is an option of --check"),
        (["run", "--also"], "--also needs the name of a package"),
        (["run", "--check", "no_such_file.py"], "there is no file 'no_such_file.py'"),
        (["run", "--check", "-m", "no.such.module"], "there is no module 'no.such.module'"),
    ],
)
def test_a_wrong_command_line(arguments, words, capsys):
    """A wrong command line exits with status 2, an error and the usage."""
    assert command_line.main(arguments) == 2
    told = capsys.readouterr().err
    assert "usage: python -m estimator_spec" in told
    assert any(part in told for part in words.split("|"))


def test_help(capsys):
    """Both help texts name commands and options."""
    assert command_line.main(["--help"]) == 0
    assert "runs an old program" in capsys.readouterr().out
    assert command_line.main(["run", "--help"]) == 0
    assert "--cpu auto" in capsys.readouterr().out


# Which programs are of TensorFlow 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import tensorflow as tf\ntf.flags.DEFINE_string('a', None, '')", True),
        ("import tensorflow as tf\ntf.train.AdamOptimizer(0.1)", True),
        ("import tensorflow\ntensorflow.placeholder", True),
        ("from tensorflow import logging", True),
        ("import tensorflow.contrib.slim\ntensorflow.get_variable('a', [])", True),
        ("# -*- coding: latin-1 -*-\nimport tensorflow as tf\ntf.app.run()", True),
        ("import tensorflow.compat.v1 as tf\ntf.flags", False),
        ("import tensorflow as tf\ntf.compat.v1.flags", False),
        ("from tensorflow.compat import v1 as tf\ntf.flags", False),
        ("import tensorflow as tf\ntf.contrib.tpu.TPUConfig, tf.estimator.tpu.RunConfig", False),
        ("import tensorflow as tf\ntf.keras.layers.Dense, tf.losses.Loss, tf.data.Dataset", False),
        ("import tensorflow as tf\ntf.no_such_name, tf.train.no_such_name", False),
        ("import numpy as tf\ntf.flags", False),
        ("import tensorflow as tf\nf = tf.train\nf.AdamOptimizer(0.1)", True),
        ("import tensorflow.compat.v1 as tf\nf = tf.train\nf.AdamOptimizer(0.1)", False),
        ("import tensorflow as tf\nprint 'Python 2'\ntf.flags", False),
    ],
)
def test_programs_of_tensorflow_1_are_known_by_their_names(tmp_path, text, expected):
    """A script that uses names of TensorFlow 1 through `import tensorflow` is detected."""
    script = tmp_path / "program.py"
    script.write_text(text)
    assert program_api.uses_tf1_names(StartedProgram(str(script))) is expected


def test_no_program_at_all(tmp_path):
    """A directory or a missing file isn't detected as a TensorFlow 1 script."""
    assert not program_api.uses_tf1_names(StartedProgram(str(tmp_path)))
    assert not program_api.uses_tf1_names(StartedProgram(str(tmp_path / "nothing.py")))


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("import tensorflow as tf\ntf.logging.info('a')", True),
        ("import tensorflow.compat.v1 as tf\ntf.logging.info('a')", False),
        (
            "import tensorflow as tf\n"
            "try:\n    log = tf.logging\n"
            "except AttributeError:\n    log = tf.compat.v1.logging",
            False,
        ),
    ],
)
def test_the_modules_of_a_program_count(tmp_path, monkeypatch, model, expected):
    """A program is of TensorFlow 1 if a module that it imports is, and can't do without."""
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "__init__.py").write_text("")
    (tmp_path / "trainer" / "task.py").write_text("from . import model\n")
    (tmp_path / "trainer" / "model.py").write_text(model)
    monkeypatch.chdir(tmp_path)
    assert program_api.uses_tf1_names(StartedProgram("trainer.task", is_module=True)) is expected


# Running

LOOK_AROUND = """
import json, sys
from absl import flags
import tensorflow.compat.v1 as tf
from tensorflow.keras import layers
import neighbour

flags.DEFINE_integer("steps", 3, "How many.")
FLAGS = flags.FLAGS


def main(argv):
    seen = {
        "argv": sys.argv,
        "rest": argv[1:],
        "steps": FLAGS.steps,
        "name": __name__,
        "file": __file__,
        "main": sys.modules["__main__"].main is main,
        "path": sys.path[0],
        "neighbour": neighbour.WHERE,
        "keras": [layers.Dense.__module__, tf.keras.layers.Dense.__module__],
        "estimator": tf.estimator.Estimator.__module__,
        "rewrite": tf.tpu.rewrite.__module__,
        "v2": tf.executing_eagerly(),
        "flags": sorted(flag.name for flag in FLAGS.get_key_flags_for_module(sys.argv[0])),
    }
    with open("seen.json", "w") as file:
        json.dump(seen, file)
    return 3


if __name__ == "__main__":
    tf.app.run()
"""


@pytest.mark.slow
def test_a_script_sees_what_python_would_give_it(tmp_path):
    """A program sees its arguments, flags, neighbours and main module; its exit status is kept."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for folder in (home, elsewhere):
        folder.mkdir()
        (folder / "neighbour.py").write_text(f"WHERE = {folder.name!r}")
    script = home / "look.py"
    script.write_text(LOOK_AROUND)
    done = start(["run", str(script), "--steps=5", "more"], elsewhere)
    assert done.returncode == 3, done.stderr
    seen = json.loads((elsewhere / "seen.json").read_text())
    keras = seen.pop("keras")
    assert seen == {
        "argv": [str(script), "--steps=5", "more"],
        "rest": ["more"],
        "steps": 5,
        "name": "__main__",
        "file": str(script),
        "main": True,
        "path": str(home),
        "neighbour": "home",
        "estimator": "estimator_spec.core.driver.estimator",
        "rewrite": "tensorflow.python.tpu.tpu",
        "v2": True,
        "flags": ["steps"],
    }
    # Keras 2, built into TensorFlow 2.15 and found in tf_keras from 2.16 on.
    assert len(set(keras)) == 1
    assert keras[0].split(".")[0] in ("keras", "tf_keras")
    assert keras[0].split(".")[0] == "tf_keras" or _tensorflow_release() < (2, 16)


def _tensorflow_release():
    import tensorflow as tf

    return tuple(map(int, tf.__version__.split(".")[:2]))


OF_TENSORFLOW_1 = '''
"""A program as it was written for TensorFlow 1.12."""
from __future__ import print_function

import json

import tensorflow as tf
from tensorflow.contrib import summary
from tensorflow.contrib.tpu.python.tpu import tpu_config
from package import data

flags = tf.flags
FLAGS = flags.FLAGS
flags.DEFINE_string("model_dir", None, "Where the model is.")


def model_fn(features, labels, mode, params):
    x = tf.contrib.layers.layer_norm(features["x"], begin_norm_axis=-1)
    y = tf.layers.dense(x, 1, kernel_initializer=tf.contrib.layers.xavier_initializer(seed=1))
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.contrib.tpu.TPUEstimatorSpec(mode, predictions={"y": y})
    loss = tf.losses.mean_squared_error(labels, y)
    step = tf.train.get_global_step()
    rate = tf.train.exponential_decay(params.rate, step, 10, 0.5)
    optimizer = tf.contrib.tpu.CrossShardOptimizer(tf.train.GradientDescentOptimizer(rate))

    def host_call(step, rate):
        with summary.create_file_writer(FLAGS.model_dir, max_queue=1).as_default():
            with summary.always_record_summaries():
                summary.scalar("rate", rate[0], step=step[0])
                return summary.all_summary_ops()

    return tf.contrib.tpu.TPUEstimatorSpec(
        mode,
        loss=loss,
        train_op=optimizer.minimize(loss, step),
        host_call=(host_call, [tf.reshape(step, [1]), tf.reshape(rate, [1])]),
        eval_metrics=(lambda a, b: {"mae": tf.metrics.mean_absolute_error(a, b)}, [labels, y]),
    )


def main(_):
    tf.logging.set_verbosity(tf.logging.WARN)
    config = tpu_config.RunConfig(
        cluster=tf.contrib.cluster_resolver.TPUClusterResolver(tpu="my-tpu"),
        model_dir=FLAGS.model_dir,
        tpu_config=tpu_config.TPUConfig(10, 8),
    )
    estimator = tf.contrib.tpu.TPUEstimator(
        model_fn,
        config=config,
        params=tf.contrib.training.HParams(rate=0.1),
        train_batch_size=4,
        eval_batch_size=4,
        predict_batch_size=3,
    )
    estimator.train(data.input_fn, max_steps=4)
    metrics = estimator.evaluate(data.input_fn, steps=2)
    prediction = next(estimator.predict(data.input_fn))
    with tf.Session() as session:
        total = session.run(tf.reduce_sum(tf.constant([[1.0, 2.0]]), 1, keep_dims=True))
    with tf.gfile.Open("seen.json", "w") as file:
        json.dump({
            "metrics": sorted(metrics),
            "steps": int(metrics["global_step"]),
            "shape": prediction["y"].shape,
            "total": total.tolist(),
            "variables": estimator.get_variable_names(),
        }, file)


if __name__ == "__main__":
    tf.app.run()
'''

ITS_DATA = """
import numpy as np
import tensorflow as tf


def input_fn(params):
    random = np.random.RandomState(0)
    x, y = random.rand(12, 3).astype("f"), random.rand(12, 1).astype("f")
    data = tf.data.Dataset.from_tensor_slices(({"x": x}, y)).repeat()
    data = data.apply(tf.contrib.data.batch_and_drop_remainder(params["batch_size"]))
    return data.make_one_shot_iterator().get_next()
"""


@pytest.fixture
def old_program(tmp_path):
    """A script and a package of TensorFlow 1.12, and where they are."""
    (tmp_path / "program.py").write_text(textwrap.dedent(OF_TENSORFLOW_1))
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "data.py").write_text(textwrap.dedent(ITS_DATA))
    return tmp_path


@pytest.mark.slow
def test_a_program_of_tensorflow_1_that_was_never_upgraded(old_program):
    """A TF 1.12 program trains, evaluates and predicts under `--cpu`, with one warning for each."""
    done = start(["run", "--cpu", "program.py", "--model_dir=model"], old_program)
    assert done.returncode == 0, done.stderr
    assert json.loads((old_program / "seen.json").read_text()) == {
        "metrics": ["global_step", "loss", "mae"],
        "steps": 4,
        "shape": [1],
        "total": [[3.0]],
        "variables": [
            "LayerNorm/beta",
            "LayerNorm/gamma",
            "dense/bias",
            "dense/kernel",
            "global_step",
        ],
    }
    # absl's handler repeats what TensorFlow's own has said.
    told = [line for line in done.stderr.splitlines() if line.startswith("WARNING:tensorflow:")]
    assert sum("uses names of TensorFlow 1" in line for line in told) == 1
    assert sum("instead of a TPU" in line for line in told) == 1
    assert list((old_program / "model").glob("*.v2")), "the host call wrote no summaries"


@pytest.mark.slow
def test_without_cpu_it_is_the_old_error(old_program):
    """A TPU program fails without a TPU as before; `-m` runs a module, and needs `--tf1`."""
    text = (old_program / "program.py").read_text()
    text = text.replace('tf.contrib.cluster_resolver.TPUClusterResolver(tpu="my-tpu")', "None")
    (old_program / "package" / "train.py").write_text(text.replace("from package", "from ."))
    arguments = ["run", "--tf1", "-m", "package.train", "--model_dir=model"]
    done = start(arguments, old_program)
    assert done.returncode == 1
    assert "RuntimeError: Cannot find any TPU cores in the system" in done.stderr
    assert "run --cpu" in done.stderr
    assert not (old_program / "model" / "checkpoint").exists()


@pytest.mark.slow
def test_detection_with_m(old_program):
    """`-m` detects a module of TensorFlow 1 by its source, and a package by its `__main__`."""
    package = old_program / "package"
    (package / "__init__.py").write_text("import tensorflow as tf\n")  # runs after the detection
    (package / "__main__.py").write_text(
        "import tensorflow as tf\nprint(tf.Session.__name__, tf.executing_eagerly())"
    )
    done = start(["run", "-m", "package"], old_program)
    assert done.stdout.split() == ["Session", "False"], done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("dimension", ["shape[0]", "shape[1]"])
def test_value_of_a_dimension(tmp_path, dimension):
    """A program of TensorFlow 1 on tf.compat.v1 that reads `.value` of a size is told `--tf1`."""
    (tmp_path / "program.py").write_text(
        "import tensorflow.compat.v1 as tf\n"
        "with tf.Graph().as_default():\n"
        f"    print(tf.placeholder(tf.float32, [None, 3]).{dimension}.value)\n"
    )
    done = start(["run", "program.py"], tmp_path)
    assert done.returncode == 1
    assert "object has no attribute 'value'" in done.stderr
    assert "try `run --tf1`" in done.stderr
    done = start(["run", "--tf1", "program.py"], tmp_path)
    assert done.stdout.strip() == {"shape[0]": "None", "shape[1]": "3"}[dimension]


LIBRARY = "import tensorflow as tf\nfrom tensorflow.contrib import tpu\nSESSION = tf.Session\n"


@pytest.mark.slow
def test_a_library_of_tensorflow_1(tmp_path, monkeypatch):
    """`--also` gives an installed package TensorFlow 1's names, and the program its own."""
    site = tmp_path / "lib" / "site-packages"
    (site / "oldlib").mkdir(parents=True)
    (site / "oldlib" / "__init__.py").write_text("from oldlib import models\n")
    (site / "oldlib" / "models.py").write_text(LIBRARY)
    # A library, for all that Python tells: below the directory of installed packages.
    (tmp_path / "program.py").write_text(
        "import sysconfig\n"
        "import tensorflow as tf\n"
        "from estimator_spec.legacy import tf1\n"
        f"tf1._library_directories = lambda: ({str(site)!r},)\n"
        "import sys\n"
        f"sys.path.append({str(site)!r})\n"
        "import oldlib\n"
        "print(oldlib.models.SESSION.__name__, hasattr(tf, 'Session'))\n"
    )
    done = start(["run", "program.py"], tmp_path)
    assert "has no attribute 'Session'" in done.stderr
    assert "`--also PACKAGE`" in done.stderr
    done = start(["run", "--also", "oldlib", "program.py"], tmp_path)
    assert done.stdout.split() == ["Session", "False"], done.stderr
    assert "oldlib uses names of TensorFlow 1" in done.stderr


IN_A_CHILD = """
import subprocess, sys

code = '''
import sys
assert "tensorflow" not in sys.modules
import sitecustomize
print(sitecustomize.MARK)
import importlib
print(importlib.import_module("tensorflow.contrib.tpu").TPUConfig.__module__)
print(importlib.import_module("tensorflow").executing_eagerly())
'''
subprocess.run([sys.executable, "-c", code], check=True)
subprocess.run([sys.executable, "-m", "estimator_spec", "run", "--no-tf1", "old.py"])
"""


@pytest.mark.slow
def test_child_processes(tmp_path):
    """A child process imports nothing large at its start, and runs its own `sitecustomize`."""
    (tmp_path / "sitecustomize.py").write_text("MARK = 'its own'")
    (tmp_path / "program.py").write_text(IN_A_CHILD)
    (tmp_path / "old.py").write_text("import tensorflow as tf\nprint(tf.contrib.__name__)")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    command = ["-m", "estimator_spec", "run", "program.py"]
    done = forking_python.run(command, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    own, config, eager, contrib = done.stdout.splitlines()
    assert own == "its own"
    assert config == "estimator_spec.core.run_config.tpu_config"
    assert (eager, contrib) == ("True", "tensorflow.contrib")
