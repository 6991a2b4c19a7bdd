# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the `.index` file of a checkpoint, a sorted table of keys and values.

The format is LevelDB's table format without compression (`tensorflow/core/lib/io/format.txt`):
blocks of entries with prefix-compressed keys, each followed by a type byte and a checksum; an index
block with the positions of the blocks; a footer of fixed size.

Keys and values of a checkpoint (`tensorflow/core/util/tensor_bundle`): the empty key holds a
`BundleHeaderProto`, a tensor's name its `BundleEntryProto`. A tensor that is stored in slices
lists them in its entry, and each slice has its own entry under `slice_key`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from google.protobuf import message

from estimator_spec.core._tensorflow import private
from estimator_spec.core.checkpoints import crc32c
from estimator_spec.core.checkpoints.errors import DamagedCheckpointError

tensor_bundle_pb2 = private.tensor_bundle_pb2

_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
_BLOCK = 64 << 10
_RESTART_EVERY = 16
_NO_COMPRESSION = 0

HEADER_KEY = b""


def entry(value: bytes, path: str = "index") -> Any:
    """Parses a value of the index file at `path` as a `BundleEntryProto`."""
    return _parse(tensor_bundle_pb2.BundleEntryProto, value, path)


def header(value: bytes, path: str = "index") -> Any:
    """Parses the value of the empty key as a `BundleHeaderProto`."""
    return _parse(tensor_bundle_pb2.BundleHeaderProto, value, path)


def _parse(kind: Any, value: bytes, path: str) -> Any:
    try:
        return kind.FromString(value)
    except message.DecodeError:
        raise DamagedCheckpointError(
            path, f"{path!r} is damaged: a value of it is no {kind.DESCRIPTOR.name}."
        ) from None


def new_header() -> Any:
    """Returns the header of a checkpoint with one data file."""
    made = tensor_bundle_pb2.BundleHeaderProto(num_shards=1)
    made.version.producer = 1
    return made


def new_entry() -> Any:
    """Returns an empty `BundleEntryProto`."""
    return tensor_bundle_pb2.BundleEntryProto()


def is_slice_key(key: bytes) -> bool:
    """Returns whether a key is a slice's; names of tensors don't begin with a zero byte."""
    return key[:1] == b"\0"


def slice_key(name: str, extents: Sequence[tuple[int, int] | None]) -> bytes:
    """Returns the key of a slice, in TensorFlow's order-preserving encoding.

    Args:
        name: name of the tensor.
        extents: (start, length) for each dimension, None for a whole dimension.
    """
    escaped = {0: b"\0\xff", 0xFF: b"\xff\0"}
    parts = [b"\0"]
    parts += [escaped.get(byte, bytes([byte])) for byte in name.encode()]
    parts += [b"\0\1", _ordered(len(extents))]
    for extent in extents:
        start, length = (0, -1) if extent is None else extent
        parts += [_ordered_signed(start), _ordered_signed(length)]
    return b"".join(parts)


def _ordered(value: int) -> bytes:
    """Encodes an integer >= 0 as its number of bytes, then the bytes, most significant first."""
    size = (value.bit_length() + 7) // 8
    return bytes([size]) + value.to_bytes(size, "big")


def _ordered_signed(value: int) -> bytes:
    """Encodes an integer in two's complement with its first n bits inverted, for n bytes."""
    size = 1
    while not -(1 << 7 * size - 1) <= value < 1 << 7 * size - 1:
        size += 1
    code = value & (1 << 8 * size) - 1
    return (code ^ ((1 << size) - 1) << 7 * size).to_bytes(size, "big")


def read(data: bytes, path: str) -> dict[bytes, bytes]:
    """Returns all keys and values of an index file.

    Args:
        data: the file's bytes.
        path: the file's path, for messages.

    Raises:
        DamagedCheckpointError: it isn't an index file, or a checksum doesn't match.
    """
    if len(data) < _FOOTER or struct.unpack("<Q", data[-8:])[0] != _MAGIC:
        raise DamagedCheckpointError(
            path,
            f"{path!r} is no index file of a checkpoint, or was cut short: it has {len(data)} "
            "bytes, and its end isn't that of a table.",
        )
    try:
        place = len(data) - _FOOTER
        unused_block, place = _handle(data, place)
        index_block, _ = _handle(data, place)
        _block(data, unused_block, path)  # checks its checksum
        entries: dict[bytes, bytes] = {}
        for _, value in _block(data, index_block, path):
            block, _ = _handle(value, 0)
            entries.update(_block(data, block, path))
    except (IndexError, struct.error):
        raise DamagedCheckpointError(
            path, f"{path!r} is damaged: a block is longer than the file."
        ) from None
    return entries


def write(entries: Mapping[bytes, bytes]) -> bytes:
    """Returns the bytes of an index file with these keys and values."""
    file = bytearray()
    index = [(block[-1][0], _append_block(file, block)) for block in _blocks(entries)]
    footer = _append_block(file, []) + _append_block(file, index, restart_every=1)
    return bytes(file + footer.ljust(_FOOTER - 8, b"\0") + struct.pack("<Q", _MAGIC))


def _blocks(entries: Mapping[bytes, bytes]) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yields keys and values in order of the keys, about `_BLOCK` bytes together."""
    block: list[tuple[bytes, bytes]] = []
    size = 0
    for key in sorted(entries):
        block.append((key, entries[key]))
        size += len(key) + len(entries[key])
        if size >= _BLOCK:
            yield block
            block, size = [], 0
    if block:
        yield block


def _append_block(
    file: bytearray, entries: Sequence[tuple[bytes, bytes]], restart_every: int = _RESTART_EVERY
) -> bytes:
    """Appends a block, and returns its encoded position."""
    block = bytearray()
    restarts, last = [], b""
    for number, (key, value) in enumerate(entries):
        shared = 0
        if number % restart_every == 0:
            restarts.append(len(block))
        else:
            limit = min(len(key), len(last))
            while shared < limit and key[shared] == last[shared]:
                shared += 1
        for count in (shared, len(key) - shared, len(value)):
            block += varint(count)
        block += key[shared:] + value
        last = key
    restarts = restarts or [0]
    block += struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))
    start = len(file)
    kind = bytes([_NO_COMPRESSION])
    checksum = crc32c.mask(crc32c.extend(0, bytes(block) + kind))
    file += block + kind + struct.pack("<I", checksum)
    return varint(start) + varint(len(block))


def _block(data: bytes, handle: tuple[int, int], path: str) -> list[tuple[bytes, bytes]]:
    start, size = handle
    end = start + size
    kind = data[end]
    (checksum,) = struct.unpack_from("<I", data, end + 1)
    if crc32c.unmask(checksum) != crc32c.extend(0, data[start : end + 1]):
        raise DamagedCheckpointError(
            path, f"{path!r} is damaged: the checksum of its block at byte {start} doesn't fit."
        )
    if kind != _NO_COMPRESSION:
        raise DamagedCheckpointError(
            path, f"{path!r} is compressed (kind {kind}), as no checkpoint of TensorFlow's is."
        )
    (num_restarts,) = struct.unpack_from("<I", data, end - 4)
    end -= 4 * (num_restarts + 1)
    entries, key = [], b""
    while start < end:
        shared, start = read_varint(data, start)
        rest, start = read_varint(data, start)
        length, start = read_varint(data, start)
        key = key[:shared] + data[start : start + rest]
        start += rest
        entries.append((key, data[start : start + length]))
        start += length
    return entries


def _handle(data: bytes, place: int) -> tuple[tuple[int, int], int]:
    start, place = read_varint(data, place)
    size, place = read_varint(data, place)
    return (start, size), place


def varint(value: int) -> bytes:
    """Encodes an integer as a varint."""
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def read_varint(data: bytes, place: int) -> tuple[int, int]:
    """Decodes a varint, and returns its value and the position after it.

    Raises:
        IndexError: the data ends within it.
    """
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place += 1
        if byte < 0x80:
            return value, place
        shift += 7
