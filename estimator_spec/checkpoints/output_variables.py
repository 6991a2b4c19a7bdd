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
from estimator_spec.checkpoints.bundle import Checkpoint, Extents, Piece, StoredVariable
from estimator_spec.checkpoints.new_rows import RowSource
from estimator_spec.checkpoints.rows import RowReader, RowWriter
from estimator_spec.checkpoints.writing import CheckpointWriter, PieceWriter
from tpu_columns.partition import RowPartition

_CHUNK = 1 << 20
_MOST = 8 << 20
_PER_SHARD = 64 << 10

Progress = Callable[[int], None]
PieceShapes = list[tuple[Extents, tuple[int, ...], int]]
# Reads a chunk, and returns the function that writes it.
Step = Callable[[], Callable[[], None]]


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

    def steps(self, source: Checkpoint, target: CheckpointWriter) -> Iterator[tuple[Step, int]]:
        """Adds the variable to the target, and yields its chunks in order, each with its size."""
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

    def steps(self, source: Checkpoint, target: CheckpointWriter) -> Iterator[tuple[Step, int]]:
        """See `OutputVariable`."""
        variable = self.variable
        shapes = [(piece.extents, piece.shape, piece.size) for piece in variable.pieces]
        writers = target.add(self.name, variable.dtype, variable.shape, shapes)
        for piece, writer in zip(variable.pieces, writers, strict=True):
            if not variable.is_numbers:
                yield functools.partial(_copy_piece, source, variable, piece, writer), piece.size
                continue
            for start, end in chunks(piece.size, _CHUNK):
                yield (
                    functools.partial(_copy_part, source, variable, piece, writer, start, end),
                    end - start,
                )


def _copy_piece(
    source: Checkpoint, variable: StoredVariable, piece: Piece, writer: PieceWriter
) -> Callable[[], None]:
    """Copies a piece whose checksum isn't that of its bytes, such as strings."""
    data = source.read_piece(variable, piece)
    return lambda: writer.write(data, piece.crc)


def _copy_part(
    source: Checkpoint,
    variable: StoredVariable,
    piece: Piece,
    writer: PieceWriter,
    start: int,
    end: int,
) -> Callable[[], None]:
    """Copies bytes `start` to `end` of a piece, and checks the whole piece after its last part."""
    data = np.empty(end - start, np.uint8)
    source.read_into(data, piece, start)

    def write() -> None:
        writer.write(data)
        if end == piece.size:
            source.check(variable, piece, writer.crc)

    return write


@dataclasses.dataclass(frozen=True)
class NewVariable:
    """A small variable with a given value."""

    name: str
    dtype: Any
    value: np.ndarray

    @property
    def num_bytes(self) -> int:
        """Number of bytes to write."""
        return int(self.value.nbytes)

    def steps(self, source: Checkpoint, target: CheckpointWriter) -> Iterator[tuple[Step, int]]:
        """See `OutputVariable`."""
        del source
        shape = self.value.shape
        (writer,) = target.add(self.name, self.dtype, shape, [((), shape, self.num_bytes)])
        yield lambda: lambda: writer.write(np.ascontiguousarray(self.value)), self.num_bytes


@dataclasses.dataclass(frozen=True)
class NewString:
    """A scalar string with a given value."""

    name: str
    value: bytes

    @property
    def num_bytes(self) -> int:
        """Number of bytes to write."""
        return len(self._stored()[0])

    def steps(self, source: Checkpoint, target: CheckpointWriter) -> Iterator[tuple[Step, int]]:
        """See `OutputVariable`."""
        del source
        stored, crc = self._stored()
        (writer,) = target.add(self.name, tf.string, (), [((), (), len(stored))])
        yield lambda: lambda: writer.write(np.frombuffer(stored, np.uint8), crc), len(stored)

    def _stored(self) -> tuple[bytes, int]:
        """Returns the stored form, (length, its checksum, bytes), and the checksum of that.

        The checksum covers the length as an integer, as in TensorFlow's `WriteStringTensor`.
        """
        length = len(self.value).to_bytes(4, "little")
        of_length = crc32c.mask(crc32c.extend(0, length)).to_bytes(4, "little")
        stored = index_file.varint(len(self.value)) + of_length + self.value
        return stored, crc32c.extend(0, length + of_length + self.value)


@dataclasses.dataclass(frozen=True)
class RewrittenTable:
    """A table or slot with a new layout, permuted rows, or additional rows.

    Attributes:
        name: name in the target.
        variable: the variable of the source.
        before: layout in the source.
        after: layout in the target.
        rows_from: for each row of the target the row of the source, -1 for a new row. None: the
            source's rows in their order, followed by new rows.
        new_rows: source of the new rows, by their index among the new ones. None if there are none.
        factor: multiplies the old rows; 1 copies them bit by bit.
    """

    name: str
    variable: StoredVariable
    before: RowPartition
    after: RowPartition
    rows_from: np.ndarray | None = None
    new_rows: RowSource | None = None
    factor: float = 1.0

    @property
    def num_bytes(self) -> int:
        """Number of bytes to write."""
        return self.after.num_rows * self.variable.row_bytes

    def steps(self, source: Checkpoint, target: CheckpointWriter) -> Iterator[tuple[Step, int]]:
        """See `OutputVariable`."""
        variable, after = self.variable, self.after
        shape = (after.num_rows, *variable.shape[1:])
        writers = target.add(self.name, variable.dtype, shape, slices(after, variable))
        reader = RowReader(source, variable, self.before)
        writer = RowWriter(writers, after)
        made = 0
        for first, last in chunks(max(after.num_rows, 1), self._rows_at_once()):
            last = min(last, after.num_rows)
            missing = self._count_new(first, last)

            def step(first: int = first, last: int = last, made: int = made) -> Callable[[], None]:
                if first == 0 and self.rows_from is not None:
                    # Permuted rows are read in any order, so all checksums are checked first.
                    for piece in variable.pieces:
                        source.verify(variable, piece)
                rows = self._rows(reader, first, last, made)
                if last == after.num_rows and self.rows_from is None:
                    reader.finish()
                return lambda: writer.write(first, rows)

            yield step, (last - first) * variable.row_bytes
            made += missing

    def _rows_at_once(self) -> int:
        shards = max(self.before.num_shards, self.after.num_shards)
        size = min(max(_CHUNK, shards * _PER_SHARD), _MOST)
        return self.variable.rows_in(size)

    def _count_new(self, first: int, last: int) -> int:
        if self.rows_from is not None:
            return int((self.rows_from[first:last] < 0).sum())
        return max(0, last - max(first, self.before.num_rows))

    def _rows(self, reader: RowReader, first: int, last: int, made: int) -> np.ndarray:
        """Returns rows of the target as uint8, [last - first, bytes of a row]."""
        width = self.variable.row_bytes
        if self.rows_from is None:
            kept = max(first, min(last, self.before.num_rows))
            rows = self._scaled(reader.read(first, kept))
            if kept == last:
                return rows
            return np.concatenate([rows, self._new(made, last - kept, width)])
        wanted = self.rows_from[first:last]
        rows = np.empty((last - first, width), np.uint8)
        old = wanted >= 0
        rows[old] = self._scaled(reader.gather(wanted[old]))
        count = int((~old).sum())
        if count:
            rows[~old] = self._new(made, count, width)
        return rows

    def _scaled(self, rows: np.ndarray) -> np.ndarray:
        if self.factor == 1.0:
            return rows
        values = rows.view(self.variable.dtype.as_numpy_dtype)
        return (values * values.dtype.type(self.factor)).view(np.uint8)

    def _new(self, made: int, count: int, width: int) -> np.ndarray:
        assert self.new_rows is not None
        values = np.ascontiguousarray(self.new_rows(made, made + count))
        return values.view(np.uint8).reshape(count, width)


def slices(layout: RowPartition, variable: StoredVariable) -> PieceShapes:
    """Returns (extents, shape, bytes) of each shard of a layout; empty shards have no piece."""
    rest = variable.shape[1:]
    if layout.num_shards == 1 or layout.num_rows <= 1:
        return [((), (layout.num_rows, *rest), layout.num_rows * variable.row_bytes)]
    return [
        (((start, size), *((0, n) for n in rest)), (size, *rest), size * variable.row_bytes)
        for start, size in zip(layout.shard_starts, layout.shard_sizes, strict=True)
        if size
    ]


def chunks(count: int, size: int) -> Iterator[tuple[int, int]]:
    """Yields the ranges of length `size` in `count`, the last one shorter.

    >>> list(chunks(5, 2))
    [(0, 2), (2, 4), (4, 5)]
    """
    for first in range(0, count, size):
        yield first, min(first + size, count)


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
            for step, size in output.steps(source, target):
                write = step()
                if writing is not None:
                    writing.result()
                writing = pool.submit(write)
                progress(size)
        if writing is not None:
            writing.result()
