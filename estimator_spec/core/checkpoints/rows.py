# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the rows of a table in row order, whatever its layout in the checkpoint.

A table is read once, from the first row to the last. Each shard is then read in order as well, so
checksums are computed in the same pass.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from estimator_spec.core.checkpoints import crc32c
from estimator_spec.core.checkpoints.bundle import Checkpoint, Piece, StoredVariable
from estimator_spec.core.checkpoints.errors import CheckpointError
from estimator_spec.core.checkpoints.writing import PieceWriter
from tpu_columns.partition import RowPartition

# Rows that are less than so many bytes apart are read at once.
_GAP = 4096


@dataclasses.dataclass
class _Segment:
    """The rows of one shard within one piece, read in order."""

    piece: Piece
    start: int  # in bytes, within the piece
    size: int
    crc: int = 0


class RowReader:
    """Reads the rows of a stored variable in row order.

    Args:
        checkpoint: the open checkpoint.
        variable: one of its variables.
        layout: its layout.

    Raises:
        CheckpointError: the variable isn't stored as whole rows, or their number isn't the
            layout's.
    """

    def __init__(
        self, checkpoint: Checkpoint, variable: StoredVariable, layout: RowPartition
    ) -> None:
        if not variable.is_rows:
            raise CheckpointError(
                checkpoint.prefix,
                f"{variable.name!r} of {checkpoint.prefix!r} isn't stored as whole rows, so it "
                "can't be resharded.",
            )
        if layout.num_rows != variable.num_rows:
            raise CheckpointError(
                checkpoint.prefix,
                f"{variable.name!r} of {checkpoint.prefix!r} has {variable.num_rows} rows, its "
                f"layout is for {layout.num_rows}.",
            )
        self._checkpoint = checkpoint
        self._variable = variable
        self._layout = layout
        self._width = variable.row_bytes
        self._piece_starts = np.array([piece.first_row for piece in variable.pieces])
        bounds = zip(layout.shard_starts, layout.shard_sizes, strict=True)
        self._shards = [self._segments_of(start, start + size) for start, size in bounds]

    def blocks(self, num_bytes: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yields all rows in blocks of so many bytes, then checks the checksums.

        Yields:
            (index of the first row, uint8 [n, bytes of a row]).
        """
        for first, last in chunks(self._layout.num_rows, self._variable.rows_in(num_bytes)):
            yield first, self.read(first, last)
        self.finish()

    def read(self, first: int, last: int) -> np.ndarray:
        """Returns rows `first` to `last`; calls must go from the first row to the last.

        Returns:
            uint8, [last - first, bytes of a row].
        """
        result = np.empty((last - first, self._width), np.uint8)
        found = spans(self._layout, first, last)
        for shard, start, stop, target in found:
            if len(found) > 1 and self._layout.strategy == "mod":
                part = np.empty((stop - start, self._width), np.uint8)
                self._read_shard(shard, start, part)
                copy_rows(result[target], part)
            else:
                self._read_shard(shard, start, result[target])
        return result

    def gather(self, rows: np.ndarray) -> np.ndarray:
        """Returns rows in any order, without checking checksums.

        Args:
            rows: int, [n].

        Returns:
            uint8, [n, bytes of a row].
        """
        result = np.empty((len(rows), self._width), np.uint8)
        positions = self._layout.positions(rows)
        order = np.argsort(positions, kind="stable")
        ordered = positions[order]
        pieces = np.searchsorted(self._piece_starts, ordered, side="right") - 1
        breaks = (np.diff(ordered) * self._width > _GAP) | (np.diff(pieces) > 0)
        starts = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(rows)]
        for begin, end in itertools.pairwise(starts):
            if begin == end:
                continue
            piece = self._variable.pieces[pieces[begin]]
            first = int(ordered[begin])
            buffer = np.empty((int(ordered[end - 1]) - first + 1, self._width), np.uint8)
            self._checkpoint.read_into(buffer, piece, (first - piece.first_row) * self._width)
            result[order[begin:end]] = buffer[ordered[begin:end] - first]
        return result

    def finish(self) -> None:
        """Checks the checksum of each piece, after the last row was read.

        Raises:
            DamagedCheckpointError: a checksum doesn't match.
        """
        found: dict[int, dict[int, _Segment]] = {}
        for segments in self._shards:
            for segment in segments:
                found.setdefault(segment.piece.first_row, {})[segment.start] = segment
        for piece in self._variable.pieces:
            crc = 0
            parts = found.get(piece.first_row, {})
            for start in sorted(parts):
                crc = crc32c.combine(crc, parts[start].crc, parts[start].size)
            self._checkpoint.check(self._variable, piece, crc)

    def _segments_of(self, begin: int, end: int) -> list[_Segment]:
        segments = []
        first_piece = int(np.searchsorted(self._piece_starts, begin, side="right")) - 1
        last_piece = int(np.searchsorted(self._piece_starts, end, side="left"))
        for piece in self._variable.pieces[max(first_piece, 0) : last_piece]:
            first = max(begin, piece.first_row)
            last = min(end, piece.first_row + piece.shape[0])
            if first < last:
                start = (first - piece.first_row) * self._width
                segments.append(_Segment(piece, start, (last - first) * self._width))
        return segments

    def _read_shard(self, shard: int, start: int, buffer: np.ndarray) -> None:
        """Fills `buffer` with the shard's local rows from `start` on."""
        raw = buffer.reshape(-1)
        skipped, wanted = 0, start * self._width
        for segment in self._shards[shard]:
            begin = max(wanted - skipped, 0)
            count = min(segment.size - begin, len(raw))
            if count > 0:
                part = raw[:count]
                self._checkpoint.read_into(part, segment.piece, segment.start + begin)
                segment.crc = crc32c.extend(segment.crc, part)
                raw = raw[count:]
                wanted += count
            skipped += segment.size


class RowWriter:
    """Writes rows in row order into the pieces of a layout.

    Args:
        writers: one for each shard that has rows, in order.
        layout: layout of the target.
    """

    def __init__(self, writers: Sequence[PieceWriter], layout: RowPartition) -> None:
        self._layout = layout
        self._writers = writers

    def write(self, first: int, rows: np.ndarray) -> None:
        """Writes rows; calls must go from the first row to the last.

        Args:
            first: index of the first row.
            rows: uint8, [n, bytes of a row]; contiguous.
        """
        found = spans(self._layout, first, first + len(rows))
        for shard, _, _, where in found:
            part = rows[where]
            if not part.flags.c_contiguous:
                copied = np.empty(part.shape, part.dtype)
                copy_rows(copied, part)
                part = copied
            self._writers[shard].write(part)


def chunks(count: int, size: int) -> Iterator[tuple[int, int]]:
    """Yields the ranges of length `size` in `count`, the last one shorter.

    >>> list(chunks(5, 2))
    [(0, 2), (2, 4), (4, 5)]
    """
    for first in range(0, count, size):
        yield first, min(first + size, count)


def spans(layout: RowPartition, first: int, last: int) -> list[tuple[int, int, int, slice]]:
    """Returns the positions of rows `first` to `last` in the shards.

    >>> spans(RowPartition("mod", 10, 3), 4, 9)
    [(0, 2, 3, slice(2, 5, 3)), (1, 1, 3, slice(0, 5, 3)), (2, 1, 3, slice(1, 5, 3))]
    >>> spans(RowPartition("div", 10, 3), 3, 9)
    [(0, 3, 4, slice(0, 1, None)), (1, 0, 3, slice(1, 4, None)), (2, 0, 2, slice(4, 6, None))]

    Returns:
        (shard, first local row, last local row, slice of these rows that are in the shard).
    """
    found = []
    if layout.strategy == "div":
        bounds = zip(layout.shard_starts, layout.shard_sizes, strict=True)
        for shard, (start, size) in enumerate(bounds):
            begin = max(first, start)
            end = min(last, start + size)
            if begin < end:
                found.append((shard, begin - start, end - start, slice(begin - first, end - first)))
        return found
    count = layout.num_shards
    for shard in range(min(count, layout.num_rows)):
        begin = -(-max(first - shard, 0) // count)
        end = -(-max(last - shard, 0) // count)
        if begin < end:
            where = slice(begin * count + shard - first, last - first, count)
            found.append((shard, begin, end, where))
    return found


def copy_rows(target: np.ndarray, source: np.ndarray) -> None:
    """Copies rows, each as one item, which is faster than by elements.

    Args:
        target: [n, k]; rows are contiguous.
        source: likewise.
    """
    item = f"V{source.shape[1] * source.dtype.itemsize}"
    if source.shape[1] and len(source):
        target.view(item)[...] = source.view(item)
