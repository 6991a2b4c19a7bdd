# SPDX-License-Identifier: Apache-2.0
"""README's program and its output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tpu_columns

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
# What a package index shows.
DESCRIPTION = (ROOT / "package_description.md").read_text(encoding="utf-8")
QUICKSTART = ROOT / "examples" / "quickstart.py"


@pytest.mark.parametrize("page", [README, DESCRIPTION], ids=["README", "package_description"])
def test_readme_shows_the_quickstart_file(page):
    """The first Python block of both pages equals examples/quickstart.py."""
    block = re.search(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert block is not None
    assert block.group(1) == QUICKSTART.read_text(encoding="utf-8")


def test_the_description_has_no_relative_links():
    """A package index has no files beside the page: its links name their host."""
    links = re.findall(r"\]\(([^)\s]+)\)|<(http[^>]*)>|(?:src|href)=\"([^\"]*)\"", DESCRIPTION)
    targets = [target for link in links for target in link if target]
    assert targets, "the pattern finds nothing"
    assert not [target for target in targets if not target.startswith("https://")]


def test_the_description_opens_as_readme_does():
    """Both pages introduce the project with the same words."""
    assert DESCRIPTION.split("\n\n")[:3] == README.split("\n\n")[:3]


def test_readme_installs_this_version():
    """The files that README installs carry the version of the package."""
    versions = set(re.findall(r"dist/tpu_columns-([\d.]+\w*?)(?:-py3|\.tar\.gz)", README))
    assert versions == {tpu_columns.__version__}


@pytest.mark.slow
def test_quickstart_prints_what_readme_says(tmp_path):
    """The program prints the output that README shows, and no notice that asks for nothing."""
    expected = re.search(r"```python\n.*?```.*?```text\n(.*?)```", README, flags=re.DOTALL)
    assert expected is not None
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TMPDIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, str(QUICKSTART)], capture_output=True, text=True, env=env, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected.group(1)
    assert "Using temporary folder" in done.stderr
    # Of an argument for protobuf's text_format in TensorFlow 2.20, protobuf 6 says this itself.
    notices = [line for line in done.stderr.splitlines() if "deprecated" in line]
    assert not [line for line in notices if "for text_format" not in line]
    assert "cuInit" not in done.stderr
