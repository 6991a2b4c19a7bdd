# SPDX-License-Identifier: Apache-2.0
"""NaN and infinity in tables, weights and gradients, against TensorFlow's own lookups."""

from __future__ import annotations

import contextlib
import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf

from tpu_columns import lookup, placement
from tpu_columns.kernels import calls

tf1 = tf.compat.v1
ROWS, DIM, BATCH = 7, 3, 6
SPECIAL = [np.nan, np.inf, -np.inf]


def _spoil(rng, values, share):
    """Returns values with NaN and infinities in a share of them."""
    spoiled = rng.random(values.shape) < share
    return np.where(spoiled, rng.choice(SPECIAL, values.shape), values).astype(np.float32)


def _batch(rng, weighted, lowest=-1):
    """Returns indices, ids and weights of a ragged batch with empty rows and repeated ids."""
    counts = rng.integers(0, 5, BATCH)
    indices = [[row, place] for row in range(BATCH) for place in range(counts[row])]
    ids = rng.integers(lowest, ROWS, len(indices))
    weights = rng.choice([-1.0, 0.0, 0.5, 1.0, 2.0, *SPECIAL[:2]], len(indices))
    return np.reshape(indices, [-1, 2]), ids, weights.astype(np.float32) if weighted else None


def _run(function, table, batch, upstream, driven=False):
    """Returns a lookup's values and the gradients of table and weights.

    A native lookup, in the driver's graph, has a gradient of the table only.
    """
    indices, ids, weights = batch
    with tf.Graph().as_default(), tf1.Session() as session, contextlib.ExitStack() as stack:
        if driven:
            running = placement.running(placement.Mode.TRAIN, placement.Hardware.CPU)
            stack.enter_context(running)
        variable = tf1.get_variable("t", initializer=table, use_resource=True)
        shape = tf1.placeholder_with_default(np.array([BATCH, 5]), [2])
        sparse = tf.SparseTensor(tf.constant(indices, tf.int64, [len(ids), 2]), ids, shape)
        given = None if weights is None else tf.constant(weights)
        value = function(variable, sparse, given if given is None else sparse.with_values(given))
        wanted = [variable] if weights is None or driven else [variable, given]
        gradients = tf.gradients(value, wanted, grad_ys=upstream)
        # A row's gradients are added one by one: `convert_to_tensor` has no kernel for no rows.
        slices = gradients[0]
        rows = tf.math.unsorted_segment_sum(slices.values, slices.indices, ROWS)
        session.run(tf1.global_variables_initializer())
        return session.run([value, rows, *map(tf.convert_to_tensor, gradients[1:])])


def _check(ours, theirs):
    for found, wanted in zip(ours, theirs, strict=False):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert not np.isfinite(theirs[0]).all() or not np.isfinite(theirs[1]).all()


MORE = pytest.mark.nightly("more random batches")


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(i, marks=MORE) for i in (2, 3))])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("combiner", calls.COMBINERS)
def test_pooled_lookups_spoil_what_tensorflows_spoil(combiner, weighted, seed, subtests):
    """Values and gradients have NaN and infinity exactly where TensorFlow's safe lookup has."""
    rng = np.random.default_rng(seed)
    table = _spoil(rng, rng.normal(size=(ROWS, DIM)), 0.2)
    upstream = _spoil(rng, rng.normal(size=(BATCH, DIM)), 0.1)
    batch = _batch(rng, weighted)
    theirs = _run(
        lambda *arguments: tf1.nn.safe_embedding_lookup_sparse(*arguments, combiner=combiner),
        *(table, batch, upstream),
    )
    for unique in (True, False):
        with subtests.test(f"{unique=}"):
            ours = _run(
                lambda *arguments: lookup.pooled_lookup(*arguments, combiner, unique=unique),  # noqa: B023
                *(table, batch, upstream, seed % 2 == 0),
            )
            _check(ours, theirs)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("combiner", calls.COMBINERS)
def test_lookups_without_safety(combiner, weighted):
    """The same for lookups that drop no entries; weights that sum to 0 give zeros."""
    rng = np.random.default_rng(1)
    table = _spoil(rng, rng.normal(size=(ROWS, DIM)), 0.2)
    upstream = rng.normal(size=(BATCH, DIM)).astype(np.float32)
    indices = [[row, place] for row in range(BATCH) for place in range(2)]
    weights = np.array([1, 2, 0, 0, 1, -1, 0.5, 0, np.nan, 1, 1, 1], np.float32)
    batch = indices, rng.integers(0, ROWS, len(indices)), weights if weighted else None
    theirs = _run(
        lambda *arguments: tf1.nn.embedding_lookup_sparse(*arguments, combiner=combiner),
        *(table, batch, upstream),
    )
    ours = _run(
        lambda *arguments: lookup.pooled_lookup(*arguments, combiner, safe=False),
        *(table, batch, upstream),
    )
    _check(ours, theirs)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("combiner", calls.COMBINERS)
def test_dense_lookups_spoil_what_tensorflows_spoil(combiner, width, subtests):
    """A missing id of a dense matrix reads nothing, in whichever row it is."""
    rng = np.random.default_rng(width)
    # Row 0 and the row of the highest id are those that padding could read.
    table = rng.normal(size=(ROWS, DIM)).astype(np.float32)
    table[[0, ROWS - 1]] = [[np.nan], [np.inf]]
    upstream = _spoil(rng, rng.normal(size=(BATCH, DIM)), 0.2)
    ids = rng.integers(1, ROWS, [BATCH, width])
    ids[rng.random(ids.shape) < 0.5] = -1
    ids[0], ids[1] = 0, -1
    places = np.argwhere(ids >= 0)
    batch = places, ids[ids >= 0], None

    def look_up(variable, sparse, weights, unique):
        return lookup.dense_lookup(variable, tf.constant(ids), combiner, unique=unique)

    theirs = _run(
        lambda *arguments: tf1.nn.safe_embedding_lookup_sparse(*arguments, combiner=combiner),
        *(table, batch, upstream),
    )
    for unique, driven in itertools.product((True, False), (True, False)):
        with subtests.test(f"{unique=}, {driven=}"):
            ours = functools.partial(look_up, unique=unique)
            _check(_run(ours, table, batch, upstream, driven), theirs)


@pytest.mark.parametrize("unique", [True, False])
def test_a_batch_without_ids_reads_nothing(unique):
    """Examples without valid ids are zeros, even if every row of the table is NaN."""
    table = np.full([ROWS, DIM], np.nan, np.float32)
    batch = np.array([[0, 0], [2, 0], [2, 1]]), np.array([-1, -1, -1]), None
    upstream = np.full([BATCH, DIM], np.nan, np.float32)
    value, rows = _run(
        lambda *arguments: lookup.pooled_lookup(*arguments, "sqrtn", unique=unique),
        *(table, batch, upstream),
    )
    assert not value.any()
    assert not rows.any()
