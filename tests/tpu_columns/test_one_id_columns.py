# SPDX-License-Identifier: Apache-2.0
"""Input layers of few ops, and columns of one id looked up together, against TensorFlow's layer."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tpu_columns
from tpu_columns import Hardware, Mode, combining, one_id_columns, placement, storage
from tpu_columns.optimizations import Optimization

fc = tf.feature_column
tf1 = tf.compat.v1
ROWS = 9


@pytest.fixture(autouse=True)
def join_few(monkeypatch):
    """Lets two columns be looked up together."""
    monkeypatch.setattr(one_id_columns, "MIN_COLUMNS", 2)


def init(seed):
    """Returns an initializer whose values don't depend on the rest of the graph."""
    return tf1.random_normal_initializer(seed=seed)


def identity(key, **arguments):
    """Returns a column of integer ids."""
    return fc.categorical_column_with_identity(key, ROWS, **arguments)


def plain_columns(width=4):
    """Returns columns of one id each, of three widths and combiners."""
    return [
        tpu_columns.embedding_column(identity("a"), width, "mean", init(1)),
        tpu_columns.embedding_column(identity("b"), width + 1, "sum", init(2)),
        tpu_columns.embedding_column(identity("c"), 3, "sqrtn", init(3)),
    ]


def mixed_columns():
    """Returns columns of one id among others, in an order of names that mixes them."""
    words = fc.categorical_column_with_vocabulary_list("a_words", ["x", "y"])
    shared = tpu_columns.shared_embedding_columns(
        [identity("b"), identity("c")], 5, initializer=init(6)
    )
    return [
        tpu_columns.embedding_column(words, 2, initializer=init(4)),
        tpu_columns.embedding_column(identity("a"), 4, initializer=init(1)),
        *shared,
        fc.numeric_column("b_number", [2]),
        tpu_columns.embedding_column(identity("many"), 3, initializer=init(5)),
        tpu_columns.embedding_column(identity("d", default_value=0), 2, initializer=init(7)),
        tpu_columns.embedding_column(identity("z"), 40, initializer=init(8)),
        tpu_columns.embedding_column(identity("flat"), 3, initializer=init(9)),
        tpu_columns.embedding_column(
            fc.categorical_column_with_vocabulary_list("words", ["x", ""], num_oov_buckets=2),
            2,
            initializer=init(10),
        ),
        tpu_columns.embedding_column(
            fc.categorical_column_with_vocabulary_list("numbers", [7, -1], tf.int64),
            2,
            initializer=init(11),
        ),
    ]


def batch(known=True, dtype=tf.int64):
    """Returns five rows, with repeated and missing ids; the graph may know their number."""
    values = {
        "a": [[1], [-1], [8], [1], [0]],
        "b": [[2], [2], [2], [2], [2]],
        "c": [[-1], [-1], [-1], [-1], [-1]],
        "d": [[3], [44], [0], [3], [5]],
        "z": [[7], [0], [7], [-3], [6]],
        "many": [[1, 2], [3, 3], [-1, -1], [4, -1], [0, 1]],
    }
    features = {
        key: tf1.placeholder_with_default(
            tf.constant(rows, dtype), [5 if known else None, len(rows[0])]
        )
        for key, rows in values.items()
    }
    features["flat"] = tf1.placeholder_with_default(
        tf.constant([3, -1, 3, 0, 8], dtype), [5 if known else None]
    )
    words = tf.constant([["x"], [""], ["y"], ["z"], ["x"]])
    features["words"] = tf1.placeholder_with_default(words, [5 if known else None, 1])
    numbers = tf.constant([[7], [-1], [8], [7], [-1]], dtype)
    features["numbers"] = tf1.placeholder_with_default(numbers, [5 if known else None, 1])
    features["a_words"] = tf.constant([["x"], [""], ["y"], ["new"], ["x"]])
    features["b_number"] = tf.reshape(tf.range(10.0), [5, 2])
    return features


def run(columns, *, make=batch, shards=1, resources=True, is_training=True, **arguments):
    """Builds and runs a layer as a driver does.

    Returns:
        The layer, the gradients of the tables as matrices, the variables' names and the number of
        ops.
    """
    mode = Mode.TRAIN if is_training else Mode.EVAL
    with (
        tf.Graph().as_default() as graph,
        placement.running(mode, Hardware.CPU),
        storage.storing(storage.TableStorage("mod", shards)),
        tf1.variable_scope("", use_resource=resources),
    ):
        layer = tpu_columns.input_layer(make(), columns, **arguments)
        weights = tf.sin(tf.range(tf.cast(tf.size(layer), tf.float32)))
        loss = tf.reduce_sum(layer * tf.reshape(weights, tf.shape(layer)))
        tables = tf1.global_variables()
        gradients = [tf.convert_to_tensor(each) for each in tf1.gradients(loss, tables)]
        count = len(graph.get_operations())
        with tf1.Session(graph=graph) as session:
            session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
            values = session.run([layer, *gradients])
        return values, [table.op.name for table in tables], layer.shape.as_list(), count


def check_equal(monkeypatch, columns, **arguments):
    """Checks that the way of few ops gives the same layer, gradients and names."""
    few = run(columns(), **arguments)
    monkeypatch.setenv(Optimization.INPUT_LAYERS.value, "0")
    many = run(columns(), **arguments)
    assert few[1] == many[1]
    assert few[2][1] == many[2][1]
    for one, other in zip(few[0], many[0], strict=True):
        np.testing.assert_array_equal(one, other)
    assert few[3] < many[3]


@pytest.mark.parametrize(
    ("columns", "known", "dtype"),
    [
        (plain_columns, False, tf.int32),
        (lambda: plain_columns(70), True, tf.int64),
        (mixed_columns, False, tf.int64),
        (mixed_columns, True, tf.int32),
    ],
    ids=["plain", "wide", "mixed", "mixed of int32"],
)
def test_values_and_gradients_are_equal_in_every_bit(monkeypatch, columns, known, dtype):
    """Columns looked up together have the values, gradients and variables of single ones."""
    check_equal(monkeypatch, columns, make=lambda: batch(known, dtype))


@pytest.mark.parametrize("arguments", [{"shards": 2}, {"resources": False}])
def test_shards_and_reference_variables_are_equal(monkeypatch, arguments):
    """Tables of several shards, and TF1's reference variables, have equal values, too."""
    check_equal(monkeypatch, mixed_columns, **arguments)


def test_evaluation_is_equal(monkeypatch):
    """A layer that isn't trained has equal values, too."""
    check_equal(monkeypatch, mixed_columns, is_training=False)


def test_a_column_takes_few_ops():
    """A further column of one id adds at most 25 ops to a layer with its gradients."""
    columns = [
        tpu_columns.embedding_column(identity(key), 4, initializer=init(1)) for key in "abcz"
    ]
    counts = [run(columns[:number])[3] for number in (2, 3, 4)]
    assert counts[2] - counts[1] == counts[1] - counts[0] <= 25


def test_a_mixed_layer_is_put_together_once(monkeypatch):
    """Columns of one id and others become the layer in one concatenation, and split in one."""
    monkeypatch.setenv(Optimization.NATIVE_KERNELS.value, "0")
    columns = mixed_columns()
    with (
        tf.Graph().as_default() as graph,
        placement.running(Mode.TRAIN, Hardware.CPU),
    ):
        layer = tpu_columns.input_layer(batch(), columns)
        tf1.gradients(tf.reduce_sum(layer), tf1.trainable_variables())
        ops = graph.get_operations()
    floats = [op for op in ops if op.type in ("ConcatV2", "SplitV") and is_float(op)]
    position = {"ConcatV2": -1, "SplitV": 2}
    axes = [(op.type, int(tf.get_static_value(op.inputs[position[op.type]]))) for op in floats]
    # The columns, and the gradient of a wide product's blocks.
    assert axes.count(("ConcatV2", 1)) == 1 + combining._SLOW_FROM_32_COLUMNS
    # Rows: the extra one is dropped, as is that of the column of several ids.
    assert ("SplitV", 1) not in axes


def is_float(op):
    """Returns whether an op's first output is of floats."""
    return op.outputs[0].dtype == tf.float32


@pytest.mark.parametrize(("fewest", "joined"), [(3, True), (4, False)])
def test_few_columns_are_looked_up_one_by_one(monkeypatch, fewest, joined):
    """Columns are looked up together only if there are enough of them."""
    monkeypatch.setattr(one_id_columns, "MIN_COLUMNS", fewest)
    columns = plain_columns()
    with tf.Graph().as_default() as graph, placement.running(Mode.TRAIN, Hardware.CPU):
        tpu_columns.input_layer(batch(), columns)
    names = {op.name for op in graph.get_operations()}
    assert any("one_id_columns" in name for name in names) == joined


def test_outputs_and_variables_by_column(monkeypatch):
    """`cols_to_vars` and `cols_to_output_tensors` are filled as by TensorFlow's layer."""

    def collect():
        variables, tensors = {}, {}
        columns = mixed_columns()
        run(columns, cols_to_vars=variables, cols_to_output_tensors=tensors)
        return (
            {column.name: [each.op.name for each in variables[column]] for column in columns},
            {column.name: tensors[column].shape.as_list() for column in columns},
        )

    few = collect()
    monkeypatch.setenv(Optimization.INPUT_LAYERS.value, "0")
    assert few == collect()


def test_a_row_of_nan_stays_where_it_is_read():
    """A missing id gives zeros even if row 0 of the table, which it reads, is NaN."""
    nan = tf1.constant_initializer(np.full([ROWS, 2], np.nan))
    columns = [tpu_columns.embedding_column(identity(key), 2, initializer=nan) for key in "ac"]
    layer = run(columns)[0][0]
    np.testing.assert_array_equal(layer[1], np.zeros(4))
    np.testing.assert_array_equal(layer[:, 2:], np.zeros([5, 2]))
    assert np.isnan(layer[0, :2]).all()


def test_batches_of_different_sizes_are_refused():
    """Features that differ in rows are refused by the names of their columns."""

    def make():
        return {"a": tf.zeros([5, 1], tf.int64), "b": tf.zeros([4, 1], tf.int64)}

    columns = [tpu_columns.embedding_column(identity(key), 2) for key in "ab"]
    with pytest.raises(ValueError, match="Batch size.*a_embedding.*5.*b_embedding.*4"):
        run(columns, make=make)


def test_another_column_of_a_different_size_is_refused():
    """A numeric column must have as many rows as those that are looked up together."""

    def make():
        ids = tf.zeros([5, 1], tf.int64)
        return {"a": ids, "b": ids, "number": tf.zeros([4, 1])}

    columns = [tpu_columns.embedding_column(identity(key), 2) for key in "ab"]
    with pytest.raises(ValueError, match="Batch size.*a_embedding.*5.*number.*4"):
        run([*columns, fc.numeric_column("number")], make=make)


def test_a_column_that_is_not_dense_has_tensorflows_error():
    """A categorical column has the error of TensorFlow's own layer."""
    with pytest.raises(ValueError, match="must be a _DenseColumn"):
        run([identity("a")])
