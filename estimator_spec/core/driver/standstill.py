# SPDX-License-Identifier: Apache-2.0
"""Logs when the training of a cluster stands still, and ends the process after a limit.

TensorFlow waits for a parameter server without a message and without end: in a step, when a session
is created, and when it is closed. A separate thread notices, as others wait inside TensorFlow.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

import tensorflow as tf

from estimator_spec.core.cluster import probing, roles
from estimator_spec.core.driver.errors import first_line
from estimator_spec.core.run_config import RunConfig

tf1 = tf.compat.v1

# Errors after which a `MonitoredSession` creates a new session.
LOST_SESSION = (tf.errors.AbortedError, tf.errors.UnavailableError)
# In the message of an error of a transfer between tasks.
_OF_TRANSFERS = ("from remote target", "RecvFromRemote")

_SECONDS_BETWEEN_CHECKS = 1
_SECONDS_OF_A_STEP = 2  # then the servers are asked whether they answer
_SECONDS_BETWEEN_LINES = 10
# How long workers without servers may take for a step during which one didn't answer, in seconds
# and in multiples of the longest step, since all answer again. A collective isn't repeated.
_SECONDS_AFTER_SILENCE, _STEPS_AFTER_SILENCE = 30, 10
_FIRST_SESSION = "its session is being created"
_INTERRUPTED = "the step that a lost connection interrupted doesn't end"


@contextlib.contextmanager
def losing_cancelled_steps() -> Iterator[None]:
    """Turns the end of a step whose transfer between tasks was cancelled into a lost session.

    After a lost connection a task may give up a transfer before this process hears of the loss.

    Raises:
        tf.errors.AbortedError: the block raised such an error.
    """
    try:
        yield
    except tf.errors.CancelledError as error:
        if not any(words in error.message for words in _OF_TRANSFERS):
            raise
        raise tf.errors.AbortedError(error.node_def, error.op, error.message) from error


class StepWatch:
    """Watches the steps of a training; a context manager.

    Without a cluster it does nothing.

    Args:
        config: the `RunConfig`; `session_creation_timeout_secs` is the limit.
        find_silent: returns a text for each parameter server that doesn't answer.
        clock: returns seconds.
    """

    def __init__(
        self,
        config: RunConfig,
        find_silent: Callable[[RunConfig], list[str]] = probing.find_silent,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._find_silent = find_silent
        self._clock = clock
        self._is_over = threading.Event()
        self._is_active = roles.is_distributed(config)
        self._has_servers = config.num_ps_replicas > 0
        self._what = _FIRST_SESSION  # what it waits for; '': for a step
        self._since = clock()  # when the last step ended
        self._next_check = self._since + _SECONDS_BETWEEN_LINES
        self._is_logged = False
        self._was_silent = False  # a task, since the last step
        self._last_silence = 0.0
        self._longest_step = 0.0

    def __enter__(self) -> StepWatch:
        """Starts the thread that watches."""
        if self._is_active:
            threading.Thread(target=self._watch, name="step_watch", daemon=True).start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Ends the thread."""
        self._is_over.set()

    def step_done(self) -> None:
        """Notes that a step has ended."""
        now = self._clock()
        if self._is_logged:
            tf1.logging.info("Training goes on after %d seconds.", now - self._since)
        if not self._what and not self._was_silent:
            self._longest_step = max(self._longest_step, now - self._since)
        self._what, self._since, self._is_logged = "", now, False
        self._was_silent = False
        self._next_check = now + _SECONDS_OF_A_STEP

    def session_lost(self, error: tf.errors.OpError) -> None:
        """Notes that a step has failed, and that a new session will be created."""
        self._what = "a new session is being created"
        if self._is_active:
            tf1.logging.warning(
                "The session with the %s was lost (%s). Training stands still until there is a new "
                "one.",
                *("parameter servers" if self._has_servers else "other workers", first_line(error)),
            )
            self._is_logged = True
            self._next_check = self._clock() + _SECONDS_BETWEEN_LINES

    def closing(self) -> None:
        """Notes that no more steps are made."""
        self._what, self._since = "its session is being closed", self._clock()
        self._next_check = self._since + _SECONDS_OF_A_STEP

    def check(self) -> None:
        """Logs a line if one is due; ends the process at the limit."""
        since = self._since
        if self._clock() < self._next_check:
            return
        silent = self._find_silent(self._config)
        seconds = self._clock() - since
        if since != self._since:
            return  # a step has ended meanwhile
        if silent:
            self._was_silent, self._last_silence = True, self._clock()
        limit = self._limit(bool(silent))
        self._next_check = min(self._clock() + _SECONDS_BETWEEN_LINES, since + limit)
        if not silent and not self._what and not self._was_silent:
            return  # a long step
        if not silent and seconds < _SECONDS_BETWEEN_LINES:
            self._next_check = since + _SECONDS_BETWEEN_LINES
            return
        answer = "all parameter servers answer, and " if self._has_servers else ""
        reason = ", ".join(silent) or answer + (self._what or _INTERRUPTED)
        if seconds >= limit:
            _end_process(seconds, reason, limit == self._config.session_creation_timeout_secs)
        tf1.logging.warning(
            "Training has stood still for %d seconds: %s.%s",
            *(seconds, reason),
            "" if limit == math.inf else f" After {limit:g} seconds this process will end.",
        )
        self._is_logged = True

    def _limit(self, is_silent: bool) -> float:
        """Returns the seconds since the last step after which the process ends."""
        limit = self._config.session_creation_timeout_secs or math.inf
        if self._what == _FIRST_SESSION and not is_silent:
            return math.inf  # a large checkpoint may be being restored
        if self._what or is_silent or self._has_servers or not self._was_silent:
            return limit
        answering = max(_SECONDS_AFTER_SILENCE, _STEPS_AFTER_SILENCE * self._longest_step)
        return min(limit, self._last_silence - self._since + answering)

    def _watch(self) -> None:
        while not self._is_over.wait(_SECONDS_BETWEEN_CHECKS):
            self.check()


def _end_process(seconds: float, reason: str, is_configured: bool) -> NoReturn:
    """Ends this process at once: its other threads may wait inside TensorFlow forever.

    Args:
        seconds: since the last step.
        reason: why there was none since.
        is_configured: whether the `RunConfig` has the limit.
    """
    tf1.logging.error(
        "Training stood still for %d seconds: %s. This process ends with status 1%s. Checkpoints "
        "are unchanged: run again to go on from the latest one.",
        *(seconds, reason),
        "; its limit is RunConfig's session_creation_timeout_secs" if is_configured else "",
    )
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(1)
