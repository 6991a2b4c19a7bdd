# SPDX-License-Identifier: Apache-2.0
"""Gradients of gathers by lists of ids, against TensorFlow's own."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from tpu_columns import Hardware, Mode, placement, row_gradients

tf1 = tf.compat.v1


def gradient(around, resource, known=True):
    """Returns the gradient of a table as values, ids, shape and matrix; and its number of ops."""
    with tf.Graph().as_default() as graph, placement.running(Mode.TRAIN, Hardware.CPU):
        initial = tf.reshape(tf.range(12.0), [6, 2])
        shape = None if known else tf.TensorShape([None, 2])
        table = tf1.Variable(initial, use_resource=resource, shape=shape)
        ids = tf1.placeholder_with_default(tf.constant([4, 0, 4]), [None])
        with around():
            rows = tf1.nn.embedding_lookup(table, ids)
        before = len(graph.get_operations())
        (slices,) = tf1.gradients(tf.reduce_sum(rows * rows), [table])
        count = len(graph.get_operations()) - before
        parts = [slices.values, slices.indices, slices.dense_shape, tf.convert_to_tensor(slices)]
        with tf1.Session(graph=graph) as session:
            session.run(tf1.global_variables_initializer())
            return session.run(parts), count


@pytest.mark.parametrize(("resource", "known"), [(True, True), (True, False), (False, True)])
def test_the_gradient_equals_tensorflows(resource, known):
    """Values, ids and shape are TensorFlow's, for both kinds of variables and unknown shapes."""
    few, few_ops = gradient(row_gradients.without_reshapes, resource, known)
    many, many_ops = gradient(contextlib.nullcontext, resource, known)
    for one, other in zip(few, many, strict=True):
        np.testing.assert_array_equal(one, other)
    assert few_ops <= many_ops - 7


def test_outside_of_a_driver_gradients_are_tensorflows():
    """A program's own graph names no gradient of ours: another process may load it."""
    with tf.Graph().as_default() as graph:
        table = tf1.get_variable("table", [6, 2])
        with row_gradients.without_reshapes():
            tf1.nn.embedding_lookup(table, tf.constant([1]))
        assert "_gradient_op_type" not in str(graph.as_graph_def())
