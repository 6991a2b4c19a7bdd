# SPDX-License-Identifier: Apache-2.0
"""The programs of docs/gallery.md: each prints what the page says."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "gallery.md"


class Program(NamedTuple):
    """A program of the page, and what it prints if the page shows it."""

    question: str
    language: str
    source: str
    output: str | None


def read_programs() -> list[Program]:
    """Returns the programs of the page, in its order."""
    programs = []
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        question = section.partition("\n")[0]
        source, *output = re.findall(r"^```(\w+).*\n((?s:.*?))^```", section, re.MULTILINE)
        programs.append(Program(question, *source, output[0][1] if output else None))
    return programs


def run(program: Program) -> str:
    """Returns what a program prints in the current directory."""
    if program.language == "bash":
        command = ["bash", "-e", "-o", "pipefail", "-c", program.source]
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        env = {**os.environ, "PATH": path, "PYTHONPATH": str(PAGE.parents[1])}
        found = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        assert found.returncode == 0, found.stderr
        return found.stdout
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(program.source, program.question, "exec"), {"__name__": "__main__"})
    return printed.getvalue()


def run_page(directory: Path, monkeypatch, languages: set[str]) -> None:
    """Runs the programs of some languages in a directory, and compares what they print."""
    first, *programs = read_programs()
    (directory / "clicks.py").write_text(first.source, encoding="utf-8")
    monkeypatch.chdir(directory)
    monkeypatch.syspath_prepend(directory)
    printed = {each: run(each) for each in programs if each.language in languages}
    shown = [each for each in printed if each.output is not None]
    assert len(shown) == len(printed), "a program's output isn't on the page"
    assert [printed[each] for each in shown] == [each.output for each in shown]


def test_the_page_answers_fifteen_questions():
    """Each program has five to thirty lines."""
    programs = read_programs()
    assert len(programs) >= 15
    assert all(1 <= each.source.count("\n") <= 30 for each in programs)


def test_python_programs_print_what_the_page_says(tmp_path, monkeypatch):
    """The page's Python programs run in its order and print the blocks below them."""
    run_page(tmp_path, monkeypatch, {"python"})


@pytest.mark.nightly("a process for each command")
def test_all_programs_print_what_the_page_says(tmp_path, monkeypatch):
    """So do they with the commands between them, which are processes of their own."""
    pytest.importorskip("keras_rs", reason="the last commands need the extra keras-rs")
    run_page(tmp_path, monkeypatch, {"python", "bash"})
