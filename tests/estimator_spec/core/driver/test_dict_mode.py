# SPDX-License-Identifier: Apache-2.0
"""Tests dict mode: the activations that the model gets in place of ids, as on a TPU."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import host_runs
from estimator_spec import FeatureConfig, TableConfig
from estimator_spec.core.driver import dict_mode

tf1 = tf.compat.v1

ROWS = np.array([[1, 10], [2, 20], [3, 30], [4, 40]], np.float32)
IDS = [[1, 2, 2], [], [3]]
WEIGHTS = [[1.0, 2.0, -4.0], [], [0.5]]


def table(combiner="mean", **kwargs):
    """Returns a configuration of four rows: (1, 10), (2, 20), (3, 30), (4, 40)."""
    return TableConfig(
        4, 2, initializer=tf1.constant_initializer(ROWS), combiner=combiner, **kwargs
    )


def make_spec(features, tables):
    """Returns an EmbeddingConfigSpec of these dictionaries."""
    return es.EmbeddingConfigSpec(feature_to_config_dict=features, table_to_config_dict=tables)


def sparse(rows, dtype=np.int64):
    """Returns a sparse tensor [B, n] of lists."""
    indices = [[i, j] for i, row in enumerate(rows) for j in range(len(row))]
    values = np.array([value for row in rows for value in row], dtype)
    return tf.SparseTensor(indices, values, [len(rows), max(map(len, rows))])


def run(spec, features):
    """Returns the model's features as arrays, and the names of the variables."""
    with tf.Graph().as_default(), tf1.Session() as session:
        found = dict_mode.look_up(spec, features())
        session.run(tf1.global_variables_initializer())
        return session.run(found), [v.op.name for v in tf1.trainable_variables()]


@pytest.mark.parametrize(
    "combiner, first",
    [
        ("sum", ROWS[1] + 2 * ROWS[2]),
        ("mean", (ROWS[1] + 2 * ROWS[2]) / 3),
        ("sqrtn", (ROWS[1] + 2 * ROWS[2]) / np.sqrt(3)),
        (None, ROWS[1] + 2 * ROWS[2]),
    ],
)
@pytest.mark.parametrize("kind", ["sparse", "ragged"])
def test_pooled(combiner, first, kind):
    """The ids of an example are combined, without a combiner by a sum; no ids give zeros."""

    def features():
        ids = sparse(IDS) if kind == "sparse" else tf.ragged.constant(IDS, dtype=tf.int64)
        return {"word": ids, "other": tf.constant([5.0])}

    found, names = run(
        make_spec({"word": FeatureConfig("words")}, {"words": table(combiner)}), features
    )
    np.testing.assert_allclose(found["word"], [first, [0, 0], ROWS[3]], rtol=1e-6)
    assert sorted(found) == ["other", "word"]
    assert names == ["words"]


@pytest.mark.parametrize(
    "combiner, norm", [("sum", 1), (None, 1), ("mean", -1), ("sqrtn", np.sqrt(21))]
)
def test_weights(combiner, norm):
    """Weights, also negative ones, multiply the rows and are removed from the features."""
    spec = make_spec(
        {"word": FeatureConfig("words", weight_key="weight")}, {"words": table(combiner)}
    )
    found, _ = run(spec, lambda: {"word": sparse(IDS), "weight": sparse(WEIGHTS, np.float32)})
    assert list(found) == ["word"]
    first = (ROWS[1] + 2 * ROWS[2] - 4 * ROWS[2]) / norm
    np.testing.assert_allclose(found["word"][0], first, rtol=1e-6)


def test_integer_weights():
    """Integer weights are cast to float."""
    spec = make_spec({"word": FeatureConfig("words", weight_key="weight")}, {"words": table("sum")})
    found, _ = run(spec, lambda: {"word": sparse(IDS), "weight": sparse([[1, 2, 3], [], [1]])})
    np.testing.assert_allclose(found["word"][0], ROWS[1] + 5 * ROWS[2])


def test_dense_ids_of_several():
    """In dense ids with a combiner, 0 is padding."""
    spec = make_spec({"word": FeatureConfig("words")}, {"words": table("mean")})
    found, _ = run(spec, lambda: {"word": tf.constant([[1, 0, 2], [0, 0, 0], [3, 3, 3]])})
    np.testing.assert_allclose(found["word"], [(ROWS[1] + ROWS[2]) / 2, [0, 0], ROWS[3]])


def test_dense_ids_of_one():
    """In dense ids of width 1 with a combiner, 0 is padding."""
    spec = make_spec({"word": FeatureConfig("words")}, {"words": table("sum")})
    found, _ = run(spec, lambda: {"word": tf.constant([1, 0, 2])})
    np.testing.assert_allclose(found["word"], [ROWS[1], [0, 0], ROWS[2]])


@pytest.mark.parametrize("shape", [[3], [3, 1]])
def test_dense_ids_without_a_combiner(shape):
    """In dense ids without a combiner, 0 is an id."""
    spec = make_spec({"word": FeatureConfig("words")}, {"words": table(None)})
    found, _ = run(spec, lambda: {"word": tf.reshape(tf.constant([1, 0, 2]), shape)})
    np.testing.assert_allclose(found["word"], ROWS[[1, 0, 2]])


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_sequences(kind):
    """A sequence is truncated or padded, and its lengths are added to the features."""
    spec = make_spec({"word": FeatureConfig("words", max_sequence_length=2)}, {"words": table()})
    rows = [[1, 2, 3], [], [3]]
    dense = [[1, 2, 3], [0, 0, 0], [3, 0, 0]]
    found, _ = run(spec, lambda: {"word": sparse(rows) if kind == "sparse" else tf.constant(dense)})
    expected = [[ROWS[1], ROWS[2]], [[0, 0], [0, 0]], [ROWS[3], [0, 0]]]
    np.testing.assert_allclose(found["word"], expected)
    assert found["word_seq_length_"].tolist() == [2, 0, 1]
    assert found["word_seq_length_"].dtype == np.int64


def test_a_shared_table():
    """Two features of one table share its variable."""
    spec = make_spec(
        {"a": FeatureConfig("words"), "b": FeatureConfig("words"), "c": FeatureConfig("other")},
        {"words": table(), "other": table()},
    )
    found, names = run(spec, lambda: {key: tf.constant([1]) for key in "abc"})
    np.testing.assert_array_equal(found["a"], found["b"])
    assert names == ["other", "words"]


def test_the_given_features_stay():
    """The given features aren't modified."""
    spec = make_spec({"word": FeatureConfig("words")}, {"words": table()})
    with tf.Graph().as_default():
        features = {"word": tf.constant([1])}
        before = dict(features)
        dict_mode.look_up(spec, features)
        assert features == before


def test_shapes_are_static():
    """The activations have a static batch size and dimension."""
    spec = make_spec(
        {"word": FeatureConfig("words"), "steps": FeatureConfig("words", max_sequence_length=5)},
        {"words": table()},
    )
    with tf.Graph().as_default():
        ids = tf1.sparse_placeholder(tf.int64, [3, None])
        found = dict_mode.look_up(spec, {"word": ids, "steps": ids})
        assert found["word"].shape == [3, 2]
        assert found["steps"].shape == [3, 5, 2]
        assert found["steps_seq_length_"].shape == [3]


def test_names_that_are_no_scopes():
    """Feature names needn't be valid scope names."""
    spec = make_spec({"my word!": FeatureConfig("words")}, {"words": table()})
    found, _ = run(spec, lambda: {"my word!": tf.constant([1])})
    np.testing.assert_allclose(found["my word!"], [ROWS[1]])


def test_dense_ids_with_weights(tf_log):
    """Weights of dense ids have no effect, as on a TPU, and log a warning."""
    spec = make_spec({"word": FeatureConfig("words", weight_key="weight")}, {"words": table()})
    found, _ = run(spec, lambda: {"word": tf.constant([1]), "weight": tf.constant([9.0])})
    np.testing.assert_allclose(found["word"], [ROWS[1]])
    assert sorted(found) == ["weight", "word"]
    assert any("have no effect" in entry for entry in tf_log)


def test_dense_ids_of_unknown_width_without_a_combiner():
    """Dense ids of unknown width without a combiner raise an error, also with TF1 dimensions."""
    spec = make_spec({"word": FeatureConfig("words")}, {"words": table(None)})
    tf1.disable_v2_tensorshape()
    try:
        with pytest.raises(ValueError, match=r"must have the shape \[B\] or \[B, 1\]"):
            run(spec, lambda: {"word": tf1.placeholder_with_default([[1, 2]], [None, None])})
    finally:
        tf1.enable_v2_tensorshape()


def input_fn(params, mode):
    """Returns batches whose label is the sum of the first column over the ids."""
    ids = np.array([[1, 2], [3, 3], [1, 1], [2, 3]])
    labels = ids.sum(axis=1, keepdims=True).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices((ids, labels)).map(
        lambda ids, label: ({"word": tf.sparse.from_dense(ids)}, label)
    )
    return (data.repeat() if mode == "train" else data).batch(params["batch_size"])


def model_fn(features, labels, mode, params):
    """A model of the embedding alone."""
    output = tf.reduce_sum(features["word"], axis=1, keepdims=True)
    return host_runs.regression(output, labels, mode, tf1.train.GradientDescentOptimizer, 0.3)


@pytest.fixture
def dlrm(make):
    """Makes an estimator in dict mode."""
    zeros = TableConfig(4, 1, initializer=tf1.zeros_initializer(), combiner="sum")
    spec = make_spec({"word": FeatureConfig("words")}, {"words": zeros})
    return make(model_fn, embedding_config_spec=spec, train_batch_size=4, eval_batch_size=4)


def test_training(dlrm, tmp_path):
    """The table is trained by the model's optimizer, saved under its key, and served."""
    dlrm.train(input_fn, steps=200)
    assert dlrm.get_variable_names() == ["global_step", "words"]
    np.testing.assert_allclose(dlrm.get_variable_value("words")[:, 0], [0, 1, 2, 3], atol=0.05)
    assert dlrm.evaluate(input_fn)["loss"] < 0.01
    predictions = [p["output"][0] for p in dlrm.predict(input_fn)]
    np.testing.assert_allclose(predictions, [3, 6, 2, 5], atol=0.2)

    def receiver():
        ids = tf1.sparse_placeholder(tf.int64, [None, None])
        return es.ServingInputReceiver({"word": ids}, {"word": ids})

    path = dlrm.export_saved_model(tmp_path / "export", receiver)
    served = tf.saved_model.load(path.decode()).signatures["serving_default"]
    found = served(
        word_indices=tf.constant([[0, 0], [0, 1], [1, 0], [1, 1]], tf.int64),
        word_values=tf.constant([1, 2, 3, 3], tf.int64),
        word_dense_shape=tf.constant([2, 2], tf.int64),
    )
    np.testing.assert_allclose(found["output"][:, 0], predictions[:2], rtol=1e-5)


def test_a_receiver_named_as_a_table(make, tmp_path):
    """An exported model has its tables even if a placeholder has the name of one."""
    words = TableConfig(4, 1, initializer=tf1.ones_initializer(), combiner="sum")
    spec = make_spec({"word": FeatureConfig("word")}, {"word": words})
    estimator = make(model_fn, embedding_config_spec=spec, train_batch_size=4)
    estimator.train(lambda params: input_fn(params, "train"), steps=1)
    receiver = es.build_raw_serving_input_receiver_fn({"word": tf.zeros([1, 2], tf.int64)})
    path = estimator.export_saved_model(tmp_path / "export", receiver)
    served = tf.saved_model.load(path.decode()).signatures["serving_default"]
    table = estimator.get_variable_value("word")
    found = served(word=tf.constant([[1, 2]], tf.int64))["output"]
    np.testing.assert_allclose(found, [table[1] + table[2]], rtol=1e-6)


@pytest.mark.parametrize("task", ["train", "evaluate", "predict"])
def test_an_id_outside_of_the_table(dlrm, task):
    """The error of an id out of range names the id, the feature and the vocabulary size."""

    def bad(params):
        return tf.data.Dataset.from_tensors(({"word": [[1, 99]]}, [[1.0]])).repeat()

    for kind in (tf.errors.InvalidArgumentError, ValueError):
        with pytest.raises(kind, match="id 99 of feature 'word'.* 4"):
            list(getattr(dlrm, task)(bad))
