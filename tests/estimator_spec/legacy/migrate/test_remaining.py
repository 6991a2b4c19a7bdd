# SPDX-License-Identifier: Apache-2.0
"""After a migration no name that TensorFlow lacks is left without a line of the report."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import tensorflow as tf

import generated_programs
from estimator_spec.legacy.migrate import cli
from estimator_spec.legacy.migrate.migration import migrate
from estimator_spec.legacy.migrate.results import Subject


def remaining(source: str) -> list[str]:
    """Returns place and name of what the report says isn't rewritten."""
    found = (each for each in migrate(source).findings if each.kind is Subject.NOT_REWRITTEN)
    return [f"{each.line}:{each.column} {each.reason.split()[0]}" for each in found]


@pytest.mark.parametrize(
    ("source", "places"),
    [
        (
            "from tensorflow.python.training import distribution_strategy_context as c\nc.x\n",
            ["1:1 tensorflow.python.training.distribution_strategy_context"],
        ),
        (
            "from tensorflow.python.keras.utils import CustomObjectScope\nCustomObjectScope({})\n",
            ["1:1 tensorflow.python.keras.utils.CustomObjectScope"],
        ),
        (
            "import tensorflow as tf\nx = tf.python.keras.gone.name\n",
            ["2:5 tensorflow.python.keras.gone.name"],
        ),
        ("import tensorflow as tf\ntf.relu6(1)\n", ["2:1 tensorflow.relu6"]),
        (
            "import tensorflow as tf\nx = tf.python.ops.math_ops.add(1, 2)\n",
            ["2:5 tensorflow.python.ops.math_ops.add"],
        ),
        (
            "import tensorflow as tf\np = tf.python.ops\np.math_ops.add(1, 2)\n",
            ["2:5 tensorflow.python.ops"],
        ),
        (
            "import tensorflow.python.ops.math_ops\ntensorflow.python.ops.math_ops.add(1, 2)\n",
            ["2:1 tensorflow.python.ops.math_ops.add"],
        ),
        (
            "import tensorflow as tf\ntf.core.framework.summary_pb2.Summary()\n",
            ["2:1 tensorflow.core.framework.summary_pb2.Summary"],
        ),
        (
            "import tensorflow as tf\nf = tf.data.experimental.latency_stats\nf('a')\n",
            ["2:5 tensorflow.data.experimental.latency_stats"],
        ),
        (
            "def f():\n    from tensorflow.compat.v1.data.experimental import StatsOptions\n",
            ["2:5 tensorflow.compat.v1.data.experimental.StatsOptions"],
        ),
    ],
)
def test_names_that_are_gone(source: str, places: list[str]) -> None:
    """A name that no rule treats has a line where it is bound or read, by today's names."""
    assert remaining(source) == places


@pytest.mark.parametrize(
    "source",
    [
        "import tensorflow as tf\ntf.nn.relu(1)\ntf.keras.ops.relu(1)\n",
        "from tensorflow.core.framework import summary_pb2\nsummary_pb2.Summary()\n",
        "from tensorflow.python.framework import ops\nops.Tensor\n",
        "from tensorflow import python\nimport tensorflow.python.ops.math_ops as m\n"
        "python.ops.math_ops.add(1, 2)\nm.add(1, 2)\n",
        "import tensorflow as tf\nx = tf.python if hasattr(tf, 'python') else None\n",
        "try:\n    from tensorflow.python.ops import gone\nexcept ImportError:\n    gone = 1\n",
        "import tensorflow as tf\nif hasattr(tf, 'relu6'):\n    x = tf.relu6\n",
    ],
)
def test_names_that_are_there(source: str) -> None:
    """A name that TensorFlow has, or whose absence the program handles, has no line."""
    assert remaining(source) == []


def test_names_of_version_0() -> None:
    """Names that TensorFlow 1.0 renamed get today's, in a module of TensorFlow 1."""
    source = "import tensorflow as tf\ntf.pack([1])\nw = tf.train.SummaryWriter('data')\n"
    done = migrate(source)
    assert not done.findings
    assert "tf.compat.v2.stack([1])" in done.source
    assert "w = tf.summary.FileWriter('data')" in done.source
    assert "import tensorflow.compat.v1 as tf" in done.source


def test_modules_of_a_library() -> None:
    """A name of a module that tf_slim has comes from there."""
    pytest.importorskip("tf_slim")
    module = "tensorflow.contrib.slim.python.slim.nets.inception_v3"
    done = migrate(f"from {module} import inception_v3\nrecord(inception_v3)\n")
    assert f'inception_v3 = estimator_spec.restored("{module}.inception_v3")' in done.source
    assert [each.kind for each in done.findings] == [Subject.TO_INSTALL]


@pytest.mark.parametrize(
    "source",
    [
        "import tensorflow as tf\nk = tf.contrib.legacy_seq2seq.TrainingHelper\n",
        "from tensorflow.contrib import legacy_seq2seq as s\ns.TrainingHelper\n",
        "import tensorflow as tf\nc = tf.contrib\nc.layers.flatten(x)\nc.rnn.NASCell(8)\n",
        "import tensorflow as tf\nc = tf.contrib.slim.conv2d\nd = tf.contrib.rnn.NASCell(8)\n",
        "import tensorflow.contrib.rnn as rnn\nclass C(rnn.NASCell):\n    pass\n",
    ],
)
def test_a_second_run(source: str, tmp_path, capsys) -> None:
    """After `--write` a second run changes nothing, has the stand-ins' lines, and status 1."""
    path = tmp_path / "a.py"
    path.write_text(source)
    assert cli.main(["--write", str(path)]) == 1
    first = capsys.readouterr().err
    text = path.read_text()
    assert "restored(" in text
    assert cli.main(["--write", str(path)]) == 1
    assert path.read_text() == text
    second = capsys.readouterr().err
    assert first.count("isn't restored") == second.count("isn't restored") == 1


def test_lines_are_those_of_the_source() -> None:
    """Added imports don't move the place that a line names."""
    source = (
        "import tensorflow as tf\n\ntf.estimator.Estimator(f)\nx = tf.raw_ops.CompareAndBitpack\n"
    )
    assert remaining(source) == ["4:5 tensorflow.raw_ops.CompareAndBitpack"]


@pytest.mark.skipif(tf.__version__ != "2.21.0", reason="the names are TensorFlow 2.21's")
def test_nothing_dead_remains_without_a_line() -> None:
    """Of 320 migrated programs each that fails with TensorFlow, or has a stand-in, has a line.

    They read recorded names of tf.contrib, compat.v1, TensorFlow 0.x and private modules, in twenty
    spellings. A second run has a line for each of them, too. A program whose name is there has a
    line only if its spelling isn't followed.
    """
    command = [sys.executable, "-W", "ignore", generated_programs.__file__, "320", "48"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["silent"] == []
    assert found["failing"] > 100
    conservative = ("is passed on here", "may be read here")
    assert all(any(words in each[-1] for words in conservative) for each in found["needless"])


def test_arguments_of_tensorflow_1() -> None:
    """A renamed argument that isn't rewritten has a line in TensorFlow 2's API, and only there."""
    call = "tf.reduce_sum(x, keep_dims=True, **options)"
    text = f"def f(x, **options):\n    return {call}\n"
    (finding,) = migrate(f"import tensorflow as tf\n{text}").findings
    assert "has had no argument keep_dims since TensorFlow 2.0: use keepdims" in finding.reason
    assert finding.line == 3
    assert not migrate(f"import tensorflow as tf\ntf.Session()\n{text}").findings


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("tf.scalar_summary(tags='loss', values=1.0)", "summary.scalar"),
        ("tf.summary.scalar(tags='loss', values=1.0)", "summary.scalar"),
        ("tf.concat(concat_dim=0, values=[[1]])", "concat"),
        ("tf.split(split_dim=0, num_split=2, value=x)", "split"),
        ("tf.select(x, t=1, e=2)", "where"),
    ],
)
@pytest.mark.parametrize("other", ["tf.Session()\n", ""])
def test_arguments_of_version_0(call: str, name: str, other: str) -> None:
    """An argument that TensorFlow 1.0 renamed has a line, whatever the API and the name."""
    source = f"import tensorflow as tf\n{other}{call}\n"
    found = migrate(source).findings
    assert found
    assert all("has had no argument" in each.reason for each in found)
    assert all(name in each.reason for each in found)


def test_todays_names_of_contrib() -> None:
    """Names of tf.contrib that TensorFlow has elsewhere get these names."""
    source = (
        "import tensorflow as tf\ntfe = tf.contrib.eager\ntfe.Variable(1.0)\ntfe.metrics.Mean()\n"
        "tf.contrib.keras.layers.Dense(3)\ntf.contrib.signal.stft(x, 10, 5)\n"
        "tf.contrib.data.TextLineDataset('a')\n"
    )
    done = migrate(source)
    assert not done.findings
    names = [
        "tf.Variable(1.0)",
        'contrib.eager.metrics").Mean()',
        "keras.layers.Dense(3)",
        "tf.signal.stft(",
    ]
    for name in [*names, "data.TextLineDataset('a')"]:
        assert name in done.source
    assert migrate(done.source).source == done.source


@pytest.mark.parametrize(
    "source",
    [
        "import tensorflow as tf\ntf.contrib.keras.layers.Dense(3)\n",
        "from tensorflow.contrib import keras as k\nk.models.Sequential()\n",
        "from tensorflow.contrib.keras import layers, models as m\nm.Model(layers.Input([1]))\n",
        "from tensorflow.contrib.keras.layers import Dense\nDense(3)\n",
        "import tensorflow.contrib.keras.layers as layers\nlayers.Dense(3)\n",
        "import tensorflow.contrib.keras\ntensorflow.contrib.keras.layers.Dense(3)\n",
        "from tensorflow.contrib.keras.python.keras.layers import Dense\nDense(3)\n",
        "from tensorflow.contrib.keras.api.keras.preprocessing import text\ntext.Tokenizer()\n",
    ],
)
def test_keras_of_contrib(source: str) -> None:
    """tf.contrib.keras and its parts become TensorFlow's Keras 2, selected in the same run."""
    done = migrate(source)
    assert not done.findings
    assert ".keras" in done.source and "contrib" not in done.source
    assert "select_legacy_keras()" in done.source
    assert migrate(done.source).source == done.source
