# SPDX-License-Identifier: Apache-2.0
"""README's program and its output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
QUICKSTART = ROOT / "examples" / "quickstart.py"


def test_readme_shows_the_quickstart_file():
    """README's first Python block equals examples/quickstart.py."""
    block = re.search(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert block is not None
    assert block.group(1) == QUICKSTART.read_text(encoding="utf-8")


@pytest.mark.slow
def test_quickstart_prints_what_readme_says(tmp_path):
    """The program prints the output that README shows."""
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
