# SPDX-License-Identifier: Apache-2.0
"""safetensors files by NumPy."""

from __future__ import annotations

import json

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator_spec.convert.torch_columns.files import tensors

TENSORS = st.dictionaries(
    st.text(max_size=8),
    st.sampled_from(["f4", "f8", "i4", "i8", "u1", "?"]).flatmap(
        lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0))
    ),
    max_size=4,
)


@given(TENSORS)
def test_what_is_written_is_read(tmp_path_factory, given_arrays):
    """Arrays of all types and shapes come back bit by bit, from a file as the format has it."""
    path = tmp_path_factory.mktemp("tensors") / "x.safetensors"
    tensors.write(path, given_arrays)
    found = tensors.read(path)
    assert found.keys() == given_arrays.keys()
    for name, array in given_arrays.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    ends = [entry["data_offsets"] for entry in json.loads(data[8 : 8 + size]).values()]
    assert size % 8 == 0 and [a for a, _ in ends] == [0, *(b for _, b in ends)][: len(ends)]
    assert len(data) == 8 + size + (ends[-1][1] if ends else 0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data[:-1], "is truncated: b ends at"),
        (lambda data: b"\xff" * 8 + data[8:], "isn't a safetensors file"),
        (lambda data: b"", "isn't a safetensors file"),
    ],
    ids=["cut", "other", "empty"],
)
def test_a_broken_file_is_named(tmp_path, change, words):
    """The error has the path, and says what is wrong."""
    path = tmp_path / "x.safetensors"
    tensors.write(path, {"a": np.zeros(3, "f4"), "b": np.ones((2, 2))})
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ValueError, match=words) as error:
        tensors.read(path)
    assert str(path) in str(error.value)
