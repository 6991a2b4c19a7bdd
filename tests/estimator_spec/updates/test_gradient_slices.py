# SPDX-License-Identifier: Apache-2.0
"""Gradients of many columns by slices are bitwise equal to those by TensorFlow's split."""

from __future__ import annotations

import time

import numpy as np
import pytest
import tensorflow as tf

import traces
from estimator_spec.updates import gradient_slices

tf1 = tf.compat.v1


def _gradients(sliced, axis, widths, batch_size, known):
    """Returns the gradients of concatenated tensors, and the types of the ops that ran."""
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
    """Columns of any width and batches of any size keep their gradients."""
    plain, before = _gradients(False, 1, widths, 5, known)
    sliced, ran = _gradients(True, 1, widths, 5, known)
    for ours, theirs in zip(sliced, plain, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert ("SplitV" in before) == (len(widths) > 16)
    assert "SplitV" not in ran


def test_rows():
    """A split of rows isn't replaced."""
    plain, before = _gradients(False, 0, [2] * 20, 5, True)
    ours, ran = _gradients(True, 0, [2] * 20, 5, True)
    np.testing.assert_array_equal(ours, plain)
    assert "SplitV" in before & ran


def test_what_a_split_waits_for():
    """Slices wait for it as well, however long it takes."""

    def slowly():
        time.sleep(0.2)
        return np.float32(1)

    with tf.Graph().as_default() as graph, tf1.Session() as session:
        variable = tf1.get_variable("written", [], initializer=tf1.zeros_initializer())
        value = tf1.placeholder_with_default(tf.ones([2, 12]), [2, 12])
        write = variable.assign(tf.numpy_function(slowly, [], tf.float32))
        with tf.control_dependencies([write]):
            parts = tf.split(value, [3, 4, 5], 1)
        with tf.control_dependencies([tf.reduce_sum(part) for part in parts]):
            read = variable.read_value()
        gradient_slices.replace_split_by_slices(graph)
        assert any("_by_slices" in op.name for op in graph.get_operations())
        session.run(variable.initializer)
        assert session.run(read) == 1
