# SPDX-License-Identifier: Apache-2.0
"""Keras layers in graph-mode models, and the choice of the Keras that can build them."""

from __future__ import annotations

import os
import subprocess
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
from estimator_spec.core.common import legacy_keras

tf1 = tf.compat.v1

# The layers of Keras 2: TensorFlow's own up to 2.15, tf_keras later.
keras = tf.keras


def model_fn(features, labels, mode, params):
    """A layer, batch normalization and dropout, with their update ops."""
    training = mode == "train"
    hidden = keras.layers.Dense(
        4, activation="tanh", kernel_initializer=keras.initializers.GlorotUniform(seed=5)
    )(features["x"])
    normalize = keras.layers.BatchNormalization(momentum=0.8)
    hidden = normalize(hidden, training=training)
    initializer = tf1.glorot_uniform_initializer(seed=6)
    y = tf1.layers.dense(hidden, 1, kernel_initializer=initializer, name="head")
    if mode == "infer":
        return es.TPUEstimatorSpec(mode, predictions={"y": y})
    loss = tf1.losses.mean_squared_error(labels, y)
    mean = keras.metrics.Mean(name="mean_label")
    mean.update_state(labels)
    optimizer = tf1.train.AdamOptimizer(0.05)
    with tf.control_dependencies(normalize.get_updates_for(None) or normalize.updates):
        train_op = optimizer.minimize(loss, global_step=tf1.train.get_global_step())
    return es.EstimatorSpec(
        mode, loss=loss, train_op=train_op, eval_metric_ops={"mean_label": mean}
    )


def test_keras_layers(make, line, tmp_path):
    """Layers train, their variables and moving averages are saved, evaluated and served."""
    estimator = make(model_fn)
    estimator.train(line.input_fn, steps=100)
    names = set(estimator.get_variable_names())
    assert {
        "dense/kernel",
        "dense/bias",
        "batch_normalization/gamma",
        "batch_normalization/moving_mean",
        "head/kernel",
    } <= names
    assert np.abs(estimator.get_variable_value("batch_normalization/moving_mean")).sum() > 0
    result = estimator.evaluate(line.input_fn)
    assert result["mean_label"] == pytest.approx(1.0, abs=1e-5)
    assert result["loss"] < 2.0
    predictions = np.array([p["y"] for p in estimator.predict(line.input_fn)])
    receiver = es.build_raw_serving_input_receiver_fn({"x": tf.zeros([1, 1])})
    path = estimator.export_saved_model(tmp_path / "export", receiver)
    served = tf.saved_model.load(path.decode()).signatures["serving_default"]
    np.testing.assert_allclose(served(x=tf.constant(line.x))["y"], predictions, rtol=1e-4)


SCRIPT = """
import os
os.environ.pop("TF_USE_LEGACY_KERAS", None)
{before}
import tensorflow as tf
from estimator_spec.core.common import legacy_keras
{first}
chosen = legacy_keras.select_legacy_keras()
print(chosen, os.environ.get("TF_USE_LEGACY_KERAS"), tf.keras.layers.Dense.__module__.split(".")[0])
"""


def choose(before="", first=""):
    """What `prefer()` does in a process of its own: result, variable, package of a layer."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(before=before, first=first)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split()


NEW = tuple(map(int, tf.__version__.split(".")[:2])) >= (2, 16)


@pytest.mark.slow
@pytest.mark.skipif(not NEW, reason="TensorFlow 2.15 has Keras 2 only")
@pytest.mark.parametrize(
    "before, first, expected",
    [
        ("", "", ["True", "1", "tf_keras"]),
        ("", "tf.keras.layers", ["False", "None", "keras"]),
        ('os.environ["TF_USE_LEGACY_KERAS"] = "0"', "", ["False", "0", "keras"]),
        ('os.environ["TF_USE_LEGACY_KERAS"] = "1"', "", ["False", "1", "tf_keras"]),
        ('import sys; sys.modules["tf_keras"] = None', "", ["False", "None", "keras"]),
    ],
)
def test_the_choice(before, first, expected):
    """Keras 2 is chosen only if nobody chose, nothing was loaded, and it is there."""
    assert choose(before, first) == expected


@pytest.mark.slow
@pytest.mark.skipif(NEW, reason="for TensorFlow 2.15")
def test_no_choice_before_2_16():
    """TensorFlow 2.15 has the right Keras itself, and the variable would break it."""
    assert choose()[:2] == ["False", "None"]


@pytest.mark.parametrize(
    ("found", "words"),
    [(None, r"pip install 'tf_keras==2\.\d+\.\*'"), (object(), "variable TF_USE_LEGACY_KERAS=1")],
)
def test_an_error_of_keras_3_says_what_to_do(monkeypatch, found, words):
    """A `model_fn` that needs Keras 2 fails with how to get it, or how to choose it."""

    def model_fn(features, labels, mode):
        raise AttributeError("`dense` is not available with Keras 3.")

    def input_fn():
        return tf.data.Dataset.from_tensors(({"x": [1.0]}, [1.0]))

    estimator = es.Estimator(model_fn)
    machinery = types.SimpleNamespace(find_spec=lambda name: found)
    monkeypatch.setattr(legacy_keras, "importlib", types.SimpleNamespace(util=machinery))
    with pytest.raises(AttributeError, match=f"`dense` is not available with Keras 3. .*{words}"):
        estimator.train(input_fn, steps=1)
