# SPDX-License-Identifier: Apache-2.0
"""Sharded and quantized tables: lookups, and names of variables."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tpu_columns
from tpu_columns import lookup, lookup_errors, storage, tables
from tpu_columns.partition import RowPartition
from tpu_columns.storage import TableStorage

tf1 = tf.compat.v1

ROWS = 7
IDS = np.array([[0, 6], [3, 5], [1, 2]])
WORD = "input_layer/word_embedding/embedding_weights"


def columns():
    """Returns a column with its own table, and two that share one."""
    make = tf.feature_column.categorical_column_with_identity
    word = tpu_columns.embedding_column(make("word", ROWS), 3, combiner="sum")
    shared = tpu_columns.shared_embedding_columns([make("a", ROWS), make("b", ROWS)], 2)
    return [word, *shared]


def run(how, layer=tpu_columns.input_layer, train=False):
    """Builds a layer; returns its output, the values of all variables and the recorded layouts."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        tf1.set_random_seed(1)
        features = {key: tf.constant(IDS) for key in ("word", "a", "b")}
        with storage.storing(how):
            output = layer(features, columns())
        variables = {variable.op.name: variable for variable in tf1.global_variables()}
        step = tf.no_op()
        if train:
            step = tf1.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(output))
        session.run(tf1.global_variables_initializer())
        before = session.run(variables)
        found = session.run(output)
        session.run(step)
        return found, before, session.run(variables), storage.layouts(graph)


def whole(values, layouts, name):
    """Returns a table in row order from its shards."""
    parts = sorted(key for key in values if key == name or key.startswith(name + "/part_"))
    return np.concatenate([values[part] for part in parts])[layouts[name].permutation()]


@pytest.mark.parametrize("shards", [3, 30])
@pytest.mark.parametrize("strategy", ["div", "mod"])
def test_sharded_lookups(strategy, shards):
    """Lookups in shards return rows of the whole table; gradients update only these rows."""
    found, before, after, layouts = run(TableStorage(strategy, shards), train=True)
    word, shared = (whole(before, layouts, name) for name in (WORD, "a_b_shared_embedding"))
    pooled = shared[IDS].mean(axis=1)
    np.testing.assert_allclose(found, np.concatenate([pooled, pooled, word[IDS].sum(1)], 1), 1e-5)
    moved = whole(after, layouts, WORD) - word
    wanted = np.zeros_like(word)
    np.add.at(wanted, IDS.ravel(), -1.0)
    np.testing.assert_allclose(moved, wanted, atol=1e-6)
    assert layouts[WORD].strategy == strategy
    assert layouts[WORD].num_shards == min(shards, ROWS)
    names = [name for name in before if name.startswith(WORD)]
    assert names == [f"{WORD}/part_{i}" for i in range(min(shards, ROWS))]


def test_one_shard_is_one_variable():
    """With one shard the variables don't depend on the strategy."""
    plain, *_ = run(TableStorage())
    for strategy in ("div", "mod"):
        found, before, _, layouts = run(TableStorage(strategy, 1))
        assert sorted(before) == sorted(layouts) == ["a_b_shared_embedding", WORD]
        np.testing.assert_array_equal(found, plain)


def test_layers_that_do_not_cut():
    """An unpartitioned table of a Keras layer is recorded and looked up as one shard."""

    def dense_features(features, feature_columns):
        return tf.keras.layers.DenseFeatures(feature_columns)(features)

    found, before, _, layouts = run(TableStorage("mod", 3), dense_features)
    name = next(name for name in layouts if name.endswith("embedding_weights"))
    word, shared = (whole(before, layouts, key) for key in (name, "a_b_shared_embedding"))
    pooled = shared[IDS].mean(axis=1)
    np.testing.assert_allclose(found, np.concatenate([pooled, pooled, word[IDS].sum(1)], 1), 1e-5)


@pytest.mark.parametrize("wrong", [99, ROWS, -1])
@pytest.mark.parametrize("strategy", ["div", "mod"])
def test_an_id_outside_is_named(strategy, wrong):
    """The error of a sharded lookup names the id and the size of the whole table."""
    with (
        tf.Graph().as_default() as graph,
        tf1.Session() as session,
        storage.storing(TableStorage(strategy, 3)),
    ):
        table = tables.get_table("table", (ROWS, 2), tf1.zeros_initializer())
        ids = tf1.placeholder(tf.int64, [None, None])
        with tf.name_scope("here") as scope:
            lookup_errors.record_site(scope, "word_embedding", "word", ROWS)
            found = lookup.pooled_lookup(table, tf.sparse.from_dense(ids), safe=False)
        session.run(tf1.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(found, {ids: [[3, wrong], [98, 0]]})
        explained = str(lookup_errors.explain(caught.value, graph))
    assert f"'word_embedding': id {wrong} of feature 'word'" in explained
    assert "whose size is 7" in explained


@pytest.mark.parametrize("layer", ["input_layer", "DenseFeatures"])
@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_narrow_tables(dtype, layer):
    """Lookups in quantized tables return dequantized float32; the tables aren't trainable."""
    generator = np.random.default_rng(0)
    if dtype == "int8":
        values = generator.integers(-127, 128, (ROWS, 3)).astype(np.int8)
        scales = generator.random((ROWS, 1)).astype(np.float32)
    else:
        values = generator.normal(size=(ROWS, 3)).astype(np.float16)
        scales = np.ones((ROWS, 1), np.float32)
    layers = {
        "input_layer": tpu_columns.input_layer,
        "DenseFeatures": lambda features, columns: tf.keras.layers.DenseFeatures(columns)(features),
    }
    with tf.Graph().as_default(), tf1.Session() as session:
        with storage.storing(TableStorage(dtype=dtype)):
            output = layers[layer]({"word": tf.constant(IDS)}, columns()[:1])
        assert tf1.trainable_variables() == []
        for variable in tf1.global_variables():
            is_scale = variable.op.name.endswith("embedding_weights_scale")
            session.run(variable.initializer)
            value = scales if is_scale else values
            session.run(tf1.assign(variable, value))
        found = session.run(output)
    worth = values.astype(np.float32) * scales
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, worth[IDS].sum(axis=1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("hash", 1), 'hash. Must be one of "mod" or "div"'),
        (("div", 0), "num_shards must be at least 1"),
        (("div", 1, "int4"), "not as 'int4'"),
        (("div", 2, "int8"), "int8 can't be cut into 2 shards"),
    ],
)
def test_what_cannot_be_stored(arguments, words):
    """An invalid TableStorage is an error when it is created."""
    with pytest.raises(ValueError, match=words):
        TableStorage(*arguments)


@settings(max_examples=settings.default.max_examples // 4)
@given(st.sampled_from(["div", "mod"]), st.integers(1, 40), st.integers(1, 6), st.data())
def test_ids_are_split_by_shard(strategy, rows, shards, data):
    """`ShardedTable.split` sends each id, with its part of a tensor, where `RowPartition` says."""
    layout = RowPartition(strategy, rows, min(shards, rows))
    ids = np.array(data.draw(st.lists(st.integers(0, rows - 1), max_size=8)), np.int64)
    table = storage.ShardedTable(tuple(range(layout.num_shards)), layout)
    owners, local = layout.locate(ids)
    with tf.Graph().as_default(), tf1.Session() as session:
        found = session.run(table.split(tf.constant(ids), tf.constant(ids * 10)))
    for shard, (parts, values) in enumerate(found):
        np.testing.assert_array_equal(parts, local[owners == shard])
        np.testing.assert_array_equal(values, ids[owners == shard] * 10)


def test_storage_ends_with_its_context():
    """`storing` restores the previous storage, also after an error."""

    def fail():
        with storage.storing(TableStorage("mod", 2)):
            assert storage.current() == TableStorage("mod", 2)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert storage.current() == TableStorage()
