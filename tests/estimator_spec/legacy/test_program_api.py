# SPDX-License-Identifier: Apache-2.0
"""Which API of TensorFlow a program was written for, and what that means for its names."""

from __future__ import annotations

import types
from typing import Any

import pytest
import tensorflow as tf

from estimator_spec.legacy import api_differences, program_api, tf1
from estimator_spec.legacy.program_source.program_files import StartedProgram


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from tensorflow import *\nplaceholder(float32)", True),
        ("from tensorflow import *\nfloat32, nn.relu, len, placeholder_of_ours", False),
        ("from tensorflow.compat.v1 import *\nplaceholder(float32)", False),
        ("from tensorflow import *\nplaceholder = len\nplaceholder(float32)", False),
        ("import tensorflow as tf\ntf.losses.get_total_loss()", True),
        ("import tensorflow as tf\ntf.losses.mean_squared_error, tf.metrics.Mean", False),
        ("import tensorflow as tf\ntf.metrics.auc", True),
        ("import tensorflow as tf\ndef f(tf):\n    return tf.Session", False),
        ("import tensorflow as tf\nif tf.__version__ < '2':\n    tf.Session", False),
        ("import tensorflow as tf\ntf = tf.compat.v1\ntf.Session", False),
        ("try:\n    import tensorflow as tf\nexcept ImportError:\n    tf = None\ntf.Session", True),
    ],
)
def test_programs_of_tensorflow_1(tmp_path, text, expected):
    """A program is of TensorFlow 1 by the names that its scopes and branches give it."""
    script = tmp_path / "program.py"
    script.write_text(text)
    assert program_api.uses_tf1_names(StartedProgram(str(script))) is expected


@pytest.mark.parametrize(
    "text",
    [
        "if a == 0:\n    pass\n" + "elif a:\n    tf.Session\n" * 2000,
        "x = " + "a + " * 2000 + "tf.Session\n",
        f"x = {'-' * 80}tf.Session\n",
        "tf.Session\n" + f"x = {'a.f(' * 190}{')' * 190}\n",
    ],
)
def test_long_programs(tmp_path, text):
    """Hundreds of branches and operands, and deep calls, are read."""
    script = tmp_path / "program.py"
    script.write_text(f"import tensorflow as tf\n{text}")
    assert program_api.uses_tf1_names(StartedProgram(str(script)))


def test_all_names_of_a_program_of_tensorflow_1():
    """`from tensorflow import *` gives such a program the public names of its API."""
    names = tf1.TF1Module().__all__
    assert {"Session", "placeholder", "nn", "optimizers"} <= set(names)
    assert not [name for name in names if name.startswith("_")]


def read(module: Any, name: str) -> Any:
    """Returns what a dotted name is, or None."""
    for part in name.split("."):
        module = getattr(module, part, None)
    return module


@pytest.mark.skipif(tf.__version__ < "2.21", reason="the table is of the newest version")
def test_names_that_differ():
    """Each name of the table is another object in each API; the generations' models aside."""
    names = [
        f"{module}.{name}".lstrip(".")
        for module, listed in api_differences.NAMES.items()
        for name in listed
        if module != "estimator"
    ]
    assert len(names) > 200
    assert [name for name in names if read(tf, name) is read(tf.compat.v1, name)] == []


@pytest.mark.skipif(tf.__version__ < "2.21", reason="the table is of the newest version")
@pytest.mark.parametrize("module", ["", "nn", "data", "image", "io", "linalg", "math", "train"])
def test_names_that_do_not_differ(module):
    """Functions and classes that aren't in the table have one implementation in both APIs."""
    new, old = (read(api, module) if module else api for api in (tf, tf.compat.v1))
    for name in dir(new):
        first, second = getattr(new, name), getattr(old, name, None)
        full = f"tensorflow.{module}.{name}".replace("..", ".")
        if name.startswith("_") or second is None or isinstance(first, types.ModuleType):
            continue
        if not program_api.differs_in_tf1(full):
            assert first is second or implementation(first) == implementation(second), full


def implementation(value: Any) -> Any:
    """Returns the module and name of what TensorFlow's decorators are around."""
    for _ in range(10):
        decorator = getattr(value, "_tf_decorator", None)
        inner = getattr(decorator, "decorated_target", getattr(value, "__wrapped__", None))
        if inner is None:
            break
        value = inner
    return getattr(value, "__module__", value), getattr(value, "__qualname__", None)


def test_names_in_a_program_of_tensorflow_1():
    """They are those of `tensorflow.compat.v1`, but for packages and names without versions."""
    expected = {
        "tensorflow": "tensorflow.compat.v1",
        "tensorflow.Session": "tensorflow.compat.v1.Session",
        "tensorflow.estimator.LinearRegressor": "tensorflow.compat.v1.estimator.LinearRegressor",
        "tensorflow.contrib.tpu": "tensorflow.compat.v1.contrib.tpu",
        "tensorflow.compat.v2.nn": "tensorflow.compat.v2.nn",
        "tensorflow.python.ops": "tensorflow.python.ops",
        "tensorflow.optimizers.SGD": "tensorflow.optimizers.SGD",
        "tensorflow_estimator.x": "tensorflow_estimator.x",
    }
    assert {name: program_api.name_in_tf1(name) for name in expected} == expected
