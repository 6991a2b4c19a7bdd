# SPDX-License-Identifier: Apache-2.0
"""How far a long job over bytes is: one line on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from estimator_spec.checkpoints import tables_text

_WIDTH = 30
_EVERY = 0.2


def line(done: int, total: int, seconds: float) -> str:
    """The text of the line.

    >>> line(1 << 30, 4 << 30, 2.0)
    '[#######.......................]  25%  1.0 GiB of 4.0 GiB  512.0 MiB/s'
    """
    part = done / total if total else 1.0
    marks = int(part * _WIDTH)
    speed = tables_text.size(done / seconds) if seconds > 0 else "0 B"
    return (
        f"[{'#' * marks}{'.' * (_WIDTH - marks)}] {part:4.0%}  {tables_text.size(done)} of "
        f"{tables_text.size(total)}  {speed}/s"
    )


class Bar:
    """Keeps the line up to date, if somebody watches.

    Args:
        total: bytes in all.
        report: called with (done, total) in place of a line.
        stream: where the line goes, if that is a terminal; None means standard error.
    """

    def __init__(
        self,
        total: int,
        report: Callable[[int, int], None] | None = None,
        stream: TextIO | None = None,
    ) -> None:
        self._total = total
        self._report = report
        self._stream = stream or sys.stderr
        self._watched = report is None and bool(self._stream and self._stream.isatty())
        self._done = 0

    def __enter__(self) -> Bar:
        self._started = time.monotonic()
        self._next = self._started + _EVERY
        return self

    def advance(self, num_bytes: int) -> None:
        """Counts bytes."""
        self._done += num_bytes
        if self._report is not None:
            self._report(self._done, self._total)
        elif self._watched and (now := time.monotonic()) >= self._next:
            self._stream.write("\r\x1b[K" + line(self._done, self._total, now - self._started))
            self._stream.flush()
            self._next = now + _EVERY

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._watched:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
