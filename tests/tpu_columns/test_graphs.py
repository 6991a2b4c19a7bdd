# SPDX-License-Identifier: Apache-2.0
"""Walks of graphs."""

from __future__ import annotations

import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tpu_columns import graphs

edges = st.dictionaries(st.integers(0, 7), st.lists(st.integers(0, 7), max_size=3))


@given(edges, st.lists(st.integers(0, 7), max_size=3))
def test_walks_find_each_node_once(following, starts):
    """A walk yields what any number of steps reaches, once each, in cycles, too."""
    reached = set(starts)
    while more := {each for node in reached for each in following.get(node, ())} - reached:
        reached |= more
    found = list(graphs.walk(starts, lambda node: following.get(node, ())))
    assert len(found) == len(set(found))
    assert set(found) == reached


def test_ancestors():
    """Inputs and, if wanted, control inputs are ancestors; known ops end the search."""
    with tf.Graph().as_default():
        first, gate = tf.constant(1.0), tf.constant(2.0)
        with tf.control_dependencies([gate]):
            second = tf.identity(first)
        last = second + 1.0
    found = set(graphs.ancestors([last.op]))
    assert {first.op, gate.op, second.op, last.op} <= found
    assert gate.op not in set(graphs.ancestors([last.op], through_controls=False))
    assert first.op not in set(graphs.ancestors([last.op], known={second.op}))
