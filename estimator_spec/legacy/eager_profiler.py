# SPDX-License-Identifier: Apache-2.0
"""Names of `tensorflow.python.eager.profiler`, by `tf.profiler.experimental`.

A result of `stop` is in the format of today's profiles, an XSpace; TensorFlow 2.15 returned trace
events. `save` writes it to where TensorBoard looks for it.
"""

from __future__ import annotations

import datetime
import os
import platform
import tempfile
import threading
import time
from collections.abc import Mapping
from typing import Any, ClassVar

import tensorflow as tf

_EVENT_FILE_SUFFIX = ".profile-empty"
_PROFILES = os.path.join("plugins", "profile")
_PROFILE_SUFFIX = ".xplane.pb"


class ProfilerAlreadyRunningError(Exception):
    """`start` was called while a profiler runs."""


class ProfilerNotRunningError(Exception):
    """`stop` was called without `start`."""


class _RunningProfiler:
    """The profiler of this process.

    Attributes:
        folder: where TensorFlow writes the profile; None: none runs.
    """

    lock = threading.Lock()
    folder: ClassVar[tempfile.TemporaryDirectory[str] | None] = None


def start(options: Mapping[str, Any] | Any = None) -> None:
    """Starts profiling.

    Args:
        options: a `tf.profiler.experimental.ProfilerOptions`, a dict of its arguments, or None.

    Raises:
        ProfilerAlreadyRunningError: a profiler runs.
    """
    if isinstance(options, Mapping):
        options = tf.profiler.experimental.ProfilerOptions(**options)
    with _RunningProfiler.lock:
        if _RunningProfiler.folder is not None:
            raise ProfilerAlreadyRunningError("Another profiler is running.")
        folder = tempfile.TemporaryDirectory()
        try:
            tf.profiler.experimental.start(folder.name, options)
        except BaseException as error:
            folder.cleanup()
            if isinstance(error, tf.errors.AlreadyExistsError):
                raise ProfilerAlreadyRunningError("Another profiler is running.") from error
            raise
        _RunningProfiler.folder = folder


def stop() -> bytes:
    """Stops profiling, and returns the profile.

    Raises:
        ProfilerNotRunningError: `start` hasn't been called.
    """
    with _RunningProfiler.lock:
        if _RunningProfiler.folder is None:
            raise ProfilerNotRunningError("Cannot stop profiling. No profiler is running.")
        folder, _RunningProfiler.folder = _RunningProfiler.folder, None
        with folder as path:
            tf.profiler.experimental.stop()
            [profile] = tf.io.gfile.glob(os.path.join(path, _PROFILES, "*", f"*{_PROFILE_SUFFIX}"))
            with tf.io.gfile.GFile(profile, "rb") as file:
                return file.read()


def maybe_create_event_file(logdir: str) -> None:
    """Creates an empty event file in a directory of logs, which marks that it has profiles."""
    names = tf.io.gfile.listdir(logdir)
    if any(name.endswith(_EVENT_FILE_SUFFIX) for name in names):
        return
    now = time.time()
    name = f"events.out.tfevents.{now:.0f}.{platform.node()}{_EVENT_FILE_SUFFIX}"
    event = tf.compat.v1.Event(wall_time=now, file_version="brain.Event:2")
    with tf.io.TFRecordWriter(os.path.join(logdir, name)) as writer:
        writer.write(event.SerializeToString())


def save(logdir: str, result: bytes) -> None:
    """Writes a profile to a directory of logs, for TensorBoard.

    Args:
        logdir: the directory.
        result: what `stop` returned.
    """
    run = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    folder = os.path.join(logdir, _PROFILES, run)
    tf.io.gfile.makedirs(folder)
    maybe_create_event_file(logdir)
    path = os.path.join(folder, f"{platform.node()}{_PROFILE_SUFFIX}")
    with tf.io.gfile.GFile(f"{path}.tmp", "wb") as file:
        file.write(result)
    tf.io.gfile.rename(f"{path}.tmp", path, overwrite=True)


def start_profiler_server(port: int) -> None:
    """Starts a server that profiles this process on request; it ends with the process."""
    tf.profiler.experimental.server.start(port)


class Profiler:
    """Context manager that profiles its block, and saves the profile.

    Args:
        logdir: a directory of logs.
    """

    def __init__(self, logdir: str) -> None:
        self._logdir = logdir

    def __enter__(self) -> None:
        """Starts profiling."""
        start()

    def __exit__(self, *exc_info: object) -> None:
        """Stops profiling, and saves the profile."""
        save(self._logdir, stop())
