# SPDX-License-Identifier: Apache-2.0
"""The command that compares native ops of two revisions."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tpu_columns.kernels import building

ROOT = Path(__file__).resolve().parents[2]


def _is_clone():
    """Returns whether git knows the revision of these sources."""
    command = ["git", "-C", ROOT, "rev-parse", "HEAD:estimator_spec"]
    return bool(shutil.which("git")) and not subprocess.run(command, capture_output=True).returncode


def _has_compiler():
    """Returns whether there is a C++ compiler."""
    try:
        return bool(building.find_compiler())
    except building.BuildError:
        return False


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not _has_compiler(), reason="there is no C++ compiler"),
    pytest.mark.skipif(not _is_clone(), reason="revisions are those of a clone"),
]


def _run(*arguments):
    command = [sys.executable, ROOT / "benchmarks" / "native_kernels.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.nightly("compiles the native ops twice")
def test_both_revisions_are_timed():
    """The table has a time of each op and a ratio for each workload."""
    done = _run("HEAD", "--only", "1id-1e4,10ids-1e4", "--steps", "4")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("| 1")]
    assert [line.split("|")[1].strip() for line in lines] == ["1id-1e4", "10ids-1e4"]
    assert all(line.count(" · ") == 2 for line in lines)


def test_an_unknown_workload_is_refused():
    """The message lists the workloads that there are."""
    done = _run("HEAD", "--only", "nine-ids")
    assert done.returncode == 2
    assert "no workload 'nine-ids'; there are 1id-1e4" in done.stderr
