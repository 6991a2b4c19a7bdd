# SPDX-License-Identifier: Apache-2.0
"""Checksums: published values, and the two implementations against each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator_spec.checkpoints import checksums, crc32c


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        # RFC 3720, B.4.
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_published_values(data, expected):
    """The checksums of the iSCSI standard's examples come out."""
    assert crc32c.crc32c(data) == expected
    assert checksums.checksum(data) == expected


@given(st.binary(max_size=3000), st.data())
def test_a_buffer_may_come_in_parts(data, draw):
    """Going on from the checksum of a beginning gives the checksum of the whole."""
    cut = draw.draw(st.integers(0, len(data)))
    whole = crc32c.crc32c(data)
    assert crc32c.crc32c(data[cut:], crc32c.crc32c(data[:cut])) == whole
    parts = crc32c.crc32c(data[:cut]), crc32c.crc32c(data[cut:])
    assert crc32c.combine(*parts, len(data) - cut) == whole


@pytest.mark.parametrize("size", [65535, 65536, 100_001, 5 << 20])
def test_tensorflow_agrees(size):
    """Long buffers, whose checksums TensorFlow computes, have those that NumPy computes."""
    assert checksums._native() is not None, "the fast way isn't available here"
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    assert checksums.checksum(data) == crc32c.crc32c(data)
    assert checksums.checksum(data[7:], crc32c.crc32c(data[:7])) == crc32c.crc32c(data)


@given(st.integers(0, 2**32 - 1))
def test_masking_is_undone(crc):
    """A masked checksum is another number, from which the checksum comes back."""
    assert crc32c.unmasked(crc32c.masked(crc)) == crc
    assert crc32c.masked(crc) != crc
