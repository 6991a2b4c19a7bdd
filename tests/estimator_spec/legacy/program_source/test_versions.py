# SPDX-License-Identifier: Apache-2.0
"""Of branches for some versions of TensorFlow, those that today's versions take are read."""

from __future__ import annotations

import ast

import pytest

from estimator_spec.legacy import program_names
from estimator_spec.legacy.program_source import flow


def names_read(source: str) -> list[str]:
    """Returns the names of TensorFlow that a module uses, other than versions."""
    names = flow.read(ast.parse(source))
    found = {use.name for use in program_names.uses(names) if not use.is_import}
    return sorted(name for name in found if "ersion" not in name and "VERSION" not in name)


OLD = [
    "tf.__version__ < '2'",
    "tf.__version__.startswith('1')",
    "tf.__version__[0] == '1'",
    "not tf.__version__ >= '2.0.0'",
    "int(tf.__version__.split('.')[0]) < 2",
    "float(tf.__version__[:3]) < 2.0",
    "'1.' in tf.VERSION[:2]",
    "LooseVersion(tf.__version__) < LooseVersion('2.0.0')",
    "LooseVersion(tf.__version__) < '2'",
    "distutils.version.StrictVersion(tf.VERSION) < distutils.version.StrictVersion('1.15')",
    "version.parse(tf.__version__) < version.parse('2.0.0a0')",
    "packaging.version.Version(tf.version.VERSION).major == 1",
    "pkg_resources.parse_version(tf.__version__) <= pkg_resources.parse_version('1.15.5')",
    "tuple(map(int, tf.__version__.split('.')[:2])) < (2, 0)",
    "[int(part) for part in tf.__version__.split('.')][0] == 1",
    "tf.__version__.split('.')[0] in ('0', '1')",
    "IS_OLD",
    "not IS_NEW",
    "IS_OLD and tf.Session",
    "not (IS_NEW or anything)",
    "is_old()",
    "tf.compat.v1.VERSION.startswith('1.')",
]
START = """\
import tensorflow as tf
IS_NEW = tf.__version__ >= "2"
IS_OLD = not IS_NEW
def is_old():
    "Returns whether it is."
    return LooseVersion(tf.__version__) < "2"
"""


@pytest.mark.parametrize("test", OLD)
@pytest.mark.parametrize(
    "block",
    [
        "if {0}:\n    tf.flags\nelse:\n    tf.nn",
        "if not ({0}):\n    tf.nn\nelse:\n    tf.flags",
        "def f():\n    if {0}:\n        return tf.flags\n    return tf.nn",
        "def f():\n    if not ({0}):\n        return tf.nn\n    return tf.flags",
        "tf.flags if {0} else tf.nn",
        "({0}) and tf.flags, tf.nn",
        "for i in x:\n    if not ({0}):\n        tf.nn\n        continue\n    tf.flags",
        "if x:\n    tf.nn\nelif {0}:\n    tf.flags",
        "if {0}:\n    tf = tf.contrib\ntf.nn",
        "if {0}:\n    from tensorflow import flags as tf\ntf.nn",
    ],
)
def test_branches_of_older_versions(test: str, block: str) -> None:
    """What only an older version runs isn't read, however the program tests its version."""
    assert set(names_read(START + block.format(test))) <= {"tensorflow.nn", "tensorflow.Session"}
    assert "tensorflow.nn" in names_read(START + block.format(test))


@pytest.mark.parametrize(
    "test",
    [
        "tf.__version__ >= '2.16'",
        "LooseVersion(tf.__version__) < '2.20'",
        "tf.__version__ == expected",
        "tf.executing_eagerly()",
        "version(tf) < 2",
        "hasattr(tf, 'contrib')",
        "hasattr(tf, 'Session')",
        "is_old",
        "tf.__version__ > 2 and x",
        "tf",
        "x < '2'",
    ],
)
def test_both_branches(test: str) -> None:
    """Where today's versions differ, or something else decides, both branches are read."""
    read = names_read(f"{START}if {test}:\n    tf.flags\nelse:\n    tf.nn")
    assert {"tensorflow.flags", "tensorflow.nn"} <= set(read)


def test_what_follows_a_decided_branch() -> None:
    """A name has the value of the branch that is taken, also in functions that run later."""
    source = (
        "import tensorflow as tf\n"
        "if tf.__version__ >= '2.0':\n    tf = tf.compat.v1\n"
        "tf.to_float\n"
        "def f():\n    return tf.placeholder\n"
    )
    prefix = "tensorflow.compat.v1"
    assert [name for name in names_read(source) if name != prefix] == [
        f"{prefix}.placeholder",
        f"{prefix}.to_float",
    ]
    hidden = source.replace("tf.__version__ >= '2.0'", "hasattr(tf, 'compat')")
    assert names_read(hidden) == names_read(source)


def test_a_fallback_that_no_version_needs() -> None:
    """An import that each version of today has doesn't fail: what handles that isn't read."""
    source = (
        "try:\n    import tensorflow.compat.v1 as tf\n    tf.disable_v2_behavior()\n"
        "except ImportError:\n    import tensorflow as tf\n"
        "tf.Session\n"
    )
    assert "tensorflow.compat.v1.Session" in names_read(source)
    assert "tensorflow.Session" not in names_read(source)
    needed = source.replace("compat.v1", "contrib.x").replace("    tf.disable_v2_behavior()\n", "")
    assert {"tensorflow.Session", "tensorflow.contrib.x.Session"} <= set(names_read(needed))
