# SPDX-License-Identifier: Apache-2.0
"""CRC-32C, the checksum that TensorFlow's checkpoints carry, in NumPy.

Python has no CRC-32C. The arithmetic of polynomials is that of zlib's `crc32_combine` (Mark Adler)
for the Castagnoli polynomial. See `checksums` for long buffers.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

_POLYNOMIAL = 0x82F63B78  # Castagnoli, bits reversed
_MASK_DELTA = 0xA282EAD8


def crc32c(data: Any, crc: int = 0) -> int:
    """The checksum of a buffer, or of what came before it and the buffer.

    The work is done side by side over many lanes of the buffer.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    >>> crc32c(b"789", crc32c(b"123456")) == crc32c(b"123456789")
    True

    Args:
        data: bytes, or anything that has bytes.
        crc: the checksum of what came before.
    """
    array = np.frombuffer(data, np.uint8)
    if len(array) == 0:
        return crc
    # Zeros in front don't change a remainder. Lanes of 64 bytes or more, at most 65,536 of them.
    lanes = 1 << max(0, min(16, (len(array) // 64).bit_length() - 1))
    width = -(-len(array) // (2 * lanes)) * 2
    padded = np.zeros(lanes * width, np.uint8)
    padded[-len(array) :] = array
    columns = np.ascontiguousarray(padded.view("<u2").reshape(lanes, width // 2).T)
    remainders = np.zeros(lanes, np.uint32)
    table = _table_of_16_bits()
    for column in columns:
        remainders ^= column
        low = remainders.astype(np.uint16)
        remainders >>= np.uint32(16)
        remainders ^= table.take(low)
    while len(remainders) > 1:
        remainders = _shifted(remainders[0::2], width) ^ remainders[1::2]
        width *= 2
    # The register starts as ones, and is inverted at the end.
    start = _times(_power_of_x(len(array)), 0xFFFFFFFF)
    return combine(crc, int(remainders[0]) ^ start ^ 0xFFFFFFFF, len(array))


def combine(first: int, second: int, second_length: int) -> int:
    """The checksum of two buffers, one after the other, from the checksums of each.

    Args:
        first: checksum of the first.
        second: checksum of the second.
        second_length: bytes of the second.
    """
    if not first:
        return second
    return _times(_power_of_x(second_length), first) ^ second


def masked(crc: int) -> int:
    """The form that files hold: the checksum of data that has its checksum in it is no good.

    >>> hex(masked(0)), unmasked(masked(12345))
    ('0xa282ead8', 12345)
    """
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def unmasked(value: int) -> int:
    """Undoes `masked`."""
    rotated = (value - _MASK_DELTA) & 0xFFFFFFFF
    return (rotated >> 17 | rotated << 15) & 0xFFFFFFFF


@functools.cache
def _table_of_bytes() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(_POLYNOMIAL), table >> 1)
    return table


@functools.cache
def _table_of_16_bits() -> np.ndarray:
    table = np.arange(1 << 16, dtype=np.uint32)
    for _ in range(2):
        table = _table_of_bytes()[table & 0xFF] ^ table >> 8
    return table


def _times(a: int, b: int) -> int:
    """The product of two polynomials, modulo the polynomial; the highest bit is x to the 0."""
    product, bit = 0, 1 << 31
    while a:
        if a & bit:
            product ^= b
            a ^= bit
        bit >>= 1
        b = b >> 1 ^ _POLYNOMIAL if b & 1 else b >> 1
    return product


@functools.lru_cache(maxsize=4096)
def _power_of_x(num_bytes: int) -> int:
    """x to the number of bits, modulo the polynomial."""
    result, square = 1 << 31, _times(1 << 30, 1 << 30)
    exponent = num_bytes * 4  # square is x²
    while exponent:
        if exponent & 1:
            result = _times(square, result)
        square = _times(square, square)
        exponent >>= 1
    return result


@functools.lru_cache(maxsize=256)
def _shift_tables(num_bytes: int) -> np.ndarray:
    """What each value of each of the four bytes becomes when zeros follow."""
    power = _power_of_x(num_bytes)
    tables = np.zeros((4, 256), np.uint32)
    for bit in range(32):
        position, mask = divmod(bit, 8)
        chosen = np.arange(256) >> mask & 1 == 1
        tables[position, chosen] ^= np.uint32(_times(power, 1 << bit))
    return tables


def _shifted(remainders: np.ndarray, num_bytes: int) -> np.ndarray:
    tables = _shift_tables(num_bytes)
    result = tables[0][remainders & 0xFF]
    for position in (1, 2, 3):
        result ^= tables[position][remainders >> 8 * position & 0xFF]
    return result
