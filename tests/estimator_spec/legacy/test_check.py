# SPDX-License-Identifier: Apache-2.0
"""`run --check` says what becomes of each old name of a program, without running it."""

from __future__ import annotations

import functools
import inspect
import re
import subprocess
import sys

import pytest
import tensorflow as tf

from estimator_spec import __main__ as command_line
from estimator_spec.legacy import check, renamed_arguments
from estimator_spec.legacy.check import NameOutcome
from estimator_spec.legacy.program_source.program_files import StartedProgram

PROGRAM = """\
import tensorflow as tf
import tensorflow.contrib.layers as layers
from tensorflow.contrib import quantize, legacy_seq2seq
from tensorflow_estimator.python.estimator import estimator as estimator_lib
from package import model
import os
try:
    from tensorflow.contrib import legacy_seq2seq
except ImportError:
    legacy_seq2seq = None
try:
    image = tf.contrib.image
except AttributeError:
    image = None
flags = tf.flags
learn = tf.contrib.learn

def main():
    flags.DEFINE_string("a", None, "")
    layers.xavier_initializer()
    estimator_lib._load_global_step_from_checkpoint_dir("x")
    legacy_seq2seq.AttentionWrapper(3)
    learn.SVM()
    tf.estimator.RNNClassifier([1])
    tf.keras.layers.Dense(1)
    tf.no_such_name
    tf.data.Dataset
    raise SystemError("not run")

main()
"""
MODEL = """\
from . import inner
from tensorflow.compat.v1 import estimator
estimator.tpu.TPUEstimator
from tensorflow.python.tpu import async_checkpoint
from tensorflow.python.no_such_module import function
from tensorflow.python.framework import ops
"""


@pytest.fixture
def program(tmp_path):
    """Writes a program with modules beside it, and returns its path."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "model.py").write_text(MODEL)
    (tmp_path / "package" / "inner.py").write_text("print 'Python 2'")
    (tmp_path / "unrelated.py").write_text("import tensorflow.contrib.nonsense")
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path / "program.py"


def by_place(found):
    """Returns outcome and name by file and line."""
    return {(finding.place, finding.name): finding for finding in found}


def test_every_old_name(program):
    """Each use is put back, stood in for, left to the program or refused, with its line."""
    found = by_place(check.check(StartedProgram(str(program)), as_tf1=True).findings)
    contrib, v1 = "tensorflow.contrib", "tensorflow.compat.v1"
    estimator = "tensorflow_estimator.python.estimator.estimator"
    assert {key: finding.outcome.name for key, finding in found.items()} == {
        ("program.py:2", f"{contrib}.layers"): "RESTORED",
        ("program.py:3", f"{contrib}.quantize"): "STAND_IN",
        ("program.py:3", f"{contrib}.legacy_seq2seq"): "STAND_IN",
        ("program.py:4", estimator): "RESTORED",
        ("program.py:8", f"{contrib}.legacy_seq2seq"): "HANDLED",
        ("program.py:12", f"{contrib}.image"): "HANDLED",
        ("program.py:15", "tensorflow.flags"): "RESTORED",
        ("program.py:16", f"{contrib}.learn"): "RESTORED",
        ("program.py:19", "tensorflow.flags.DEFINE_string"): "RESTORED",
        ("program.py:20", f"{contrib}.layers.xavier_initializer"): "RESTORED",
        ("program.py:21", f"{estimator}._load_global_step_from_checkpoint_dir"): "RESTORED",
        ("program.py:22", f"{contrib}.legacy_seq2seq.AttentionWrapper"): "REFUSED",
        ("program.py:23", f"{contrib}.learn.SVM"): "REFUSED",
        ("program.py:24", "tensorflow.estimator.RNNClassifier"): "REFUSED",
        ("program.py:26", "tensorflow.no_such_name"): "REFUSED",
        ("package/inner.py:1", "package/inner.py"): "REFUSED",
        ("package/model.py:2", f"{v1}.estimator"): "RESTORED",
        ("package/model.py:3", f"{v1}.estimator.tpu.TPUEstimator"): "RESTORED",
        ("package/model.py:4", "tensorflow.python.tpu.async_checkpoint"): "STAND_IN",
        ("package/model.py:5", "tensorflow.python.no_such_module.function"): "REFUSED",
    }
    assert "model_fn" in found["program.py:24", "tensorflow.estimator.RNNClassifier"].text
    assert "Python 3" in found["package/inner.py:1", "package/inner.py"].text
    restored = found["package/model.py:3", f"{v1}.estimator.tpu.TPUEstimator"]
    assert restored.text == "Now estimator_spec.TPUEstimator."


def outcomes(tmp_path, text, as_tf1=None):
    """Returns the outcome of each old name of a program, by the name."""
    (tmp_path / "program.py").write_text(text)
    found = check.check(StartedProgram(str(tmp_path / "program.py")), as_tf1).findings
    return {finding.name: finding.outcome for finding in found}


@pytest.mark.skipif(tf.__version__ < "2.16", reason="these modules are TensorFlow 2.15's, too")
def test_private_modules(tmp_path):
    """A private module or a name of one that TensorFlow lacks is refused; others exist."""
    text = """\
from tensorflow.core.framework import summary_pb2
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2
from tensorflow.core.framework import no_such_pb2
from tensorflow.python.framework import ops, no_such_module
from tensorflow.python.ops.array_ops import concat, no_such_function
from tensorflow.python.training import distribution_strategy_context
from tensorflow.python.keras.utils import CustomObjectScope
summary_pb2.Summary()
summary_pb2.NoSuchMessage()
"""
    found = outcomes(tmp_path, text)
    assert found == dict.fromkeys(
        [
            "tensorflow.core.framework.no_such_pb2",
            "tensorflow.core.framework.summary_pb2.NoSuchMessage",
            "tensorflow.python.framework.no_such_module",
            "tensorflow.python.ops.array_ops.no_such_function",
            "tensorflow.python.training.distribution_strategy_context",
            "tensorflow.python.keras.utils.CustomObjectScope",
        ],
        NameOutcome.REFUSED,
    )


def test_names_of_keras_namespaces(tmp_path):
    """TF1's members of tf.losses and tf.metrics make a program one of TensorFlow 1."""
    text = "import tensorflow as tf\ntf.losses.get_total_loss()\ntf.metrics.auc(1, 2)\n"
    names = ["tensorflow.losses.get_total_loss", "tensorflow.metrics.auc"]
    assert outcomes(tmp_path, text) == dict.fromkeys(names, NameOutcome.RESTORED)
    assert outcomes(tmp_path, text, as_tf1=False) == dict.fromkeys(names, NameOutcome.REFUSED)


def test_names_of_version_0(tmp_path):
    """Names that TensorFlow 1.0 renamed are put back, in a program of TensorFlow 1."""
    text = "import tensorflow as tf\ntf.pack([1])\ntf.train.SummaryWriter('a')\ntf.relu6\n"
    assert outcomes(tmp_path, text, as_tf1=True) == {
        "tensorflow.pack": NameOutcome.RESTORED,
        "tensorflow.train.SummaryWriter": NameOutcome.RESTORED,
        "tensorflow.relu6": NameOutcome.REFUSED,
    }


def test_names_of_a_library(tmp_path):
    """A name of tf.contrib that tf_slim has is put back, and one that it lacks is refused."""
    pytest.importorskip("tf_slim")
    text = "from tensorflow.contrib import layers\nlayers.conv2d\nlayers.sparse_feature_cross\n"
    found = outcomes(tmp_path, text)
    assert found["tensorflow.contrib.layers.conv2d"] is NameOutcome.RESTORED
    assert found["tensorflow.contrib.layers.sparse_feature_cross"] is NameOutcome.REFUSED


def test_builtins_of_python_2(tmp_path):
    """A builtin that Python 3 lacks is refused, unless the program provides for that."""
    text = """\
import six, sys
def decode(text):
    if isinstance(text, unicode):
        return text
    return [xrange(3) for _ in range(2)]
"""
    assert outcomes(tmp_path, text) == dict.fromkeys(["unicode", "xrange"], NameOutcome.REFUSED)
    handled = """\
import six, sys
try:
    unicode
except NameError:
    unicode = str
if sys.version_info[0] < 3:
    text_types = (basestring, long)
kind = str if six.PY3 else basestring
def f(file, x=None):
    return file, unicode(x)
def g():
    try:
        return reduce(max, [1])
    except NameError:
        return 1
"""
    assert outcomes(tmp_path, handled) == {}
    assert outcomes(tmp_path, "from six.moves import *\nxrange(3)\n") == {}


def test_tensorflow_is_not_started(program):
    """`run --check` and `doctor` of a program import neither TensorFlow nor a library of it."""
    code = (
        "import sys; from estimator_spec import __main__ as command_line\n"
        f"for command in (['run', '--check'], ['doctor']): command_line.main([*command, "
        f"{str(program)!r}])\n"
        "print({'tensorflow', 'tf_slim', 'keras', 'tensorboard'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"
    assert "AttentionWrapper" in done.stdout


@pytest.mark.parametrize(
    ("source", "is_refused"),
    [
        ("tf.reduce_sum(x, keep_dims=True)", True),
        ("from tensorflow import squeeze\nsqueeze(x, squeeze_dims=[1])", True),
        ("tf.compat.v2.nn.softmax(x, dim=-1)", True),
        ("tf.nn.conv2d(x, filter=f, strides=1, padding='SAME')", True),
        ("tf.nn.dropout(x, keep_prob=0.9)", True),
        ("tf.scalar_summary(tags='a', values=1.0)", True),
        ("tf.concat(concat_dim=0, values=[])\ntf.Session()", True),
        ("tf.reduce_sum(x, keep_dims=True)\ntf.Session()", False),
        ("tf.compat.v1.reduce_sum(x, keep_dims=True)", False),
        ("tf.reduce_sum(x, keepdims=True)\nself.reduce_sum(x, keep_dims=True)", False),
        ("try:\n    tf.reduce_sum(x, keep_dims=True)\nexcept TypeError:\n    pass", False),
    ],
)
def test_arguments_that_were_renamed(tmp_path, source, is_refused):
    """An argument that the function no longer has is refused, where the program has that API."""
    path = tmp_path / "a.py"
    path.write_text(f"import tensorflow as tf\n{source}\n")
    result = check.check(StartedProgram(str(path)))
    assert result.is_supported is not is_refused
    texts = [each.text for each in result.findings if each.outcome is NameOutcome.REFUSED]
    assert all("has had no argument" in text for text in texts)


def test_renamed_arguments_are_those_of_tensorflow():
    """Each function has the present arguments only, and its first version the former ones, too."""
    wrong = []
    for (function, old), argument in renamed_arguments.ARGUMENTS.items():
        if argument.since == 2:
            first, second = (
                {*inspect.signature(functools.reduce(getattr, function.split("."), api)).parameters}
                for api in (tf.compat.v1, tf)
            )
            if old not in first - second or not {argument.now} <= {"", *second}:
                wrong.append((function, argument))
    assert not wrong


def test_names_of_the_installed_tensorflow(tmp_path, capsys):
    """With `--start`, names that aren't recorded are looked up in TensorFlow itself."""
    path = tmp_path / "a.py"
    path.write_text(
        "import tensorflow as tf\nfrom tensorflow.python.framework import ops\n"
        "tf.nn.relu.any, tf.keras.layers.Dense, tf.io.gfile.GFile.read, tf.estimator.Estimator\n"
        "tf.Tensor.no_such_member\n"
    )
    assert command_line.main(["run", "--check", str(path)]) == 0
    assert "no_such_member" not in capsys.readouterr().out
    assert command_line.main(["run", "--check", "--start", str(path)]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].startswith("The names are looked up in TensorFlow 2.")
    assert len(printed) == 5
    assert "a.py:4: refused: tensorflow.Tensor.no_such_member. TensorFlow 2." in printed[3]


def test_names_of_tensorflow_1_without_its_names(program):
    """Without TensorFlow 1's API its names are refused, with the option that helps."""
    found = by_place(check.check(StartedProgram(str(program)), as_tf1=False).findings)
    flags = found["program.py:15", "tensorflow.flags"]
    assert flags.outcome is NameOutcome.REFUSED
    assert "run --tf1" in flags.text


def test_the_command(program, capsys, monkeypatch):
    """The command prints a line for each name, and exits with 1 if one is refused."""
    assert command_line.main(["run", "--check", str(program)]) == 1
    printed = capsys.readouterr().out
    outcomes = re.findall(r": (put back|stood in for|left to the program|refused): ", printed)
    assert "refused" not in outcomes[: outcomes.index("refused")]
    assert set(outcomes[outcomes.index("refused") :]) == {"refused"}
    decoder = "tensorflow.contrib.legacy_seq2seq.AttentionWrapper"
    assert f"program.py:22: refused: {decoder}. Write the decoder" in printed
    assert printed.splitlines()[-1].startswith("Old names: 9 put back, ")
    good = program.parent / "good.py"
    good.write_text("import tensorflow as tf\ntf.estimator.Estimator\n")
    assert command_line.main(["run", "--check", str(good)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Files read: 1: good.py.",
        "good.py:2: put back: tensorflow.estimator.Estimator. Now estimator_spec.Estimator.",
        "Old names: 1 put back, 0 stood in for, 0 left to the program, 0 refused.",
    ]
    monkeypatch.chdir(program.parent)
    assert command_line.main(["run", "--check", "-m", "package.model"]) == 1
    assert "\npackage/model.py:2: put back" in capsys.readouterr().out


def test_modules_that_are_not_found(program, capsys, monkeypatch):
    """A module that the program needs to start is refused; another one is listed as not read."""
    task = program.parent / "package" / "task.py"
    task.write_text("from package import other\ndef f():\n    import nothing\n")
    (program.parent / "package" / "other.py").write_text("import tensorflow.contrib.tpu\n")
    assert command_line.main(["run", "--check", str(task)]) == 1
    assert "task.py:1: refused: package. There is no such module" in capsys.readouterr().out
    monkeypatch.chdir(program.parent)
    assert command_line.main(["run", "--check", "-m", "package.task"]) == 0
    printed = capsys.readouterr().out
    assert "package/other.py:1: put back: tensorflow.contrib.tpu" in printed
    assert "package/task.py:3: not read: nothing. There is no such module" in printed
    assert "Files read: 3: package/task.py, package/__init__.py, package/other.py." in printed
