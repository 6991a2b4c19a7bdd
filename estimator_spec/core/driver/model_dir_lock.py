# SPDX-License-Identifier: Apache-2.0
"""Locks a `model_dir` for one training."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import time
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from estimator_spec.core.common import own_files
from estimator_spec.core.driver.errors import ModelDirError
from tpu_columns.file_locks import fcntl

_LOCK = ".training.lock"
# How TensorFlow names a graph's files until they are written.
_UNFINISHED = re.compile(r"(graph\.pbtxt|.+\.meta)\.tmp[0-9a-f]{32}")


@contextlib.contextmanager
def hold(model_dir: str) -> Iterator[None]:
    """Locks a directory for a training until the block ends, and removes what killed ones left.

    The lock ends with the process, however it ends. File systems without locks are not locked, and
    nothing is removed there. A lock file of somebody else is locked, too; it stays as it is.

    Args:
        model_dir: the directory, which exists.

    Raises:
        ModelDirError: another training holds the lock, and the message names its process and host;
            or the lock file is a link to nothing.
    """
    if "://" in model_dir:
        yield
        return
    path = os.path.join(model_dir, _LOCK)
    try:
        _check_link(model_dir, path)
        lock, created = _lock(path)
    except BlockingIOError:
        raise ModelDirError(model_dir, _refusal(model_dir, path)) from None
    except OSError as error:
        tf.compat.v1.logging.info("model_dir %s isn't locked: %s", model_dir, error)
        yield
        return
    try:
        killed = None if created else own_files.read_marker(lock)
        is_own = created or killed is not None
        if killed is not None:
            _remove_unfinished(model_dir, killed)
        if is_own:
            with contextlib.suppress(OSError):  # a full disk; the lock holds without it
                own_files.write_marker(
                    lock,
                    process=os.getpid(),
                    host=socket.gethostname(),
                    since=time.strftime("%Y-%m-%d %H:%M:%S %z"),
                    before=_unfinished_in(model_dir),
                )
        try:
            own_files.remove_left(model_dir)
            yield
        finally:
            if is_own and own_files.is_file(path, lock):
                with contextlib.suppress(OSError):
                    os.remove(path)
    finally:
        os.close(lock)


def _unfinished_in(model_dir: str) -> list[str]:
    """Returns the names of files with graphs that TensorFlow hasn't finished."""
    return sorted(
        entry.name
        for entry in os.scandir(model_dir)
        if _UNFINISHED.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
    )


def _remove_unfinished(model_dir: str, killed: dict[str, Any]) -> None:
    """Removes the unfinished files of a killed training: those that weren't there before it.

    Args:
        model_dir: the directory.
        killed: what that training wrote into its lock file.
    """
    before = killed.get("before")
    if isinstance(before, list):
        for name in set(_unfinished_in(model_dir)).difference(map(str, before)):
            with contextlib.suppress(OSError):
                os.remove(os.path.join(model_dir, name))


def _check_link(model_dir: str, path: str) -> None:
    """Refuses a lock file that is a link to a missing file: the lock can't be created."""
    if os.path.islink(path) and not os.path.exists(path):
        raise ModelDirError(
            model_dir,
            f"{path!r}, the lock file of trainings, is a link to {os.readlink(path)!r}, which "
            "doesn't exist. Remove the link.",
        )


def _lock(path: str) -> tuple[int, bool]:
    """Opens and locks a file; returns its descriptor, and whether this call has created it.

    Raises:
        BlockingIOError: another process, or this one, holds the lock.
        OSError: the file can't be created, or the file system has no locks.
    """
    while True:
        created = True
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            created = False
            try:
                lock = os.open(path, os.O_RDWR)
            except FileNotFoundError:
                continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The previous holder may have removed the file between the two calls.
            if own_files.is_file(path, lock):
                return lock, created
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)


def _refusal(model_dir: str, path: str) -> str:
    """Returns the message about the training that holds the lock."""
    found: Any = None
    with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
        found = json.load(file)
    try:
        name = f"process {found['process']} on {found['host']}, since {found['since']}"
    except (KeyError, TypeError):
        name = "a process that just began or ends"
    return (
        f"Another training writes model_dir {model_dir!r}: {name}. Two would overwrite each "
        "other's checkpoints. Wait for its end, or give another model_dir. If that process is "
        f"gone, one that it started still holds {path!r}: end that one."
    )
