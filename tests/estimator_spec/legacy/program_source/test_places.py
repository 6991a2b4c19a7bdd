# SPDX-License-Identifier: Apache-2.0
"""Each name of a syntax tree is found at its place in the source, on every version of Python."""

from __future__ import annotations

import ast

import pytest

from estimator_spec.legacy.program_source import places
from estimator_spec.legacy.program_source.places import Places

SOURCES = [
    "x = f'{tf.nn!r:>{tf.size}} {{tf.no}}' 'tf.no' f\"{a['b']}\"\n",
    "x = f'''\n{\n  tf.nn} {f\"{tf.inner}\" = } {tf.f(a='}') if 1 != b else 3:%H:%M}'''\n",
    "y = rf'\\d{tf.nn}' + f\"é{tf.nn=}\" + f'{ {1: tf.nn}[1] }'\n",
    "z = (f'{tf.a}'  # f'{tf.no}'\n     F'{tf.c:{tf.d}{tf.e}}')\n",
    "f = f'{(lambda x: tf.a)(1)} {tf.a == b} {a <= tf.b} {tf.x!s}'\n",
    "# é\r\nif a:\r\n\té = tf.nn; b = 'é', tf.nn\r\n",
    'f"""{tf.a}\n{tf.b:{tf.c}}"""\n',
]


@pytest.mark.parametrize("source", SOURCES)
def test_names(source: str) -> None:
    """The text at a name's place is the name, in f-strings, too."""
    tree = places.parse(source)
    at = Places(source)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    num_names = source.count("tf.") - source.count("tf.no")
    assert sum(node.id == "tf" for node in names) == num_names
    for node in names:
        start, end = at.span(node)
        assert source[start:end] == node.id


def test_statements_begin_with_their_decorators() -> None:
    """A decorated function begins at the first of its decorators."""
    source = "x = 1\n@a.b(c)  # @d\n@ e\ndef f(): pass\n"
    (_, function) = places.parse(source).body
    assert Places(source).statement(function) == source.index("@a")
