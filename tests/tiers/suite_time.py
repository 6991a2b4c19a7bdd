# SPDX-License-Identifier: Apache-2.0
"""Times README's commands for the tests in a fresh clone of HEAD.

    python tests/tiers/suite_time.py                       once
    python tests/tiers/suite_time.py --rounds 3            three times, in one clone
    python tests/tiers/suite_time.py --rounds 3 --busy 1   beside a process that computes

The environments are installed first, which is timed by itself. The exit status is that of the
tests: 1 if one fails in any round.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOX = ".venv/bin/nox"
INSTALL = (
    f"{sys.executable} -m venv .venv && .venv/bin/python -m pip install -q nox "
    f"&& {NOX} --install-only -s tests lint"
)
TEST = f"{NOX} -s tests lint"


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Runs processes that compute, until the block ends."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def run(command: str, directory: Path) -> tuple[float, bool]:
    """Runs a command of a shell; returns its minutes, and whether it succeeded."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    begin = time.monotonic()
    done = subprocess.run(["bash", "-c", command], cwd=directory, env=environment)
    return (time.monotonic() - begin) / 60, done.returncode == 0


def measure(rounds: int, num_busy: int, install: str = INSTALL, test: str = TEST) -> bool:
    """Clones HEAD, installs, and times the tests; prints the minutes. Returns whether all passed.

    Args:
        rounds: how often the tests run.
        num_busy: number of processes that compute beside them.
        install: the command that installs, in the clone.
        test: the command that is timed.

    Raises:
        RuntimeError: the installation fails.
    """
    with tempfile.TemporaryDirectory(prefix="tpu_columns_") as home:
        clone = Path(home, "clone")
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        minutes, succeeded = run(install, clone)
        if not succeeded:
            raise RuntimeError(f"this failed in a fresh clone: {install}")
        print(f"installed in {minutes:.1f} minutes", flush=True)
        found = []
        for number in range(rounds):
            with busy(num_busy):
                minutes, passed = run(test, clone)
            found.append((minutes, passed))
            outcome = "passed" if passed else "FAILED"
            print(f"round {number + 1}: {minutes:.1f} minutes, {outcome}", flush=True)
    median = statistics.median(minutes for minutes, _ in found)
    beside = f" beside {num_busy} busy process(es)" if num_busy else ""
    print(f"{TEST}: {median:.1f} minutes (median){beside}, {os.cpu_count()} cores")
    return all(passed for _, passed in found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1, help="how often; default 1")
    parser.add_argument("--busy", type=int, default=0, help="computing processes; default 0")
    parsed = parser.parse_args(arguments)
    return 0 if measure(parsed.rounds, parsed.busy) else 1


if __name__ == "__main__":
    sys.exit(main())
