# SPDX-License-Identifier: Apache-2.0
"""Locks a `model_dir` for one training, and removes temporary files of killed processes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import time
from collections.abc import Iterator

import tensorflow as tf

from estimator_spec.checkpoints import locks
from estimator_spec.driver.errors import ModelDirError

tf1 = tf.compat.v1

_LOCK = ".training.lock"
# filelock may empty the lock file, so its holder has a file of its own.
_HOLDER = ".training.json"
# Directories of sharded saves, and the files in them.
_SAVES = re.compile(r".+-\d+_temp(_[0-9a-f]+)?")
_PARTS = re.compile(r"part-\d+-of-\d+\..+")
# Of unsharded saves; of TensorFlow's atomic writes; of records and of the state file.
_FILES = re.compile(
    r".+\.(index|data-\d+-of-\d+)\.tempstate\d+"
    r"|(checkpoint|graph\.pbtxt|.+\.meta)\.tmp[0-9a-f]{32}"
    r"|(checkpoint|.+\.tables\.json)\.\d+\.tmp"
)
_EXPORTS = re.compile(r"temp-\d+")


@contextlib.contextmanager
def hold(model_dir: str) -> Iterator[None]:
    """Locks a directory for a training until the block ends, and removes temporary files in it.

    The lock ends with the process, however it ends. File systems without locks are not locked, and
    nothing is removed there.

    Args:
        model_dir: the directory, which exists.

    Raises:
        ModelDirError: another training holds the lock; names its process and host.
    """
    if "://" in model_dir:
        yield
        return
    # Imported when used: importing the package must not load asyncio, which it imports.
    import filelock

    holder, path = os.path.join(model_dir, _HOLDER), os.path.join(model_dir, _LOCK)
    lock = filelock.FileLock(path)
    try:
        lock.acquire(blocking=False)
        if not os.path.exists(path):  # the previous holder removed it between two calls
            lock.release()
            lock.acquire(blocking=False)
    except filelock.Timeout:
        raise ModelDirError(model_dir, _refusal(model_dir, holder)) from None
    except (OSError, NotImplementedError) as error:
        tf1.logging.info("model_dir %s isn't locked: %s", model_dir, error)
        yield
        return
    with contextlib.ExitStack() as stack:
        stack.callback(lock.release)
        stack.callback(_remove, path)
        if isinstance(lock, filelock.SoftFileLock):
            # A file system without locks: filelock's replacement would outlive a killed process.
            stack.close()
            yield
            return
        with contextlib.suppress(OSError):  # a full disk; the lock holds without it
            with open(holder, "w", encoding="utf-8") as file:
                since = time.strftime("%Y-%m-%d %H:%M:%S %z")
                process = {"process": os.getpid(), "host": socket.gethostname(), "since": since}
                json.dump(process, file)
            stack.callback(_remove, holder)
        remove_temporary_files(model_dir)
        try:
            yield
        except BaseException:
            with contextlib.suppress(OSError):  # of a save that failed, on a full disk perhaps
                remove_temporary_files(model_dir)
            raise


def _refusal(model_dir: str, holder: str) -> str:
    """Returns the message about the training that holds the lock."""
    try:
        with open(holder, encoding="utf-8") as file:
            found = json.load(file)
        name = f"process {found['process']} on {found['host']}, since {found['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        name = "a process that just began or ends"
    return (
        f"Another training writes model_dir {model_dir!r}: {name}. Two would overwrite each "
        "other's checkpoints. Wait for its end, or give another model_dir. If that process is "
        f"gone, one that it started still holds {os.path.join(model_dir, _LOCK)!r}: end that one."
    )


def remove_temporary_files(model_dir: str) -> None:
    """Removes temporary files of saves; the caller holds the directory's lock."""
    for name in os.listdir(model_dir):
        path = os.path.join(model_dir, name)
        if _SAVES.fullmatch(name) and os.path.isdir(path):
            if not all(map(_PARTS.fullmatch, os.listdir(path))):
                continue  # a directory of the user's
            tf1.logging.info("Removing %s, left by a save that didn't end.", path)
            shutil.rmtree(path, ignore_errors=True)
        elif _FILES.fullmatch(name):
            _remove(path)


@contextlib.contextmanager
def hold_export(temporary: str) -> Iterator[None]:
    """Locks an export's temporary directory, and removes those of killed exports beside it.

    Args:
        temporary: path of the directory, named 'temp-<number>'; created unless remote.
    """
    if "://" in temporary:
        yield
        return
    base = os.path.dirname(temporary)
    for name in os.listdir(base) if os.path.isdir(base) else ():
        if _EXPORTS.fullmatch(name):
            _remove_if_unlocked(os.path.join(base, name))
    try:
        lock = locks.lock_directory(temporary)
    except OSError:  # a file system without locks
        yield
        return
    try:
        yield
    finally:
        os.close(lock)


def _remove_if_unlocked(directory: str) -> None:
    with contextlib.suppress(OSError):
        lock = locks.lock_directory(directory)
        tf1.logging.info("Removing %s, left by an export that didn't end.", directory)
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.remove(path)
