# SPDX-License-Identifier: Apache-2.0
"""Ends groups of processes when the process that started them ends in any way, even by SIGKILL.

The guard is a process that reads process groups from a pipe, whose other end only the parent has:
the kernel closes it when the parent ends. Then the guard kills the groups that are still there.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from typing import Any


class ProcessGuard:
    """Context manager that kills the process groups in its care when it ends.

    Linux and other systems with process groups.
    """

    def __enter__(self) -> ProcessGuard:
        # -I and -S: this file needs the standard library only, and starts in milliseconds.
        self._process: subprocess.Popen[bytes] = subprocess.Popen(
            [sys.executable, "-I", "-S", os.path.abspath(__file__)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # neither Ctrl-C nor a signal to the parent's group ends it
        )
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._pipe.close()
        self._process.wait()

    def add(self, group: int) -> None:
        """Adds a process group.

        Args:
            group: the id of the process that leads it.
        """
        self._write(f"+{group}\n")

    def remove(self, group: int) -> None:
        """Removes a process group whose processes have ended; its id may be used again.

        Args:
            group: as in `add`.
        """
        self._write(f"-{group}\n")

    def _write(self, line: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # someone killed the guard
            self._pipe.write(line.encode())
            self._pipe.flush()

    @property
    def _pipe(self) -> Any:
        return self._process.stdin


def guard(lines: Iterable[str]) -> None:
    """Reads lines to their end, then kills the process groups that remain.

    Args:
        lines: '+ID' adds the group of a process, '-ID' removes it.
    """
    groups: set[int] = set()
    for line in lines:
        change = groups.add if line[0] == "+" else groups.discard
        change(int(line[1:]))
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    guard(sys.stdin)
