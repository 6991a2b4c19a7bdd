# SPDX-License-Identifier: Apache-2.0
"""The benchmark that counts the work of threads."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def balance(monkeypatch):
    """The function that counts."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("thread_balance").balance


def test_threads_help_each_other(balance):
    """A thread that has done its own part takes tables of the others' parts."""
    assert balance([1] * 8, 1) == (1, 1)
    assert balance([1] * 8, 4) == (1, 4)
    # The second thread does its own three tables, and one of the first thread's.
    assert balance([3, 3, 1, 1, 1, 1], 2) == (1.2, 10 / 6)
    assert balance([1, 1], 4) == (2, 2)  # two have nothing to do


def test_threads_share_counters(balance):
    """Two increments a table, and one for each part that a thread finds used up."""
    increments = importlib.import_module("thread_balance").increments
    assert increments(26, 1) == increments(1, 16) == 0
    assert increments(26, 4) == 2 * 26 + 4 * 4
    assert increments(3, 16) == 2 * 3 + 3 * 3


def test_the_page_shows_what_it_prints(balance, capsys):
    """docs/speed_limits.md has the table."""
    importlib.import_module("thread_balance").main()
    assert capsys.readouterr().out in (ROOT / "docs" / "speed_limits.md").read_text("utf-8")
