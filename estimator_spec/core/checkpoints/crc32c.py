# SPDX-License-Identifier: Apache-2.0
"""Computes CRC-32C, the checksum of TensorFlow's checkpoints, by google-crc32c.

Adds what that library lacks: the masked form that files hold, and combining two checksums.
"""

from __future__ import annotations

import google_crc32c
import numpy as np

_MASK_DELTA = 0xA282EAD8
_ALL_ONES = 0xFFFFFFFF
_ZEROS = bytes(64 << 10)


def extend(crc: int, data: bytes | np.ndarray) -> int:
    """Returns the checksum of the bytes that `crc` covers followed by `data`.

    >>> hex(extend(0, b"123456789"))
    '0xe3069283'
    >>> extend(extend(0, b"123456"), b"789") == extend(0, b"123456789")
    True

    Args:
        crc: checksum of the bytes before; 0 if there are none.
        data: bytes, or a contiguous array, which isn't copied.
    """
    return int(google_crc32c.extend(crc, data))


def combine(first: int, second: int, second_length: int) -> int:
    """Returns the checksum of two byte strings in sequence, given the checksum of each.

    Costs as much as the checksum of `second_length` bytes, without reading them.

    Args:
        first: checksum of the first string.
        second: checksum of the second string.
        second_length: length of the second string in bytes.
    """
    if not first:
        return second
    # The register is inverted before and after; without that, a CRC is linear: that of both strings
    # is that of the first one followed by zeros, plus that of the second one.
    shifted = first ^ _ALL_ONES
    for start in range(0, second_length, len(_ZEROS)):
        shifted = extend(shifted, _ZEROS[: second_length - start])
    return shifted ^ _ALL_ONES ^ second


def mask(crc: int) -> int:
    """Returns the masked form that files store: a CRC of data that contains its own CRC is weak.

    >>> hex(mask(0)), unmask(mask(12345))
    ('0xa282ead8', 12345)
    """
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def unmask(value: int) -> int:
    """Returns the checksum whose masked form is `value`."""
    rotated = (value - _MASK_DELTA) & 0xFFFFFFFF
    return (rotated >> 17 | rotated << 15) & 0xFFFFFFFF
