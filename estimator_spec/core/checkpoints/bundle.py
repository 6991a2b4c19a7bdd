# SPDX-License-Identifier: Apache-2.0
"""Reads checkpoints: lists the variables of one, and reads byte ranges of their data.

TensorFlow's reader returns whole tensors, or row ranges after reading the stored slice around
them, and exposes neither slices nor checksums. Tables larger than memory need both.
"""

from __future__ import annotations

import dataclasses
import math
import os
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from estimator_spec.core.checkpoints import crc32c, files, index_file, slots, state_file
from estimator_spec.core.checkpoints.errors import CheckpointError, DamagedCheckpointError

GLOBAL_STEP = "global_step"
# Its key in the object checkpoints of `model_to_estimator`.
_STEP_OF_OBJECTS = "estimator_global_step/.ATTRIBUTES/VARIABLE_VALUE"

_CHUNK = 4 << 20
_MAX_ELEMENTS = (1 << 63) - 1
_WITHOUT_SIZE = (tf.string, tf.variant, tf.resource)  # elements have no fixed number of bytes

CheckpointPath = str | os.PathLike[str]

Extents = tuple[tuple[int, int] | None, ...]


@dataclasses.dataclass(frozen=True)
class Piece:
    """A contiguous byte range of a data file: a variable, or one stored slice of it.

    Attributes:
        extents: (start, length) in each dimension, None for a whole dimension; () for a whole
            variable.
        shape: shape of the piece.
        shard: number of the data file.
        offset: position of the first byte in that file.
        size: number of bytes.
        crc: unmasked CRC-32C of the bytes; for strings, of their lengths as integers and the bytes.
    """

    extents: Extents
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    crc: int

    @property
    def first_row(self) -> int:
        """Index of the piece's first row in the variable."""
        return self.extents[0][0] if self.extents and self.extents[0] else 0


@dataclasses.dataclass(frozen=True)
class StoredVariable:
    """A variable of a checkpoint.

    Attributes:
        name: its key in the checkpoint.
        dtype: its `tf.DType`.
        shape: its shape.
        pieces: its byte ranges; more than one if it is stored in slices, ordered by first row.
    """

    name: str
    dtype: Any
    shape: tuple[int, ...]
    pieces: tuple[Piece, ...]

    @property
    def num_bytes(self) -> int:
        """Number of bytes on disk."""
        return sum(piece.size for piece in self.pieces)

    @property
    def num_rows(self) -> int:
        """Size of the first dimension; 1 for a scalar."""
        return self.shape[0] if self.shape else 1

    @property
    def is_numbers(self) -> bool:
        """Whether the bytes are the elements in sequence, as for numbers, but not for strings."""
        return self.dtype not in _WITHOUT_SIZE

    @property
    def row_bytes(self) -> int:
        """Number of bytes of a row."""
        return int(self.dtype.size) * math.prod(self.shape[1:])

    def rows_in(self, num_bytes: int) -> int:
        """Returns how many rows `num_bytes` hold, at least 1."""
        return max(1, num_bytes // max(1, self.row_bytes))

    @property
    def is_rows(self) -> bool:
        """Whether the pieces are consecutive ranges of whole rows, so that rows can be read."""
        return self.is_numbers and bool(self.shape) and self.covers_rows

    @property
    def covers_rows(self) -> bool:
        """Whether the pieces are consecutive ranges of all rows of a variable that has rows."""
        row = 0
        for piece in self.pieces:
            if piece.first_row != row or piece.shape[1:] != self.shape[1:]:
                return False
            row += piece.shape[0]
        return row == self.num_rows


class Checkpoint:
    """A checkpoint open for reading, to be used in a `with` statement.

    Args:
        path: checkpoint prefix ('…/model.ckpt-200'), index file, or a directory, of which the
            latest checkpoint is opened.

    Attributes:
        prefix: the checkpoint prefix.
        variables: `StoredVariable` by name, sorted.

    Raises:
        CheckpointError: there is no checkpoint.
        DamagedCheckpointError: the index or a data file is missing, truncated, or damaged.
    """

    def __init__(self, path: CheckpointPath) -> None:
        self.prefix = find_prefix(path)
        index_path = self.prefix + ".index"
        entries = index_file.read(files.read_file(index_path), index_path)
        if index_file.HEADER_KEY not in entries:
            raise DamagedCheckpointError(index_path, f"{index_path!r} is damaged: it has no head.")
        header = index_file.header(entries.pop(index_file.HEADER_KEY), index_path)
        if header.endianness:
            raise CheckpointError(
                index_path, f"{index_path!r} was written on a big-endian machine. Convert it there."
            )
        self._num_shards = header.num_shards
        self._files: dict[int, files.DataFile] = {}
        self.variables: dict[str, StoredVariable] = {}
        try:
            for key in sorted(entries):
                if not index_file.is_slice_key(key):
                    variable = self._variable(key, entries)
                    self.variables[variable.name] = variable
            self._check_sizes()
        except BaseException:
            self.close()
            raise

    @property
    def data_files(self) -> list[str]:
        """Paths of the data files that the index names."""
        return [self._path(shard) for shard in range(self._num_shards)]

    def read_into(self, buffer: np.ndarray, piece: Piece, start: int = 0) -> None:
        """Fills a buffer with bytes of a piece.

        Args:
            buffer: a contiguous array.
            piece: a piece of a variable.
            start: offset of the first byte within the piece.
        """
        self._file(piece.shard).read_into(buffer, piece.offset + start)

    def value(self, name: str) -> np.ndarray:
        """Returns a whole variable after checking its checksums.

        Raises:
            KeyError: the checkpoint has no variable of that name.
            DamagedCheckpointError: a checksum doesn't match.
            ValueError: the variable isn't stored as rows of numbers.
        """
        variable = self.variables[name]
        if not variable.is_numbers or (variable.shape and not variable.is_rows):
            raise ValueError(f"{name!r} isn't stored as rows of numbers.")
        result = np.empty(variable.shape, variable.dtype.as_numpy_dtype)
        flat = result.reshape(-1).view(np.uint8)
        for piece in variable.pieces:
            start = piece.first_row * variable.row_bytes
            part = flat[start : start + piece.size]
            self.read_into(part, piece)
            self.check(variable, piece, crc32c.extend(0, part))
        return result

    def read_global_step(self) -> int | None:
        """Returns the global step; None if the checkpoint has none.

        Raises:
            DamagedCheckpointError: it is no integer, or a checksum doesn't match.
        """
        name = _STEP_OF_OBJECTS if _STEP_OF_OBJECTS in self.variables else GLOBAL_STEP
        if name not in self.variables:
            return None
        variable = self.variables[name]
        if variable.shape or not variable.dtype.is_integer:
            self._refuse(f"{name!r} has shape {list(variable.shape)} and {variable.dtype}.")
        return int(self.value(name))

    def check(self, variable: StoredVariable, piece: Piece, crc: int) -> None:
        """Compares the checksum of bytes that were read with the one in the index.

        Raises:
            DamagedCheckpointError: they differ; names the variable, the file and the byte range.
        """
        if crc != piece.crc:
            path = self._path(piece.shard)
            raise DamagedCheckpointError(
                path,
                f"{path!r} is damaged: the checksum of {variable.name!r}{_slice_text(piece)} "
                f"(bytes {piece.offset} to {piece.offset + piece.size}) doesn't fit.",
            )

    def read_piece(self, variable: StoredVariable, piece: Piece) -> np.ndarray:
        """Returns the bytes of a whole piece after checking its checksum.

        Raises:
            DamagedCheckpointError: the bytes aren't those that were written.
        """
        data = np.empty(piece.size, np.uint8)
        self.read_into(data, piece)
        if variable.dtype == tf.string:
            self.check(variable, piece, _checksum_of_strings(data.tobytes(), piece))
        elif variable.dtype != tf.variant:  # only a variant's own type can decode its bytes
            self.check(variable, piece, crc32c.extend(0, data))
        return data

    def verify(self, variable: StoredVariable, piece: Piece) -> None:
        """Reads a piece and checks its checksum.

        Raises:
            DamagedCheckpointError: the bytes aren't those that were written.
        """
        if not variable.is_numbers:
            self.read_piece(variable, piece)
            return
        crc = 0
        buffer = np.empty(min(piece.size, _CHUNK), np.uint8)
        for start in range(0, piece.size, _CHUNK):
            part = buffer[: min(_CHUNK, piece.size - start)]
            self.read_into(part, piece, start)
            crc = crc32c.extend(crc, part)
        self.check(variable, piece, crc)

    def close(self) -> None:
        """Closes the data files."""
        while self._files:
            self._files.popitem()[1].close()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _path(self, shard: int) -> str:
        return data_path(self.prefix, shard, self._num_shards)

    def _file(self, shard: int) -> files.DataFile:
        if shard not in self._files:
            path = self._path(shard)
            try:
                self._files[shard] = files.DataFile(path)
            except FileNotFoundError as error:
                raise DamagedCheckpointError(path, f"{path!r} is missing.") from error
        return self._files[shard]

    def _variable(self, key: bytes, entries: dict[bytes, bytes]) -> StoredVariable:
        try:
            name = key.decode()
        except UnicodeDecodeError:
            self._refuse(f"the name {key!r} isn't UTF-8.")
        entry = index_file.entry(entries[key], self.prefix + ".index")
        dtype, shape = self._dtype_and_shape(name, entry)
        pieces = []
        for stored in entry.slices:
            extents = tuple(
                (extent.start, extent.length) if extent.HasField("length") else None
                for extent in stored.extent
            )
            wanted = tuple(
                size if extent is None else extent[1]
                for extent, size in zip(extents, shape, strict=False)
            )
            inside = len(extents) == len(shape) and all(
                extent is None or (min(extent) >= 0 and sum(extent) <= size)
                for extent, size in zip(extents, shape, strict=True)
            )
            slice_key = index_file.slice_key(name, extents) if inside else b""
            if slice_key not in entries:
                self._refuse(f"the slice {extents} of {name!r} is missing.")
            piece_entry = index_file.entry(entries[slice_key], self.prefix + ".index")
            if self._dtype_and_shape(name, piece_entry) != (dtype, wanted):
                self._refuse(f"the slice {extents} of {name!r} has another shape or dtype.")
            pieces.append(self._piece(name, dtype, extents, piece_entry))
        pieces = pieces or [self._piece(name, dtype, (), entry)]
        pieces.sort(key=lambda piece: [extent or (0, 0) for extent in piece.extents])
        variable = StoredVariable(name, dtype, shape, tuple(pieces))
        stored = sum(math.prod(piece.shape) for piece in pieces)
        in_rows = all(piece.shape[1:] == shape[1:] for piece in pieces)
        # TensorFlow ends the process on some of these. TF1's slots of a partition are of the whole
        # variable's shape, and have the slice of that partition.
        whole = stored == math.prod(shape) and (not shape or not in_rows or variable.covers_rows)
        if not whole and not (slots.PARTITION.search(name) and len(pieces) == 1):
            self._refuse(f"the slices of {name!r} aren't its shape, {list(shape)}.")
        return variable

    def _dtype_and_shape(self, name: str, entry: Any) -> tuple[Any, tuple[int, ...]]:
        """Returns dtype and shape of an index entry, after checking that they are valid."""
        shape = tuple(dim.size for dim in entry.shape.dim)
        try:
            dtype = tf.as_dtype(entry.dtype)
        except TypeError:
            dtype = None
        if dtype is None or dtype != dtype.base_dtype:
            self._refuse(f"{name!r} has an unknown dtype, {entry.dtype}.")
        elements = math.prod(size for size in shape if size)
        if entry.shape.unknown_rank or min(shape, default=0) < 0 or elements > _MAX_ELEMENTS:
            self._refuse(f"{name!r} has no valid shape.")
        return dtype, shape

    def _piece(self, name: str, dtype: Any, extents: Extents, entry: Any) -> Piece:
        shape = tuple(dim.size for dim in entry.shape.dim)
        valid = 0 <= entry.shard_id < self._num_shards and min(entry.offset, entry.size) >= 0
        if dtype not in _WITHOUT_SIZE:
            valid = valid and entry.size == math.prod(shape) * dtype.size
        elif dtype == tf.string:  # which take a byte and more each
            valid = valid and entry.size >= math.prod(shape)
        if not valid:
            self._refuse(
                f"{name!r} of shape {list(shape)} and {dtype.name} can't have {entry.size} bytes "
                f"from byte {entry.offset} of data file {entry.shard_id} on."
            )
        return Piece(
            extents, shape, entry.shard_id, entry.offset, entry.size, crc32c.unmask(entry.crc32c)
        )

    def _check_sizes(self) -> None:
        """Checks that each data file is there, and as long as its variables need."""
        ends: dict[int, tuple[int, str]] = {}
        for variable in self.variables.values():
            for piece in variable.pieces:
                end = (piece.offset + piece.size, variable.name)
                ends[piece.shard] = max(ends.get(piece.shard, (0, "")), end)
        for shard in range(self._num_shards):  # a damaged number may be 2**31 - 1
            needed, name = ends.get(shard, (0, ""))
            file = self._file(shard)
            if needed > file.size:
                raise DamagedCheckpointError(
                    file.path,
                    f"{file.path!r} is cut short: it has {file.size} bytes, its variables need "
                    f"{needed} ({name!r} is the last).",
                )

    def _refuse(self, reason: str) -> NoReturn:
        """Raises the error of an index that contradicts itself."""
        path = self.prefix + ".index"
        raise DamagedCheckpointError(path, f"{path!r} is damaged: {reason}")


def find_prefix(path: CheckpointPath) -> str:
    """Returns the prefix of the checkpoint at a path.

    Args:
        path: checkpoint prefix, index file, or a directory with a checkpoint.

    Raises:
        CheckpointError: there is no checkpoint.
    """
    text = os.fspath(path)
    prefix = text.removesuffix(".index")
    try:
        return _find(text, prefix)
    except tf.errors.OpError as error:
        raise CheckpointError(prefix, f"{prefix!r} can't be looked for: {error.message}") from error


def _find(text: str, prefix: str) -> str:
    if tf.io.gfile.exists(prefix + ".index"):
        return prefix
    if tf.io.gfile.isdir(text):
        latest = state_file.find_latest(text)
        if latest is None or not tf.io.gfile.exists(latest + ".index"):
            raise CheckpointError(
                text,
                f"{text!r} is a directory without a checkpoint that its file 'checkpoint' names. "
                "Give the path of one, without '.index' or '.data-…'; or write that file anew by "
                f"`{state_file.repair_command(text)}`.",
            )
        return latest
    if tf.io.gfile.exists(prefix):
        raise CheckpointError(
            prefix,
            f"{prefix!r} is a file of its own, without an index: the format of TensorFlow 1.0 and "
            "before, or not the path of a checkpoint. Give the path without '.index', '.data-…' "
            "or '.meta'; save an old checkpoint again with tf.compat.v1.train.Saver.",
        )
    raise CheckpointError(
        prefix + ".index", f"There is no checkpoint {prefix!r}: {prefix + '.index'!r} is missing."
    )


def data_path(prefix: str, shard: int, num_shards: int) -> str:
    """Returns the name of a data file.

    >>> data_path("model.ckpt-7", 0, 2)
    'model.ckpt-7.data-00000-of-00002'
    """
    return f"{prefix}.data-{shard:05d}-of-{num_shards:05d}"


def _checksum_of_strings(data: bytes, piece: Piece) -> int:
    """Returns the checksum of strings, stored as lengths, a checksum of these, and bytes."""
    place = crc = 0
    try:
        for _ in range(math.prod(piece.shape)):
            length, place = index_file.read_varint(data, place)
            # The checksum covers the lengths as fixed-size integers, not as varints.
            width = 4 if length <= 0xFFFFFFFF else 8
            crc = crc32c.extend(crc, length.to_bytes(width, "little"))
        return crc32c.extend(crc, data[place:])
    except IndexError:
        return ~piece.crc


def _slice_text(piece: Piece) -> str:
    if not piece.extents:
        return ""
    return f", rows {piece.first_row} to {piece.first_row + piece.shape[0]}"
