# SPDX-License-Identifier: Apache-2.0
"""Writes checkpoints atomically, in pieces.

Files are written to a directory beside the target, named after it and ending in `.unfinished`. At
the end the data file is moved, then the record; the directory's file `checkpoint` is written, if
requested and missing; and the index is moved last, without which no checkpoint exists. A killed run
leaves that directory, which the next run with the same target removes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.core.checkpoints import crc32c, index_file, state_file
from estimator_spec.core.checkpoints.bundle import Extents, data_path
from estimator_spec.core.checkpoints.errors import CheckpointError
from estimator_spec.core.common import own_files

_UNFINISHED = ".unfinished"
_HEADROOM = 64 << 20


class PieceWriter:
    """Writes the bytes of a piece in order.

    Attributes:
        crc: checksum of the bytes so far.
    """

    def __init__(self, path: str, descriptor: int, entry: Any, offset: int, size: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._entry = entry
        self._next = offset
        self._end = offset + size
        self.crc = 0

    def write(self, data: np.ndarray, crc: int | None = None) -> None:
        """Appends bytes.

        Args:
            data: contiguous, any type.
            crc: checksum of the piece so far, if it isn't computed from its bytes (strings).
        """
        raw = data.reshape(-1).view(np.uint8)
        self.crc = crc32c.extend(self.crc, raw) if crc is None else crc
        view = memoryview(raw.data)
        if self._next + len(view) > self._end:
            raise AssertionError("more bytes than the piece has")
        try:
            while view:
                count = os.pwrite(self._descriptor, view, self._next)
                self._next += count
                view = view[count:]
        except OSError as error:
            where = f" (byte {self._next} of the new data file)"
            raise _failed_write(error, self._path, where) from None

    def finish(self) -> None:
        """Stores the checksum in the index entry."""
        if self._next != self._end:
            raise AssertionError(f"{self._end - self._next} bytes of the piece are missing")
        self._entry.crc32c = crc32c.mask(self.crc)


class CheckpointWriter:
    """Writes a checkpoint; leaving the `with` statement without `finish` removes all of it.

    Args:
        prefix: checkpoint prefix, a local path.
        num_bytes: size of the data; checked against the free space of the disk.
        durable: whether `finish` waits until everything is on the disk. Otherwise a crash of the
            machine may leave an index without its data.

    Raises:
        ValueError: the checkpoint exists, or the path isn't local.
        OSError: the directory can't be written, or the disk has too little space.
        RuntimeError: another process is writing the same checkpoint.
    """

    def __init__(self, prefix: str, num_bytes: int, durable: bool = True) -> None:
        self._durable = durable
        self.prefix = os.fspath(prefix)
        check_target(self.prefix)
        directory = os.path.dirname(self.prefix) or "."
        os.makedirs(directory, exist_ok=True)
        self._directory = self.prefix + _UNFINISHED
        self._written: own_files.Unfinished | None = _create(self._directory)
        self._descriptor = -1
        try:
            check_target(self.prefix)  # another process may have finished it
            _check_unused(data_path(self.prefix, 0, 1))
            free = shutil.disk_usage(directory).free
            if free < num_bytes + _HEADROOM:
                raise OSError(
                    f"{directory!r} has {free:,} bytes left, the checkpoint needs {num_bytes:,}. "
                    "Make room, or choose another disk. Nothing was written."
                )
            self._data = os.path.join(self._directory, "data")
            self._descriptor = os.open(self._data, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
        except BaseException:
            self.close()
            raise
        self._entries: dict[bytes, Any] = {}
        self._pieces: list[PieceWriter] = []
        self._size = 0

    def add(
        self,
        name: str,
        dtype: Any,
        shape: Sequence[int],
        pieces: Sequence[tuple[Extents, Sequence[int], int]],
    ) -> list[PieceWriter]:
        """Adds a variable.

        Args:
            name: its key in the checkpoint.
            dtype: its `tf.DType`.
            shape: its shape.
            pieces: (extents, shape, bytes) of each slice; a single one with empty extents for a
                variable that isn't sliced.

        Returns:
            The writer of each piece.
        """
        whole = self._new_entry(name.encode(), dtype, shape)
        if len(pieces) == 1 and not pieces[0][0]:
            return [self._new_piece(whole, pieces[0][2])]
        writers = []
        for extents, piece_shape, size in pieces:
            stored = whole.slices.add()
            for extent in extents:
                listed = stored.extent.add()
                if extent is not None:
                    listed.start, listed.length = extent
            key = index_file.slice_key(name, extents)
            writers.append(self._new_piece(self._new_entry(key, dtype, piece_shape), size))
        return writers

    def finish(self, companions: dict[str, bytes] | None = None, latest: bool = False) -> bool:
        """Completes the checkpoint and moves it to its prefix.

        Args:
            companions: contents of small files beside it, by suffix to the prefix.
            latest: whether to write the directory's file `checkpoint`, if there is none.

        Returns:
            Whether that file names this checkpoint.

        Raises:
            OSError: a file can't be written.
        """
        try:
            return self._finish(companions or {}, latest)
        except OSError as error:
            raise _failed_write(error, self.prefix) from None

    def _finish(self, companions: dict[str, bytes], latest: bool) -> bool:
        for piece in self._pieces:
            piece.finish()
        entries = {key: entry.SerializeToString() for key, entry in self._entries.items()}
        entries[index_file.HEADER_KEY] = index_file.new_header().SerializeToString()
        os.ftruncate(self._descriptor, self._size)
        if self._durable:
            os.fsync(self._descriptor)
        others = dict(companions)
        others[".index"] = index_file.write(entries)  # must be last
        for suffix, data in others.items():
            self._write_file(suffix, data)
        moves = {"data": data_path(self.prefix, 0, 1)}
        moves.update({suffix: self.prefix + suffix for suffix in others})
        self._note(moves)
        os.replace(self._data, moves.pop("data"))
        named = latest and self._name_latest()
        for name, path in moves.items():
            os.replace(os.path.join(self._directory, name), path)
        if self._durable:
            _sync_directory(os.path.dirname(self.prefix) or ".")
        return named

    def close(self) -> None:
        """Removes an unfinished checkpoint."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if self._written is not None:
            self._written.remove()
            self._written = None

    def __enter__(self) -> CheckpointWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _new_entry(self, key: bytes, dtype: Any, shape: Sequence[int]) -> Any:
        if key in self._entries:
            raise ValueError(f"{key!r} would be written twice. Give the two different names.")
        entry = self._entries[key] = index_file.new_entry()
        entry.dtype = dtype.as_datatype_enum
        entry.shape.SetInParent()
        for size in shape:
            entry.shape.dim.add(size=size)
        return entry

    def _new_piece(self, entry: Any, size: int) -> PieceWriter:
        entry.offset, entry.size = self._size, size
        writer = PieceWriter(self.prefix, self._descriptor, entry, self._size, size)
        self._size += size
        self._pieces.append(writer)
        return writer

    def _write_file(self, suffix: str, data: bytes) -> None:
        with open(os.path.join(self._directory, suffix), "wb") as file:
            file.write(data)
            file.flush()
            if self._durable:
                os.fsync(file.fileno())

    def _name_latest(self) -> bool:
        """Writes the directory's file `checkpoint`, unless it has one.

        It is written before the index, so that a directory with a checkpoint always has one;
        readers skip a checkpoint without an index.
        """
        directory, name = os.path.split(os.path.abspath(self.prefix))
        path = os.path.join(directory, "checkpoint")
        if not os.path.exists(path):
            state = tf.compat.v1.train.generate_checkpoint_state_proto(".", name, [name])
            self._write_file(".state", str(state).encode())
            os.replace(os.path.join(self._directory, ".state"), path)
            return True
        try:
            found = state_file.read(directory)
        except CheckpointError:  # a damaged one is `repair`'s
            return False
        return found is not None and found.model_checkpoint_path == os.path.join(directory, name)

    def _note(self, moves: Mapping[str, str]) -> None:
        """Writes into the marker which files are moved, by their old and new paths."""
        for path in moves.values():
            _check_unused(path)
        assert self._written is not None
        self._written.note(
            moved={
                os.path.basename(path): own_files.identify(self._directory, name)
                for name, path in moves.items()
            }
        )


def _failed_write(error: OSError, prefix: str, where: str = "") -> OSError:
    """Returns the error of a write that failed, such as on a full disk."""
    return OSError(
        error.errno,
        f"{os.strerror(error.errno or 0)}{where}. Nothing was kept of the new checkpoint, and "
        "nothing else was touched. Make room, or choose another disk",
        prefix,
    )


def check_target(prefix: str) -> None:
    """Checks that a checkpoint can be written to a prefix.

    Raises:
        ValueError: it is remote, a directory, or an existing checkpoint.
    """
    if "://" in prefix:
        raise ValueError(
            f"The target {prefix!r} must be on a local disk. Copy the files afterwards, the one "
            "that ends in '.index' last."
        )
    if os.path.isdir(prefix) or not os.path.basename(prefix):
        raise ValueError(
            f"The target {prefix!r} is a directory. Give the path of the new checkpoint in it, "
            "such as '.../model.ckpt-200'."
        )
    if os.path.exists(prefix + ".index"):
        raise ValueError(
            f"There is a checkpoint {prefix!r} already. Nothing is ever written over one: choose "
            "another name, or move it away."
        )


def _create(directory: str) -> own_files.Unfinished:
    """Creates the directory of an unfinished checkpoint."""
    try:
        return own_files.create(directory, own_files.Job.CONVERSION, adopt=True)
    except BlockingIOError:
        raise RuntimeError(
            f"Another process is writing this checkpoint: it holds {directory!r}."
        ) from None
    except FileExistsError:
        raise _in_the_way(directory) from None


def _check_unused(path: str) -> None:
    if os.path.lexists(path):
        raise _in_the_way(path)


def _in_the_way(path: str) -> ValueError:
    return ValueError(
        f"There is {path!r} already, of which no marker shows that a conversion wrote it. Nothing "
        "is ever written over what is there: move it away, or choose another name."
    )


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
