# SPDX-License-Identifier: Apache-2.0
"""Runs the steps no hook needs through raw session callables.

`MonitoredSession.run` costs some tenths of a millisecond more than the step itself: it calls every
hook and parses the fetches, and meanwhile TensorFlow's threads go to sleep. A `SkippableHook`
returns the next step that it needs, so the steps before that one can run without hooks. With a
single hook of another class, such as a user's, every step runs with all hooks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.core.driver.standstill import LOST_SESSION, StepWatch, losing_cancelled_steps
from estimator_spec.core.user_functions.skippable_hooks import SkippableHook

tf1 = tf.compat.v1

# Hooks with a timer are called again after this many seconds at most.
_MAX_SECONDS = 0.5
# Steps with hooks that must each increment the global step by one before any runs without.
_MIN_REGULAR_STEPS = 3


class _RawSession:
    """The `tf.Session` inside a `MonitoredSession`, called without hooks until it is lost.

    A `MonitoredSession` creates a new session in place of a lost one and retries the same
    `step_fn`, but passes it the lost session again: until the next call only `run_with_hooks` uses
    the new one.

    Args:
        session: from a step context; None before the first.

    Attributes:
        is_lost: whether a call has raised an error that loses the session.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self.is_lost = False

    def wraps(self, session: tf1.Session) -> bool:
        """Returns whether this wraps `session`."""
        return self._session is session

    def make_callable(self, fetches: Any) -> Callable[[], Any]:
        """Returns a function that runs `fetches`."""
        call = self._session.make_callable(fetches)

        def run() -> Any:
            try:
                with losing_cancelled_steps():
                    return call()
            except LOST_SESSION:
                self.is_lost = True
                raise

        return run


class _Runner:
    """Base of the classes that run the steps of a `MonitoredSession`.

    Args:
        hooks: all hooks of the session.
        fetches: tensors and ops to run at each step.
        skip_hooks: whether steps that no hook needs run without hooks.
    """

    def __init__(
        self, hooks: Sequence[tf1.train.SessionRunHook], fetches: Any, skip_hooks: bool = True
    ) -> None:
        self._hooks = hooks
        self._fetches = fetches
        self._can_skip_hooks = skip_hooks and all(isinstance(hook, SkippableHook) for hook in hooks)
        self._session = _RawSession(None)
        self._raw_call: Callable[[], Any] | None = None
        self._should_stop: Callable[[], bool] = lambda: False

    def _run_raw_steps(self, limit: float) -> Iterator[Any]:
        """Yields the results of raw steps until `limit`, the time limit, or a request to stop."""
        assert self._raw_call is not None
        end = time.monotonic() + _MAX_SECONDS
        count = 0
        while count < limit and time.monotonic() < end and not self._should_stop():
            yield self._raw_call()
            count += 1

    def _next_needed_step(self, step: int, first: int) -> float:
        needed = (hook.next_needed_step(step, first) for hook in self._hooks)
        return min(needed, default=math.inf)

    def _report_skipped_steps(self, count: int) -> None:
        for hook in self._hooks:
            hook.after_skipped_steps(count)


class BatchRunner(_Runner):
    """Runs the batches of an evaluation or a prediction, without hooks where none needs them.

    Attributes:
        done: batches run so far; since the last session was created, if one was lost.
    """

    done = 0

    def run_batch(self, session: tf1.train.MonitoredSession) -> Any:
        """Runs one batch.

        Returns:
            The values of the fetches.
        """
        return self._run(session, self._run_one)

    def run_batches(self, session: tf1.train.MonitoredSession) -> None:
        """Runs one batch with hooks, or the batches before it without, for at most 0.5 s."""
        self._should_stop = session.should_stop
        self._run(session, self._run_several)

    def _run(self, session: tf1.train.MonitoredSession, step_fn: Callable[[Any], Any]) -> Any:
        if self._can_skip_hooks:
            return session.run_step_fn(step_fn)
        values = session.run(self._fetches)
        self.done += 1
        return values

    def _run_one(self, step_context: Any) -> Any:
        if self._raw_limit(step_context.session) > 0:
            assert self._raw_call is not None
            values = self._raw_call()
            self._count_raw_batches(1)
        else:
            values = step_context.run_with_hooks(self._fetches)
            self.done += 1
        return values

    def _run_several(self, step_context: Any) -> None:
        limit = self._raw_limit(step_context.session)
        if limit <= 0:
            step_context.run_with_hooks(self._fetches)
            self.done += 1
            return
        count = 0
        try:
            for _ in self._run_raw_steps(limit):
                count += 1
        finally:  # the input may have ended
            self._count_raw_batches(count)

    def _raw_limit(self, session: tf1.Session) -> float:
        """Returns how many batches can run without hooks; some hooks prepare a batch ahead."""
        if not self._session.wraps(session):
            self._session = _RawSession(session)
            self._raw_call = self._session.make_callable(self._fetches)
            self.done = 0
        return 0 if self._session.is_lost else self._next_needed_step(self.done, 1) - 2 - self.done

    def _count_raw_batches(self, count: int) -> None:
        self._report_skipped_steps(count)
        self.done += count


class StepRunner(_Runner):
    """Runs training steps, without hooks where none needs them.

    Args:
        hooks: all hooks of the session.
        train_op: op that runs one step.
        loss: loss of the step, a scalar.
        nan_hook: the hook that checks the loss; raw steps pass their loss to its `after_run`.
        watch: is told of each step.
        skip_hooks: whether steps that no hook needs run without hooks.

    Attributes:
        last_loss: loss of the last step; None before the first.
    """

    def __init__(
        self,
        hooks: Sequence[tf1.train.SessionRunHook],
        train_op: Any,
        loss: Any,
        nan_hook: tf1.train.NanTensorHook,
        watch: StepWatch,
        skip_hooks: bool = True,
    ) -> None:
        super().__init__(hooks, [train_op, loss], skip_hooks)
        self.last_loss: Any = None
        self._nan_hook = nan_hook
        self._watch = watch
        self._read_global_step: Any = None
        self._global_step = 0
        self._first_global_step: int | None = None  # after the session's first step
        # Steps in a row that incremented the global step by one.
        self._regular_steps: float = 0

    def run(self, session: tf1.train.MonitoredSession) -> None:
        """Runs the steps before the next one with hooks, and that one."""
        self._should_stop = session.should_stop
        session.run_step_fn(self._run_watched)

    def _run_watched(self, step_context: Any) -> None:
        try:
            with losing_cancelled_steps():
                if self._can_skip_hooks:
                    self._run_through_next_needed(step_context)
                else:
                    _, self.last_loss = step_context.run_with_hooks(self._fetches)
        except LOST_SESSION as error:
            self._watch.session_lost(error)
            raise
        self._watch.step_done()

    def _run_through_next_needed(self, step_context: Any) -> None:
        if not self._session.wraps(step_context.session):
            self._begin(step_context.session)
        if self._regular_steps >= _MIN_REGULAR_STEPS and not self._session.is_lost:
            self._run_raw()
            if self._should_stop():  # the thread that feeds the input may have failed
                return
        _, self.last_loss = step_context.run_with_hooks(self._fetches)
        if self._regular_steps < 0 or self._session.is_lost:
            return
        before, self._global_step = self._global_step, int(self._read_global_step())
        if self._first_global_step is None:
            self._first_global_step = self._global_step
        # If the program increments the step otherwise, the step of a hook can't be predicted.
        is_regular = self._global_step == before + 1
        self._regular_steps = self._regular_steps + 1 if is_regular else -math.inf

    def _begin(self, session: tf1.Session) -> None:
        self._session = _RawSession(session)
        self._raw_call = None
        self._read_global_step = self._session.make_callable(self._global_step_tensor())
        self._global_step = int(self._read_global_step())
        self._first_global_step = None
        self._regular_steps = 0

    def _global_step_tensor(self) -> Any:
        """Returns the tensor of the global step that a hook fetches, or else the variable.

        TensorFlow optimizes the graph again for each set of fetches, which can take a second.
        """
        for hook in self._hooks:
            if isinstance(hook, (tf1.train.StepCounterHook, tf1.train.StopAtStepHook)):
                return hook.before_run(None).fetches
        return tf1.train.get_global_step()

    def _make_raw_call(self) -> Callable[[], Any]:
        """Returns a function for a step without hooks that has the fetches of one with hooks.

        It returns the fetches, the hooks' fetches, and the global step if a hook fetches it.
        """
        requests = [hook.before_run(None) for hook in self._hooks]
        fetched = [request.fetches for request in requests if request is not None]
        step = self._global_step_tensor()
        step_fetch = [step] if any(fetch is step for fetch in fetched) else []
        return self._session.make_callable([self._fetches, fetched, step_fetch])

    def _run_raw(self) -> None:
        """Runs the steps without hooks that come before the next needed one."""
        start = self._global_step
        assert self._first_global_step is not None  # _MIN_REGULAR_STEPS have run
        # The step before the needed one runs with hooks, too: some prepare there.
        limit = self._next_needed_step(start, self._first_global_step) - 2 - start
        if limit <= 0:
            return
        if self._raw_call is None:
            self._raw_call = self._make_raw_call()
        done = 0
        try:
            for (_, loss), _, step in self._run_raw_steps(limit):
                done += 1
                self.last_loss = loss
                run_values = tf1.train.SessionRunValues(loss, None, None)
                self._nan_hook.after_run(None, run_values)
                # The program may begin to increment the step otherwise and pass its last step. The
                # value was read before this step, or after it if no control dependency orders them.
                if step and int(step[0]) - start - done not in (-1, 0):
                    break
        finally:
            self._report_skipped_steps(done)
        self._global_step = int(self._read_global_step())
        if self._global_step != start + done:
            self._regular_steps = -math.inf
