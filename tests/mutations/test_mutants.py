# SPDX-License-Identifier: Apache-2.0
"""Mutants of source, and which tests run a line."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import measure
import mutants

ROOT = Path(__file__).resolve().parents[2]

CHANGES = [
    ("x = a < b", {"(a <= b)"}),
    ("x = a is not b", {"(a is b)"}),
    ("x = a and b or c", {"(a and b and c)", "(a or b)", "((a and b) and c)"}),
    ("x = not a", {"(a)"}),
    ("x = a + 2", {"(a - 2)", "(3)"}),
    ("x = True", {"(False)"}),
    ("if a:\n    pass", {"(not a)"}),
    ("if a == b:\n    pass", {"(a != b)"}),
    ("def f():\n    return a", {"(None)"}),
    ("def f():\n    return None", set()),
    ("def f(x: int = 1) -> list[2]:\n    pass", {"(2)"}),
    ("@f(1)\ndef g():\n    raise ValueError(2 + 3)", set()),
    ("x = f'{1 + 2}' 'text'", set()),
    ("if TYPE_CHECKING:\n    x = 1", set()),
]


@pytest.mark.parametrize("source, changed", CHANGES)
def test_what_is_changed(source, changed):
    """Each kind of expression has its mutants; annotations, strings and messages have none."""
    found = {mutant.after for mutant in mutants.find_mutants("a.py", source)}
    assert found <= changed and bool(found) == bool(changed)


def test_a_mutant_differs_in_one_expression():
    """Each mutant of a file of ours compiles, and is the file but for the expression."""
    path = "tpu_columns/partition.py"
    source = (ROOT / path).read_bytes()
    found = mutants.find_mutants(path, source.decode())
    assert len(found) > 10
    for mutant in found:
        changed = mutant.apply(source)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source)), mutant
        start, end = mutant.start, len(source) - mutant.end
        assert changed.startswith(source[:start]) and changed.endswith(source[-end:])


def test_a_place_after_other_characters():
    """Places are those of bytes: characters of several bytes may stand before them."""
    source = "x = 'ε' * 2\n"
    (number, product) = sorted(mutants.find_mutants("a.py", source), key=lambda m: -m.start)
    assert number.apply(source.encode()).decode() == "x = 'ε' * (3)\n"
    assert product.apply(source.encode()).decode() == "x = ('ε' / 2)\n"


def test_the_same_seed_draws_the_same():
    """A seed draws the same mutants each time, and another one others."""
    draws = [mutants.sample(ROOT, ("tpu_columns",), 20, seed) for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]
    assert len(set(draws[0])) == 20


def test_tests_of_a_line(tmp_path):
    """A line's tests are those that ran it, the fastest first; a fixture's are its file's."""
    coverage = pytest.importorskip("coverage")
    data = coverage.CoverageData(str(tmp_path / "coverage"))
    contexts = {
        "|tests/a/test_a.py::test_slow|run": [2],
        "|tests/a/test_a.py::test_fast[x y]|run": [2],
        "tests/b/test_b.py::test_process (call)": [3],
        "|tests/b/test_b.py::test_one|setup": [4],
        '""': [1, 2, 3, 4],  # on import, as the settings write it
    }
    for context, lines in contexts.items():
        data.set_context(context)
        data.add_lines({"/some/tree/tpu_columns/lookup.py": lines})
    data.write()
    cases = [
        ("tests.a.test_a", "test_slow", 9.0),
        ("tests.a.test_a", "test_fast[x y]", 1.0),
        ("tests.b.test_b", "test_process", 3.0),
        ("tests.b.test_b", "test_one", 2.0),
        ("tests.b.test_b", "test_other", 4.0),
    ]
    rows = [f'<testcase classname="{c}" name="{n}" time="{t}"/>' for c, n, t in cases]
    (tmp_path / "times.xml").write_text(f"<testsuite>{''.join(rows)}</testsuite>")
    found = measure.TestMap(tmp_path)
    slow, fast = "tests/a/test_a.py::test_slow", "tests/a/test_a.py::test_fast[x y]"
    one, process, other = (
        f"tests/b/test_b.py::test_{name}" for name in ("one", "process", "other")
    )
    assert found.tests_of("tpu_columns/lookup.py", 2) == [fast, slow]
    assert found.tests_of("tpu_columns/lookup.py", 3) == [process]
    assert found.tests_of("tpu_columns/lookup.py", 4) == [one, process, other]
    # Runs on import only: every test that runs the file.
    assert found.tests_of("tpu_columns/lookup.py", 1) == [fast, one, process, other, slow]
    assert found.tests_of("tpu_columns/tables.py", 1) == []


def test_figures(capsys):
    """The figures name each mutant that survives."""
    killed, survivor = mutants.find_mutants("tpu_columns/a.py", "x = 1\ny = 2\n")
    measure.show(
        {
            killed: measure.Outcome("killed", "tests/a.py::test"),
            survivor: measure.Outcome("survived"),
        }
    )
    printed = capsys.readouterr().out
    assert f"survived: {survivor}" in printed and str(killed) not in printed
    assert "1 of 2 mutants are killed" in printed
