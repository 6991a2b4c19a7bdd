# SPDX-License-Identifier: Apache-2.0
"""Turns SIGTERM into a request to end that a waiting task can act on."""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
from collections.abc import Iterator
from typing import Any


class EndRequest:
    """Request to end a task, which a signal handler may make at any time.

    Attributes:
        is_made: whether the task should end.
    """

    def __init__(self) -> None:
        self.is_made = False
        # Its `put` may interrupt a `get` of the same thread; an Event would deadlock.
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()

    def make(self) -> None:
        """Makes the request, and ends a `wait`."""
        self.is_made = True
        self._wake.put(None)

    def wait(self, seconds: float | None = None) -> None:
        """Waits until the request is made, or for a number of seconds.

        Args:
            seconds: the limit; None: no limit.
        """
        if not self.is_made:
            with contextlib.suppress(queue.Empty):
                self._wake.get(timeout=seconds)


@contextlib.contextmanager
def requested_by_sigterm() -> Iterator[EndRequest]:
    """Handles SIGTERM in the block by making a request; the second SIGTERM ends the process.

    A handler of the program's own runs, too. Signals that were blocked when the process started
    arrive in the block. Threads other than the main one can't handle signals: there nothing makes
    the request.
    """
    request = EndRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    previous = signal.getsignal(signal.SIGTERM)

    def handle(number: int, frame: Any) -> None:
        signal.signal(signal.SIGTERM, previous or signal.SIG_DFL)
        request.make()
        if callable(previous):
            previous(number, frame)

    signal.signal(signal.SIGTERM, handle)
    mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    try:
        yield request
    finally:
        signal.signal(signal.SIGTERM, previous or signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
