# SPDX-License-Identifier: Apache-2.0
"""Tests CRC-32C: published values, TensorFlow's values, parts of buffers, masks."""

from __future__ import annotations

from pathlib import Path

import google_crc32c
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from estimator_spec.core.checkpoints import crc32c, index_file


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
    """The checksums of the iSCSI standard's examples come out, of bytes and of arrays."""
    assert crc32c.extend(0, data) == expected
    assert crc32c.extend(0, np.frombuffer(data, np.uint8)) == expected


@given(st.binary(max_size=3000), st.data())
def test_a_buffer_may_come_in_parts(data, draw):
    """Extending the checksum of a beginning, or combining two, gives the checksum of the whole."""
    cut = draw.draw(st.integers(0, len(data)))
    whole = crc32c.extend(0, data)
    parts = crc32c.extend(0, data[:cut]), crc32c.extend(0, data[cut:])
    assert crc32c.extend(parts[0], data[cut:]) == whole
    assert crc32c.combine(*parts, len(data) - cut) == whole


@pytest.mark.parametrize("size", [1, 65535, 65536, 100_001, 9 << 20])
def test_tensorflow_agrees(size, tmp_path):
    """TensorFlow stores the same checksum with a tensor; long buffers may come in parts, too."""
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    prefix = str(tmp_path / "model.ckpt")
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=["x"], shape_and_slices=[""], tensors=[data])
    entries = index_file.read(Path(prefix + ".index").read_bytes(), prefix)
    stored = crc32c.unmask(index_file.entry(entries[b"x"]).crc32c)
    assert crc32c.extend(0, data) == stored
    parts = crc32c.extend(0, data[: size // 3]), crc32c.extend(0, data[size // 3 :])
    assert crc32c.extend(parts[0], data[size // 3 :]) == stored
    assert crc32c.combine(*parts, size - size // 3) == stored


def test_the_library_is_compiled():
    """google-crc32c's C implementation is installed; the one in Python is too slow for tables."""
    assert google_crc32c.implementation == "c"


@given(st.integers(0, 2**32 - 1))
def test_masking_is_undone(crc):
    """A masked checksum is another number, from which the checksum comes back."""
    assert crc32c.unmask(crc32c.mask(crc)) == crc
    assert crc32c.mask(crc) != crc
