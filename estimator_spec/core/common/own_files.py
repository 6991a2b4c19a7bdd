# SPDX-License-Identifier: Apache-2.0
"""Marks directories that this project fills, and removes what killed runs left, but nothing else.

While a job (a save, an export, a conversion) fills a directory, a locked file in it, the marker,
says which job and under which name. `remove_left` removes directories whose job was killed.
`write_file` writes a file in such a directory, then moves it. TensorFlow isn't imported.

The marker names its own inode, so a copy of the directory isn't taken for the original. Files that
somebody added stay, and so does the directory then. Names alone never decide, and links aren't
followed.

Somebody else's file that is in the way of a save is renamed until the save ends (`put_aside`); a
note, a locked file with a marker, lets `remove_left` give it its name back after a kill.
"""

from __future__ import annotations

import contextlib
import enum
import json
import logging
import os
import re
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tpu_columns.file_locks import fcntl

MARKER = ".tpu_columns.json"
_NOTE = ".tpu_columns.kept-"
AUTHOR = {"written by": "tpu-columns"}
_BUNDLE = r"(index|data-\d+-of-\d+)(\.tempstate\d+)?"
_PARTS = rf"part-\d+-of-\d+\.{_BUNDLE}"
_MODULES = (
    "check|heads|layers|model|optimizers|reading|recorded|records|serve|steps|tensors"
    "|tf_examples|train"
)
_PROGRAM = (
    rf"(({_MODULES})\.py|report\.(md|html)|vocabularies/[^/]+\.txt|check\.npz"
    r"|weights\.keras|(weights|optimizer)\.safetensors)"
)

_LOG = logging.getLogger("tensorflow")  # TensorFlow's, without its import


class Job(enum.Enum):
    """Kinds of jobs that fill a directory; the value is a pattern of the files they write."""

    SAVE = _PARTS
    CONVERSION = r"data|\.(index|state|tables\.json)"
    FILE = "file"
    EXPORT = (
        r"saved_model\.pb(txt)?|(fingerprint|keras_metadata)\.pb|(assets(\.extra)?|debug)/.+"
        rf"|variables/(variables\.{_BUNDLE}|variables_temp/{_PARTS})"
    )
    # With the directories in which `write_file` writes its files, and the job's temporary one.
    KERAS_PROGRAM = rf"scratch[^/]*/.+|{_PROGRAM}(\.unfinished(/({FILE}|{re.escape(MARKER)}))?)?"


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
            **facts: `becomes`, the name that the finished directory gets; `moved`, what `identify`
                returns for files that are moved out of the directory, by name. The last of them
                completes the work.
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
        """Removes what was written, moved files, too, unless all are; unlocks the directory."""
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


def write_file(path: str, data: bytes, mode: int = 0o644) -> None:
    """Writes a file whole or not at all, with these permissions.

    What a killed write leaves beside it is removed by the next one, and by `remove_left`.

    Raises:
        OSError: it can't be written; an older file is as it was.
    """
    path = os.path.abspath(path)
    with _directory_beside(path) as directory:
        part = os.path.join(directory, Job.FILE.value)
        with open(part, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(part, mode)
        os.replace(part, path)


@contextlib.contextmanager
def _directory_beside(path: str) -> Iterator[str]:
    """Creates a directory to write a file in, and removes it when the block ends."""
    try:
        written = create(f"{path}.unfinished", Job.FILE)
    except OSError:  # no locks, another process that writes the file, or others' files
        with tempfile.TemporaryDirectory(
            prefix=f"{os.path.basename(path)}.", dir=os.path.dirname(path)
        ) as directory:
            yield directory
        return
    try:
        yield written.path
    finally:
        written.remove()


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
    """Locks a marker; waits a moment if another run that looks for leftovers has locked it.

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
    """Removes what killed jobs left in a directory, one level deep.

    What they had put aside gets its name back.
    """
    try:
        names = os.listdir(directory)
    except OSError:
        return
    # The notes last: the names that they give back are free then.
    for name in sorted(names, key=lambda name: (name.startswith(_NOTE), name)):
        with contextlib.suppress(OSError):
            path = os.path.join(directory, name)
            (_give_back_if_left if name.startswith(_NOTE) else _remove_if_left)(path)


def _remove_if_left(path: str) -> None:
    """Removes a directory of a killed job; leaves everything else.

    Raises:
        BlockingIOError: a job that runs fills it.
        OSError: the file system has no locks.
    """
    if os.path.islink(path):
        return
    with _locked_marker(os.path.join(path, MARKER)) as found:
        name = os.path.basename(path)
        if name == found.get("becomes"):
            os.remove(os.path.join(path, MARKER))  # the directory is finished
        elif name == found.get("name") and found.get("job") in Job.__members__:
            _remove_moved(os.path.dirname(path), found.get("moved") or {})
            _remove_contents(path, Job[found["job"]], bool(found.get("created")))


def _give_back_if_left(note: str) -> None:
    """Renames what a killed job had put aside to the name that it had before.

    Raises:
        BlockingIOError: the job runs.
        OSError: the file system has no locks.
    """
    with _locked_marker(note) as found:
        names = (found.get("aside"), found.get("original"))
        if all(map(_is_name, names)):
            aside, original = (os.path.join(os.path.dirname(note), str(name)) for name in names)
            _give_back(aside, original)
            os.remove(note)


@contextlib.contextmanager
def _locked_marker(path: str) -> Iterator[Mapping[str, Any]]:
    """Locks a marker until the block ends, and yields what it says; nothing if it isn't ours.

    Raises:
        BlockingIOError: the process that wrote it holds it.
        OSError: the file system has no locks.
    """
    try:
        lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        yield {}
        return
    try:
        found = read_marker(lock)
        if found is not None:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = read_marker(lock) if os.path.exists(path) else None
        yield found or {}
    finally:
        os.close(lock)


def _is_name(value: Any) -> bool:
    """Returns whether a value of a marker names something in the marker's own directory."""
    return isinstance(value, str) and value == os.path.basename(value) and value not in ("", "..")


def write_marker(descriptor: int, **facts: Any) -> None:
    """Writes to an open file what `read_marker` recognizes this project's files by."""
    data = json.dumps({**AUTHOR, "inode": os.fstat(descriptor).st_ino, **facts}).encode()
    os.pwrite(descriptor, data, 0)
    os.ftruncate(descriptor, len(data))


def read_marker(descriptor: int) -> dict[str, Any] | None:
    """Returns what `write_marker` wrote to a file; None if it didn't, or if the file is a copy."""
    status = os.fstat(descriptor)
    found = parse_marker(os.pread(descriptor, status.st_size, 0))
    return found if found is not None and found.get("inode") == status.st_ino else None


def parse_marker(data: bytes) -> dict[str, Any] | None:
    """Returns what this project wrote to a file; None if it didn't."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and AUTHOR.items() <= found.items() else None


def _remove_contents(directory: str, job: Job, created: bool) -> None:
    """Removes the files of a job, its marker, and directories that are empty then."""
    folders, own = [], []
    for folder, _, names in os.walk(directory):
        folders.append(folder)
        for path in (os.path.join(folder, name) for name in names):
            if re.fullmatch(job.value, os.path.relpath(path, directory)):
                own.append(path)
    if own and job is not Job.FILE:
        _LOG.info("Removing %s, which a job that failed or was killed left.", directory)
    for path in own:
        _remove(path)
    _remove(os.path.join(directory, MARKER))
    remove_empty(folders if created else folders[1:])
    if created and os.path.exists(directory):
        _LOG.info("%s stays: it has files of others.", directory)


def remove_empty(folders: Iterable[str]) -> None:
    """Removes the directories that are empty, inner ones first."""
    for folder in sorted(folders, reverse=True):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def _remove_moved(directory: str, moved: Mapping[str, Any]) -> None:
    """Removes files that a killed job had moved, unless it had moved all of them."""
    own = {
        name
        for name, known in moved.items()
        if _is_name(name) and is_unchanged(directory, name, known)
    }
    if moved and list(moved)[-1] not in own:
        for name in own:
            path = os.path.join(directory, name)
            _LOG.info("Removing %s, of a checkpoint that a killed job left unfinished.", path)
            _remove(path)


def identify(directory: str, name: str) -> list[int]:
    """Returns what tells a local file from one that replaces it: size, time and inode.

    Args:
        directory: its directory.
        name: its path below the directory.
    """
    status = os.stat(os.path.join(directory, name), follow_symlinks=False)
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def is_unchanged(directory: str, name: str, known: Any) -> bool:
    """Returns whether a file is there and still what `identify` returned for it."""
    try:
        return identify(directory, name) == known
    except OSError:
        return False


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
            stack.enter_context(put_aside(path))
            written = create(path, job)
        stack.callback(written.remove)
        yield


@contextlib.contextmanager
def put_aside(path: str) -> Iterator[None]:
    """Renames somebody else's file or directory until the block ends.

    Raises:
        OSError: it can't be renamed, or the note of that can't be written.
    """
    directory, key = os.path.dirname(path), uuid.uuid4().hex
    other, note = f"{path}.kept-{key}", os.path.join(directory, f"{_NOTE}{key}.json")
    lock = os.open(note, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        write_marker(lock, original=os.path.basename(path), aside=os.path.basename(other))
        os.rename(path, other)
        _LOG.info("%s isn't of this project: it is renamed to %s for a while.", path, other)
        try:
            yield
        finally:
            _give_back(other, path)
    finally:
        os.remove(note)
        os.close(lock)


def _give_back(other: str, path: str) -> None:
    """Gives somebody else's directory its name back, unless there is another of that name now."""
    with contextlib.suppress(OSError):
        if not os.path.lexists(path):
            os.rename(other, path)
        elif os.path.lexists(other):
            _LOG.warning("%s was %s, a name that another file has now.", other, path)
