# SPDX-License-Identifier: Apache-2.0
"""The command that counts lines of code, and what its page says."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"

PYTHON = '''"""A module's
docstring."""

# A comment.
TEXT = """
a string

of four lines, one of them blank"""  # and a comment


def f():
    """A docstring."""
    ...
'''
CPP = """// A comment.
/* A longer
   one. */
#include <a.h>  // with a reason

const char* text = "// no comment";
"""


def sum_on(page):
    """Returns how many lines of code a page says that there are now."""
    (numbers,) = re.findall(r"^\| now \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    return sum(map(int, numbers))


@pytest.fixture(scope="module")
def make_code_lines():
    """Imports the command."""
    path = DOCS / "make_code_lines.py"
    spec = importlib.util.spec_from_file_location("make_code_lines", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_packages_have_grown_little_since_the_page(make_code_lines):
    """The page is written anew with every change that adds more than 300 lines of code."""
    said = sum_on((DOCS / "code_lines.md").read_text(encoding="utf-8"))
    added = make_code_lines.count().total() - said
    assert added <= make_code_lines.ALLOWED, (
        f"the packages have {added} lines of code more than docs/code_lines.md says: look at "
        "python docs/make_code_lines.py --since COMMIT, and run it without --since"
    )


def test_lines_without_code_do_not_count(make_code_lines):
    """Docstrings, comments and blank lines aren't counted; strings and code are."""
    assert make_code_lines.python_lines(PYTHON) == 5
    assert make_code_lines.cpp_lines(CPP) == 2


def test_the_page_says_what_was_counted(make_code_lines):
    """The number that the test above reads from a page is the sum over all folders."""
    assert sum_on(make_code_lines.page(earlier=())) == (make_code_lines.count().total())


def test_what_a_change_adds_is_printed_by_folder(make_code_lines, monkeypatch, capsys):
    """`--since` prints the folders that have grown or shrunk, and the sums."""
    now = Counter({("Python", "a"): 10, ("Python", "b"): 5, ("C++", "c"): 7})
    before = Counter({("Python", "a"): 8, ("Python", "b"): 5, ("Python", "d"): 4, ("C++", "c"): 6})
    monkeypatch.setattr(make_code_lines, "count", lambda commit=None: before if commit else now)
    make_code_lines.main(["--since", "HEAD"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["+1", "c", "(C++)"],
        ["+2", "a", "(Python)"],
        ["-4", "d", "(Python)"],
        ["-2", "Python", "in", "sum"],
        ["+1", "C++", "in", "sum"],
    ]
