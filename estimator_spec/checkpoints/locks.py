# SPDX-License-Identifier: Apache-2.0
"""Locks directories, so that an unfinished one of a running process is known."""

from __future__ import annotations

import fcntl
import os


def lock_directory(directory: str) -> int:
    """Creates and locks a directory; the lock ends with this process.

    Returns:
        A descriptor, which holds the lock until it is closed.

    Raises:
        BlockingIOError: another process, or this one, has locked it.
        OSError: it can't be created, or the file system has no locks.
    """
    while True:
        os.makedirs(directory, exist_ok=True)
        lock = os.open(directory, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise
        # The previous owner may have removed the directory between the two calls.
        if os.path.exists(directory) and os.path.samestat(os.fstat(lock), os.stat(directory)):
            return lock
        os.close(lock)
