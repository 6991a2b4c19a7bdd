# SPDX-License-Identifier: Apache-2.0
"""Tests tables as text, and progress on terminals and on other streams."""

from __future__ import annotations

import io
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import forking_python
from estimator_spec.core.common import terminal


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    """Sets a terminal that supports control codes."""
    monkeypatch.setenv("TERM", "xterm")


cells = st.text(st.characters(codec="ascii", min_codepoint=32, exclude_characters="\x7f"))


@given(st.integers(1, 5), st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_table_has_aligned_columns(count, data):
    """A table is its header, a rule and its rows; no cell is cut, wrapped, or read as markup."""
    row = st.lists(cells, min_size=count, max_size=count)
    rows = data.draw(st.lists(row, max_size=5))
    header = [f"column {i}" for i in range(count)]
    lines = terminal.format_table(header, rows).split("\n")
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    wanted = [header, ["-" * width for width in widths], *rows]
    assert lines == [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in wanted
    ]


def test_the_environment_changes_no_table(monkeypatch):
    """Neither a narrow terminal nor a wish for colours changes a table."""
    name = "layer/" * 50
    before = terminal.format_table(["variable", "size"], [[name, "1"]])
    for variable, value in (("COLUMNS", "20"), ("FORCE_COLOR", "1"), ("TERM", "dumb")):
        monkeypatch.setenv(variable, value)
    assert terminal.format_table(["variable", "size"], [[name, "1"]]) == before
    assert name in before


def test_the_bar_on_a_terminal():
    """On a terminal one line shows how far the job is, and goes away at the end."""
    stream, file = Terminal(), io.StringIO()
    for out in (stream, file):
        with terminal.ByteProgress(100, stream=out) as done:
            done.advance(50)
            deadline = time.monotonic() + 30
            while "50%" not in out.getvalue() and time.monotonic() < deadline and out is stream:
                time.sleep(0.01)
    assert "50%" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[2K")
    assert file.getvalue() == ""


def test_progress_is_reported_in_place_of_a_bar():
    """A function gets the bytes done and the bytes in all, and nothing is drawn."""
    stream, seen = Terminal(), []
    with terminal.ByteProgress(100, lambda *now: seen.append(now), stream) as done:
        done.advance(30)
        done.advance(70)
    assert seen == [(30, 100), (100, 100)]
    assert stream.getvalue() == ""


def test_a_status_line_fits_the_terminal(monkeypatch):
    """A line that is too long is cut, as the rest of a wrapped one couldn't be erased."""
    monkeypatch.setenv("COLUMNS", "20")
    stream = Terminal()
    line = terminal.StatusLine(stream)
    line.show("step 1 " * 10)
    assert "step 1" in stream.getvalue()
    assert max(len(part) for part in stream.getvalue().split("\r")) <= 20 + len("\x1b[2K")
    line.erase()
    assert stream.getvalue().endswith("\r\x1b[2K")


def test_rich_is_imported_when_needed():
    """Importing the packages doesn't import rich."""
    program = (
        "import sys, tpu_columns, estimator_spec, estimator_spec.checkpoints.cli\n"
        "import estimator_spec.core.driver.progress\n"
        "assert 'rich' not in sys.modules\n"
    )
    forking_python.run(["-c", program], check=True)
