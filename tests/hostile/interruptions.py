# SPDX-License-Identifier: Apache-2.0
"""Runs `kill_program.py` with the library that interrupts a process."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import forking_python

HERE = Path(__file__).resolve().parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{HERE.parents[1]}{os.pathsep}{HERE}"}


@functools.cache
def compile_library():
    """Returns the path of the compiled library, or skips the test."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler, and Linux")
    path = Path(tempfile.mkdtemp(prefix="kill-at-"), "kill_at.so")
    source = str(HERE / "kill_at.c")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", str(path), source, "-ldl"], check=True
    )
    return path


def interrupt(how, job, directory):
    """Interrupts a job at each change of a directory, and checks what is left.

    Returns:
        How often it was interrupted.
    """
    done = forking_python.run(
        [HERE / "kill_program.py", how, job, directory],
        env={**ENVIRONMENT, "LD_PRELOAD": str(compile_library())},
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    return int(done.stdout.splitlines()[-1].split()[0])
