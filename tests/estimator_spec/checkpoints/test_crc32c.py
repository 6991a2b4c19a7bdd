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


@pytest.mark.parametrize("size", [1, 65535, 65536, 100_001, 9 << 20])
@pytest.mark.parametrize("way", [checksums.from_library, checksums.by_saving])
def test_tensorflow_agrees(way, size):
    """Both ways to TensorFlow's checksum give what NumPy computes, also from an odd place on."""
    checksum = way()
    if checksum is None and way is checksums.from_library:
        pytest.skip("this TensorFlow doesn't show its function")
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    assert checksum(data, 0) == checksums.checksum(data) == crc32c.crc32c(data)
    assert checksum(data[size // 3 :], crc32c.crc32c(data[: size // 3])) == crc32c.crc32c(data)


def test_a_checksum_is_tried_before_it_is_believed(monkeypatch):
    """A function of TensorFlow's that gives something else isn't used."""
    monkeypatch.setattr(checksums, "from_library", lambda: lambda array, crc: 1)
    monkeypatch.setattr(checksums, "by_saving", lambda: None)
    checksums._best.cache_clear()
    try:
        assert checksums.checksum(b"123456789") == 0xE3069283
    finally:
        checksums._best.cache_clear()


@given(st.integers(0, 2**32 - 1))
def test_masking_is_undone(crc):
    """A masked checksum is another number, from which the checksum comes back."""
    assert crc32c.unmasked(crc32c.masked(crc)) == crc
    assert crc32c.masked(crc) != crc
