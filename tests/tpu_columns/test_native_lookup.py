# SPDX-License-Identifier: Apache-2.0
"""Native lookups against TensorFlow's: values, slices of gradients, layers, and `.meta` files."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tpu_columns
from tpu_columns import Hardware, Mode, lookup, optimizations, placement
from tpu_columns.kernels import calls
from tpu_columns.optimizations import Optimization

tf1 = tf.compat.v1
fc = tf.feature_column
ROWS = 7
NATIVE = frozenset(Optimization)
TENSORFLOW = NATIVE - {Optimization.NATIVE_KERNELS}

pytestmark = pytest.mark.usefixtures("built_kernels")


def run(build, chosen, mode=Mode.TRAIN):
    """Builds tensors in a graph of the driver; returns their values, and the types of its ops."""
    with (
        tf.Graph().as_default() as graph,
        tf1.Session() as session,
        placement.running(mode, Hardware.CPU),
        optimizations.using(chosen),
    ):
        tensors = build()
        session.run(tf1.global_variables_initializer())
        return session.run(tensors), {op.type for op in graph.get_operations()}


def table_of(width, use_resource):
    """Returns a variable with different rows."""
    values = np.random.default_rng(3).normal(size=(ROWS, width)).astype(np.float32)
    return tf1.get_variable("table", initializer=values, use_resource=use_resource)


batches = st.lists(
    st.lists(
        st.tuples(st.integers(-2, ROWS - 1), st.sampled_from([-1.0, 0.0, 0.5, 2.0])), max_size=4
    ),
    min_size=1,
    max_size=5,
)


@settings(deadline=None)
@given(
    batches,
    st.sampled_from(calls.COMBINERS),
    st.sampled_from([1, 3, 8, 40]),
    st.sampled_from(["sparse", "weighted", "dense", "unsafe"]),
    st.booleans(),
    st.booleans(),
)
def test_lookups_equal_tensorflows(rows, combiner, width, kind, use_resource, shuffled):
    """Values, rows of the gradient and the rows that it mentions are those of TensorFlow's lookup.

    Momentum and Ftrl move every row that a gradient mentions, row 0 for an example without ids.
    """
    ids = np.full([len(rows), 4], -1)
    weights = np.zeros([len(rows), 4], np.float32)
    for row, entries in enumerate(rows):
        for place, (number, weight) in enumerate(entries):
            ids[row, place], weights[row, place] = number, weight
    lengths = np.array([len(entries) for entries in rows])
    places = np.argwhere(np.arange(4) < lengths[:, None])
    if shuffled:  # sparse tensors need not be in order
        places = np.random.default_rng(len(rows)).permutation(places)
    if kind == "unsafe":
        ids = np.maximum(ids, 0)

    def build(function):
        table = table_of(width, use_resource)
        where = tuple(places.T)
        sparse = tf.SparseTensor(
            tf.constant(places, tf.int64, [len(places), 2]), ids[where], ids.shape
        )
        given = sparse.with_values(weights[where]) if kind == "weighted" else None
        value = function(table, sparse, given)
        upstream = np.random.default_rng(5).normal(size=(len(rows), width)).astype(np.float32)
        (slices,) = tf.gradients(tf.reduce_sum(value * upstream), [table])
        dense = tf.math.unsorted_segment_sum(slices.values, slices.indices, ROWS)
        return value, dense, tf.unique(slices.indices)[0]

    def ours(table, sparse, given):
        if kind == "dense":
            matrix = np.where(np.arange(4) < lengths[:, None], ids, -1)
            return lookup.dense_lookup(table, tf.constant(matrix), combiner)
        return lookup.pooled_lookup(table, sparse, given, combiner, safe=kind != "unsafe")

    def theirs(table, sparse, given):
        if kind == "unsafe":
            return lookup.pooled_lookup(table, sparse, None, combiner, safe=False)
        return tf1.nn.safe_embedding_lookup_sparse(table, sparse, given, combiner=combiner)

    if kind == "unsafe" and not len(places):
        return
    if not shuffled or kind == "dense":
        expected, _ = run(lambda: build(theirs), TENSORFLOW)
    else:  # TensorFlow's lookups take ids in order only
        expected, _ = run(lambda: build(ours), TENSORFLOW)
    found, kinds = run(lambda: build(ours), NATIVE)
    assert calls.LOOKUP in kinds
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-5, atol=1e-6)
    assert sorted(found[2]) == sorted(expected[2])


def columns_and_features():
    """Returns columns of several kinds, and their features."""

    def column(key, width, **arguments):
        categorical = fc.categorical_column_with_identity(key, ROWS)
        start = tf1.random_normal_initializer(seed=width)
        return tpu_columns.embedding_column(categorical, width, initializer=start, **arguments)

    shared = tpu_columns.shared_embedding_columns(
        [fc.categorical_column_with_identity(key, ROWS) for key in ("c", "d")],
        5,
        initializer=tf1.random_normal_initializer(seed=9),
    )
    columns = [column("a", 4), fc.numeric_column("b", [2]), column("z", 3, combiner="sum"), *shared]
    features = {
        "a": tf.constant([[1, 2], [3, -1], [-1, -1]]),
        "b": tf.reshape(tf.range(6.0), [3, 2]),
        "c": tf.constant([[1], [1], [-1]]),
        "d": tf.constant([[6, 1], [6, -1], [0, 0]]),
        "z": tf.sparse.from_dense([[1, 2], [0, 0], [6, 6]]),
    }
    return columns, features


@pytest.mark.parametrize("use_resource", [True, False])
def test_one_op_looks_up_a_layer(use_resource):
    """One op looks up all columns of a layer; numbers, norms of gradients and outputs are equal.

    Columns of one table have slices of their own, as TensorFlow's have.
    """

    def build():
        with tf1.variable_scope("model", use_resource=use_resource):
            columns, features = columns_and_features()
            outputs = {}
            layer = tpu_columns.input_layer(features, columns, cols_to_output_tensors=outputs)
        tables = tf1.trainable_variables()
        gradients = tf.gradients(tf.reduce_sum(tf.sin(layer)), [*tables, features["b"]])
        of_one = tf.gradients(tf.reduce_sum(outputs[columns[0]] ** 2), tables[:1])
        values = [tf.convert_to_tensor(each) for each in (*gradients, *of_one)]
        norm = tf.linalg.global_norm(gradients)
        return [layer, norm, *values, *(outputs[column] for column in columns)]

    expected, _ = run(build, TENSORFLOW)
    found, kinds = run(build, NATIVE)
    assert calls.LOOKUP in kinds
    assert not kinds & {"GatherV2", "ResourceGather", "SparseTensorDenseMatMul"}
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", list(Mode))
def test_exports_have_tensorflows_ops(mode):
    """Training, evaluation and prediction have the native op; graphs that are exported haven't."""

    def build():
        columns, features = columns_and_features()
        return tpu_columns.input_layer(features, columns)

    found, kinds = run(build, NATIVE, mode)
    assert (calls.LOOKUP in kinds) == (mode is not Mode.SERVE)
    expected, _ = run(build, TENSORFLOW, mode)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_conditions_keep_tensorflows_ops():
    """A lookup within `tf.cond`, in both of TensorFlow's implementations, has TensorFlow's ops."""

    def build():
        table = table_of(3, use_resource=True)
        ids = tf.constant([[1, 2], [3, -1]])
        value = tf1.cond(
            tf1.placeholder_with_default(True, []),
            lambda: lookup.dense_lookup(table, ids),
            lambda: tf.zeros([2, 3]),
        )
        return [value, tf.convert_to_tensor(tf.gradients(value, [table])[0])]

    for switch in (tf1.disable_control_flow_v2, tf1.enable_control_flow_v2):
        switch()
        (value, _), kinds = run(build, NATIVE)
        assert value.any() and calls.LOOKUP not in kinds


@pytest.mark.parametrize("way", ["gradients", "gated", "tape"])
def test_gradients_of_weights_from_features(way):
    """A gradient of the weights of ids, which the op hasn't, is an error; others are found."""

    def build(source):
        ids = tf.sparse.from_dense([[1, 2], [3, 0]])
        sources = {"w": tf1.placeholder_with_default([1.0, 2.0, 3.0], [3]), "b": tf.ones([2, 2])}
        words = fc.categorical_column_with_identity("a", ROWS)
        weighted = fc.weighted_categorical_column(words, "w")
        columns = [tpu_columns.embedding_column(weighted, 2), fc.numeric_column("b", [2])]
        with tf1.variable_scope("m", use_resource=True), tf.GradientTape() as tape:
            tape.watch(sources[source])
            features = {"a": ids, "b": sources["b"], "w": ids.with_values(sources["w"])}
            total = tf.reduce_sum(tpu_columns.input_layer(features, columns))
        wanted = [*tf1.trainable_variables(), sources[source]]
        if way == "tape":
            table, of_source = tape.gradient(total, wanted)
        else:
            table, of_source = tf1.gradients(total, wanted, gate_gradients=way == "gated")
        return [of_source, tf.convert_to_tensor(table)]

    (numbers, rows), kinds = run(lambda: build("b"), NATIVE)
    assert calls.LOOKUP in kinds
    assert (numbers == 1).all() and rows.sum() == pytest.approx(4)
    (weights, _), _ = run(lambda: build("w"), TENSORFLOW)
    assert weights.shape == (3,)
    with pytest.raises(NotImplementedError, match="'a_weighted_by_w_embedding'.*'w'.*KERNELS=0"):
        run(lambda: build("w"), NATIVE)


IMPORT = """
import sys
import tensorflow as tf
if sys.argv[2] == "load":
    from tpu_columns.kernels import loading
    loading.load()
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    tf.compat.v1.train.import_meta_graph(sys.argv[1])
    session.run("init")
    print(session.run("layer:0").shape)
"""


def test_meta_files_name_what_they_lack(tmp_path):
    """A `.meta` file is read where the ops are loaded; elsewhere TensorFlow's error names one."""
    path = str(tmp_path / "model.meta")
    with (
        tf.Graph().as_default(),
        placement.running(Mode.TRAIN, Hardware.CPU),
        optimizations.using(NATIVE),
    ):
        columns, features = columns_and_features()
        tf.identity(tpu_columns.input_layer(features, columns), name="layer")
        tf1.global_variables_initializer()
        tf1.train.export_meta_graph(path)
    with_ops, without = (
        subprocess.run(
            [sys.executable, "-c", IMPORT, path, word], capture_output=True, text=True, check=False
        )
        for word in ("load", "")
    )
    assert "(3, 19)" in with_ops.stdout, with_ops.stderr[-2000:]
    assert f"Op type not registered '{calls.LOOKUP}'" in without.stderr
