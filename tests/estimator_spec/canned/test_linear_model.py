# SPDX-License-Identifier: Apache-2.0
"""Logits of linear models: their formula, their variables, and the ops that train them."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import traces
from estimator_spec import canned
from estimator_spec.canned import linear_model

tf1 = tf.compat.v1
fc = tf.feature_column

BUCKETS = 5


def logits_of(features, columns, units, combiner, weights):
    """Returns the logits of a linear model with given weights by column name, and bias 1."""
    with tf.Graph().as_default():
        tensors = {key: tf1.convert_to_tensor_or_sparse_tensor(f) for key, f in features.items()}
        output = linear_model.build(tensors, columns, units, combiner)
        names = sorted(column.name for column in columns)
        assigned = [
            tf1.assign(variable, weights[name])
            for name, variable in zip(names, output.weights, strict=True)
        ]
        assigned.append(tf1.assign(output.bias, np.ones(units)))
        with tf1.Session() as session:
            session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
            session.run(assigned)
            return session.run(output.logits)


batches = st.lists(
    st.lists(
        st.tuples(st.integers(-1, BUCKETS - 1), st.sampled_from([0.0, 0.5, 1.0, 2.0])), max_size=4
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=30)
@given(batches, st.sampled_from(["sum", "mean", "sqrtn"]), st.integers(1, 3))
def test_weighted_ids(batch, combiner, units):
    """Logits are the bias plus the combined weights of the ids; id -1 counts as missing."""
    places = [(row, place) for row, ids in enumerate(batch) for place in range(len(ids))]
    flat = [entry for ids in batch for entry in ids]
    table = np.random.RandomState(units).normal(size=(BUCKETS, units)).astype(np.float32)
    shape = [len(batch), 4]
    index = np.array(places, np.int64).reshape(-1, 2)
    features = {
        "id": tf1.SparseTensorValue(index, np.array([i for i, _ in flat], np.int64), shape),
        "weight": tf1.SparseTensorValue(index, np.array([w for _, w in flat], np.float32), shape),
    }
    column = fc.weighted_categorical_column(
        fc.categorical_column_with_identity("id", BUCKETS), "weight"
    )
    expected = []
    for ids in batch:
        used = [(i, w) for i, w in ids if i >= 0 and (w > 0 or combiner == "sum")]
        total = sum((w * table[i] for i, w in used), np.zeros(units))
        scale = {"sum": 1.0, "mean": sum(w for _, w in used)}.get(
            combiner, np.sqrt(sum(w * w for _, w in used))
        )
        expected.append(1 + (total / scale if scale else np.zeros(units)))
    actual = logits_of(features, [column], units, combiner, {column.name: table})
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_every_kind_of_column():
    """Dense, bucketized, hashed, crossed, vocabulary and embedding columns add up."""
    number = fc.numeric_column("number", shape=(2,))
    buckets = fc.bucketized_column(fc.numeric_column("age"), [10.0, 20.0])
    words = fc.categorical_column_with_vocabulary_list("word", ["a", "b"], num_oov_buckets=1)
    hashed = fc.categorical_column_with_hash_bucket("word", 7)
    crossed = fc.crossed_column(["word", buckets], 11)
    features = {
        "number": np.array([[1.0, 2.0], [3.0, -1.0]], np.float32),
        "age": np.array([5.0, 15.0], np.float32),
        "word": np.array([["a"], ["c"]]),
    }
    random = np.random.RandomState(1)
    weights = {
        "number": random.normal(size=(2, 1)),
        "age_bucketized": random.normal(size=(3, 1)),
        crossed.name: random.normal(size=(11, 1)),
    }
    parts = [
        logits_of(features, [column], 1, "sum", {column.name: weights[column.name]}) - 1
        for column in (number, buckets, crossed)
    ]
    together = logits_of(features, [crossed, number, buckets], 1, "sum", weights)
    np.testing.assert_allclose(together, 1 + sum(parts), rtol=1e-5)
    np.testing.assert_allclose(parts[0], features["number"] @ weights["number"], rtol=1e-5)
    np.testing.assert_allclose(parts[1], weights["age_bucketized"][:2], rtol=1e-5)
    for column, rows in ((words, 3), (hashed, 7)):
        found = logits_of(features, [column], 1, "sum", {"word": np.arange(rows)[:, np.newaxis]})
        assert found.shape == (2, 1)
    assert found.tolist() != [[1.0], [1.0]]
    oov = logits_of(features, [words], 1, "sum", {"word": np.array([[1.0], [2.0], [5.0]])})
    assert oov.tolist() == [[2.0], [6.0]]


def test_ragged_ids():
    """Ragged ids are looked up as sparse ones are, which TensorFlow's own layers refuse."""
    column = fc.categorical_column_with_identity("id", BUCKETS)
    with tf.Graph().as_default():
        ids = tf.ragged.constant([[1, 3], [], [4]], dtype=tf.int64)
        output = linear_model.build({"id": ids}, [column], 1, "sum")
        table = np.arange(BUCKETS, dtype=np.float32)[:, np.newaxis]
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(tf1.assign(output.weights[0], table))
            assert session.run(output.logits).tolist() == [[4.0], [0.0], [4.0]]


@pytest.mark.parametrize(
    ("columns", "key_words"),
    [
        ([], "must not be empty"),
        ({"x": fc.numeric_column("x")}, "found dict"),
        (["x"], "Items of feature_columns must be a DenseColumn or CategoricalColumn"),
        ([fc.numeric_column("x")] * 2, "Duplicate feature column name"),
        ([fc.numeric_column("y")], "y"),
        ([fc.sequence_categorical_column_with_identity("x", 3)], "must not be of type Sequence"),
    ],
    ids=["none", "dict", "string", "twice", "missing", "sequence"],
)
def test_wrong_columns_are_refused(columns, key_words):
    """Columns that can't be used are refused by name before any variable is trained."""
    with tf.Graph().as_default(), pytest.raises(ValueError, match=key_words):
        linear_model.build({"x": tf.zeros([2, 1])}, columns, 1, "sum")


def test_an_id_out_of_range_names_its_column(generation, config):
    """The error of an id beyond the vocabulary says which column and feature had it."""
    column = fc.categorical_column_with_identity("id", BUCKETS)

    def input_fn():
        ids = np.array([[1], [9]], np.int64)
        return tf.data.Dataset.from_tensors(({"id": ids}, np.array([0, 1])))

    estimator = generation.classes.LinearClassifier([column], config=config())
    with pytest.raises(ValueError, match="id.*outside of the vocabulary"):
        estimator.train(input_fn, steps=1)


class Trace(tf1.train.SessionRunHook):
    """Hook that traces the third step."""

    def __init__(self):
        self.count = 0
        self.metadata = None

    def before_run(self, run_context):
        self.count += 1
        if self.count != 3:
            return None
        options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
        return tf1.train.SessionRunArgs([], options=options)

    def after_run(self, run_context, run_values):
        if self.count == 3:
            self.metadata = run_values.run_metadata


def outputs(metadata):
    """Yields the shapes of all tensors that a traced step made."""
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            for output in node.output:
                dims = output.tensor_description.shape.dim
                yield node.node_name, int(np.prod([dim.size for dim in dims]))


@pytest.mark.usefixtures("built_kernels")
@pytest.mark.parametrize("model", ["linear", "combined"])
def test_large_tables_train_by_fast_updates(generation, config, model):
    """A step over 10⁶ buckets makes no tensor of the table's size, and updates rows by fast ops."""
    size = 1_000_000
    column = fc.categorical_column_with_hash_bucket("word", size)

    def input_fn():
        random = np.random.RandomState(0)
        words = random.randint(0, 10**6, (4, 64, 3)).astype(str)
        labels = random.randint(0, 2, (4, 64))
        return tf.data.Dataset.from_tensor_slices(({"word": words}, labels)).repeat()

    trace = Trace()
    if model == "linear":
        estimator = generation.classes.LinearClassifier([column], config=config())
    else:
        estimator = generation.classes.DNNLinearCombinedClassifier(
            linear_feature_columns=[column],
            dnn_feature_columns=[fc.embedding_column(column, 4)],
            dnn_hidden_units=[4],
            config=config(),
        )
    estimator.train(input_fn, steps=3, hooks=[trace])
    kinds = traces.kinds(trace.metadata)
    assert not [kind for kind in kinds if "SparseApplyFtrl" in kind]
    updates = [
        count for kind, count in kinds.items() if re.fullmatch("TpuColumns(Resource)?Update", kind)
    ]
    assert sum(updates) == (1 if model == "linear" else 2)
    assert not [kind for kind in kinds if kind.startswith("SparseSegment")]
    assert max(count for _, count in outputs(trace.metadata)) < size


def test_a_standalone_logit_fn(generation):
    """`linear_logit_fn_builder` makes logits for a model_fn; the generations differ in scope."""
    column = fc.categorical_column_with_identity("id", BUCKETS)
    logit_fn = generation.classes.linear_logit_fn_builder(2, [column])
    with tf.Graph().as_default():
        logits = logit_fn({"id": tf.constant([[1], [2]])})
        names = {variable.op.name for variable in tf1.trainable_variables()}
    assert logits.shape == (2, 2)
    prefix = "" if generation.name == "v1" else "linear/"
    assert names == {f"{prefix}linear_model/id/weights", f"{prefix}linear_model/bias_weights"}


@pytest.mark.parametrize(
    "build",
    [
        lambda made: made.linear_logit_fn_builder("2", []),
        lambda made: made.dnn_logit_fn_builder(
            "2",
            **{
                "hidden_units": [2],
                "feature_columns": [],
                "activation_fn": None,
                "dropout": None,
                "batch_norm": False,
                **({"input_layer_partitioner": None} if made is canned.v1 else {}),
            },
        ),
    ],
    ids=["linear", "dnn"],
)
def test_units_must_be_an_int(generation, build):
    """A number of logits that is no int is refused."""
    with pytest.raises(ValueError, match="units must be an int"):
        build(generation.classes)
