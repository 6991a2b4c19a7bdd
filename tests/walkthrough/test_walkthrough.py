# SPDX-License-Identifier: Apache-2.0
"""docs/walkthrough.md: its commands run, and print what it shows."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from pathlib import Path

import pytest

import forking_python

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "walkthrough.md").read_text(encoding="utf-8")
# Commands, and their output if the page shows it.
BLOCKS = re.findall(
    r"^```bash\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", PAGE, re.DOTALL | re.MULTILINE
)
# Less data, fewer steps.
FEW = {"20000": "600", "2000": "20", "3000": "30", "steps=500": "steps=3"}


@pytest.fixture
def shell(tmp_path):
    """Returns a function that runs lines in bash where `python` has imported TensorFlow already."""
    environment = {k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"}
    environment |= {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"}
    python = Path(forking_python.stand_in(environment))
    environment["PATH"] = f"{python.parent}{os.pathsep}{environment['PATH']}"
    clone = tmp_path / "clone"
    clone.mkdir()
    (clone / "examples").symlink_to(ROOT / "examples")
    directory = str(clone)

    def run(lines: str) -> tuple[int, str]:
        nonlocal directory
        script = f'{lines}\nstatus=$?; pwd > "$OLD_HOME/pwd"; exit $status'
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=directory,
            env=environment | {"OLD_HOME": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        directory = (tmp_path / "pwd").read_text().strip()
        return done.returncode, done.stdout

    return run


def words(text: str) -> list[str]:
    """Returns the lines of an output without numbers and the width of columns."""
    lines = (re.sub(r"-{3,}|[\d.,:+e-]*\d[\d.,e-]*|\s+", " ", line) for line in text.splitlines())
    return [" ".join(line.split()) for line in lines]


@pytest.mark.nightly("a dozen commands of a page")
@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("keras_rs"), reason="needs the extra keras-rs")
def test_the_commands_print_what_the_page_shows(shell):
    """Each command after the installation runs, and prints the lines that the page shows."""
    installation, *steps = BLOCKS
    assert "pip install" in installation[0]
    assert len(steps) == PAGE.count("\n```bash\n") - 1 > 10
    for commands, shown in steps:
        for many, some in FEW.items():
            commands = commands.replace(many, some)
        status, printed = shell(commands.rstrip())
        fails = "Traceback" in shown or shown.startswith("--- a/")
        assert status == int(fails), printed[-6000:]
        missing = [line for line in words(shown) if line != "…" and line not in words(printed)]
        assert not missing, printed[-6000:]
    (difference,) = re.findall(r"^largest difference (\S+)$", printed, re.MULTILINE)
    assert float(difference) < 1e-5


def test_the_page_shows_the_network_of_the_example():
    """The Python block of the page is the function in to_keras.py."""
    (block,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert block in (ROOT / "examples" / "walkthrough" / "to_keras.py").read_text(encoding="utf-8")
