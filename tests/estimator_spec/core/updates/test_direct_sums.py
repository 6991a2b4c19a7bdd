# SPDX-License-Identifier: Apache-2.0
"""Sums straight from tables: equal values, and only in graphs that don't write the table."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tpu_columns
from estimator_spec.core import updates
from tpu_columns import lookup_errors

tf1 = tf.compat.v1
fc = tf.feature_column
ROWS = 9


def _layer(features, combiner="mean", weighted=False, width=3, mode=tpu_columns.Mode.SERVE):
    column = fc.categorical_column_with_identity("f", ROWS)
    if weighted:
        column = fc.weighted_categorical_column(column, "w")
    embedding = tpu_columns.embedding_column(column, width, combiner=combiner)
    with tpu_columns.placement.running(mode, tpu_columns.Hardware.CPU):
        return tpu_columns.input_layer(features, [embedding])


def _kinds(graph):
    return [op.type for op in graph.get_operations()]


@pytest.mark.parametrize("combiner", ["mean", "sum", "sqrtn"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_same_numbers(combiner, weighted):
    """Sums from tables equal gathers bitwise, for dense and sparse ids and weights."""
    runs = []
    for fast in (False, True):
        with tf.Graph().as_default() as graph:
            tf1.set_random_seed(1)
            ids = tf1.placeholder(tf.int64, [None, 3])
            weights = tf1.placeholder(tf.float32, [None, 3])
            features = {"f": ids}
            if weighted:
                places = tf.where(tf.ones_like(ids, tf.bool))
                shape = tf.shape(ids, out_type=tf.int64)
                features = {
                    key: tf.SparseTensor(places, tf.reshape(values, [-1]), shape)
                    for key, values in (("f", ids), ("w", weights))
                }
            layer = _layer(features, combiner, weighted)
            assert not fast or updates.sum_from_tables(graph) == 1
            session = tf1.Session()
            session.run(tf1.global_variables_initializer())
            runs.append(session.make_callable(layer, [ids, weights]))
    entry = st.tuples(st.integers(-2, ROWS - 1), st.sampled_from([-1.0, 0.0, 0.5, 2.0]))

    @settings(max_examples=settings.default.max_examples // 4)
    @given(st.lists(st.lists(entry, min_size=3, max_size=3), min_size=1, max_size=5))
    def check(rows):
        batch = [[[pair[place] for pair in row] for row in rows] for place in (0, 1)]
        plain, fast = (run(*batch) for run in runs)
        np.testing.assert_array_equal(fast, plain)

    check()


@pytest.mark.parametrize("written", ["gather", "scatter", "assign"])
def test_tables_that_others_touch(written):
    """A table that another op gathers from or writes is gathered by rows, never copied."""
    with tf.Graph().as_default() as graph:
        _layer({"f": tf.constant([[1, 2]])})
        (table,) = tf1.global_variables()
        if written == "gather":
            tf.gather(table, [1])
        elif written == "assign":
            table.assign(tf.ones([ROWS, 3]))
        else:
            table.scatter_update(tf.IndexedSlices(tf.ones([1, 3]), tf.constant([1])))
        assert updates.sum_from_tables(graph) == 0


@pytest.mark.parametrize("by", ["saver", "program"])
def test_restoring_is_no_writing(by):
    """A program's own Saver and assignments from feeds don't prevent the rewrite."""
    with tf.Graph().as_default() as graph:
        _layer({"f": tf.constant([[1, 2]])})
        if by == "saver":
            tf1.train.Saver()
        else:
            (table,) = tf1.global_variables()
            table.assign(tf1.placeholder(tf.float32, [ROWS, 3]))
        assert updates.sum_from_tables(graph) == 1


def test_training_graphs_stay():
    """A graph that trains its tables gathers rows."""
    with tf.Graph().as_default() as graph:
        layer = _layer({"f": tf.constant([[1, 2]])}, mode=tpu_columns.Mode.TRAIN)
        tf1.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(layer))
        assert updates.sum_from_tables(graph) == 0


@pytest.mark.parametrize("bad", [ROWS, 99, 2**31, 2**32 + 5])
def test_an_id_out_of_range(bad):
    """The error of an id out of range names column and id, also for ids beyond 32 bits."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        layer = _layer({"f": tf.constant([[1, bad]], tf.int64)})
        assert updates.sum_from_tables(graph) == 1
        session.run(tf1.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError) as raised:
            session.run(layer)
        explained = str(lookup_errors.explain(raised.value, graph))
        assert f"id {min(bad, 2**31 - 1)} of feature 'f'" in explained
        assert f"size is {ROWS}" in explained


def test_a_shared_table():
    """Either all columns of a table read straight from it, or none."""
    with tf.Graph().as_default() as graph:
        columns = tpu_columns.shared_embedding_columns(
            [fc.categorical_column_with_identity(key, ROWS) for key in "ab"], 3
        )
        features = {"a": tf.constant([[1, 2]]), "b": tf.constant([[3]])}
        with tpu_columns.placement.running(tpu_columns.Mode.SERVE, tpu_columns.Hardware.CPU):
            tpu_columns.input_layer(features, columns)
        assert updates.sum_from_tables(graph) == 0, "one id a row is gathered"
        features["b"] = tf.constant([[3, 4]])
    with tf.Graph().as_default() as graph:
        features = {"a": tf.constant([[1, 2]]), "b": tf.constant([[3, 4]])}
        with tpu_columns.placement.running(tpu_columns.Mode.SERVE, tpu_columns.Hardware.CPU):
            tpu_columns.input_layer(features, columns)
        assert updates.sum_from_tables(graph) == 2
