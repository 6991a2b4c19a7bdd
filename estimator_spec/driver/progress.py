# SPDX-License-Identifier: Apache-2.0
"""One line on a terminal that tells a waiting person how far a long training is."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

import tensorflow as tf

from estimator_spec.driver.hookless_steps import SkippableHook

tf1 = tf.compat.v1


def line(done: int, total: int | None, seconds: float, loss: float) -> str:
    """The text of the progress line.

    Args:
        done: steps of this call so far.
        total: steps of this call, if there is an end.
        seconds: how long they took.
        loss: the last step's.

    >>> line(250, 1000, 10.0, 0.5)
    'step 250/1000 (25%)  25.0 steps/s  0:30 left  loss 0.5'
    >>> line(7, None, 0.5, 0.25)
    'step 7  14.0 steps/s  loss 0.25'
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
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class ProgressLine(SkippableHook, tf1.train.SessionRunHook):
    """Keeps one line of `stream` up to date, if it is a terminal and training takes long.

    It finds the loss in the graph, where training puts it last into the collection of losses.

    Args:
        steps: how many steps this call makes, or None.
        max_steps: the global step that it ends at, or None.
        after: seconds of training before the line shows up.
        every: seconds between two updates.
        stream: where it goes; None means standard error as it is when training starts.
        clock: seconds, for tests.
    """

    def __init__(
        self,
        steps: int | None = None,
        max_steps: int | None = None,
        *,
        after: float = 5.0,
        every: float = 1.0,
        stream: TextIO | None = None,
        clock: Any = time.monotonic,
    ) -> None:
        self._steps = steps
        self._max_steps = max_steps
        self._after = after
        self._every = every
        self._stream = stream
        self._clock = clock
        self._shown = False

    def begin(self) -> None:
        """Looks whether anybody watches."""
        out = self._stream or sys.stderr
        losses = tf1.get_collection(tf1.GraphKeys.LOSSES)
        self._watched = bool(out and out.isatty() and losses)
        if self._watched:
            self._out = out
            self._loss = losses[-1]
            self._global_step = tf1.train.get_global_step()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Notes where this session starts."""
        del coord
        if not self._watched:
            return
        self._first = int(session.run(self._global_step))
        if self._max_steps is not None:
            self._total: int | None = self._max_steps - self._first
        else:
            self._total = self._steps
        self._started = self._clock()
        self._next = self._started + self._after

    def before_run(self, run_context: Any) -> Any:
        """Asks for the loss and the step when it is time to show them."""
        del run_context
        if not self._watched or self._clock() < self._next:
            return None
        return tf1.train.SessionRunArgs([self._loss, self._global_step])

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Shows them."""
        del run_context
        if not self._watched or run_values.results is None:
            return
        now = self._clock()
        loss, step = run_values.results
        text = line(int(step) - self._first, self._total, now - self._started, float(loss))
        # Erased first; the cursor goes back, so that a log line starts at the left edge.
        self._out.write(f"\r\x1b[K{text}\r")
        self._out.flush()
        self._shown = True
        self._next = now + self._every

    def end(self, session: Any) -> None:
        """Takes the line away."""
        del session
        if self._shown:
            self._out.write("\r\x1b[K")
            self._out.flush()
