# SPDX-License-Identifier: Apache-2.0
"""Sums of rows against NumPy: values and gradients."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tpu_columns import combining


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([1, 3, 31, 32, 62, 67]),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), max_size=12),
    st.booleans(),
)
def test_sums_of_rows(width, entries, weighted):
    """Sums and gradients equal those of the formula for any width and any indices in any order."""
    rows = np.random.RandomState(1).normal(size=(7, width)).astype(np.float32)
    segments = np.array([segment for segment, _ in entries], np.int64)
    places = np.array([place for _, place in entries], np.int64)
    weights = np.linspace(0.5, 2, len(entries)).astype(np.float32) if weighted else None
    matrix = np.zeros((5, 7), np.float32)
    np.add.at(matrix, (segments, places), 1.0 if weights is None else weights)
    upstream = np.random.RandomState(2).normal(size=(5, width)).astype(np.float32)
    with tf.GradientTape() as tape:
        variable = tf.Variable(rows)
        sums = combining.sum_rows(variable, tf.constant(places), tf.constant(segments), 5, weights)
        loss = tf.reduce_sum(sums * upstream)
    gradient = tape.gradient(loss, variable)
    np.testing.assert_allclose(sums, matrix @ rows, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gradient, matrix.T @ upstream, rtol=1e-4, atol=1e-5)
