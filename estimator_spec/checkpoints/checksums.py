# SPDX-License-Identifier: Apache-2.0
"""Checksums of long buffers, at about the speed of copying them.

TensorFlow has a fast CRC-32C, and shows it in one place: every tensor that `SaveV2` writes gets
its checksum in the index. So a long buffer is saved into TensorFlow's file system in memory, a
piece at a time. Where that doesn't work, NumPy computes it, more slowly.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.checkpoints import crc32c, index_file

tf1 = tf.compat.v1

_PIECE = 4 << 20
_LONG = 64 << 10  # from here on a session call is cheaper than NumPy


def checksum(data: Any, crc: int = 0) -> int:
    """The CRC-32C of a buffer, or of what came before it and the buffer.

    >>> hex(checksum(b"123456789"))
    '0xe3069283'

    Args:
        data: bytes, or anything that has bytes.
        crc: the checksum of what came before.
    """
    array = np.frombuffer(data, np.uint8)
    for start in range(0, len(array), _PIECE):
        piece = array[start : start + _PIECE]
        native = _native() if len(piece) >= _LONG else None
        if native is None:
            crc = crc32c.crc32c(piece, crc)
        else:
            crc = crc32c.combine(crc, native(piece), len(piece))
    return crc


@functools.cache
def _native() -> Callable[[np.ndarray], int] | None:
    """TensorFlow's checksum, or None if it isn't where it is looked for."""
    probe = np.arange(300, dtype=np.uint16).view(np.uint8)
    try:
        native = _SavedChecksum()
        return native if native(probe) == crc32c.crc32c(probe) else None
    except (tf.errors.OpError, RuntimeError, ValueError):
        return None


class _SavedChecksum:
    """Saves buffers into memory, and reads what TensorFlow found to be their checksums."""

    def __init__(self) -> None:
        # A session of its own works in programs with and without eager execution alike.
        with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
            self._data = tf1.placeholder(tf.uint8, [None])
            self._prefix = tf1.placeholder(tf.string, [])
            self._save = tf.raw_ops.SaveV2(
                prefix=self._prefix,
                tensor_names=["x"],
                shape_and_slices=[""],
                tensors=[self._data],
            )
        # -1: in the calling thread, without handing over to another.
        config = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=-1)
        self._session = tf1.Session(graph=graph, config=config)

    def __call__(self, array: np.ndarray) -> int:
        prefix = f"ram://estimator_spec_crc32c/{threading.get_ident()}"
        self._session.run(self._save, {self._data: array, self._prefix: prefix})
        with tf.io.gfile.GFile(prefix + ".index", "rb") as file:
            entries = index_file.read(file.read(), prefix)
        return crc32c.unmasked(index_file.entry(entries[b"x"]).crc32c)
