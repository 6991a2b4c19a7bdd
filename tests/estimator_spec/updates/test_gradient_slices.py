# SPDX-License-Identifier: Apache-2.0
"""Gradients of many columns are sliced: equal to the last bit to what TensorFlow splits."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import traces
from estimator_spec.updates import gradient_slices

tf1 = tf.compat.v1


def _gradients(sliced, axis, widths, batch_size, known):
    """The gradients of tensors side by side, and the types of ops that run for them."""
    rng = np.random.default_rng(2)
    shapes = [(batch_size, width) if axis == 1 else (width, batch_size) for width in widths]
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        # Fed, so that TensorFlow computes nothing beforehand.
        parts = [
            tf1.placeholder(tf.float32, shape if known else [None, shape[1]]) for shape in shapes
        ]
        fed = {part: rng.normal(size=shape) for part, shape in zip(parts, shapes, strict=True)}
        whole = tf.concat(parts, axis)
        factors = tf.constant(rng.normal(size=(sum(widths), 3)), tf.float32)
        loss = tf.reduce_sum(tf.tanh(tf.matmul(whole, factors) if axis == 1 else whole))
        gradients = [tf.identity(gradient) for gradient in tf.gradients(loss, parts)]
        if sliced:
            gradient_slices.replace_split_by_slices(graph)
        metadata = tf1.RunMetadata()
        options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
        values = session.run(gradients, fed, options=options, run_metadata=metadata)
        return values, set(traces.kinds(metadata))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("widths", [[4] * 20, list(range(1, 21)), [3] * 4])
def test_columns(widths, known):
    """Columns of any width, of batches of any size, have the gradients they had."""
    plain, before = _gradients(False, 1, widths, 5, known)
    sliced, ran = _gradients(True, 1, widths, 5, known)
    for ours, theirs in zip(sliced, plain, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert ("SplitV" in before) == (len(widths) > 16)
    assert "SplitV" not in ran


def test_rows():
    """A matrix that is split by rows is left alone."""
    plain, before = _gradients(False, 0, [2] * 20, 5, True)
    ours, ran = _gradients(True, 0, [2] * 20, 5, True)
    np.testing.assert_array_equal(ours, plain)
    assert "SplitV" in before & ran
