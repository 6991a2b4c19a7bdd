# SPDX-License-Identifier: Apache-2.0
"""Streams the variables of a converted checkpoint into its files.

Variables are read and written in chunks; one chunk is read while the previous one is written. This
takes some tens of MiB of memory, whatever the tables' sizes.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.core.checkpoints import crc32c, index_file, records
from estimator_spec.core.checkpoints.bundle import Checkpoint, StoredVariable
from estimator_spec.core.checkpoints.row_mapping import RowMapping, RowSource, slices
from estimator_spec.core.checkpoints.rows import RowReader, RowWriter, chunks
from estimator_spec.core.checkpoints.writing import CheckpointWriter, PieceWriter
from estimator_spec.core.common.terminal import ByteProgress

_CHUNK = 1 << 20
_MOST = 8 << 20
_PER_SHARD = 64 << 10

# Functions that write a variable's chunks, each with the number of its bytes.
Writes = Iterator[tuple[Callable[[], None], int]]


@dataclasses.dataclass(frozen=True)
class OutputVariable:
    """A variable of the target.

    Attributes:
        name: name in the target.
        num_bytes: number of bytes to write.
        writes: adds the variable to the target; reads its chunks from the source in order, and
            yields each to write.
    """

    name: str
    num_bytes: int
    writes: Callable[[Checkpoint, CheckpointWriter], Writes]


def copied(name: str, variable: StoredVariable) -> OutputVariable:
    """Returns a variable that is copied with its slices, perhaps under a new name."""

    def writes(source: Checkpoint, target: CheckpointWriter) -> Writes:
        shapes = [(piece.extents, piece.shape, piece.size) for piece in variable.pieces]
        writers = target.add(name, variable.dtype, variable.shape, shapes)
        for piece, writer in zip(variable.pieces, writers, strict=True):
            if not variable.is_numbers:  # the checksum isn't that of the bytes
                data = source.read_piece(variable, piece)
                yield functools.partial(writer.write, data, piece.crc), piece.size
                continue
            for start, end in chunks(piece.size, _CHUNK):
                data = np.empty(end - start, np.uint8)
                source.read_into(data, piece, start)
                check = functools.partial(source.check, variable, piece)
                is_last = end == piece.size
                yield functools.partial(_write_part, writer, data, check, is_last), end - start

    return OutputVariable(name, variable.num_bytes, writes)


def _write_part(
    writer: PieceWriter, data: np.ndarray, check: Callable[[int], None], is_last: bool
) -> None:
    """Writes a part of a piece, and checks the checksum of the whole piece after its last part."""
    writer.write(data)
    if is_last:
        check(writer.crc)


def new_numbers(name: str, value: np.ndarray) -> OutputVariable:
    """Returns a small variable of numbers."""
    return _new(name, tf.as_dtype(value.dtype), value.shape, value.tobytes())


def new_string(name: str, value: bytes) -> OutputVariable:
    """Returns a scalar string, stored as length, checksum of the length, and bytes.

    The checksum of all covers the length as an integer, as in TensorFlow's `WriteStringTensor`.
    """
    length = len(value).to_bytes(4, "little")
    of_length = crc32c.mask(crc32c.extend(0, length)).to_bytes(4, "little")
    stored = index_file.varint(len(value)) + of_length + value
    return _new(name, tf.string, (), stored, crc32c.extend(0, length + of_length + value))


def _new(
    name: str, dtype: Any, shape: tuple[int, ...], stored: bytes, crc: int | None = None
) -> OutputVariable:
    """Returns a variable with these bytes; `crc` is their checksum if it isn't computed by them."""

    def writes(source: Checkpoint, target: CheckpointWriter) -> Writes:
        (writer,) = target.add(name, dtype, shape, [((), shape, len(stored))])
        yield functools.partial(writer.write, np.frombuffer(stored, np.uint8), crc), len(stored)

    return OutputVariable(name, len(stored), writes)


def converted(
    name: str,
    variable: StoredVariable,
    rows: RowMapping,
    new_rows: RowSource | None = None,
    factor: float = 1.0,
) -> OutputVariable:
    """Returns a table or slot with a new layout, permuted rows, or additional rows.

    It is copied if its stored bytes don't change.

    Args:
        name: name in the target.
        variable: the variable of the source.
        rows: its rows in source and target.
        new_rows: source of the new rows, by their index among the new ones. None if there are none.
        factor: multiplies the old rows; 1 copies them bit by bit.
    """
    if rows.is_as_stored(variable) and factor == 1.0:
        return copied(name, variable)
    before, after, rows_from = rows.before, rows.after, rows.rows_from
    width = variable.row_bytes

    def writes(source: Checkpoint, target: CheckpointWriter) -> Writes:
        shape = (after.num_rows, *variable.shape[1:])
        writers = target.add(name, variable.dtype, shape, slices(after, variable))
        reader, writer = RowReader(source, variable, before), RowWriter(writers, after)
        if rows_from is not None:
            # Permuted rows are read in any order, so all checksums are checked first.
            for piece in variable.pieces:
                source.verify(variable, piece)
        size = max(_CHUNK, max(before.num_shards, after.num_shards) * _PER_SHARD)
        made = 0
        for first, last in chunks(after.num_rows, variable.rows_in(min(size, _MOST))):
            if rows_from is None:
                is_old = np.arange(first, last) < before.num_rows
                block = reader.read(first, first + int(is_old.sum()))
            else:
                wanted = rows_from[first:last]
                is_old = wanted >= 0
                block = reader.gather(wanted[is_old])
            if factor != 1.0:
                values = block.view(variable.dtype.as_numpy_dtype)
                block = (values * values.dtype.type(factor)).view(np.uint8)
            count = last - first - len(block)
            if count:
                assert new_rows is not None
                new = np.ascontiguousarray(new_rows(made, made + count))
                old, block = block, np.empty((last - first, width), np.uint8)
                block[is_old] = old
                block[~is_old] = new.view(np.uint8).reshape(count, width)
                made += count
            yield functools.partial(writer.write, first, block), (last - first) * width
        if rows_from is None:
            reader.finish()

    return OutputVariable(name, after.num_rows * width, writes)


def write_checkpoint(
    prefix: str,
    outputs: Sequence[OutputVariable],
    record: records.CheckpointRecord,
    source: Checkpoint,
    progress: Callable[[int, int], None] | None = None,
    durable: bool = True,
    latest: bool = False,
) -> bool:
    """Writes a checkpoint.

    Args:
        prefix: prefix of the new checkpoint.
        outputs: its variables, sorted by name.
        record: its record; none is written without tables.
        source: the checkpoint that is read.
        progress: called with (bytes done, bytes in all). Default: a bar, on a terminal.
        durable: as for `CheckpointWriter`.
        latest: as for `CheckpointWriter.finish`.

    Returns:
        Whether the directory's file `checkpoint` names the new checkpoint.

    Raises:
        CheckpointError: the source is damaged.
        OSError: the target can't be written.
    """
    total = sum(output.num_bytes for output in outputs)
    with (
        CheckpointWriter(prefix, total, durable) as target,
        ByteProgress(total, progress) as written,
    ):
        _write_all(outputs, source, target, written.advance)
        companions = {records.SUFFIX: records.to_bytes(record)} if record.tables else {}
        return target.finish(companions, latest)


def _write_all(
    outputs: Iterable[OutputVariable],
    source: Checkpoint,
    target: CheckpointWriter,
    progress: Callable[[int], None],
) -> None:
    """Writes variables in sequence; calls `progress` with the number of bytes of each chunk."""
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
