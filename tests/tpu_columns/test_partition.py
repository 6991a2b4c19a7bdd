# SPDX-License-Identifier: Apache-2.0
"""Row layouts: their arithmetic, and TensorFlow's own lookups in shards of these layouts."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tpu_columns.partition import RowPartition, shard_name, whole_name

tf1 = tf.compat.v1

layouts = st.builds(
    RowPartition, st.sampled_from(["div", "mod"]), st.integers(0, 200), st.integers(1, 30)
)


@given(layouts)
def test_every_row_has_one_place(layout):
    """`locate` maps the rows one-to-one to the local rows of all shards."""
    shards, local = layout.locate(np.arange(layout.num_rows))
    places = [(s, r) for s, size in enumerate(layout.shard_sizes) for r in range(size)]
    assert sorted(zip(shards.tolist(), local.tolist(), strict=True)) == places
    assert sum(layout.shard_sizes) == layout.num_rows
    assert len(layout.shard_sizes) == layout.num_shards


@given(layouts)
def test_rows_of_a_shard(layout):
    """`rows_of` returns a shard's rows in order of their local rows."""
    for shard, size in enumerate(layout.shard_sizes):
        rows = layout.rows_of(shard)
        shards, local = layout.locate(list(rows))
        assert len(rows) == size
        assert (shards == shard).all()
        assert local.tolist() == list(range(size))


@given(layouts)
def test_permutation_and_inverse(layout):
    """The permutations are inverse, and the inverse takes the concatenated shards from a table."""
    table = np.arange(layout.num_rows) * 7
    shards = [table[list(layout.rows_of(shard))] for shard in range(layout.num_shards)]
    concatenated = np.concatenate(shards)
    np.testing.assert_array_equal(table[layout.inverse_permutation()], concatenated)
    np.testing.assert_array_equal(concatenated[layout.permutation()], table)
    assert layout.in_row_order == (concatenated.tolist() == table.tolist())
    for shard, start in enumerate(layout.shard_starts):
        np.testing.assert_array_equal(shards[shard], concatenated[start:][: len(shards[shard])])


@given(st.integers(1, 60), st.integers(1, 12), st.sampled_from(["div", "mod"]), st.data())
def test_lookups_are_tensorflows(num_rows, num_shards, strategy, data):
    """`tf.nn.embedding_lookup` finds every row in the shards of a layout."""
    if strategy == "div":
        # With more shards than rows, TensorFlow divides by zero.
        num_shards = min(num_shards, num_rows)
    ids = data.draw(st.lists(st.integers(0, num_rows - 1), min_size=1, max_size=20))
    layout = RowPartition(strategy, num_rows, num_shards)
    table = np.arange(num_rows * 2, dtype=np.float32).reshape(num_rows, 2)
    shards = [tf.constant(table[list(layout.rows_of(s))]) for s in range(num_shards)]
    found = tf.compat.v1.nn.embedding_lookup(
        shards, tf.constant(ids, tf.int64), partition_strategy=strategy
    )
    np.testing.assert_array_equal(found, table[ids])


# With more shards than rows, the partitioner makes fewer.
@settings(max_examples=settings.default.max_examples // 5)
@given(layouts.filter(lambda layout: layout.num_shards <= layout.num_rows))
def test_div_is_the_form_of_partitioned_variables(layout):
    """Shard sizes equal those of TensorFlow's fixed-size partitioner."""
    with tf.Graph().as_default():
        parts = tf.compat.v1.get_variable(
            "table",
            [layout.num_rows, 1],
            partitioner=tf.compat.v1.fixed_size_partitioner(layout.num_shards),
        )
        sizes = [part.shape[0] for part in parts]
    assert tuple(sizes) == layout.shard_sizes


def test_more_shards_than_rows():
    """Three rows on five shards leave two shards empty, with either strategy."""
    for strategy in ("div", "mod"):
        layout = RowPartition(strategy, 3, 5)
        assert layout.shard_sizes == (1, 1, 1, 0, 0)
        assert [list(layout.rows_of(shard)) for shard in range(5)] == [[0], [1], [2], [], []]
        assert layout.permutation().tolist() == [0, 1, 2]


def test_arrays_keep_their_shape():
    """Ids of any shape and integer type are located elementwise."""
    layout = RowPartition("mod", 10, 3)
    shards, local = layout.locate(np.array([[0, 4], [9, 5]], np.int32))
    assert shards.tolist() == [[0, 1], [0, 2]]
    assert local.tolist() == [[0, 1], [3, 1]]
    assert layout.positions(9) == 3
    assert layout.rows_at(layout.positions([])).shape == (0,)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("diiv", 3, 1), ValueError, 'diiv. Must be one of "mod" or "div"'),
        (("div", -1, 1), ValueError, "num_rows must be at least 0, got -1"),
        (("div", 3, 0), ValueError, "num_shards must be at least 1, got 0"),
        (("div", 3.0, 1), TypeError, "num_rows must be an int, got 3.0"),
        (("mod", 3, True), TypeError, "num_shards must be an int, got True"),
    ],
)
def test_bad_layouts_are_refused(arguments, error, words):
    """The error of an invalid argument names it and what was expected."""
    with pytest.raises(error, match=words):
        RowPartition(*arguments)


def test_rows_outside_are_refused():
    """The error of a row, position or shard out of range names it and the limit."""
    layout = RowPartition("div", 10, 3)
    for ids in ([3, 10], [-1]):
        with pytest.raises(ValueError, match=rf"row of {ids[-1]} is not in \[0, 10\)"):
            layout.locate(ids)
    with pytest.raises(ValueError, match=r"position of 11 is not in \[0, 10\)"):
        layout.rows_at(11)
    with pytest.raises(ValueError, match=r"Shard 3 is not in \[0, 3\)"):
        layout.rows_of(3)
    with pytest.raises(TypeError, match="must be an integer, got float64"):
        layout.locate([0.5])


def test_a_layout_is_a_value():
    """Layouts compare and hash by value, and can't be changed."""
    assert RowPartition("mod", np.int64(5), 2) == RowPartition("mod", 5, 2)
    assert len({RowPartition("div", 5), RowPartition("div", 5, 1)}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        RowPartition("div", 5).num_rows = 6


def test_it_needs_no_tensorflow():
    """The file runs without importing TensorFlow."""
    code = (
        "import runpy, sys\nrunpy.run_path(sys.argv[1])\nassert 'tensorflow' not in sys.modules\n"
    )
    path = sys.modules[RowPartition.__module__].__file__
    subprocess.run([sys.executable, "-c", code, path], check=True)


def test_names_of_shards_are_those_of_tensorflow(tmp_path):
    """Shards and their slots are told from other variables; a checkpoint has the whole names."""
    with tf.Graph().as_default(), tf1.Session() as session:
        by_rows = tf1.fixed_size_partitioner(2)
        table = tf1.get_variable("dnn/table", [3, 2], partitioner=by_rows, use_resource=True)
        bias = tf1.get_variable("dnn/bias", [2], use_resource=True)
        loss = tf.reduce_sum(tf.convert_to_tensor(table)) + tf.reduce_sum(bias)
        tf1.train.AdagradOptimizer(0.1).minimize(loss)
        names = [variable.op.name for variable in tf1.global_variables()]
        session.run(tf1.global_variables_initializer())
        saved = tf1.train.Saver().save(session, str(tmp_path / "model.ckpt"))
    found = {name: shard_name(name) for name in names}
    assert {name: tuple(split) for name, split in found.items() if split is not None} == {
        "dnn/table/part_0": ("dnn/table", 0, ""),
        "dnn/table/part_1": ("dnn/table", 1, ""),
        "dnn/table/part_0/Adagrad": ("dnn/table", 0, "Adagrad"),
        "dnn/table/part_1/Adagrad": ("dnn/table", 1, "Adagrad"),
    }
    assert {name for name, _ in tf.train.list_variables(saved)} == set(map(whole_name, names))
