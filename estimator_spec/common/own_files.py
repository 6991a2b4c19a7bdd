# SPDX-License-Identifier: Apache-2.0
"""Removes files that this project wrote; what it can't show to be its own stays.

A directory that a job fills has a marker: a file inside that says who writes the directory, under
which name, and that is locked while the job runs. `remove_left` removes the directories of jobs
that were killed. A directory that may have to be removed after its job, such as an old export, has
a list of its files instead, with the size and time of each.

The marker names its own inode, so a copy of the directory isn't taken for the original. Files that
somebody added stay, and so does the directory then. Names alone never decide.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import json
import os
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.common import local_files

MARKER = ".tpu_columns.json"
_AUTHOR = {"written by": "tpu-columns"}
_BUNDLE = r"(index|data-\d+-of-\d+)(\.tempstate\d+)?"
_PARTS = rf"part-\d+-of-\d+\.{_BUNDLE}"
_PROGRAM = r"((model|serve)\.py|report\.(md|html))"

logging = tf.compat.v1.logging


class Job(enum.Enum):
    """Kinds of jobs that fill a directory; the value is a pattern of the files they write."""

    SAVE = _PARTS
    CONVERSION = r"data|\.(index|state|tables\.json)"
    EXPORT = (
        r"saved_model\.pb(txt)?|fingerprint\.pb|assets(\.extra)?/.+"
        rf"|variables/(variables\.{_BUNDLE}|variables_temp/{_PARTS})"
    )
    KERAS_PROGRAM = (
        rf"weights\.keras|{_PROGRAM}|\.{_PROGRAM}\.\w{{8}}"
        r"|vocabularies/([^/]+\.txt|\.[^/]+\.txt\.\w{8})"
    )


class Unfinished:
    """A directory that this process fills. It has a marker, and is locked until it is removed.

    Attributes:
        path: the directory.
    """

    def __init__(self, path: str, job: Job, created: bool, lock: int) -> None:
        self.path = path
        self._job = job
        self._created = created
        self._lock = lock
        self._facts: dict[str, Any] = {
            "name": os.path.basename(path),
            "job": job.name,
            "created": created,
        }
        self.note()

    def note(self, **facts: Any) -> None:
        """Adds facts to the marker, for the run that finds the directory if this one is killed.

        Args:
            **facts: `becomes`, the name that the finished directory gets; `instead_of`, the name
                that somebody else's directory has while this one has its name; `moved`, what
                `identify` returns for files that are moved out of the directory, by name. The
                last of them completes the work.
        """
        self._facts.update(facts)
        try:
            write_marker(self._lock, **self._facts)
        except OSError as error:
            raise OSError(error.errno, os.strerror(error.errno or 0), self.path) from None

    def finish(self, path: str) -> None:
        """Gives the finished directory its name."""
        self.note(becomes=os.path.basename(path))
        os.rename(self.path, path)
        os.remove(os.path.join(path, MARKER))
        os.close(self._lock)

    def remove(self) -> None:
        """Removes what was written, moved files only if not all are; unlocks the directory."""
        _remove_moved(os.path.dirname(self.path), self._facts.get("moved", {}))
        _remove_contents(self.path, self._job, self._created)
        os.close(self._lock)


def create(path: str, job: Job, adopt: bool = False) -> Unfinished:
    """Creates a directory, with a marker, for a job to fill.

    What a killed job of this project left there is removed first.

    Args:
        path: a local path.
        job: what fills it.
        adopt: whether an empty directory of somebody else is used; it stays.

    Raises:
        BlockingIOError: another job fills the directory now.
        FileExistsError: there is a file or directory of somebody else.
        OSError: the directory can't be created, or the file system has no locks.
    """
    path = os.path.abspath(path)
    if os.path.lexists(path):
        _remove_if_left(path)
    created = True
    try:
        os.mkdir(path)
    except FileExistsError:
        if not adopt or not _is_empty(path):
            raise
        created = False
    try:
        return mark(path, job, created)
    except BaseException:
        if created:
            with contextlib.suppress(OSError):
                os.rmdir(path)
        raise


def mark(path: str, job: Job, created: bool = True) -> Unfinished:
    """Marks an empty directory as one that a job fills.

    Args:
        path: a local path.
        job: what fills it.
        created: whether this process has created the directory.

    Raises:
        OSError: the marker can't be written, or the file system has no locks. The directory is as
            it was.
    """
    marker = os.path.join(path, MARKER)
    lock = os.open(marker, os.O_RDWR | os.O_CREAT | (os.O_EXCL if created else 0), 0o644)
    try:
        _lock_soon(lock)
        if os.fstat(lock).st_size or not is_file(marker, lock):
            raise BlockingIOError(f"Another job fills {path!r}.")
        return Unfinished(path, job, created, lock)
    except BaseException as error:
        os.close(lock)
        if not isinstance(error, BlockingIOError):
            _remove(marker)
        raise


def is_file(path: str, descriptor: int) -> bool:
    """Returns whether an open file is the one that a path names."""
    return os.path.exists(path) and os.path.samestat(os.fstat(descriptor), os.stat(path))


def _is_empty(path: str) -> bool:
    """Returns whether a path is a directory without files, except for a marker without contents.

    A job leaves that if it is killed in its first moment.
    """
    if os.path.islink(path) or not os.path.isdir(path):
        return False
    marker = os.path.join(path, MARKER)
    return os.listdir(path) in ([], [MARKER]) and not (
        os.path.lexists(marker) and os.lstat(marker).st_size
    )


def _lock_soon(descriptor: int) -> None:
    """Locks a marker; waits a moment, as a run that looks for what is left may hold it.

    Raises:
        BlockingIOError: another job holds it.
        OSError: the file system has no locks.
    """
    for _ in range(99):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(0.01)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def remove_left(directory: str) -> None:
    """Removes what killed jobs left in a directory, one level deep."""
    try:
        names = os.listdir(directory)
    except OSError:
        return
    for name in sorted(names):
        with contextlib.suppress(OSError):
            _remove_if_left(os.path.join(directory, name))


def _remove_if_left(path: str) -> None:
    """Removes a directory of a killed job; leaves everything else.

    Raises:
        BlockingIOError: a job that runs fills it.
        OSError: the file system has no locks.
    """
    marker = os.path.join(path, MARKER)
    try:
        lock = os.open(marker, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        found = read_marker(lock)
        if found is None:
            return
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = read_marker(lock)
        if found is None or not os.path.exists(marker):
            return
        name = os.path.basename(path)
        if name == found.get("becomes"):
            os.remove(marker)  # the directory is finished
        elif name == found.get("name") and found.get("job") in Job.__members__:
            _remove_moved(os.path.dirname(path), found.get("moved") or {})
            _remove_contents(path, Job[found["job"]], bool(found.get("created")))
            original = found.get("instead_of")
            if original:
                _give_back(os.path.join(os.path.dirname(path), original), path)
    finally:
        os.close(lock)


def write_marker(descriptor: int, **facts: Any) -> None:
    """Makes an open file one of which `read_marker` shows that this project wrote it."""
    data = json.dumps({**_AUTHOR, "inode": os.fstat(descriptor).st_ino, **facts}).encode()
    os.pwrite(descriptor, data, 0)
    os.ftruncate(descriptor, len(data))


def read_marker(descriptor: int) -> dict[str, Any] | None:
    """Returns what `write_marker` wrote to a file; None if it didn't, or if the file is a copy."""
    status = os.fstat(descriptor)
    found = _parse(os.pread(descriptor, status.st_size, 0))
    return found if found is not None and found.get("inode") == status.st_ino else None


def _parse(data: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and _AUTHOR.items() <= found.items() else None


def _remove_contents(directory: str, job: Job, created: bool) -> None:
    """Removes the files of a job, its marker, and directories that are empty then."""
    folders, own = [], []
    for folder, _, names in os.walk(directory):
        folders.append(folder)
        for path in (os.path.join(folder, name) for name in names):
            if re.fullmatch(job.value, os.path.relpath(path, directory)):
                own.append(path)
    if own:
        logging.info("Removing %s, which a job that failed or was killed left.", directory)
    for path in own:
        _remove(path)
    _remove(os.path.join(directory, MARKER))
    _remove_empty(folders if created else folders[1:])
    if created and os.path.exists(directory):
        logging.info("%s stays: it has files of others.", directory)


def _remove_empty(folders: Iterable[str]) -> None:
    for folder in sorted(folders, reverse=True):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def _remove_moved(directory: str, moved: Mapping[str, Any]) -> None:
    """Removes files that a killed job had moved, unless it had moved all of them."""
    own = {name for name, known in moved.items() if is_unchanged(directory, name, known)}
    if moved and list(moved)[-1] not in own:
        for name in own:
            path = os.path.join(directory, name)
            logging.info("Removing %s, of a checkpoint that a killed job left unfinished.", path)
            _remove(path)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.remove(path)


@contextlib.contextmanager
def in_place_of_others(path: str, job: Job) -> Iterator[None]:
    """Creates a directory for a job, and removes it when the block ends.

    A file or directory of somebody else that has its name gets another one until then.

    Raises:
        OSError: as `create`.
    """
    with contextlib.ExitStack() as stack:
        try:
            written = create(path, job, adopt=True)
        except FileExistsError:
            other = f"{path}.kept-{uuid.uuid4().hex}"
            os.rename(path, other)
            logging.info("%s isn't of this project: it is renamed to %s for a while.", path, other)
            stack.callback(_give_back, other, path)
            written = create(path, job)
            written.note(instead_of=os.path.basename(other))
        stack.callback(written.remove)
        yield


def _give_back(other: str, path: str) -> None:
    """Gives somebody else's directory its name back, unless there is another of that name now."""
    with contextlib.suppress(OSError):
        if os.path.lexists(path):
            logging.warning("%s was %s, a name that another file has now.", other, path)
        else:
            os.rename(other, path)


# Finished directories


def identify(directory: str, name: str) -> list[int]:
    """Returns what tells a file from one that replaces it: size, time and inode.

    Args:
        directory: its directory, local or remote.
        name: its path below the directory.
    """
    path = os.path.join(directory, name)
    if "://" in path:
        remote = tf.io.gfile.stat(path)
        return [int(remote.length), int(remote.mtime_nsec), 0]
    status = os.stat(path, follow_symlinks=False)
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def is_unchanged(directory: str, name: str, known: Any) -> bool:
    """Returns whether a file is there and still what `identify` returned for it."""
    try:
        return identify(directory, name) == known
    except (OSError, tf.errors.OpError):
        return False


def list_files(directory: str) -> None:
    """Writes the list of a finished directory's files into it, for `remove_listed`."""
    files = {name: identify(directory, name) for name in _walk(directory)}
    data = json.dumps({**_AUTHOR, "name": os.path.basename(directory), "files": files}).encode()
    path = os.path.join(directory, MARKER)
    if "://" not in path:
        local_files.write_atomically(path, data)
        return
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(data)


def has_list(directory: str) -> bool:
    """Returns whether `list_files` has listed a directory's files, under the name that it has."""
    return _read_list(directory) is not None


def _read_list(directory: str) -> dict[str, Any] | None:
    try:
        with tf.io.gfile.GFile(os.path.join(directory, MARKER), "rb") as file:
            found = _parse(file.read())
    except (OSError, tf.errors.OpError):
        return None
    if found is None or found.get("name") != os.path.basename(directory):
        return None
    files = found.get("files")
    return files if isinstance(files, dict) else None


def remove_listed(directory: str) -> None:
    """Removes the files that `list_files` has listed and nobody has changed since.

    Other files stay, and so does the directory then.

    Raises:
        tf.errors.OpError: a file can't be removed.
    """
    files = _read_list(directory)
    if files is None:
        return
    logging.info("Removing %s.", directory)
    own = {name for name, known in files.items() if is_unchanged(directory, name, known)}
    others = set(_walk(directory)) - own - {MARKER}
    for name in sorted(own):
        tf.io.gfile.remove(os.path.join(directory, name))
    tf.io.gfile.remove(os.path.join(directory, MARKER))
    if others:
        logging.info("%s stays: it has files of others: %s.", directory, ", ".join(sorted(others)))
    if "://" in directory:
        if not others:
            tf.io.gfile.rmtree(directory)
        return
    _remove_empty([folder for folder, _, _ in os.walk(directory)])


def _walk(directory: str) -> Iterator[str]:
    """Yields the paths of all files below a directory, relative to it."""
    for folder, _, names in tf.io.gfile.walk(directory):
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), directory)
