# SPDX-License-Identifier: Apache-2.0
"""Lookups against NumPy and against TensorFlow's own: values and gradients."""

from __future__ import annotations

import contextlib
import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tpu_columns import lookup, placement
from tpu_columns.kernels import calls

tf1 = tf.compat.v1
ROWS, DIM = 7, 3
TABLE = np.random.RandomState(0).normal(size=(ROWS, DIM)).astype(np.float32)


def ragged(row, max_rows=5, max_ids=4):
    """Draws a batch of rows with 0 to `max_ids` entries each."""
    return st.lists(st.lists(row, max_size=max_ids), min_size=1, max_size=max_rows)


def sparse(rows, dtype):
    """Returns a SparseTensor [len(rows), longest] of Python rows."""
    indices = [[i, j] for i, row in enumerate(rows) for j in range(len(row))]
    values = np.array([value for row in rows for value in row], dtype)
    shape = [len(rows), max([len(row) for row in rows] + [1])]
    return tf.SparseTensor(np.reshape(indices, [-1, 2]).astype(np.int64), values, shape)


def oracle(rows, combiner, safe=True):
    """Computes the formulas in float64, from rows of (id, weight)."""
    result = np.zeros([len(rows), DIM])
    for i, row in enumerate(rows):
        kept = [(id_, w) for id_, w in row if id_ >= 0 and (w > 0 or combiner == "sum")]
        if not safe:
            kept = row
        if not kept:
            continue
        ids, weights = zip(*kept, strict=True)
        weights = np.array(weights, np.float64)
        norm = {"sum": 1.0, "mean": weights.sum(), "sqrtn": np.sqrt((weights**2).sum())}[combiner]
        result[i] = weights @ TABLE[list(ids)].astype(np.float64) / norm
    return result


combiners = st.sampled_from(calls.COMBINERS)
weighted_ids = st.tuples(
    st.integers(-1, ROWS - 1), st.floats(-2, 4, width=32).filter(lambda w: w == 0 or abs(w) > 0.01)
)


@settings(deadline=None, max_examples=160)
@given(ragged(weighted_ids), combiners, st.booleans())
def test_pooled_lookup(rows, combiner, weighted):
    """Repeated and negative ids, empty rows and weights, dropped if <= 0, follow the formulas."""
    ids = sparse([[id_ for id_, _ in row] for row in rows], np.int64)
    weights = sparse([[w for _, w in row] for row in rows], np.float32) if weighted else None
    found = lookup.pooled_lookup(TABLE, ids, weights, combiner)
    wanted = oracle([[(id_, w if weighted else 1.0) for id_, w in row] for row in rows], combiner)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 if weighted else 1e-5)


@settings(deadline=None, max_examples=40)
@given(ragged(weighted_ids), combiners, st.booleans(), st.booleans())
def test_lookups_that_are_not_trained(rows, combiner, safe, with_weights):
    """Values and gradients don't depend on `unique`."""
    if not safe:
        rows = [[(abs(id_), abs(w) + 0.1) for id_, w in row] for row in rows]
    ids = sparse([[id_ for id_, _ in row] for row in rows], np.int64)
    weights = sparse([[w for _, w in row] for row in rows], np.float32) if with_weights else None
    found = []
    for unique in (True, False):
        table = tf.Variable(TABLE)
        with tf.GradientTape() as tape:
            value = lookup.pooled_lookup(table, ids, weights, combiner, safe=safe, unique=unique)
            loss = tf.reduce_sum(tf.square(value))
        found.append((value, tf.convert_to_tensor(tape.gradient(loss, table))))
    for once, each in zip(*found, strict=True):
        np.testing.assert_allclose(each, once, rtol=1e-4, atol=1e-5)


@functools.cache
def _compiled_lookup(combiner, width):
    """Returns a function from ids [B, width] to a lookup, and its gradient's rows and their ids."""
    table = tf.Variable(TABLE)

    @tf.function(input_signature=[tf.SparseTensorSpec([None, width], tf.int64)])
    def run(ids):
        value = lookup.pooled_lookup(table, ids, None, combiner)
        gradient = tf.gradients(tf.reduce_sum(tf.square(value)), table.handle)[0]
        return value, gradient.values, gradient.indices

    return run


@settings(deadline=None, max_examples=40)
@given(ragged(st.integers(-2, ROWS - 1), max_ids=1), combiners)
def test_matrices_of_one_column(rows, combiner):
    """Matrices of one column have the values, gradients and updated rows of the general case."""
    ids = sparse(rows, np.int64)
    found = []
    for width in (1, None):
        value, values, indices = _compiled_lookup(combiner, width)(ids)
        dense = np.zeros_like(TABLE)
        np.add.at(dense, indices.numpy(), values.numpy())
        found.append((value, dense, set(indices.numpy())))
    (value, gradient, touched), (wanted, wanted_gradient, wanted_touched) = found
    np.testing.assert_allclose(value, wanted, rtol=1e-5)
    np.testing.assert_allclose(gradient, wanted_gradient, rtol=1e-5, atol=1e-6)
    assert touched == wanted_touched


@settings(deadline=None, max_examples=40)
@given(ragged(weighted_ids), combiners, st.booleans())
def test_pooled_lookup_equals_tensorflows(rows, combiner, with_weights):
    """Values and gradients, also of row 0, equal those of tf.nn.safe_embedding_lookup_sparse."""
    ids = sparse([[id_ for id_, _ in row] for row in rows], np.int64)
    weights = sparse([[w for _, w in row] for row in rows], np.float32) if with_weights else None
    results = []
    for function in (lookup.pooled_lookup, tf1.nn.safe_embedding_lookup_sparse):
        table = tf.Variable(TABLE)
        with tf.GradientTape() as tape:
            value = function(table, ids, weights, combiner=combiner)
            loss = tf.reduce_sum(value**2)
        slices = tape.gradient(loss, table)
        touched = sorted(set(slices.indices.numpy().tolist()))
        results.append((value, tf.convert_to_tensor(slices), touched))
    (value, gradient, touched), (their_value, their_gradient, their_touched) = results
    np.testing.assert_allclose(value, their_value, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gradient, their_gradient, rtol=1e-4, atol=1e-5)
    # Momentum and Ftrl move every row that a gradient mentions, even by zero.
    assert touched == their_touched


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("combiner", calls.COMBINERS)
@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16, tf.float64], ids=lambda d: d.name)
def test_tables_of_other_dtypes(dtype, combiner, dense):
    """Values and gradients equal TensorFlow's: bit for bit in 16 bits, to 1e-13 in float64."""
    rng = np.random.default_rng(0)
    ids = rng.integers(-1, ROWS, (6, 4))
    places = np.argwhere(ids >= 0)
    batch = tf.SparseTensor(places, ids[ids >= 0], ids.shape)
    results = []
    for ours in (True, False):
        table = tf.Variable(tf.cast(TABLE, dtype))
        with tf.GradientTape() as tape:
            if ours and dense:
                value = lookup.dense_lookup(table, tf.constant(ids), combiner)
            elif ours:
                value = lookup.pooled_lookup(table, batch, None, combiner)
            else:
                value = tf1.nn.safe_embedding_lookup_sparse(table, batch, None, combiner)
            loss = tf.reduce_sum(value**2)
        gradient = tf.convert_to_tensor(tape.gradient(loss, table))
        results.append([tf.cast(found, tf.float64) for found in (value, gradient)])
    for found, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-13 if dtype == tf.float64 else 0)


@pytest.mark.parametrize("combiner", calls.COMBINERS)
@pytest.mark.parametrize("driven", [False, True])
def test_weights_have_gradients(combiner, driven):
    """The gradient of weights that a model computes equals TensorFlow's."""
    ids = sparse([[1, 2], [0], [], [3, 1]], np.int64)
    found = []
    for function in (lookup.pooled_lookup, tf1.nn.safe_embedding_lookup_sparse):
        with tf.Graph().as_default(), tf1.Session() as session, contextlib.ExitStack() as stack:
            if driven:
                mode = placement.Mode.TRAIN, placement.Hardware.CPU
                stack.enter_context(placement.running(*mode))
            batch = tf.SparseTensor(ids.indices.numpy(), ids.values.numpy(), [4, 2])
            weights = tf1.get_variable("w", initializer=[0.5, 2.0, 1.5, 3.0, 1.0])
            table = tf1.get_variable("table", initializer=TABLE)
            given = tf.SparseTensor(batch.indices, tf.identity(weights), batch.dense_shape)
            value = function(table, batch, given, combiner=combiner)
            gradient = tf.convert_to_tensor(tf.gradients(tf.reduce_sum(value**2), weights)[0])
            session.run(tf1.global_variables_initializer())
            found.append(session.run(gradient))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6)
    assert np.abs(found[0]).max() > 0.01


@pytest.mark.parametrize("combiner", calls.COMBINERS)
def test_without_safety_all_rows_come_back(combiner):
    """With safe=False, rows at the end without ids still give zeros."""
    rows = [[1, 2, 2], [], [3], [], []]
    found = lookup.pooled_lookup(TABLE, sparse(rows, np.int64), None, combiner, safe=False)
    wanted = oracle([[(id_, 1.0) for id_ in row] for row in rows], combiner)
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_no_combiner_is_mean():
    """combiner=None is mean on a CPU."""
    ids = sparse([[1, 2]], np.int64)
    np.testing.assert_allclose(
        lookup.pooled_lookup(TABLE, ids, None, None), TABLE[[1, 2]].mean(0, keepdims=True)
    )


def test_a_third_axis_is_kept():
    """Ids [B, T, n] are combined along the last axis; empty steps are zeros."""
    ids = tf.SparseTensor(
        [[0, 0, 0], [0, 0, 1], [1, 2, 0]], tf.constant([1, 2, 3], tf.int64), [2, 3, 2]
    )
    found = lookup.pooled_lookup(TABLE, ids, None, "sum").numpy()
    assert found.shape == (2, 3, DIM)
    np.testing.assert_allclose(found[0, 0], TABLE[1] + TABLE[2], rtol=1e-6)
    np.testing.assert_allclose(found[1, 2], TABLE[3], rtol=1e-6)
    assert not found[0, 1:].any()


@pytest.mark.parametrize("combiner", calls.COMBINERS)
@pytest.mark.parametrize("unique", [False, True])
def test_a_variable_with_a_partitioner(combiner, unique):
    """Rows of a partitioned variable are those of the whole table."""
    rows = [[0, 6, 3], [5], [4, 1, 6]]
    with tf.Graph().as_default(), tf1.Session() as session:
        table = tf1.get_variable(
            "table",
            TABLE.shape,
            initializer=lambda shape, dtype, partition_info: tf.constant(
                TABLE[partition_info.var_offset[0] :][: shape[0]]
            ),
            partitioner=tf1.fixed_size_partitioner(3),
        )
        pooled = lookup.pooled_lookup(table, sparse(rows, np.int64), None, combiner, unique=unique)
        dense = lookup.dense_lookup(table, tf.constant([[2], [6]]), combiner, unique=unique)
        session.run(tf1.global_variables_initializer())
        found = session.run([pooled, dense])
    expected = oracle([[(id_, 1.0) for id_ in row] for row in rows], combiner)
    np.testing.assert_allclose(found[0], expected, rtol=1e-5)
    np.testing.assert_allclose(found[1], TABLE[[2, 6]], rtol=1e-6)


@settings(deadline=None, max_examples=60)
@given(ragged(st.integers(0, ROWS - 1), max_ids=6), st.integers(1, 5))
def test_sequence_lookup_cuts_and_pads(rows, length):
    """Every step has its own embedding; the result has max_sequence_length steps."""
    steps, lengths = lookup.sequence_lookup(TABLE, sparse(rows, np.int64), None, "mean", length)
    assert steps.shape == (len(rows), length, DIM)
    assert lengths.dtype == tf.int64
    for i, row in enumerate(rows):
        kept = row[:length]
        assert lengths[i] == len(kept)
        np.testing.assert_allclose(steps[i, : len(kept)], TABLE[kept].reshape(-1, DIM))
        assert not steps[i, len(kept) :].numpy().any()


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.integers(-2, ROWS - 1), min_size=4, max_size=4), min_size=1, max_size=5),
    st.integers(1, 6),
    st.booleans(),
)
def test_dense_sequences_equal_sparse_ones(rows, length, unique):
    """A matrix of ids has the embeddings, lengths and gradients of its sparse form.

    -2 is no entry, and -1 an entry that isn't in the vocabulary, which is a step of zeros.
    """
    entries = np.array(rows, np.int64)
    places = np.argwhere(entries > -2)
    in_places = tf.SparseTensor(places, entries[tuple(places.T)], entries.shape)
    dense = entries, entries > -2

    def both(table):
        yield lookup.sequence_lookup(table, in_places, None, "mean", length, unique=unique)
        found = [tf.constant(value) for value in dense]
        yield lookup.dense_sequence_lookup(table, *found, length, unique=unique)

    table = tf.Variable(TABLE)
    with tf.GradientTape(persistent=True) as tape:
        found = list(both(table))
        losses = [tf.reduce_sum(tf.sin(steps)) for steps, _ in found]
    (steps, lengths), (other_steps, other_lengths) = found
    assert other_steps.shape == (len(rows), length, DIM)
    np.testing.assert_array_equal(other_steps, steps)
    np.testing.assert_array_equal(other_lengths, lengths)
    gradients = [tf.convert_to_tensor(tape.gradient(loss, table)) for loss in losses]
    np.testing.assert_array_equal(gradients[1], gradients[0])


def test_weighted_sequences():
    """Weights of a sequence scale a sum, and cancel out in a mean of one id per step."""
    rows, weights = sparse([[1, 2, 3]], np.int64), sparse([[2.0, 0.5, 1.0]], np.float32)
    summed, _ = lookup.sequence_lookup(TABLE, rows, weights, "sum", 2)
    np.testing.assert_allclose(summed[0], TABLE[[1, 2]] * [[2.0], [0.5]], rtol=1e-6)
    mean, lengths = lookup.sequence_lookup(TABLE, rows, weights, "mean", 2)
    np.testing.assert_allclose(mean[0], TABLE[[1, 2]], rtol=1e-6)
    assert lengths.numpy().tolist() == [2]


def test_sequence_lookup_has_a_static_length():
    """In a graph the time axis is static, as recurrent layers require."""
    with tf.Graph().as_default():
        ids = tf1.sparse_placeholder(tf.int64, [None, None])
        steps, _ = lookup.sequence_lookup(tf.constant(TABLE), ids, None, "mean", 5)
        assert steps.shape.as_list() == [None, 5, DIM]


@pytest.mark.parametrize("combiner", ["max", ""])
def test_bad_combiners(combiner):
    """Unknown combiners are errors with the legacy message."""
    ids = sparse([[1]], np.int64)
    with pytest.raises(ValueError, match="combiner must be one of 'mean', 'sqrtn' or 'sum'"):
        lookup.pooled_lookup(TABLE, ids, None, combiner)


@pytest.mark.parametrize("behavior", ["TF1", "TF2"])
def test_matrices_of_unknown_width(behavior):
    """Ids of unknown width are an error, also where unknown dimensions are `Dimension` objects."""
    if behavior == "TF1":
        tf1.disable_v2_tensorshape()
    try:
        with tf.Graph().as_default(), pytest.raises(ValueError, match="columns of ids must be"):
            ids = tf1.placeholder(tf.int64, [None, None])
            lookup.dense_lookup(tf.constant(TABLE), ids, "mean")
    finally:
        tf1.enable_v2_tensorshape()


class TestGrappler:
    """UniqueWithCounts prevents that a step reads a whole table."""

    @staticmethod
    def ops_after_grappler(function):
        """Returns the op types of a training graph after TensorFlow's graph optimizers."""
        with tf.Graph().as_default() as graph:
            table = tf1.get_variable("table", [1000, 4], use_resource=True)
            ids = tf1.sparse_placeholder(tf.int64, [None, None])
            loss = tf.reduce_sum(function(table, ids, None, combiner="mean"))
            train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
            config = tf1.ConfigProto()
            config.graph_options.rewrite_options.min_graph_nodes = -1
            with tf1.Session(graph=graph, config=config) as session:
                session.run(tf1.global_variables_initializer())
                metadata = tf1.RunMetadata()
                session.run(
                    train,
                    {ids: tf1.SparseTensorValue([[0, 0], [1, 0]], [1, 2], [2, 1])},
                    tf1.RunOptions(output_partition_graphs=True),
                    metadata,
                )
        return {node.op for g in metadata.partition_graphs for node in g.node}

    def test_the_table_is_gathered_from(self):
        """Grappler keeps the gather, and no ReadVariableOp copies the table."""
        ops = self.ops_after_grappler(lookup.pooled_lookup)
        assert "ResourceGather" in ops
        assert "ReadVariableOp" not in ops
