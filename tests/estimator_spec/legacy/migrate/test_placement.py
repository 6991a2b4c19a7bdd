# SPDX-License-Identifier: Apache-2.0
"""Where a migration adds imports and statements: the program compiles and does what it did."""

from __future__ import annotations

import ast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from estimator_spec.legacy.migrate.migration import migrate
from named_modules import values

# What precedes the first import of TensorFlow: it must stay first, or may be anything.
FIRST = ["", "#!/usr/bin/python\n# -*- coding: utf-8 -*-\n", "# é\n\n\n"]
DOCSTRINGS = ["", '"""é: import tensorflow as tf"""', "'''Two\nlines.'''", '"""One."""; é = 1']
FUTURES = ["", "from __future__ import annotations", "from __future__ import (\n    division,\n)"]
OTHERS = ["", "import functools, contextlib", "x = '''\n'''; import functools", "é = 'é'; y = 1"]
SEPARATORS = ["\n", "; ", ";\\\n", "\n\n# import tensorflow \\\n", "  # why; \\\n"]
# Statements with an import, `USE` of its names and the name `f` of what is called afterwards.
PIECES = [
    "IMPORT\nUSE",
    "IMPORT; USE",
    "IMPORT;\\\n  USE;",
    "x = 'é'; IMPORT; import functools; USE; y = 2",
    "import functools; IMPORT\nimport contextlib; USE",
    "if record: IMPORT; USE",
    "if record:\n    IMPORT\n    USE",
    "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    IMPORT\nelse:\n    IMPORT\nUSE",
    "try:\n    IMPORT\nexcept ValueError: pass\nUSE",
    "def f(): IMPORT; USE\nf()",
    "def f():\n    '''Doc.'''\n    IMPORT\n    def g(): USE\n    g()\nf()",
    "@decorate\ndef f():\n    IMPORT\n    USE\nf()",
    "@ decorate\n# why\n@(decorate)\nclass C:\n    IMPORT\n    def f(self):\n        IMPORT; USE\n"
    "C().f()",
    "@decorate\nclass C:\n    @decorate\n    def f(self):\n        '''Doc.'''\n"
    "        IMPORT; USE\nC().f()",
    "@decorate\nasync def f():\n    IMPORT\n    USE\n"
    "with __import__('contextlib').suppress(StopIteration): f().send(None)",
    "match [1]:\n    case [n] if n: IMPORT; USE",
    "match {}:\n    case _:\n        IMPORT\n        USE",
    "for _ in [1]: IMPORT; USE",
    "while True:\n    IMPORT\n    USE; break",
    "with __import__('contextlib').suppress(ValueError):\n    IMPORT\n    USE",
    "(lambda: 1)(); IMPORT; USE",
]
IMPORTS = [
    ("import tensorflow as tf", "record(tf.estimator.ModeKeys.TRAIN)"),
    ("import tensorflow as tf", "record(tf.placeholder)"),
    ("import tensorflow as tf", "record(tf.keras.layers, tf.contrib.crf.crf_decode)"),
    ("from tensorflow import keras", "record(keras.Model)"),
    ("from tensorflow.contrib import tpu", "record(tpu.TPUConfig)"),
    ("from tensorflow.contrib import tpu, rnn", "record(tpu.TPUConfig, rnn.LSTMCell)"),
    ("import tensorflow.contrib.rnn", "record(tensorflow.contrib.rnn.LSTMCell)"),
]


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Draws a program with up to three imports of TensorFlow."""
    draw_one = lambda options: draw(st.sampled_from(options))  # noqa: E731
    parts = [draw_one(DOCSTRINGS), draw_one(FUTURES), draw_one(OTHERS)]
    source = draw_one(FIRST)
    for part in filter(None, parts):
        source += part + draw_one(SEPARATORS)
    if not source.endswith(("\n", " ")) or source.endswith("\\\n"):
        source += "\n" if not source.endswith("\\\n") else "pass\n"
    for _ in range(draw(st.integers(1, 3))):
        statement, use = draw_one(IMPORTS)
        source += draw_one(PIECES).replace("IMPORT", statement).replace("USE", use) + "\n"
    source = source.rstrip("\n") if draw(st.booleans()) else source
    return source.replace("\n", draw_one(["\n", "\r\n", "\r"]))


@settings(settings.get_profile("patient"), max_examples=150, derandomize=True)
@example('"""Doc."""; import tensorflow as tf; record(tf.placeholder)')
@example("from __future__ import division; import tensorflow as tf; record(tf.estimator.ModeKeys)")
@given(programs())
def test_added_statements(source: str) -> None:
    """A migrated program compiles, keeps its docstring, records the same, and stays as it is."""
    try:
        compile(source, "program", "exec", dont_inherit=True)
    except SyntaxError:
        return
    new = migrate(source).source
    decorate = lambda f: f  # noqa: E731
    assert ast.get_docstring(ast.parse(new)) == ast.get_docstring(ast.parse(source)), new
    assert values(new, decorate=decorate) == values(source, decorate=decorate), new
    assert migrate(new).source == new


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "import tensorflow as tf; x = tf.placeholder(1)",
            "import tensorflow.compat.v1 as tf; tf.disable_v2_behavior(); x = tf.placeholder(1)",
        ),
        (
            "'Doc'; import tensorflow as tf\nx = tf.estimator.RunConfig",
            "'Doc'; import estimator_spec.run_config; import tensorflow as tf\n"
            "x = estimator_spec.run_config.RunConfig",
        ),
        (
            "@decorate\ndef f():\n    import tensorflow as tf\n    return tf.estimator.ModeKeys\n",
            "import estimator_spec\n\n\n@decorate\ndef f():\n    import tensorflow as tf\n"
            "    return estimator_spec.ModeKeys\n",
        ),
    ],
)
def test_places(source: str, expected: str) -> None:
    """Statements go after the docstring, before decorators, and before the first use."""
    assert migrate(source).source == expected
