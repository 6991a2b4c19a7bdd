# SPDX-License-Identifier: Apache-2.0
"""Dense features with one id a row: looked up by one gather, with the numbers of the sparse way."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tpu_columns

tf1 = tf.compat.v1
fc = tf.feature_column
WORDS = ("a", "b", "c")


@pytest.fixture(scope="module")
def word_file(tmp_path_factory):
    """A vocabulary file."""
    path = tmp_path_factory.mktemp("words") / "words.txt"
    path.write_text("\n".join(WORDS) + "\n")
    return str(path)


_listed = fc.categorical_column_with_vocabulary_list
_filed = fc.categorical_column_with_vocabulary_file
COLUMNS = {
    "identity": (lambda file: fc.categorical_column_with_identity("f", 5), np.int64),
    "identity of int32": (lambda file: fc.categorical_column_with_identity("f", 5), np.int32),
    "identity with default": (
        lambda file: fc.categorical_column_with_identity("f", 5, 2),
        np.int64,
    ),
    "words": (lambda file: _listed("f", WORDS), np.str_),
    "words with default": (lambda file: _listed("f", WORDS, default_value=1), np.str_),
    "words with buckets": (lambda file: _listed("f", WORDS, num_oov_buckets=2), np.str_),
    "numbers": (lambda file: _listed("f", (7, 9, 11), dtype=tf.int64), np.int64),
    "numbers with buckets": (lambda file: _listed("f", (7, 9, -1), num_oov_buckets=2), np.int64),
    "file": (lambda file: _filed("f", file), np.str_),
    "file with buckets": (lambda file: _filed("f", file, num_oov_buckets=1), np.str_),
}


def _entries(kind):
    if "identity with" in kind:
        return st.integers(-3, 8)
    if "identity" in kind:
        return st.integers(-2, 4)
    if "numbers" in kind:
        return st.sampled_from([7, 9, 11, -1, -2, 5])
    return st.sampled_from([*WORDS, "", "unknown", "new"])


def _trained(column, feature, combiner):
    """The layer, variables after two steps, ops. Momentum moves rows of gradient 0 too."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        tf1.set_random_seed(5)
        embedding = tpu_columns.embedding_column(column, 3, combiner=combiner)
        layer = tpu_columns.input_layer({"f": feature()}, [embedding])
        loss = tf.reduce_sum(tf.square(layer - 0.3))
        train_op = tf1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
        before = session.run(layer)
        session.run([train_op])
        session.run([train_op])
        variables = session.run(tf1.global_variables())
        return before, variables, [op.type for op in graph.get_operations()]


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_one_id_each_equals_the_sparse_way(word_file, data):
    """Any column, any entries, missing and unknown ones too: same values, tables and slots."""
    kind = data.draw(st.sampled_from(sorted(COLUMNS)))
    combiner = data.draw(st.sampled_from([None, "mean", "sum", "sqrtn"]))
    make, dtype = COLUMNS[kind]
    column = make(word_file)
    entries = data.draw(st.lists(_entries(kind), min_size=1, max_size=6))
    dense = np.array(entries, dtype)[:, np.newaxis]
    ignored = "" if dtype is np.str_ else -1
    kept = [i for i, entry in enumerate(entries) if entry != ignored]

    def sparse():
        indices = np.array([[i, 0] for i in kept], np.int64).reshape(-1, 2)
        # A shape that is told when the graph runs only: then nobody knows of the one column.
        shape = tf1.placeholder_with_default(np.array([len(entries), 1]), [2])
        return tf.SparseTensor(indices, tf.constant(dense[kept, 0]), shape)

    layer, variables, ops = _trained(column, lambda: tf.constant(dense), combiner)
    wanted, wanted_variables, sparse_ops = _trained(column, sparse, combiner)
    np.testing.assert_array_equal(layer, wanted)
    for value, wanted_value in zip(variables, wanted_variables, strict=True):
        np.testing.assert_allclose(value, wanted_value, rtol=1e-6)
    assert "SparseFillEmptyRows" in sparse_ops
    assert "SparseFillEmptyRows" not in ops


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_narrow_matrices_of_ids(word_file, data):
    """In an evaluation, several dense ids a row give what they give when they are made sparse."""
    kind = data.draw(st.sampled_from(sorted(COLUMNS)))
    combiner = data.draw(st.sampled_from([None, "mean", "sum", "sqrtn"]))
    width = data.draw(st.sampled_from([2, 3, 16, 17]))
    make, dtype = COLUMNS[kind]
    rows = data.draw(
        st.lists(st.lists(_entries(kind), min_size=width, max_size=width), min_size=1, max_size=4)
    )
    found = []
    for mode in (tpu_columns.Mode.TRAIN, tpu_columns.Mode.EVAL):
        with (
            tf.Graph().as_default() as graph,
            tf1.Session() as session,
            tpu_columns.placement.running(mode, tpu_columns.Hardware.CPU),
        ):
            tf1.set_random_seed(5)
            embedding = tpu_columns.embedding_column(
                make(word_file), 3, combiner=combiner, initializer=_numbered
            )
            layer = tpu_columns.input_layer({"f": tf.constant(np.array(rows, dtype))}, [embedding])
            session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
            found.append(session.run(layer))
            is_sparse = "SparseFillEmptyRows" in [op.type for op in graph.get_operations()]
            assert is_sparse == (mode is tpu_columns.Mode.TRAIN or width > 16)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


def _numbered(shape, dtype=tf.float32, partition_info=None):
    return tf.reshape(tf.range(np.prod(shape), dtype=dtype) + 1, shape)


@pytest.mark.parametrize("shape", [(2,), (2, 1)])
def test_shapes_of_one_id_each(shape):
    """In training, ids of shape [B] and [B, 1] take the short way, and [B, 2] the general one."""
    column = fc.categorical_column_with_identity("f", 5)
    layer, _, ops = _trained(column, lambda: tf.reshape(tf.constant([1, 4]), shape), "mean")
    assert layer.shape == (2, 3)
    assert "SparseFillEmptyRows" not in ops
    layer, _, ops = _trained(column, lambda: tf.constant([[1, 4], [2, -1]]), "mean")
    assert layer.shape == (2, 3)
    assert "SparseFillEmptyRows" in ops


def test_an_id_out_of_range_is_explained():
    """The short way's failing gather is told in the user's words too."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        column = tpu_columns.embedding_column(fc.categorical_column_with_identity("f", 5), 3)
        layer = tpu_columns.input_layer({"f": tf.constant([[1], [9]])}, [column])
        session.run(tf1.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError) as raised:
            session.run(layer)
        explained = tpu_columns.lookup.explain(raised.value, graph)
        assert "'f_embedding': id 9" in str(explained)


@pytest.mark.parametrize("mode", list(tpu_columns.Mode))
def test_only_training_looks_for_repeated_ids(mode):
    """An evaluation or a server reads a row for each id; training reads each row once."""
    with (
        tf.Graph().as_default() as graph,
        tpu_columns.placement.running(mode, tpu_columns.Hardware.CPU),
    ):
        column = tpu_columns.embedding_column(fc.categorical_column_with_identity("f", 5), 3)
        tpu_columns.input_layer({"f": tf.sparse.from_dense([[1, 2], [2, 0]])}, [column])
        searches = [op.type for op in graph.get_operations() if op.type.startswith("Unique")]
        assert bool(searches) == (mode is tpu_columns.Mode.TRAIN)
