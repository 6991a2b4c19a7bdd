# SPDX-License-Identifier: Apache-2.0
"""Lookups of padded ids on the tensor core."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tpu_columns import lookup, padded_lookup
from tpu_columns.kernels import calls

ROWS, DIM = 7, 3
TABLE = np.random.RandomState(0).normal(size=(ROWS, DIM)).astype(np.float32)
BATCH = tf.SparseTensor([[0, 0], [0, 1], [0, 2], [1, 0]], np.array([1, 2, 3, 4]), [2, 3])


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=5),
    st.data(),
    st.sampled_from(calls.COMBINERS),
)
def test_equals_the_pooled_lookup(lengths, data, combiner):
    """Lookups of padded ids with a mask equal pooled lookups, with all weights and combiners."""
    indices = [[i, j] for i, length in enumerate(lengths) for j in range(length)]
    indices = np.array(indices, np.int64).reshape(-1, 2)
    entry = st.tuples(st.integers(0, ROWS - 1), st.floats(0.125, 4, width=32))
    entries = data.draw(st.lists(entry, min_size=len(indices), max_size=len(indices)))
    ids, weights = (
        tf.SparseTensor(indices, np.array([e[place] for e in entries], dtype), [len(lengths), 4])
        for place, dtype in ((0, np.int64), (1, np.float32))
    )
    values, mask = padded_lookup.pad_for_tensor_core(ids, weights, 6)
    assert values.shape == mask.shape == (len(lengths), 6)
    found = padded_lookup.tensor_core_lookup(TABLE, values, mask, combiner)
    wanted = lookup.pooled_lookup(TABLE, ids, weights, combiner)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_tensor_core_drops_what_does_not_fit():
    """Ids beyond the static width are dropped."""
    values, mask = padded_lookup.pad_for_tensor_core(BATCH, None, 2)
    assert values.numpy().tolist() == [[1, 2], [4, 0]]
    assert mask.numpy().tolist() == [[1, 1], [1, 0]]


@pytest.mark.parametrize("combiner", ["max", "", None])
def test_bad_combiners(combiner):
    """An unknown combiner on the tensor core is an error with the legacy message."""
    values, mask = padded_lookup.pad_for_tensor_core(BATCH, None, 1)
    with pytest.raises(ValueError, match="does not support combiner other than sum and mean"):
        padded_lookup.tensor_core_lookup(TABLE, values, mask, combiner)
