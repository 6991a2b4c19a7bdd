# SPDX-License-Identifier: Apache-2.0
"""Bytes of files: read anywhere in them, local or wherever TensorFlow can read."""

from __future__ import annotations

import os
from types import TracebackType

import numpy as np
import tensorflow as tf


class DataFile:
    """A file that is read from, at any place.

    Args:
        path: local, or with a scheme that TensorFlow knows, such as 'gs://…'.

    Raises:
        FileNotFoundError: there is no such file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._remote = tf.io.gfile.GFile(path, "rb") if "://" in path else None
        if self._remote is not None:
            try:
                self.size = int(tf.io.gfile.stat(path).length)
            except tf.errors.NotFoundError as error:
                raise FileNotFoundError(path) from error
        else:
            self._descriptor = os.open(path, os.O_RDONLY)
            self.size = os.fstat(self._descriptor).st_size

    def read_into(self, buffer: np.ndarray, offset: int) -> None:
        """Fills a buffer with the bytes from `offset` on.

        Args:
            buffer: contiguous, any type.
            offset: in bytes.

        Raises:
            EOFError: the file ends before.
        """
        view = memoryview(buffer.reshape(-1).view(np.uint8).data)
        if self._remote is not None:
            self._remote.seek(offset)
            data = self._remote.read(len(view))
            view[: len(data)] = data
            done = len(data)
        else:
            done = 0
            while done < len(view):
                count = os.preadv(self._descriptor, [view[done:]], offset + done)
                if not count:
                    break
                done += count
        if done < len(view):
            raise EOFError(f"{self.path!r} ends at byte {offset + done}.")

    def close(self) -> None:
        """Closes the file."""
        if self._remote is not None:
            self._remote.close()
        else:
            os.close(self._descriptor)

    def __enter__(self) -> DataFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def read_whole(path: str) -> bytes:
    """The bytes of a small file.

    Raises:
        FileNotFoundError: there is no such file.
    """
    with DataFile(path) as file:
        buffer = np.empty(file.size, np.uint8)
        file.read_into(buffer, 0)
        return buffer.tobytes()
