# SPDX-License-Identifier: Apache-2.0
"""Measures `python -m estimator_spec migrate --diff` on 100,000 lines of source.

    python benchmarks/migrate.py --lines=100000 --jobs=2

The lines are copies of the programs in tests/programs, each in a file of its own: every file
imports TensorFlow and uses old names, which is the slowest case. Prints lines, seconds, and lines
a second. The goal is at most 60 s.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "tests" / "programs"
GOAL = 60.0


def write_copies(home: Path, lines: int) -> int:
    """Writes copies of the programs until they have so many lines; returns their number."""
    sources = {
        path.stem: path.read_text(encoding="utf-8") for path in sorted(PROGRAMS.glob("*.py"))
    }
    written = copy = 0
    while written < lines:
        directory = home / f"copy_{copy}"
        directory.mkdir()
        for name, source in sources.items():
            (directory / f"{name}.py").write_text(source, encoding="utf-8")
            written += source.count("\n")
        copy += 1
    return written


def main() -> None:
    """Runs the measurement and prints it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=100_000, help="lines of source, at least")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="migrate_") as home:
        lines = write_copies(Path(home), options.lines)
        command = [
            sys.executable,
            "-m",
            "estimator_spec",
            "migrate",
            f"--jobs={options.jobs}",
            home,
        ]
        start = time.perf_counter()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        seconds = time.perf_counter() - start
    if done.returncode != 1:  # 1: there are changes
        sys.exit(done.stderr)
    print(done.stderr.splitlines()[-1])
    print(
        f"{lines} lines, {options.jobs} processes: {seconds:.1f} s, {lines / seconds:.0f} lines/s"
    )
    print(f"goal: {GOAL:.0f} s")


if __name__ == "__main__":
    main()
