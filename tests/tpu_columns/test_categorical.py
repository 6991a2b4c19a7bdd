# SPDX-License-Identifier: Apache-2.0
"""Lookups by every kind of categorical column against TensorFlow's own columns."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tpu_columns
from tpu_columns import lookup_errors

tf1 = tf.compat.v1
fc = tf.feature_column
WORDS = ("a", "b", "c")


@pytest.fixture(scope="module")
def word_file(tmp_path_factory):
    """Writes a vocabulary file."""
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


def _momentum():
    return tf1.train.MomentumOptimizer(0.1, 0.9)


def _ftrl():
    return tf1.train.FtrlOptimizer(0.1)


def _trained(column, features, combiner, make=tpu_columns.embedding_column, optimizer=_momentum):
    """Trains two steps by Momentum, which updates rows of gradient 0; returns values and ops.

    Gradients don't depend on values, and tables grow: nothing is left of a difference to round.
    """
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        tf1.set_random_seed(5)
        embedding = make(column, 3, combiner=combiner, initializer=_numbered)
        layer = tf1.feature_column.input_layer(features(), [embedding])
        row, place = tf.meshgrid(tf.range(tf.shape(layer)[0]), tf.range(3), indexing="ij")
        loss = -tf.reduce_sum(layer * tf.cast(1 + row + 2 * place, tf.float32))
        train_op = optimizer().minimize(loss)
        session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
        before = session.run(layer)
        session.run([train_op])
        session.run([train_op])
        after = session.run([layer, *tf1.global_variables()])
        return before, after, graph.get_operations()


def _makes_sparse(ops):
    """Returns whether a graph makes dense input sparse, as TensorFlow's own columns do."""
    return any("/to_sparse_input" in op.name for op in ops)


def _check_against_tensorflow(column, features, combiner):
    """Compares values, tables and slots; returns our ops."""
    layer, after, ops = _trained(column, features, combiner)
    wanted, wanted_after, _ = _trained(column, features, combiner, fc.embedding_column)
    np.testing.assert_allclose(layer, wanted, rtol=1e-6)
    for value, wanted_value in zip(after, wanted_after, strict=True):
        np.testing.assert_allclose(value, wanted_value, rtol=1e-5, atol=1e-5)
    return ops


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_dense_ids_equal_tensorflows(word_file, data):
    """Any column and matrix, also with missing entries, gives equal values, tables and slots."""
    kind = data.draw(st.sampled_from(sorted(COLUMNS)))
    combiner = data.draw(st.sampled_from(["mean", "sum", "sqrtn"]))
    width = data.draw(st.sampled_from([1, 2, 3, 16, 17]))
    make, dtype = COLUMNS[kind]
    row = st.lists(_entries(kind), min_size=width, max_size=width)
    rows = np.array(data.draw(st.lists(row, min_size=1, max_size=4)), dtype)
    ops = _check_against_tensorflow(make(word_file), lambda: {"f": tf.constant(rows)}, combiner)
    assert _makes_sparse(ops) == (width > 16), "only wide matrices are made sparse"


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_sparse_ids_equal_tensorflows(word_file, data):
    """Negative ids, weights of any sign and empty rows give equal values, tables and slots."""
    combiner = data.draw(st.sampled_from(["mean", "sum", "sqrtn"]))
    weighted = data.draw(st.booleans())
    longest = data.draw(st.sampled_from([1, 3]))
    told = data.draw(st.booleans())
    entry = st.tuples(st.integers(-2, 4), st.sampled_from([-1.5, 0.0, 0.5, 2.0]))
    rows = data.draw(st.lists(st.lists(entry, max_size=longest), min_size=1, max_size=5))
    indices = np.array([[i, j] for i, row in enumerate(rows) for j in range(len(row))], np.int64)
    ids, weights = (
        np.array([pair[place] for row in rows for pair in row], dtype)
        for place, dtype in ((0, np.int64), (1, np.float32))
    )

    def features():
        shape = np.array([len(rows), longest], np.int64)
        if not told:  # nobody knows of the one column before the graph runs
            shape = tf1.placeholder_with_default(shape, [2])
        made = [tf.SparseTensor(indices.reshape(-1, 2), values, shape) for values in (ids, weights)]
        return {"f": made[0], "w": made[1]}

    column = fc.categorical_column_with_identity("f", 5)
    if weighted:
        column = fc.weighted_categorical_column(column, "w")
    ops = _check_against_tensorflow(column, features, combiner)
    assert "Where" not in {op.type for op in ops}, "nothing is left out of a list"


@pytest.mark.parametrize("rows", [[[1], [-1]], [[1, 2], [-1, -1]], [[1, 2], [3, -1]]])
def test_rows_without_ids_are_seen_by_optimizers(rows):
    """Where an example has no id, optimizers see row 0, as TensorFlow's: Ftrl sets it to zero."""
    column = fc.categorical_column_with_identity("f", 5)
    (_, table, *slots), wanted = (
        _trained(column, lambda: {"f": tf.constant(rows)}, "mean", make, _ftrl)[1]
        for make in (tpu_columns.embedding_column, fc.embedding_column)
    )
    for value, expected in zip((table, *slots), wanted[1:], strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)
    assert table[0].any() == (rows[-1][0] > 0)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_narrow_matrices_of_ids(word_file, data):
    """In evaluation, several dense ids per row give the same values as sparse ids."""
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
            assert _makes_sparse(graph.get_operations()) == (width > 16)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


def _numbered(shape, dtype=tf.float32, partition_info=None):
    return tf.reshape(tf.range(np.prod(shape), dtype=dtype) + 1, shape)


def test_a_vector_of_ids():
    """Ids of shape [B] are one id per row."""
    column = fc.categorical_column_with_identity("f", 5)
    layer, _, ops = _trained(column, lambda: {"f": tf.constant([1, 4])}, "mean")
    assert layer.shape == (2, 3)
    assert not _makes_sparse(ops)


def test_an_id_out_of_range_is_explained():
    """The error of a dense lookup names column, id and vocabulary size as well."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        column = tpu_columns.embedding_column(fc.categorical_column_with_identity("f", 5), 3)
        layer = tpu_columns.input_layer({"f": tf.constant([[1], [9]])}, [column])
        session.run(tf1.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError) as raised:
            session.run(layer)
        explained = lookup_errors.explain(raised.value, graph)
        assert "'f_embedding': id 9" in str(explained)


@pytest.mark.parametrize("mode", list(tpu_columns.Mode))
def test_only_training_looks_for_repeated_ids(mode):
    """Evaluation and serving gather a row for each id; training gathers each row once."""
    with (
        tf.Graph().as_default() as graph,
        tpu_columns.placement.running(mode, tpu_columns.Hardware.CPU),
    ):
        column = tpu_columns.embedding_column(fc.categorical_column_with_identity("f", 5), 3)
        tpu_columns.input_layer({"f": tf.sparse.from_dense([[1, 2], [2, 0]])}, [column])
        searches = [op.type for op in graph.get_operations() if op.type.startswith("Unique")]
        assert bool(searches) == (mode is tpu_columns.Mode.TRAIN)
