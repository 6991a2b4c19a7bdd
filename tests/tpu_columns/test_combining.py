# SPDX-License-Identifier: Apache-2.0
"""Sums of rows against NumPy: values and gradients."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tpu_columns import Hardware, Mode, combining, lookup, placement

tf1 = tf.compat.v1


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([1, 3, 31, 32, 62, 67]),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), max_size=12),
    st.booleans(),
    st.booleans(),
)
def test_sums_of_rows(width, entries, weighted, in_pieces):
    """Sums and gradients equal those of the formula for any width and any indices in any order."""
    rows = np.random.RandomState(1).normal(size=(7, width)).astype(np.float32)
    segments = np.array([segment for segment, _ in entries], np.int64)
    places = np.array([place for _, place in entries], np.int64)
    weights = np.linspace(0.5, 2, len(entries)).astype(np.float32) if weighted else None
    matrix = np.zeros((5, 7), np.float32)
    np.add.at(matrix, (segments, places), 1.0 if weights is None else weights)
    upstream = np.random.RandomState(2).normal(size=(5, width)).astype(np.float32)
    known = combining._SLOW_FROM_32_COLUMNS
    combining._SLOW_FROM_32_COLUMNS = in_pieces
    try:
        with tf.GradientTape() as tape:
            variable = tf.Variable(rows)
            sums = combining.sum_rows(
                variable, tf.constant(places), tf.constant(segments), 5, weights
            )
            loss = tf.reduce_sum(sums * upstream)
        gradient = tape.gradient(loss, variable)
    finally:
        combining._SLOW_FROM_32_COLUMNS = known
    np.testing.assert_allclose(sums, matrix @ rows, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gradient, matrix.T @ upstream, rtol=1e-4, atol=1e-5)


def test_the_gradient_of_blocks_is_their_concatenation(monkeypatch):
    """In a driver's training graph the gradient of wide rows adds no matrices padded with zeros."""
    monkeypatch.setattr(combining, "_SLOW_FROM_32_COLUMNS", True)
    found = []
    for driver in (placement.running(Mode.TRAIN, Hardware.CPU), contextlib.nullcontext()):
        with tf.Graph().as_default() as graph, driver, tf1.Session() as session:
            rows = tf1.placeholder_with_default(np.ones([7, 70], np.float32), [None, 70])
            sums = combining.sum_rows(
                rows, tf.constant([4, 1, 4], tf.int64), tf.constant([0, 1, 2], tf.int64), 3
            )
            weights = tf.sin(tf.reshape(tf.range(210.0), [3, 70]))
            (gradient,) = tf1.gradients(sums * weights, rows)
            kinds = {op.type for op in graph.get_operations()}
            found.append((session.run(gradient), {"Pad", "AddN"} & kinds))
    (ours, few), (theirs, many) = found
    np.testing.assert_array_equal(ours, theirs)
    assert (few, many) == (set(), {"Pad", "AddN"})


@pytest.mark.parametrize("slow, widths", [(True, [31, 31]), (False, [62])])
@pytest.mark.parametrize("more", [0, 1])
def test_products_are_narrow_where_wide_ones_are_slow(monkeypatch, slow, widths, more):
    """Where products of 32 columns and more are slow, none has that many; elsewhere one has all."""
    monkeypatch.setattr(combining, "_SLOW_FROM_32_COLUMNS", slow)
    width = sum(widths) + more
    with tf.Graph().as_default() as graph:
        places = tf.constant([0, 1], tf.int64)
        combining.sum_rows(tf.zeros([7, width]), places, places, 5)
        products = [op for op in graph.get_operations() if op.type == "SparseTensorDenseMatMul"]
    found = [op.outputs[0].shape[1] for op in products]
    assert sum(found) == width
    assert len(found) == len(widths) + (more if slow else 0)
    assert max(found) < 32 or not slow


@pytest.mark.parametrize("combiner", ["mean", "sqrtn"])
@pytest.mark.parametrize("sparse", [True, False])
def test_gradients_of_means_take_few_ops(combiner, sparse):
    """In a driver's graph rows have the same gradients in every bit, from fewer ops."""

    def build(around):
        with tf.Graph().as_default() as graph, around:
            table = tf1.get_variable("table", initializer=tf.reshape(tf.range(18.0), [6, 3]))
            ids = tf.constant([[1, 2], [5, -1], [-1, -1], [5, 5]], tf.int64)
            if sparse:
                known = tf.sparse.from_dense(ids + 1)
                known = known.with_values(known.values - 1)
                rows = lookup.pooled_lookup(table, known, combiner=combiner)
            else:
                rows = lookup.dense_lookup(table, tf.maximum(ids, 0), ids < 0, combiner)
            before = len(graph.get_operations())
            (gradient,) = tf1.gradients(tf.reduce_sum(rows * rows), [table])
            count = len(graph.get_operations()) - before
            with tf1.Session(graph=graph) as session:
                session.run(tf1.global_variables_initializer())
                return session.run(tf.convert_to_tensor(gradient)), count

    many, many_ops = build(contextlib.nullcontext())
    few, few_ops = build(placement.running(Mode.TRAIN, Hardware.CPU))
    np.testing.assert_array_equal(few, many)
    assert few_ops <= many_ops - 20
