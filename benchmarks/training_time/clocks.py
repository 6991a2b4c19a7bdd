# SPDX-License-Identifier: Apache-2.0
"""Measures step times from TensorFlow's log lines.

A hook of ours would forbid what a training without hooks may do: several steps in one session call.
The lines come from TensorFlow's own hooks on every side.
"""

from __future__ import annotations

import itertools
import logging
import os
import re
import time
from pathlib import Path

_SPEED = re.compile(r"\bglobal_step/sec: ([0-9.e+-]+)")
_EVALUATION = re.compile(r"Evaluation \[(\d+)/\d+\]")


class SpeedLog(logging.Handler):
    """Log handler that reads `global_step/sec`, the rate of the steps since the last line.

    Attributes:
        rates: steps a second.
        first_line: when the first one came, in seconds of `time.perf_counter`.
        cpu: CPU seconds of the process at each.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rates: list[float] = []
        self.first_line = 0.0
        self.cpu: list[float] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Parses one log line."""
        found = _SPEED.search(record.getMessage())
        if found:
            self.first_line = self.first_line or time.perf_counter()
            self.rates.append(float(found.group(1)))
            self.cpu.append(time.process_time())

    def milliseconds(self) -> list[float]:
        """Returns milliseconds a step, without the first interval (warm-up)."""
        return [1000.0 / rate for rate in self.rates[1:]]

    def cpu_milliseconds(self, interval: int) -> list[float]:
        """Returns CPU milliseconds of all threads a step, without the first interval.

        Args:
            interval: steps between two lines.
        """
        return [1000 * (end - start) / interval for start, end in itertools.pairwise(self.cpu)]


class EvaluationLog(logging.Handler):
    """Log handler that records the times of evaluation's progress lines.

    Attributes:
        marks: pairs of step and time, in seconds of `time.perf_counter`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.marks: list[tuple[int, float]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Parses one log line."""
        now = time.perf_counter()
        found = _EVALUATION.search(record.getMessage())
        if found:
            self.marks.append((int(found.group(1)), now))


def milliseconds(marks: list[tuple[int, float]], skip: int = 1) -> list[float]:
    """Returns milliseconds a step between marks, without the first `skip` intervals.

    >>> milliseconds([(0, 1.0), (100, 2.0), (200, 2.5), (300, 3.0)])
    [5.0, 5.0]
    """
    pairs = list(itertools.pairwise(marks))[skip:]
    return [1000 * (end - start) / (last - first) for (first, start), (last, end) in pairs]


def resident(field: str = "VmRSS") -> float:
    """Returns MiB of this process: resident now, or the peak (`VmHWM`)."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    return float("nan")


class Neighbours:
    """Share of the machine that other processes used.

    >>> 0.0 <= Neighbours().share() <= 1.0
    True
    """

    def __init__(self) -> None:
        self._start = self._now()

    @staticmethod
    def _now() -> tuple[float, float, float]:
        """Returns seconds of all processors, busy (with steal) and total, and of this process."""
        first = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
        ticks = [int(word) for word in first.split()[1:9]]
        idle = ticks[3] + ticks[4]
        scale = os.sysconf("SC_CLK_TCK")
        return (sum(ticks) - idle) / scale, sum(ticks) / scale, time.process_time()

    def share(self) -> float:
        """Returns the share since construction, from 0 to 1."""
        busy, whole, own = (b - a for a, b in zip(self._start, self._now(), strict=True))
        return min(1.0, max(0.0, (busy - own) / whole)) if whole > 0 else 0.0
