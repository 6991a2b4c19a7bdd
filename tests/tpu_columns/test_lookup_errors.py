# SPDX-License-Identifier: Apache-2.0
"""Errors of lookups that name column, id and vocabulary size."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tpu_columns import IdOutOfRangeError, lookup, lookup_errors
from tpu_columns.kernels import calls

tf1 = tf.compat.v1
ROWS, DIM = 7, 3


class TestExplain:
    """Errors of gathers with an id out of range."""

    @staticmethod
    def failing(ids):
        """Runs a failing lookup; returns the error and the graph."""
        with tf.Graph().as_default() as graph:
            table = tf1.get_variable("table", [ROWS, DIM], use_resource=True)
            with tf.name_scope("words_embedding_weights") as scope:
                lookup_errors.record_site(scope, "words_embedding", "words", ROWS)
                value = lookup.pooled_lookup(
                    table, tf.sparse.from_dense(tf.constant([ids], tf.int64)), None, "mean"
                )
            with tf1.Session(graph=graph) as session:
                session.run(tf1.global_variables_initializer())
                with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                    session.run(value)
        return caught.value, graph

    def test_names_column_id_and_size(self):
        """The error names column, feature, id and vocabulary size, and has both legacy types."""
        error = lookup_errors.explain(*self.failing([1, 99]))
        assert isinstance(error, IdOutOfRangeError)
        assert isinstance(error, tf.errors.InvalidArgumentError)
        assert isinstance(error, ValueError)
        for part in ("'words_embedding'", "id 99", "'words'", f"size is {ROWS}"):
            assert part in str(error)

    def test_leaves_other_errors_alone(self):
        """Errors of other ops, or of an unknown graph, aren't explained."""
        error, _ = self.failing([1, 99])
        assert lookup_errors.explain(error, tf.Graph()) is None
        other = tf.errors.InvalidArgumentError(None, None, "shapes do not match")
        assert lookup_errors.explain(other, tf.Graph()) is None

    @pytest.mark.parametrize("safe", [True, False])
    @pytest.mark.parametrize("count", [1, 3])
    @pytest.mark.parametrize("combiner", calls.COMBINERS)
    def test_names_the_column_of_missing_weights(self, combiner, count, safe):
        """Fewer weights than ids are an error that names the column, in training too."""
        with tf.Graph().as_default() as graph, tf1.Session() as session:
            table = tf1.get_variable("table", [ROWS, DIM], use_resource=True)
            fed = tf1.placeholder_with_default(tf.ones([count]), [None])
            where = tf1.placeholder_with_default(tf.constant([[0, 0], [0, 1]], tf.int64), [None, 2])
            ids = tf.SparseTensor(where, tf1.placeholder_with_default([1, 2], [None]), [1, 2])
            with tf.name_scope("words_embedding_weights") as scope:
                lookup_errors.record_site(scope, "words_embedding", "words", ROWS)
                weights = tf.SparseTensor(where, fed, [1, 2])
                value = lookup.pooled_lookup(table, ids, weights, combiner, safe=safe)
            step = tf1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(value))
            session.run(tf1.global_variables_initializer())
            for wanted in (value, step):
                with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                    session.run(wanted)
                explained = lookup_errors.explain(caught.value, graph)
                assert isinstance(explained, lookup_errors.WeightCountError)
                assert "Column 'words_embedding'" in str(explained)
                assert "feature 'words' must have a weight for each id" in str(explained)

    def test_names_the_lookup_that_failed(self):
        """Of several lookups in a graph, the error is of the one whose op failed."""
        with tf.Graph().as_default() as graph, tf1.Session() as session:
            table = tf1.get_variable("table", [ROWS, DIM], use_resource=True)
            values = []
            for name, wanted in (("first", 1), ("second", 99), ("third", 2)):
                with tf.name_scope(f"{name}_weights") as scope:
                    lookup_errors.record_site(scope, f"{name}_embedding", name, ROWS)
                    ids = tf.sparse.from_dense(tf.constant([[wanted]], tf.int64))
                    values.append(lookup.pooled_lookup(table, ids, None, "mean"))
            session.run(tf1.global_variables_initializer())
            with pytest.raises(tf.errors.InvalidArgumentError, match="99") as caught:
                session.run(values)
        explained = str(lookup_errors.explain(caught.value, graph))
        assert "Column 'second_embedding': id 99 of feature 'second'" in explained
