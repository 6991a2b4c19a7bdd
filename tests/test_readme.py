# SPDX-License-Identifier: Apache-2.0
"""README: one page, its program, and the program's output."""

from __future__ import annotations

import collections
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

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


def test_readme_is_one_page():
    """README has at most 900 words, and at most twelve rows of what works, each with a link."""
    assert len(README.split()) <= 900
    rows = re.findall(r"^\| .*", README.split("\n## What works\n")[1], re.MULTILINE)[1:]
    assert 0 < len(rows) <= 12
    assert not [row for row in rows if "](" not in row]


@pytest.mark.parametrize("page", ["README.md", "docs/status.md"])
def test_pages_install_this_version(page):
    """The files that the pages install carry the version of the package."""
    text = (ROOT / page).read_text(encoding="utf-8")
    versions = set(re.findall(r"dist/tpu_columns-([\d.]+\w*?)(?:-py3|\.tar\.gz)", text))
    assert versions == {tpu_columns.__version__}


def test_the_changelog_has_this_version():
    """The changelog says what the package's version can do, and begins what comes next."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## \[(.+?)\](?: - \d{4}-\d\d-\d\d)?$", text, re.MULTILINE)
    assert sections[:2] == ["Unreleased", tpu_columns.__version__]


# At the level INFO; lines that aren't of a level are those of a configuration.
LEVELS = re.compile(r"(INFO|WARNING|ERROR|FATAL):|([IWEF])\d{4} [\d:.]+ ")
# What absl says before TensorFlow sets its level, which no program can change.
AT_IMPORT = ("All log messages before absl", "port.cc:", "cudart_stub.cc:")
# What TensorFlow 2.20 says at any level.
AT_ANY_LEVEL = ("mlir_graph_optimization_pass.cc:",) if tf.__version__.startswith("2.20.") else ()

WITH_INFO = """
import runpy, sys
import tensorflow as tf
tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.INFO)
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.slow
def test_quickstart_prints_what_readme_says(tmp_path):
    """The program prints the output that README shows, and at INFO no line of no use to a user."""
    expected = re.search(r"```python\n.*?```.*?```text\n(.*?)```", README, flags=re.DOTALL)
    assert expected is not None
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TMPDIR": str(tmp_path),
    }
    command = [sys.executable, "-c", WITH_INFO, str(QUICKSTART)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected.group(1)
    lines = done.stderr.splitlines()
    # Of an argument for protobuf's text_format in TensorFlow 2.20, protobuf 6 says this itself.
    lines = [line for line in lines if "deprecated" not in line or "for text_format" not in line]
    lines = [
        line for line in lines if not any(text in line for text in (*AT_IMPORT, *AT_ANY_LEVEL))
    ]
    found = collections.defaultdict(list)
    for line in lines:
        level = LEVELS.match(line)
        if level is not None:
            found[level[1] or level[2]].append(line)
    assert set(found) == {"INFO", "WARNING"}, found
    (warning,) = found["WARNING"]
    assert "Using temporary folder" in warning
    assert len(found["INFO"]) <= 32, found["INFO"]
    assert not [line for line in lines if "all_model_checkpoint_paths" in line]
