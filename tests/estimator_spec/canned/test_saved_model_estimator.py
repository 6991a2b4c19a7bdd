# SPDX-License-Identifier: Apache-2.0
"""What estimators of SavedModels refuse, and exports of them.

`tests/reference/test_saved_models.py` compares them with TensorFlow 2.15.1's.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
from estimator_spec import ModeKeys
from estimator_spec.experimental import SavedModelEstimator

tf1 = tf.compat.v1

DATA = {"x": np.arange(6, dtype=np.float32)[:, np.newaxis]}, np.arange(6, dtype=np.float32)


def model_fn(features, labels, mode):
    """Multiplies x by a weight."""
    weight = tf1.get_variable("weight", (), initializer=tf1.constant_initializer(0.5))
    outputs = weight * features["x"][:, 0]
    if mode == ModeKeys.PREDICT:
        return es.EstimatorSpec(mode, predictions={"y": outputs})
    loss = tf.reduce_mean(tf.square(outputs - labels))
    optimizer = tf1.train.GradientDescentOptimizer(0.01)
    train_op = optimizer.minimize(loss, tf1.train.get_global_step())
    metrics = {"error/absolute": tf1.metrics.mean_absolute_error(labels, outputs)}
    return es.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def input_fn():
    """Returns one batch of features and labels."""
    return tf.data.Dataset.from_tensors(DATA)


def endless_fn():
    """Returns that batch without end."""
    return input_fn().repeat()


def features_fn():
    """Returns features."""
    return tf.data.Dataset.from_tensors(DATA[0])


@pytest.fixture
def trained(tmp_path):
    """Returns an estimator that was trained for a step."""
    return es.Estimator(model_fn, str(tmp_path / "model")).train(input_fn, steps=1)


def receivers():
    """Returns the receivers of training and evaluation, and of predictions."""
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [None, 1], "x")
        label = tf1.placeholder(tf.float32, [None], "label")
        supervised = es.build_raw_supervised_input_receiver_fn({"x": x}, label)
        serving = es.build_raw_serving_input_receiver_fn({"x": x})
    return {ModeKeys.TRAIN: supervised, ModeKeys.EVAL: supervised, ModeKeys.PREDICT: serving}


@pytest.fixture
def exported(tmp_path, trained):
    """Returns the directory of a SavedModel of all modes."""
    path = trained.experimental_export_all_saved_models(str(tmp_path / "all"), receivers())
    return path.decode()


def test_it_goes_on(tmp_path, trained, exported):
    """Training goes on at the SavedModel's step, and the next one at its own checkpoint."""
    again = SavedModelEstimator(exported, tmp_path / "again")
    assert again.latest_checkpoint() == f"{exported}/variables/variables"
    before = again.evaluate(input_fn)
    theirs = trained.evaluate(input_fn)
    assert before == {
        "loss": theirs["loss"],
        "metrics/error/absolute": theirs["error/absolute"],
        "global_step": 1,
    }
    assert [p["y"] for p in again.predict(features_fn)] == [
        p["y"] for p in trained.predict(features_fn)
    ]
    again.train(endless_fn, steps=2)
    trained.train(endless_fn, steps=2)
    assert again.get_variable_value("weight") == trained.get_variable_value("weight")
    assert SavedModelEstimator(exported, tmp_path / "again").evaluate(input_fn)["global_step"] == 3


def test_an_export_of_an_export(tmp_path, trained, exported):
    """All modes are exported anew, and trained from there."""
    again = SavedModelEstimator(exported, tmp_path / "again")
    path = again.experimental_export_all_saved_models(tmp_path / "all again", receivers())
    third = SavedModelEstimator(path.decode(), tmp_path / "third").train(input_fn, steps=1)
    trained.train(input_fn, steps=1)
    assert third.get_variable_value("weight") == trained.get_variable_value("weight")


def test_modes_that_are_missing(tmp_path, trained):
    """An export for serving can't train: the error names the function that exports all modes."""
    path = trained.export_saved_model(str(tmp_path / "one"), receivers()[ModeKeys.PREDICT])
    again = SavedModelEstimator(path.decode(), tmp_path / "again")
    assert len(list(again.predict(features_fn))) == 6
    with pytest.raises(RuntimeError, match="train mode is not available.*export_all_saved_models"):
        again.train(input_fn, steps=1)


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ({"z": DATA[0]["x"]}, r'Key "x" not found in features or labels .*All required.*\[\'x\'\]'),
        (
            {"x": np.zeros((6, 1))},
            "validation failed for input x: .*Expected dtype: float32, Got: float64",
        ),
        (
            {"x": np.zeros((6, 2), np.float32)},
            r"validation failed for input x: .*Expected shape: .*, Got: \(6, 2\)",
        ),
    ],
)
def test_features_that_do_not_fit(tmp_path, exported, features, words):
    """Missing features, dtypes and shapes are errors that name the input."""
    again = SavedModelEstimator(exported, tmp_path / "again")
    with pytest.raises(ValueError, match=words):
        next(again.predict(lambda: tf.data.Dataset.from_tensors(features)))


def test_no_saved_model(tmp_path, exported):
    """Another directory, and one without variables, are refused at once."""
    with pytest.raises(OSError, match="nothing"):
        SavedModelEstimator(tmp_path / "nothing")
    tf.io.gfile.rmtree(f"{exported}/variables")
    with pytest.raises(ValueError, match="invalid SavedModel format.*no variables"):
        SavedModelEstimator(exported)


def test_a_global_step_in_the_input(tmp_path, exported):
    """An input_fn that makes a global step collides with the SavedModel's: the error says so."""
    again = SavedModelEstimator(exported, tmp_path / "again")

    def with_step():
        tf1.train.get_or_create_global_step()
        return input_fn()

    with pytest.raises(RuntimeError, match="must not contain a global step"):
        again.train(with_step, steps=1)
