# SPDX-License-Identifier: Apache-2.0
"""Lookups by every kind of categorical column against TensorFlow's own columns."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

import tpu_columns
from tpu_columns import lookup_errors, optimizations
from tpu_columns.optimizations import Optimization

tf1 = tf.compat.v1
fc = tf.feature_column
WORDS = ("a", "b", "c")


@pytest.fixture(scope="module")
def word_file(tmp_path_factory):
    """Writes a vocabulary file."""
    path = tmp_path_factory.mktemp("words") / "words.txt"
    path.write_text("\n".join(WORDS) + "\n")
    return str(path)


_identity = fc.categorical_column_with_identity
_listed = fc.categorical_column_with_vocabulary_list
_filed = fc.categorical_column_with_vocabulary_file
COLUMNS = {
    "identity": (lambda key, file: _identity(key, 5), np.int64),
    "identity of int32": (lambda key, file: _identity(key, 5), np.int32),
    "identity with default": (lambda key, file: _identity(key, 5, 2), np.int64),
    "words": (lambda key, file: _listed(key, WORDS), np.str_),
    "words with default": (lambda key, file: _listed(key, WORDS, default_value=1), np.str_),
    "words with buckets": (lambda key, file: _listed(key, WORDS, num_oov_buckets=2), np.str_),
    "numbers": (lambda key, file: _listed(key, (7, 9, 11), dtype=tf.int64), np.int64),
    "numbers with buckets": (
        lambda key, file: _listed(key, (7, 9, -1), num_oov_buckets=2),
        np.int64,
    ),
    "file": (lambda key, file: _filed(key, file), np.str_),
    "file with buckets": (lambda key, file: _filed(key, file, num_oov_buckets=1), np.str_),
}
COMBINERS = ("mean", "sum", "sqrtn")


def _entries(kind):
    if "identity with" in kind:
        return range(-3, 9)
    if "identity" in kind:
        return range(-2, 5)
    if "numbers" in kind:
        return [7, 9, 11, -1, -2, 5]
    return [*WORDS, "", "unknown", "new"]


def _momentum():
    return tf1.train.MomentumOptimizer(0.1, 0.9)


def _ftrl():
    return tf1.train.FtrlOptimizer(0.1)


def _trained(
    columns, features, make=tpu_columns.embedding_column, optimizer=_momentum, batches=({}, {})
):
    """Trains by Momentum, which updates rows of gradient 0.

    Gradients don't depend on values, and tables grow: nothing is left of a difference to round.

    Args:
        columns: categorical column and combiner of each layer, by name of the case.
        features: creates the features.
        make: makes an embedding column.
        optimizer: creates the optimizer.
        batches: what is fed in each step, by name of a tensor.

    Returns:
        Each step's layers, by case; variables of each case; the graph's ops.
    """
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        given, layers, variables, loss = features(), {}, {}, 0.0
        for case, (column, combiner) in columns.items():
            known = len(tf1.global_variables())
            embedding = make(column, 3, combiner=combiner, initializer=_numbered)
            layer = layers[case] = tf1.feature_column.input_layer(given, [embedding])
            variables[case] = tf1.global_variables()[known:]
            row, place = tf.meshgrid(tf.range(tf.shape(layer)[0]), tf.range(3), indexing="ij")
            loss -= tf.reduce_sum(layer * tf.cast(1 + row + 2 * place, tf.float32))
        trainer = optimizer()
        train_op = trainer.minimize(loss)
        for found in variables.values():
            found += [trainer.get_slot(found[0], name) for name in trainer.get_slot_names()]
        session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
        seen = []
        for batch in batches:
            seen.append(session.run(layers, batch))
            session.run(train_op, batch)
        return seen, session.run(variables), graph.get_operations()


def _makes_sparse(ops, key="f"):
    """Returns whether a graph makes dense input sparse, as TensorFlow's own columns do."""
    return any(f"/{key}_embedding/to_sparse_input" in op.name for op in ops)


def _check_against_tensorflow(subtests, columns, features, batches):
    """Compares values, tables and slots; returns our ops."""
    seen, variables, ops = _trained(columns, features, batches=batches)
    wanted, wanted_variables, _ = _trained(columns, features, fc.embedding_column, batches=batches)
    for case in columns:
        with subtests.test(case):
            for layers, wanted_layers in zip(seen, wanted, strict=True):
                np.testing.assert_allclose(layers[case], wanted_layers[case], rtol=1e-6)
            assert len(variables[case]) == 2
            for value, expected in zip(variables[case], wanted_variables[case], strict=True):
                np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5)
    return ops


def _dense_cases(word_file, widths, combiners=COMBINERS):
    """Returns columns by case, the values of their features, and other values to feed."""
    rng = np.random.default_rng(0)
    columns, first, others = {}, {}, [{} for _ in range(4)]
    for number, (kind, width) in enumerate(itertools.product(COLUMNS, widths)):
        key = f"f{number}"
        make, dtype = COLUMNS[kind]
        combiner = combiners[number % len(combiners)]
        columns[f"{kind}, {width} entries, {combiner}"] = make(key, word_file), combiner
        first[key], *more = (
            rng.choice(np.array(_entries(kind), dtype), [4, width]) for _ in range(5)
        )
        for batch, values in zip(others, more, strict=True):
            batch[f"{key}:0"] = values
    return columns, first, others


def test_dense_ids_equal_tensorflows(word_file, subtests):
    """Any column and matrix, also with missing entries, gives equal values, tables and slots."""
    widths = [1, 2, 17]
    columns, first, others = _dense_cases(word_file, widths)

    def features():
        return {key: tf.constant(values, name=key) for key, values in first.items()}

    ops = _check_against_tensorflow(subtests, columns, features, [{}, *others])
    for number, case in enumerate(columns):
        is_wide = widths[number % len(widths)] > 16
        assert _makes_sparse(ops, f"f{number}") == is_wide, f"{case}: only wide ones are sparse"


def test_sparse_ids_equal_tensorflows(subtests):
    """Negative ids, weights of any sign and empty rows give equal values, tables and slots."""
    rng = np.random.default_rng(0)
    columns, made, batches = {}, {}, [{} for _ in range(6)]
    choices = itertools.product(COMBINERS, [False, True], [1, 3], [False, True])
    for number, (combiner, weighted, longest, told) in enumerate(choices):
        key = f"f{number}"
        column = _identity(key, 5)
        if weighted:
            column = fc.weighted_categorical_column(column, f"{key}_w")
        case = f"{combiner}, {weighted=}, at most {longest} ids, {told=}"
        columns[case], made[key] = (column, combiner), (longest, told)
        for batch in batches:
            rows = range(5) if batch is not batches[-1] else []  # the last has no ids
            lengths = [(row, rng.integers(0, longest + 1)) for row in rows]
            places = [[row, place] for row, length in lengths for place in range(length)]
            batch[f"{key}_places:0"] = np.reshape(np.array(places, np.int64), [-1, 2])
            batch[f"{key}_ids:0"] = rng.integers(-2, 5, len(places))
            batch[f"{key}_weights:0"] = rng.choice([-1.5, 0.0, 0.5, 2.0], len(places))

    def features():
        found = {}
        for key, (longest, told) in made.items():
            shape = np.array([5, longest], np.int64)
            if not told:  # nobody knows of the one column before the graph runs
                shape = tf1.placeholder_with_default(shape, [2])
            places = tf1.placeholder(tf.int64, [None, 2], f"{key}_places")
            ids = tf1.placeholder(tf.int64, [None], f"{key}_ids")
            weights = tf1.placeholder(tf.float32, [None], f"{key}_weights")
            found[key] = tf.SparseTensor(places, ids, shape)
            found[f"{key}_w"] = tf.SparseTensor(places, weights, shape)
        return found

    ops = _check_against_tensorflow(subtests, columns, features, batches)
    assert "Where" not in {op.type for op in ops}, "nothing is left out of a list"


@pytest.mark.parametrize("rows", [[[1], [-1]], [[1, 2], [-1, -1]], [[1, 2], [3, -1]]])
def test_rows_without_ids_are_seen_by_optimizers(rows):
    """Where an example has no id, optimizers see row 0, as TensorFlow's: Ftrl sets it to zero."""
    columns = {"f": (_identity("f", 5), "mean")}
    (table, *slots), wanted = (
        _trained(columns, lambda: {"f": tf.constant(rows)}, make, _ftrl)[1]["f"]
        for make in (tpu_columns.embedding_column, fc.embedding_column)
    )
    assert len(slots) == 2
    for value, expected in zip((table, *slots), wanted, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)
    assert table[0].any() == (rows[-1][0] > 0)


def test_narrow_matrices_of_ids(word_file, subtests):
    """In evaluation, several dense ids per row give the same values as sparse ids."""
    widths = [2, 16, 17]
    columns, first, others = _dense_cases(word_file, widths, (None, *COMBINERS))
    found = []
    for mode in (tpu_columns.Mode.TRAIN, tpu_columns.Mode.EVAL):
        with (
            tf.Graph().as_default() as graph,
            tf1.Session() as session,
            tpu_columns.placement.running(mode, tpu_columns.Hardware.CPU),
        ):
            features = {key: tf.constant(values, name=key) for key, values in first.items()}
            layers = {}
            for case, (column, combiner) in columns.items():
                embedding = tpu_columns.embedding_column(
                    column, 3, combiner=combiner, initializer=_numbered
                )
                layers[case] = tpu_columns.input_layer(features, [embedding])
            session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
            found.append([session.run(layers, batch) for batch in ({}, *others)])
            ops = graph.get_operations()
            for number, case in enumerate(columns):
                is_wide = widths[number % len(widths)] > 16
                assert _makes_sparse(ops, f"f{number}") == is_wide, case
    for case in columns:
        with subtests.test(case):
            for in_training, in_evaluation in zip(*found, strict=True):
                np.testing.assert_allclose(in_evaluation[case], in_training[case], rtol=1e-6)


def _numbered(shape, dtype=tf.float32, partition_info=None):
    return tf.reshape(tf.range(np.prod(shape), dtype=dtype) + 1, shape)


def test_a_vector_of_ids():
    """Ids of shape [B] are one id per row."""
    columns = {"f": (_identity("f", 5), "mean")}
    (layers, _), _, ops = _trained(columns, lambda: {"f": tf.constant([1, 4])})
    np.testing.assert_array_equal(layers["f"], [[4, 5, 6], [13, 14, 15]])
    assert not _makes_sparse(ops)


def test_an_id_out_of_range_is_explained():
    """The error of a dense lookup names column, id and vocabulary size as well."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        column = tpu_columns.embedding_column(_identity("f", 5), 3)
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
        optimizations.using(frozenset(Optimization) - {Optimization.NATIVE_KERNELS}),
    ):
        column = tpu_columns.embedding_column(_identity("f", 5), 3)
        tpu_columns.input_layer({"f": tf.sparse.from_dense([[1, 2], [2, 0]])}, [column])
        searches = [op.type for op in graph.get_operations() if op.type.startswith("Unique")]
        assert bool(searches) == (mode is tpu_columns.Mode.TRAIN)
