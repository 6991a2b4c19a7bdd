# SPDX-License-Identifier: Apache-2.0
"""Reads byte ranges of local and remote files, and writes small files atomically."""

from __future__ import annotations

import contextlib
import os
import uuid

import numpy as np
import tensorflow as tf

from estimator_spec.core.checkpoints.errors import DamagedCheckpointError
from estimator_spec.core.common import own_files


class DataFile:
    """A file open for reading at any offset.

    Args:
        path: local path, or one with a scheme that TensorFlow knows, such as 'gs://…'.

    Attributes:
        path: the same.
        size: number of bytes.

    Raises:
        FileNotFoundError: there is no such file.
        OSError: the file can't be opened.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._remote = tf.io.gfile.GFile(path, "rb") if "://" in path else None
        if self._remote is not None:
            try:
                self.size = int(tf.io.gfile.stat(path).length)
            except tf.errors.NotFoundError as error:
                raise FileNotFoundError(path) from error
            except tf.errors.OpError as error:
                raise OSError(f"{path!r} can't be opened: {error.message}") from error
        else:
            self._descriptor = os.open(path, os.O_RDONLY)
            self.size = os.fstat(self._descriptor).st_size

    def read_into(self, buffer: np.ndarray, offset: int) -> None:
        """Fills a buffer with the bytes from `offset` on.

        Args:
            buffer: a contiguous array of any dtype.
            offset: position of the first byte.

        Raises:
            DamagedCheckpointError: the file is too short.
            OSError: the file can't be read.
        """
        view = memoryview(buffer.reshape(-1).view(np.uint8).data)
        try:
            done = self._read(view, offset)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            text = f"{reason}. The file can't be read"
            raise OSError(error.errno, text, self.path) from None
        except tf.errors.OpError as error:
            raise OSError(f"{self.path!r} can't be read: {error.message}") from error
        if done < len(view):
            raise DamagedCheckpointError(
                self.path,
                f"{self.path!r} is cut short: it ends at byte {offset + done}, and "
                f"{len(view) - done} more were there a moment ago, or should be.",
            )

    def _read(self, view: memoryview, offset: int) -> int:
        """Reads up to `len(view)` bytes into `view`, and returns their number."""
        if self._remote is not None:
            self._remote.seek(offset)
            data = self._remote.read(len(view))
            view[: len(data)] = data
            return len(data)
        done = 0
        while done < len(view):
            count = os.preadv(self._descriptor, [view[done:]], offset + done)
            if not count:
                break
            done += count
        return done

    def close(self) -> None:
        """Closes the file."""
        if self._remote is not None:
            self._remote.close()
        else:
            os.close(self._descriptor)


def read_file(path: str) -> bytes:
    """Returns the bytes of a small file.

    Raises:
        FileNotFoundError: there is no such file.
    """
    with contextlib.closing(DataFile(path)) as file:
        buffer = np.empty(file.size, np.uint8)
        file.read_into(buffer, 0)
        return buffer.tobytes()


def write_atomically(path: str, data: bytes) -> None:
    """Writes a small file whole or not at all: `own_files.write_file`, for remote paths, too.

    Raises:
        OSError: the file can't be written; an older one is left as it was.
    """
    if "://" not in path:
        try:
            own_files.write_file(path, data)
        except OSError as error:
            reason = f"{error.strerror}. The file can't be written; nothing was changed"
            raise OSError(error.errno, reason, path) from None
        return
    temporary = f"{path}.{uuid.uuid4().hex}.tmp"  # which no other file has
    try:
        with tf.io.gfile.GFile(temporary, "wb") as file:
            file.write(data)
        tf.io.gfile.rename(temporary, path, overwrite=True)
    except tf.errors.OpError as error:
        with contextlib.suppress(tf.errors.OpError):
            tf.io.gfile.remove(temporary)
        raise OSError(f"{path!r} can't be written: {error.message}. Nothing was changed.") from None
