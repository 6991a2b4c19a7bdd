# SPDX-License-Identifier: Apache-2.0
"""Writes the variables of a converted checkpoint in a stream.

Variables are read and written in chunks; one chunk is read while the previous one is written. This
takes some tens of MiB of memory, whatever the tables' sizes.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from estimator_spec.checkpoints import crc32c, index_file
from estimator_spec.checkpoints.bundle import Checkpoint, Piece, StoredVariable
from estimator_spec.checkpoints.new_rows import RowSource
from estimator_spec.checkpoints.row_mapping import RowMapping, slices
from estimator_spec.checkpoints.rows import RowReader, RowWriter, chunks
from estimator_spec.checkpoints.writing import CheckpointWriter, PieceWriter

_CHUNK = 1 << 20
_MOST = 8 << 20
_PER_SHARD = 64 << 10

Progress = Callable[[int], None]
# Functions that write a variable's chunks, each with the number of its bytes.
Writes = Iterator[tuple[Callable[[], None], int]]


class OutputVariable(Protocol):
    """A variable of the target."""

    @property
    def name(self) -> str:
        """Name in the target."""
        ...

    @property
    def num_bytes(self) -> int:
        """Number of bytes to write."""
        ...

    def writes(self, source: Checkpoint, target: CheckpointWriter) -> Writes:
        """Adds the variable to the target; reads its chunks in order, and yields each to write."""
        ...


@dataclasses.dataclass(frozen=True)
class CopiedVariable:
    """A variable that is copied with its slices, perhaps under a new name."""

    name: str
    variable: StoredVariable

    @property
    def num_bytes(self) -> int:
        """Number of bytes to write."""
        return self.variable.num_bytes

    def writes(self, source: Checkpoint, target: CheckpointWriter) -> Writes:
        """See `OutputVariable`."""
        variable = self.variable
        shapes = [(piece.extents, piece.shape, piece.size) for piece in variable.pieces]
        writers = target.add(self.name, variable.dtype, variable.shape, shapes)
        for piece, writer in zip(variable.pieces, writers, strict=True):
            if not variable.is_numbers:  # the checksum isn't that of the bytes
                data = source.read_piece(variable, piece)
                yield functools.partial(writer.write, data, piece.crc), piece.size
                continue
            for start, end in chunks(piece.size, _CHUNK):
                data = np.empty(end - start, np.uint8)
                source.read_into(data, piece, start)
                is_last = end == piece.size
                write = functools.partial(self._write, source, piece, writer, data, is_last)
                yield write, end - start

    def _write(
        self, source: Checkpoint, piece: Piece, writer: PieceWriter, data: np.ndarray, is_last: bool
    ) -> None:
        """Writes a part of a piece, and checks the whole piece after its last part."""
        writer.write(data)
        if is_last:
            source.check(self.variable, piece, writer.crc)


@dataclasses.dataclass(frozen=True)
class NewVariable:
    """A small variable with a given value.

    Attributes:
        name: name in the target.
        dtype: its `tf.DType`.
        shape: its shape.
        stored: the stored form of the value.
        crc: its checksum; None: that of the bytes.
    """

    name: str
    dtype: Any
    shape: tuple[int, ...]
    stored: bytes
    crc: int | None = None

    @property
    def num_bytes(self) -> int:
        """Number of bytes to write."""
        return len(self.stored)

    def writes(self, source: Checkpoint, target: CheckpointWriter) -> Writes:
        """See `OutputVariable`."""
        del source
        pieces = [((), self.shape, self.num_bytes)]
        (writer,) = target.add(self.name, self.dtype, self.shape, pieces)
        data = np.frombuffer(self.stored, np.uint8)
        yield functools.partial(writer.write, data, self.crc), self.num_bytes


def new_numbers(name: str, value: np.ndarray) -> NewVariable:
    """Returns a variable of numbers."""
    return NewVariable(name, tf.as_dtype(value.dtype), value.shape, value.tobytes())


def new_string(name: str, value: bytes) -> NewVariable:
    """Returns a scalar string, stored as length, checksum of the length, and bytes.

    The checksum of all covers the length as an integer, as in TensorFlow's `WriteStringTensor`.
    """
    length = len(value).to_bytes(4, "little")
    of_length = crc32c.mask(crc32c.extend(0, length)).to_bytes(4, "little")
    stored = index_file.varint(len(value)) + of_length + value
    return NewVariable(name, tf.string, (), stored, crc32c.extend(0, length + of_length + value))


@dataclasses.dataclass(frozen=True)
class RewrittenTable:
    """A table or slot with a new layout, permuted rows, or additional rows.

    Attributes:
        name: name in the target.
        variable: the variable of the source.
        rows: its rows in source and target.
        new_rows: source of the new rows, by their index among the new ones. None if there are none.
        factor: multiplies the old rows; 1 copies them bit by bit.
    """

    name: str
    variable: StoredVariable
    rows: RowMapping
    new_rows: RowSource | None = None
    factor: float = 1.0

    @property
    def num_bytes(self) -> int:
        """Number of bytes to write."""
        return self.rows.after.num_rows * self.variable.row_bytes

    def writes(self, source: Checkpoint, target: CheckpointWriter) -> Writes:
        """See `OutputVariable`."""
        variable, before, after = self.variable, self.rows.before, self.rows.after
        shape = (after.num_rows, *variable.shape[1:])
        writers = target.add(self.name, variable.dtype, shape, slices(after, variable))
        reader = RowReader(source, variable, before)
        writer = RowWriter(writers, after)
        if self.rows.rows_from is not None:
            # Permuted rows are read in any order, so all checksums are checked first.
            for piece in variable.pieces:
                source.verify(variable, piece)
        size = max(_CHUNK, max(before.num_shards, after.num_shards) * _PER_SHARD)
        made = 0
        for first, last in chunks(after.num_rows, variable.rows_in(min(size, _MOST))):
            rows, made = self._read(reader, first, last, made)
            yield functools.partial(writer.write, first, rows), (last - first) * variable.row_bytes
        if self.rows.rows_from is None:
            reader.finish()

    def _read(self, reader: RowReader, first: int, last: int, made: int) -> tuple[np.ndarray, int]:
        """Returns rows of the target, and how many of the rows before `last` are new.

        Rows are uint8, [last - first, bytes of a row]; `made` new ones are before `first`.
        """
        rows_from = self.rows.rows_from
        if rows_from is None:
            kept = max(first, min(last, self.rows.before.num_rows))
            rows = self._scaled(reader.read(first, kept))
            if kept < last:
                rows = np.concatenate([rows, self._new(made, last - kept)])
            return rows, made + last - kept
        wanted = rows_from[first:last]
        rows = np.empty((last - first, self.variable.row_bytes), np.uint8)
        old = wanted >= 0
        rows[old] = self._scaled(reader.gather(wanted[old]))
        count = int((~old).sum())
        if count:
            rows[~old] = self._new(made, count)
        return rows, made + count

    def _scaled(self, rows: np.ndarray) -> np.ndarray:
        if self.factor == 1.0:
            return rows
        values = rows.view(self.variable.dtype.as_numpy_dtype)
        return (values * values.dtype.type(self.factor)).view(np.uint8)

    def _new(self, made: int, count: int) -> np.ndarray:
        assert self.new_rows is not None
        values = np.ascontiguousarray(self.new_rows(made, made + count))
        return values.view(np.uint8).reshape(count, self.variable.row_bytes)


def write_all(
    outputs: Iterable[OutputVariable],
    source: Checkpoint,
    target: CheckpointWriter,
    progress: Progress,
) -> None:
    """Writes variables in sequence.

    Args:
        outputs: the variables.
        source: the checkpoint that is read.
        target: the checkpoint that is written.
        progress: called with the number of bytes of each chunk.
    """
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        writing: concurrent.futures.Future[None] | None = None
        for output in outputs:
            for write, size in output.writes(source, target):
                if writing is not None:
                    writing.result()
                writing = pool.submit(write)
                progress(size)
        if writing is not None:
            writing.result()
