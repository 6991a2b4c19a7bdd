# SPDX-License-Identifier: Apache-2.0
"""Shows the progress of a long training in one line of the terminal."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

import tensorflow as tf

from estimator_spec.core.common import terminal
from estimator_spec.core.user_functions.skippable_hooks import SkippableHook

tf1 = tf.compat.v1


def line(done: int, total: int | None, seconds: float, loss: float) -> str:
    """Returns the text of the progress line.

    >>> line(250, 1000, 10.0, 0.5)
    'step 250/1000 (25%)  25.0 steps/s  0:30 left  loss 0.5'
    >>> line(7, None, 0.5, 0.25)
    'step 7  14.0 steps/s  loss 0.25'

    Args:
        done: steps of this call so far.
        total: steps of this call, or None if it has no end.
        seconds: time that they took.
        loss: loss of the last step.
    """
    speed = done / seconds if seconds > 0 else 0.0
    parts = [f"step {done}"]
    if total:
        parts[0] += f"/{total} ({100 * done // total}%)"
    parts.append(f"{speed:.1f} steps/s")
    if total and speed:
        parts.append(f"{_clock((total - done) / speed)} left")
    parts.append(f"loss {loss:.4g}")
    return "  ".join(parts)


def _clock(seconds: float) -> str:
    """Returns a duration as minutes and seconds, with hours if there are any."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


@dataclasses.dataclass(eq=False)
class ProgressLine(SkippableHook):
    """Hook that shows step, speed, time left and loss of a long training on a terminal.

    It reads the loss from the graph: the last one in the collection of losses.

    Args:
        steps: number of steps of this call, or None.
        max_steps: global step at which this call ends, or None.
        after: seconds of training before the line appears.
        every: seconds between two updates.
        stream: where the line is drawn; None means standard error at the start of training.
        clock: returns seconds; for tests.
    """

    steps: int | None = None
    max_steps: int | None = None
    _: dataclasses.KW_ONLY
    after: float = 5.0
    every: float = 1.0
    stream: TextIO | None = None
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._line: terminal.StatusLine | None = None

    def begin(self) -> None:
        """Finds the loss in the graph, if the stream is a terminal."""
        stream = self.stream or sys.stderr
        losses = tf1.get_collection(tf1.GraphKeys.LOSSES)
        self._line = None
        if losses and terminal.is_terminal(stream):
            self._line = terminal.StatusLine(stream)
            self._fetches = [losses[-1], tf1.train.get_global_step()]

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Reads the global step at which the session starts."""
        if self._line is None:
            return
        self._first = int(session.run(self._fetches[1]))
        self._total = self.steps
        if self.max_steps is not None:
            self._total = self.max_steps - self._first
        self._started = self.clock()
        self._next = self._started + self.after

    def before_run(self, run_context: Any) -> Any:
        """Requests loss and global step when an update is due."""
        if self._line is None or self.clock() < self._next:
            return None
        return tf1.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Draws the line."""
        if self._line is None or run_values.results is None:
            return
        now = self.clock()
        loss, step = run_values.results
        done = int(step) - self._first
        self._line.show(line(done, self._total, now - self._started, float(loss)))
        self._next = now + self.every

    def end(self, session: Any) -> None:
        """Erases the line."""
        if self._line is not None:
            self._line.erase()
