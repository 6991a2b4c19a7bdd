# SPDX-License-Identifier: Apache-2.0
"""Tests index files: TensorFlow's in our reader, and ours in TensorFlow's."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator_spec.checkpoints import DamagedCheckpointError
from estimator_spec.core.checkpoints import index_file

sizes = st.sampled_from([1, 5, 63, 64, 8191, 8192, 2**20 - 1, 2**20, 2**27, 2**34, 2**48])


@given(st.data())
@settings(max_examples=40)
def test_slices_have_tensorflows_keys(module_files, data):
    """Keys of slices equal TensorFlow's, for small and huge starts and lengths."""
    rows = data.draw(sizes)
    start = data.draw(sizes.map(lambda size: (size - 1) % rows))
    count = min(rows - start, 3)
    name = data.draw(st.sampled_from(["t", "a/b", "ünï", "x" * 200]))
    prefix = module_files.new()
    Path(prefix).parent.mkdir(parents=True)
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=[name],
        shape_and_slices=[f"{rows} 2 {start},{count}:-"],
        tensors=[np.zeros((count, 2), np.float32)],
    )
    entries = index_file.read(Path(prefix + ".index").read_bytes(), prefix)
    keys = [key for key in entries if index_file.is_slice_key(key)]
    whole = count == rows  # stored as one piece then
    assert keys == ([] if whole else [index_file.slice_key(name, [(start, count), None])])


@given(
    st.dictionaries(st.binary(max_size=40), st.binary(max_size=300), max_size=60), st.integers(0, 3)
)
@settings(max_examples=40)
def test_what_is_written_is_read(entries, copies):
    """Any keys and values are read as written, also in files of many blocks."""
    entries = {
        key + bytes([number]): value * (1 + 50 * number)
        for key, value in entries.items()
        for number in range(copies + 1)
    }
    assert index_file.read(index_file.write(entries), "x") == dict(sorted(entries.items()))


def test_many_entries(files, same):
    """A checkpoint of two thousand variables, in many blocks, is read as TensorFlow wrote it."""
    variables = {f"layer_{i:04d}/kernel": np.float32(i) for i in range(2000)}
    prefix = files.write(variables)
    raw = Path(prefix + ".index").read_bytes()
    entries = index_file.read(raw, prefix)
    assert len(entries) == 2001
    Path(prefix + ".index").write_bytes(index_file.write(entries))
    same(files.read(prefix), variables)


def test_damage_is_found(tf1_checkpoint):
    """Any flipped bit and any truncation of an index is an error that names the file."""
    path = Path(tf1_checkpoint + ".index")
    good = path.read_bytes()
    entries = index_file.read(good, str(path))
    # The footer is two places of up to 20 bytes each, and zeros behind them.
    used = len(good[-48:-8].rstrip(b"\0"))
    padding = range(len(good) - 48 + used, len(good) - 8)
    for place in range(0, len(good), 7):
        bad = bytearray(good)
        bad[place] ^= 0x10
        if place in padding:
            assert index_file.read(bytes(bad), str(path)) == entries
            continue
        with pytest.raises(DamagedCheckpointError, match=re.escape(str(path))) as caught:
            index_file.read(bytes(bad), str(path))
        assert caught.value.path == str(path)
    for size in (0, 10, 47, len(good) // 2, len(good) - 1):
        with pytest.raises(DamagedCheckpointError, match="cut short"):
            index_file.read(good[:size], str(path))
