# SPDX-License-Identifier: Apache-2.0
"""Session hooks that state which steps need them; `driver/hookless_steps.py` skips the others."""

from __future__ import annotations

import math

import tensorflow as tf


class SkippableHook(tf.compat.v1.train.SessionRunHook):
    """A hook that does not need to be called at every step."""

    def next_needed_step(self, step: int, first: int) -> float:
        """Returns the next step that needs the hook; the step before it runs with hooks, too.

        Args:
            step: the current global step in training; otherwise the number of batches that this
                session has run.
            first: the global step after the first step of this session in training; otherwise 1.

        Returns:
            A step greater than `step`; infinity if the hook uses a timer or needs no step.
        """
        return math.inf

    def after_skipped_steps(self, count: int) -> None:
        """Called after `count` steps ran without this hook."""


class PeriodicHook(SkippableHook):
    """A hook that acts at the first step of a session and every N steps from there.

    Attributes:
        _every: N; None if the hook uses a timer.
    """

    _every: int | None

    def next_needed_step(self, step: int, first: int) -> float:
        """Returns the next step of the period."""
        return next_periodic_step(step, first, self._every)


def next_periodic_step(step: int, start: int, every: int | None) -> float:
    """Returns the first of `start`, `start + every`, ... after `step`; infinity if `every` is None.

    >>> next_periodic_step(7, 1, 5), next_periodic_step(6, 1, 5), next_periodic_step(7, 1, None)
    (11, 11, inf)
    """
    if every is None:
        return math.inf
    return start if step < start else start + every * ((step - start) // every + 1)
