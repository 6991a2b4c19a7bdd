# SPDX-License-Identifier: Apache-2.0
"""Steps at which no hook would do anything, by bare calls of the session.

A call of a `MonitoredSession` costs some tenths of a millisecond more than the step itself: hooks
are asked, fetches are looked through, and meanwhile TensorFlow's threads fall asleep. A hook that
says when it is needed next (see `Sparing`) isn't missed in between. One hook that doesn't say, such
as a user's, and every step is made with all hooks, as ever.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1

# Hooks that go by the clock are asked again after so many seconds.
SECONDS = 0.5
# So many steps must have counted the global step up by one each before any is made quietly.
STEADY = 3
# A `MonitoredSession` makes a new session then.
_LOST = (tf.errors.AbortedError, tf.errors.UnavailableError)


class Sparing:
    """A `SessionRunHook` that needn't see every step."""

    def needed_at(self, step: int, first: int) -> float:
        """Returns the next step that the hook must see; it then sees the one before, too.

        Args:
            step: the global step now; outside of training, the batches of this session so far.
            first: the global step after the first step of this session; outside of training 1.

        Returns:
            A step later than `step`; infinity if the hook goes by the clock, or does nothing.
        """
        del step, first
        return math.inf

    def skipped(self, count: int) -> None:
        """Hears that so many steps were made without it."""


class Regular(Sparing):
    """A `Sparing` hook that acts at the session's first step, and every so many steps from it.

    Attributes:
        _every: how many; None if it goes by the clock.
    """

    _every: int | None

    def needed_at(self, step: int, first: int) -> float:
        """Every so many steps."""
        return next_of(step, first, self._every)


def next_of(step: int, start: int, every: int | None) -> float:
    """The first step after `step` among `start`, `start + every`, ...; never if `every` is None.

    >>> next_of(7, 1, 5), next_of(6, 1, 5), next_of(7, 1, None)
    (11, 11, inf)
    """
    if every is None:
        return math.inf
    return start if step < start else start + every * ((step - start) // every + 1)


class _RawSession:
    """The session of a `MonitoredSession`, to be called without hooks until it is lost.

    A `MonitoredSession` makes a new session for a lost one and tries the same `step_fn` again, but
    hands it the lost one once more: until the next call only `run_with_hooks` knows the new one.

    Args:
        session: of a step's context; None before there is one.

    Attributes:
        is_lost: a call of this class found that it is.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self.is_lost = False

    def is_of(self, session: Any) -> bool:
        """Whether it is that session."""
        return self._session is session

    def make_callable(self, fetches: Any) -> Callable[[], Any]:
        """Returns what runs `fetches`."""
        call = self._session.make_callable(fetches)

        def run() -> Any:
            try:
                return call()
            except _LOST:
                self.is_lost = True
                raise

        return run


class Batches:
    """Goes through the batches of an evaluation or a prediction, quietly where nobody looks.

    Args:
        hooks: all of the session's.
        fetches: what is run for each batch.

    Attributes:
        done: how many; of the last session, should one have been lost and another made.
    """

    def __init__(self, hooks: Sequence[Any], fetches: Any) -> None:
        self.done = 0
        self._spares = all(isinstance(hook, Sparing) for hook in hooks)
        self._hooks = hooks
        self._fetches = fetches
        self._session = _RawSession(None)
        self._quietly: Any = None
        self._should_stop: Callable[[], bool] = lambda: False

    def run_one(self, session: Any) -> Any:
        """Runs one batch.

        Args:
            session: a `MonitoredSession` that should not stop.

        Returns:
            What was fetched.
        """
        return self._run(session, self._one)

    def run_some(self, session: Any) -> None:
        """Runs the batch that hooks see, or those before it, for half a second at most.

        Args:
            session: as in `run_one`.
        """
        self._should_stop = session.should_stop
        self._run(session, self._some)

    def _run(self, session: Any, step_fn: Any) -> Any:
        if self._spares:
            return session.run_step_fn(step_fn)
        values = session.run(self._fetches)
        self.done += 1
        return values

    def _one(self, step_context: Any) -> Any:
        if self._is_quiet(step_context.session):
            values = self._quietly()
            self._skip(1)
        else:
            values = step_context.run_with_hooks(self._fetches)
            self.done += 1
        return values

    def _some(self, step_context: Any) -> None:
        if not self._is_quiet(step_context.session):
            step_context.run_with_hooks(self._fetches)
            self.done += 1
            return
        most, count = self._needed() - 2 - self.done, 0
        end = time.monotonic() + SECONDS
        try:
            while count < most and time.monotonic() < end and not self._should_stop():
                self._quietly()
                count += 1
        finally:  # the input may have ended
            self._skip(count)

    def _needed(self) -> float:
        return min((hook.needed_at(self.done, 1) for hook in self._hooks), default=math.inf)

    def _is_quiet(self, session: Any) -> bool:
        """Whether no hook needs the next batch, nor the one after it, for which some prepare."""
        if not self._session.is_of(session):
            self._session = _RawSession(session)
            self._quietly = self._session.make_callable(self._fetches)
            self.done = 0
        return not self._session.is_lost and self._needed() > self.done + 2

    def _skip(self, count: int) -> None:
        for hook in self._hooks:
            hook.skipped(count)
        self.done += count


class Steps:
    """Makes steps of training, quietly where nobody looks.

    Args:
        hooks: all of the session's.
        train_op: what makes a step.
        loss: of the step, a scalar.
        watch_loss: the hook that looks at each step's loss; it hears of quiet ones too.

    Attributes:
        last_loss: of the last step that was made; None before the first.
    """

    def __init__(self, hooks: Sequence[Any], train_op: Any, loss: Any, watch_loss: Any) -> None:
        self.last_loss: Any = None
        self._spares = all(isinstance(hook, Sparing) for hook in hooks)
        self._hooks = hooks
        self._fetches = [train_op, loss]
        self._watch_loss = watch_loss
        self._session = _RawSession(None)
        self._quietly: Any = None
        self._step: Any = None
        self._now = 0  # the global step
        # The global step after the session's first step, and how many steps in a row counted one.
        self._first: int | None = None
        self._steady: float = 0
        self._should_stop: Callable[[], bool] = lambda: False

    def run(self, session: Any) -> None:
        """Makes steps until the next that hooks see, and that one.

        Args:
            session: a `MonitoredSession` that should not stop.
        """
        if self._spares:
            self._should_stop = session.should_stop
            session.run_step_fn(self._until_seen)
        else:
            _, self.last_loss = session.run(self._fetches)

    def _until_seen(self, step_context: Any) -> None:
        if not self._session.is_of(step_context.session):
            self._begin(step_context.session)
        if self._steady >= STEADY and not self._session.is_lost:
            self._make_quiet_steps()
            if self._should_stop():  # what feeds the input may have failed
                return
        _, self.last_loss = step_context.run_with_hooks(self._fetches)
        if self._steady < 0 or self._session.is_lost:
            return
        before, self._now = self._now, int(self._step())
        if self._first is None:
            self._first = self._now
        # A program that counts otherwise has no step that could be foreseen.
        self._steady = self._steady + 1 if self._now == before + 1 else -math.inf

    def _begin(self, session: Any) -> None:
        self._session = _RawSession(session)
        self._quietly = None
        self._step = self._session.make_callable(self._global_step())
        self._now = int(self._step())
        self._first = None
        self._steady = 0

    def _global_step(self) -> Any:
        """A reading of the global step: one that a hook runs anyway, if there is such.

        TensorFlow optimizes the graph anew for each set of fetches, which can take a second.
        """
        for hook in self._hooks:
            if isinstance(hook, (tf1.train.StepCounterHook, tf1.train.StopAtStepHook)):
                return hook.before_run(None).fetches
        return tf1.train.get_global_step()

    def _make_callable(self) -> Any:
        """A step without hooks, that fetches what one with them does, and no more.

        Its result has the fetches, what hooks fetch, and the global step if that is among it.
        """
        asked = [hook.before_run(None) for hook in self._hooks]
        fetched = [request.fetches for request in asked if request is not None]
        step = self._global_step()
        reading = [step] if any(fetch is step for fetch in fetched) else []
        return self._session.make_callable([self._fetches, fetched, reading])

    def _make_quiet_steps(self) -> None:
        """Makes steps up to where a hook is needed."""
        start = self._now
        assert self._first is not None  # STEADY steps were seen
        needed = min(hook.needed_at(start, self._first) for hook in self._hooks)
        # The step before the needed one has hooks, too: some prepare there.
        most, done = needed - 2 - start, 0
        if most <= 0:
            return
        if self._quietly is None:
            self._quietly = self._make_callable()
        end = time.monotonic() + SECONDS
        while done < most and time.monotonic() < end and not self._should_stop():
            (_, self.last_loss), _, reading = self._quietly()
            done += 1
            seen = tf1.train.SessionRunValues(self.last_loss, None, None)
            self._watch_loss.after_run(None, seen)
            # A program may come to count otherwise, and go beyond its end. The reading is of
            # before this step, or of after it where nothing holds the counting back.
            if reading and int(reading[0]) - start - done not in (-1, 0):
                break
        for hook in self._hooks:
            hook.skipped(done)
        self._now = int(self._step())
        if self._now != start + done:
            self._steady = -math.inf
