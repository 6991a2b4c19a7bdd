# SPDX-License-Identifier: Apache-2.0
"""Shell scripts in place of C++ compilers, and a TensorFlow that they compile for."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

from tpu_columns.kernels import building

TARGET = building.Target("2.99.0", "", ("-I/nowhere", "-DA"), ())
WRITES = 'echo compiled >> "$LOG"; printf "%s" "$CONTENTS" > "$output"'


def make(path: Path, script: str = WRITES, version: str = "echo made 1.0") -> list[str]:
    """Writes a compiler, and returns its command.

    Args:
        path: of the script.
        script: what it does instead of compiling; `$output` is the library, `$LOG` a file beside
            the compiler, `$CONTENTS` a text.
        version: what it does if it is asked for its version.
    """
    path.write_text(
        "#!/bin/sh\n"
        f"LOG={shlex.quote(str(path) + '.log')} CONTENTS=library\n"
        f'if [ "$1" = --version ]; then {version}; exit; fi\n'
        'while [ "$1" != -o ]; do shift; done; output=$2\n'
        f"{script}\n"
    )
    path.chmod(0o755)
    return [str(path)]


def wait_for_the_end(number: int) -> None:
    """Waits ten seconds at most until a process has ended, or waits for its parent to ask."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            stat = Path(f"/proc/{number}/stat").read_text()
        except FileNotFoundError:
            return
        if stat.rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.01)
    raise AssertionError(f"process {number} runs")


def count(path: Path) -> int:
    """Returns how often a compiler has compiled."""
    log = Path(f"{path}.log")
    return len(log.read_text().splitlines()) if log.exists() else 0
