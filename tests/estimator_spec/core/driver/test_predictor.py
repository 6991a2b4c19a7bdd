# SPDX-License-Identifier: Apache-2.0
"""Predictors of SavedModels and estimators, as `tensorflow.contrib.predictor` had them."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
from estimator_spec import canned
from estimator_spec.core.driver import predictor

tf1 = tf.compat.v1

X = np.float32([[1, 2], [3, 4], [5, 6]])


@pytest.fixture
def trained(tmp_path):
    """Returns a classifier of the first generation after two steps."""
    columns = [tf.feature_column.numeric_column("x", [2])]
    classifier = canned.v1.DNNClassifier([3], columns, str(tmp_path / "model"))
    return classifier.train(lambda: tf.data.Dataset.from_tensors(({"x": X}, [0, 1, 1])), steps=1)


def raw_receiver():
    """Returns a receiver of raw features."""
    inputs = {"x": tf1.placeholder(tf.float32, [None, 2])}
    return es.ServingInputReceiver(inputs, inputs)


def probabilities(trained):
    """Returns what the estimator predicts."""
    found = trained.predict(lambda: tf.data.Dataset.from_tensors({"x": X}))
    return np.stack([each["probabilities"] for each in found])


def test_of_an_estimator(trained):
    """It computes the estimator's predictions of the latest checkpoint, by the inputs' names."""
    predict = predictor.from_estimator(trained, raw_receiver, output_key="predict")
    np.testing.assert_allclose(predict({"x": X})["probabilities"], probabilities(trained))
    assert set(predict.feed_tensors) == {"x"}
    assert "logits" in predict.fetch_tensors
    assert predict.session.graph is predict.graph
    assert repr(predict).startswith("CoreEstimatorPredictor with feed tensors {'x'")
    predict.session.close()


def test_of_a_saved_model(tmp_path, trained):
    """Signatures by name or as a protocol buffer, and names of tensors, give the same."""
    path = trained.export_saved_model(tmp_path, raw_receiver).decode()
    predict = predictor.from_saved_model(path, "predict")
    np.testing.assert_allclose(predict({"x": X})["probabilities"], probabilities(trained))
    with tf1.Session(graph=tf.Graph()) as session:
        signature = tf1.saved_model.load(session, ["serve"], path).signature_def["predict"]
    graph = tf.Graph()
    second = predictor.from_saved_model(path, signature_def=signature, tags="serve", graph=graph)
    assert second.graph is graph
    names = [{"a": each["x"].name} for each in (signature.inputs,)]
    names.append({"b": signature.outputs["probabilities"].name})
    third = predictor.from_saved_model(path, input_names=names[0], output_names=names[1])
    np.testing.assert_array_equal(second({"x": X})["probabilities"], third({"a": X})["b"])


def test_wrong_keys(tmp_path, trained):
    """Keys of inputs, outputs and signatures that there aren't are named with those there are."""
    with pytest.raises(KeyError, match=r"output_key must be one of .*'predict'.*got other"):
        predictor.from_estimator(trained, raw_receiver, output_key="other")
    predict = predictor.from_estimator(trained, raw_receiver, output_key="predict")
    with pytest.raises(ValueError, match=r"unexpected keys in input_dict: \['y'\]\nexpected: "):
        predict({"x": X, "y": X})
    path = trained.export_saved_model(tmp_path, raw_receiver).decode()
    with pytest.raises(ValueError, match=r'signature_def_key "other". Available .*predict'):
        predictor.from_saved_model(path, "other")
    with pytest.raises(ValueError, match="must both be specified or both"):
        predictor.from_saved_model(path, input_names={"x": "x:0"})
    with pytest.raises(ValueError, match="at most one of signature_def_key OR"):
        predictor.from_saved_model(path, "predict", input_names={}, output_names={})
    with pytest.raises(RuntimeError, match="train"):
        predictor.from_saved_model(path, tags="train,gpu")


def test_a_classification_takes_examples(trained):
    """The default signature of a classifier takes serialized examples, as in TensorFlow 1."""
    with pytest.raises(ValueError, match="single tensor input of type tf.string"):
        predictor.from_estimator(trained, raw_receiver)
    columns = [tf.feature_column.numeric_column("x", [2])]
    spec = tf.feature_column.make_parse_example_spec(columns)
    receiver = es.build_parsing_serving_input_receiver_fn(spec)
    example = tf.train.Example()
    example.features.feature["x"].float_list.value.extend(X[1])
    found = predictor.from_estimator(trained, receiver)({"inputs": [example.SerializeToString()]})
    np.testing.assert_allclose(found["scores"][0], probabilities(trained)[1], rtol=1e-6)


def test_sparse_inputs(tmp_path):
    """Sparse inputs are fed as SparseTensorValues; TensorFlow 1's predictor failed."""

    def model_fn(features, labels, mode):
        total = tf.sparse.reduce_sum(features["x"], 1)
        return es.EstimatorSpec(mode, predictions={"sum": total})

    def receiver():
        inputs = {"x": tf1.sparse_placeholder(tf.float32, [None, 2])}
        return es.ServingInputReceiver(inputs, inputs)

    estimator = es.Estimator(model_fn, str(tmp_path))
    predict = predictor.from_estimator(estimator, receiver)
    values = tf1.SparseTensorValue([[0, 0], [1, 1]], [2.0, 3.0], [2, 2])
    assert predict({"x": values})["sum"].tolist() == [2, 3]


def test_other_estimators(trained):
    """An object that is no estimator is refused."""
    with pytest.raises(TypeError, match=r"tf.estimator.Estimator, but got type builtins.dict"):
        predictor.from_estimator({}, raw_receiver)
