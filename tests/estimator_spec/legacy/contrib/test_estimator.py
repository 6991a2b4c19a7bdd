# SPDX-License-Identifier: Apache-2.0
"""`tensorflow.contrib.estimator`: clipped gradients, forwarded features, exports of modes."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
from estimator_spec.legacy.contrib import estimator as contrib_estimator

tf1 = tf.compat.v1


def input_fn():
    """Returns six examples in two batches, with a key and a sparse feature."""
    features = {"x": [[float(i)] for i in range(6)], "key": [[f"k{i}"] for i in range(6)]}
    dataset = tf.data.Dataset.from_tensor_slices((features, [[1.0]] * 6)).batch(3)

    def with_tags(features, labels):
        sparse = tf.SparseTensor([[0, 0], [2, 1]], ["a", "b"], [3, 2])
        return {**features, "tags": sparse}, labels

    return dataset.map(with_tags)


def model_fn(features, labels, mode, params):
    """Predicts x times one number."""
    y = features["x"] * tf1.get_variable("w", [], initializer=tf1.ones_initializer())
    predictions = {"y": y}
    if mode == "infer":
        return estimator_spec.EstimatorSpec(
            mode, predictions, export_outputs=params["outputs"](predictions)
        )
    loss = tf1.losses.mean_squared_error(labels, y)
    train_op = params["optimizer"]().minimize(loss, tf1.train.get_global_step())
    return estimator_spec.EstimatorSpec(mode, predictions, loss, train_op)


@pytest.fixture
def make(tmp_path):
    """Returns a function that makes an estimator."""

    def estimator(outputs=lambda predictions: None, optimizer=lambda: None):
        params = {"outputs": outputs, "optimizer": optimizer}
        return estimator_spec.Estimator(model_fn, tmp_path / "model", params=params)

    return estimator


def step_of(optimizer, gradients):
    """Applies constant gradients to variables of ones; returns variables, and all by name."""
    with tf.Graph().as_default(), tf1.Session() as session:
        variables = [
            tf1.get_variable(f"v{i}", initializer=tf.ones(g.shape)) for i, g in enumerate(gradients)
        ]
        loss = tf.add_n([tf.reduce_sum(v * g) for v, g in zip(variables, gradients, strict=True)])
        train_op = optimizer.minimize(loss)
        session.run(tf1.global_variables_initializer())
        session.run(train_op)
        names = sorted(variable.op.name for variable in tf1.global_variables())
        return session.run(variables), names


GRADIENTS = [np.array([3.0, 0.0], np.float32), np.array([4.0], np.float32)]


def test_gradients_are_clipped_by_their_common_norm():
    """Gradients of norm 5 are scaled to norm 1 together; smaller ones stay."""
    sgd = tf1.train.GradientDescentOptimizer
    clipped, _ = step_of(contrib_estimator.clip_gradients_by_norm(sgd(1.0), 1.0), GRADIENTS)
    np.testing.assert_allclose(clipped[0], [1 - 0.6, 1.0], rtol=1e-6)
    np.testing.assert_allclose(clipped[1], [1 - 0.8], rtol=1e-6)
    free, _ = step_of(contrib_estimator.clip_gradients_by_norm(sgd(1.0), 9.0), GRADIENTS)
    np.testing.assert_allclose(free[0], [-2.0, 1.0], rtol=1e-6)


def test_clipping_adds_no_variables():
    """Slot variables have the names that they have without clipping."""
    _, plain = step_of(tf1.train.AdamOptimizer(0.1), GRADIENTS)
    adam = tf1.train.AdamOptimizer(0.1)
    _, clipped = step_of(contrib_estimator.clip_gradients_by_norm(adam, 1.0), GRADIENTS)
    assert clipped == plain and "v0/Adam_1" in plain


def test_variables_without_gradients_are_accepted():
    """A variable that the loss doesn't depend on is left alone."""
    with tf.Graph().as_default():
        used, unused = tf1.get_variable("a", []), tf1.get_variable("b", [])
        optimizer = contrib_estimator.clip_gradients_by_norm(
            tf1.train.GradientDescentOptimizer(0.1), 1.0
        )
        pairs = optimizer.compute_gradients(used * 2.0, [used, unused])
        assert optimizer.apply_gradients(pairs) is not None


def test_a_feature_is_forwarded(make):
    """Predictions have the feature under its name, for each example."""
    estimator = contrib_estimator.forward_features(make(), "key")
    rows = list(estimator.predict(input_fn))
    assert [row["key"][0] for row in rows] == [b"k0", b"k1", b"k2", b"k3", b"k4", b"k5"]
    assert [float(row["y"][0]) for row in rows] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_sparse_features_become_dense(make):
    """All features are forwarded without keys; sparse ones need a default."""
    estimator = contrib_estimator.forward_features(make(), sparse_default_values={"tags": ""})
    rows = list(estimator.predict(input_fn))
    assert sorted(rows[0]) == ["key", "tags", "x", "y"]
    assert rows[2]["tags"].tolist() == [b"", b"b"]
    with pytest.raises(ValueError, match="Feature should be a Tensor.*sparse_default_values"):
        next(contrib_estimator.forward_features(make()).predict(input_fn))


def test_the_default_signature_has_the_feature(make, tmp_path):
    """An exported model returns the feature beside the predictions; other outputs stay."""

    def outputs(predictions):
        y = predictions["y"]
        return {
            "serving_default": estimator_spec.PredictOutput(predictions),
            "other": estimator_spec.PredictOutput({"twice": 2.0 * y}),
        }

    def receiver_fn():
        inputs = {
            "x": tf1.placeholder(tf.float32, [None, 1]),
            "key": tf1.placeholder(tf.string, [None, 1]),
        }
        return estimator_spec.ServingInputReceiver(inputs, inputs)

    estimator = make(outputs, lambda: tf1.train.GradientDescentOptimizer(0.0))
    estimator.train(input_fn, steps=1)
    extended = contrib_estimator.forward_features(estimator, ["key"])
    path = extended.export_saved_model(tmp_path / "export", receiver_fn)
    signatures = tf.saved_model.load(path.decode()).signatures
    found = signatures["serving_default"](x=tf.constant([[3.0]]), key=tf.constant([["k"]]))
    assert {name: value.numpy().tolist() for name, value in found.items()} == {
        "y": [[3.0]],
        "key": [[b"k"]],
    }
    assert sorted(signatures["other"].structured_outputs) == ["twice"]


@pytest.mark.parametrize(
    ("keys", "error", "words"),
    [
        ([1], TypeError, "All items in keys should be string"),
        ("label", ValueError, "keys should be exist in features. Key label"),
    ],
)
def test_bad_keys_are_refused(make, keys, error, words):
    """A key that is no string or no feature is refused by name."""
    with pytest.raises(error, match=words):
        next(contrib_estimator.forward_features(make(), keys).predict(input_fn))


def test_a_key_must_not_be_a_prediction(make):
    """A feature with the name of a prediction is refused."""

    def with_y():
        return input_fn().map(lambda features, labels: {**features, "y": labels})

    with pytest.raises(ValueError, match="Key y is already in predictions"):
        next(contrib_estimator.forward_features(make(), "y").predict(with_y))


def test_modes_are_exported(make, tmp_path):
    """The functions write what the methods of the estimator write."""
    receiver = estimator_spec.build_raw_supervised_input_receiver_fn(
        {"x": tf.zeros([1, 1])},
        tf.zeros([1, 1]),
    )
    estimator = make(optimizer=lambda: tf1.train.GradientDescentOptimizer(0.0))
    estimator.train(input_fn, steps=1)
    one = contrib_estimator.export_saved_model_for_mode(
        estimator, tmp_path / "one", receiver, mode="eval"
    )
    both = contrib_estimator.export_all_saved_models(
        estimator, tmp_path / "both", {"eval": receiver, "train": receiver}
    )
    assert tf1.saved_model.contains_saved_model(one.decode())
    for tag in ("eval", "train"):
        with tf1.Session(graph=tf.Graph()) as session:
            assert tf1.saved_model.load(session, [tag], both.decode()).signature_def


def test_both_signatures_of_predictions_have_the_features(tmp_path):
    """Of a canned model `serving_default` is of classes; `predict` has the features."""
    columns = [tf.feature_column.numeric_column("x")]
    classifier = estimator_spec.canned.v1.LinearClassifier(columns, str(tmp_path / "model"))
    data = ({"x": [[1.0], [2.0]], "id": [["a"], ["b"]]}, [[0], [1]])
    classifier.train(lambda: tf.data.Dataset.from_tensors(data))

    def receiver_fn():
        inputs = {
            "x": tf1.placeholder(tf.float32, [None, 1]),
            "id": tf1.placeholder(tf.string, [None, 1]),
        }
        return estimator_spec.ServingInputReceiver(inputs, inputs)

    extended = contrib_estimator.forward_features(classifier, ["id"])
    path = extended.export_saved_model(tmp_path / "export", receiver_fn)
    signatures = tf.saved_model.load(path.decode()).signatures
    found = signatures["predict"](x=tf.constant([[3.0]]), id=tf.constant([["k"]]))
    assert found["id"].numpy().tolist() == [[b"k"]]
    assert "probabilities" in found
