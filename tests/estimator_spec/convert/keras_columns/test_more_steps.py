# SPDX-License-Identifier: Apache-2.0
"""Models train on from an estimator's checkpoint as the estimator: fifty steps, and their slots."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
from estimator_spec import canned
from estimator_spec.convert import to_keras
from estimator_spec.core.common.legacy_keras import keras_2

pytest.importorskip("keras_rs", reason="needs the extra keras-rs")

tf1 = tf.compat.v1
fc = tf.feature_column
V1, V2 = canned.v1, estimator_spec
SIZE = 24
X = np.linspace(-1, 1, SIZE).astype(np.float32)
FEATURES = {
    # Each batch of 8 lacks some words.
    "linear_feet": np.repeat(["a", "b", "", "c"], SIZE // 4),
    "feet": np.repeat(["b", "c", "a"], SIZE // 3),
    "x": X,
}
LABELS = (X * X > 0.2).astype(np.int64)
WORDS = ["a", "b", "c"]


def words(key="linear_feet"):
    """Returns a vocabulary column."""
    return fc.categorical_column_with_vocabulary_list(key, WORDS)


def data():
    """Returns the examples in batches."""
    return tf.data.Dataset.from_tensor_slices((FEATURES, LABELS)).repeat().batch(8)


def shared_words(*arguments, **options):
    """Returns two columns with one table, whose name has no scope in the second generation."""
    with tf.Graph().as_default():
        return fc.shared_embeddings([words("linear_feet"), words("feet")], 2, *arguments, **options)


def clipped(**options):
    """Returns a linear model whose optimizer clips gradients."""
    optimizer = keras_2().optimizers.legacy.SGD(0.5, **options)
    columns = [fc.numeric_column("x"), words(), words("feet")]
    return V2.LinearClassifier(columns, optimizer=optimizer)


def wide_and_deep(generation, dnn_optimizer, linear_optimizer, deep=None):
    """Returns a wide and deep model with columns of the names of wide layers."""
    return generation.DNNLinearCombinedClassifier(
        linear_feature_columns=[words(), fc.numeric_column("x")],
        dnn_feature_columns=deep or [fc.embedding_column(words(), 2)],
        dnn_hidden_units=[4],
        dnn_optimizer=dnn_optimizer,
        linear_optimizer=linear_optimizer,
    )


def schedule():
    """Returns a learning rate that changes."""
    return keras_2().optimizers.schedules.PolynomialDecay(0.5, 30, 0.01)


def decaying_rate():
    """Returns a tensor of a learning rate that changes with the global step."""
    return tf1.train.exponential_decay(0.1, tf1.train.get_global_step(), 10, 0.9)


def legacy(name, *arguments, **options):
    """Returns an optimizer of Keras 2."""
    return getattr(keras_2().optimizers.legacy, name)(*arguments, **options)


def partitioned(pieces):
    """Returns a partitioner."""
    return tf1.fixed_size_partitioner(pieces)


CASES = {
    "a deep key that begins as wide layers do": lambda: wide_and_deep(V2, "SGD", "Ftrl"),
    "a deep numeric key that begins so": lambda: wide_and_deep(
        V1, "Adagrad", "SGD", [fc.indicator_column(words()), fc.embedding_column(words(), 2)]
    ),
    "clipvalue": lambda: clipped(clipvalue=0.01),
    "clipnorm": lambda: clipped(clipnorm=0.01),
    "global_clipnorm": lambda: clipped(global_clipnorm=0.01),
    "a schedule": lambda: wide_and_deep(V2, legacy("Adam", schedule()), "Ftrl"),
    "a rate of the global step": lambda: wide_and_deep(
        V2, lambda: legacy("Adam", decaying_rate()), "Ftrl"
    ),
    "decay": lambda: wide_and_deep(V2, "SGD", lambda: legacy("Adagrad", 0.5, decay=0.1)),
    "rows of RMSprop with momentum": lambda: wide_and_deep(
        V2, legacy("RMSprop", 0.05, momentum=0.5, centered=True), "SGD"
    ),
    "rows of momentum": lambda: wide_and_deep(
        V1, tf1.train.MomentumOptimizer(0.01, 0.9), tf1.train.RMSPropOptimizer(0.01, momentum=0.5)
    ),
    "rows of FTRL": lambda: wide_and_deep(
        V1, "Ftrl", tf1.train.FtrlOptimizer(0.1, l2_shrinkage_regularization_strength=0.1)
    ),
    "names of slots": lambda: wide_and_deep(
        V1,
        tf1.train.AdamOptimizer(0.05, name="Mine"),
        tf1.train.FtrlOptimizer(0.1, accum_name="mine"),
    ),
    "slots of a table without a scope": lambda: V2.DNNClassifier([4], shared_words()),
    "clipped rows": lambda: wide_and_deep(
        V2, legacy("Adam", 0.05), "Ftrl", [fc.embedding_column(words(), 2, max_norm=0.4)]
    ),
    "clipped rows of a shared table": lambda: V2.DNNClassifier(
        [4], shared_words("sqrtn", max_norm=0.4), optimizer=legacy("SGD", 0.1)
    ),
    "partitions of a linear model": lambda: V1.LinearClassifier(
        [words(), words("feet"), fc.numeric_column("x")], partitioner=partitioned(3)
    ),
    "partitions of embeddings": lambda: V1.DNNClassifier(
        [4], [fc.embedding_column(words(), 2)], input_layer_partitioner=partitioned(2)
    ),
    "partitions of both": lambda: V1.DNNLinearCombinedClassifier(
        linear_feature_columns=[words()],
        dnn_feature_columns=[fc.embedding_column(words(), 2)],
        dnn_hidden_units=[4],
        input_layer_partitioner=partitioned(3),
        dnn_optimizer="Adam",
    ),
}
MANY = [pytest.mark.nightly("more models; each argument moves in test_optimizers")]
EVERY_CHANGE = (
    "a deep key that begins as wide layers do",
    "clipvalue",
    "rows of RMSprop with momentum",
    "clipped rows",
    "slots of a table without a scope",
    "partitions of both",
)


def more_steps(estimator):
    """Trains an estimator by 5 steps, moves it and trains both by 50; returns model and logits."""
    estimator.train(data, steps=5)
    model = to_keras(estimator)
    estimator.train(data, steps=50)
    model.fit(data().map(model.training_batch), steps_per_epoch=50, verbose=0)
    expected = [row["logits"] for row in estimator.predict(lambda: data().take(3))]
    return model, model.predictions(FEATURES)["logits"], np.array(expected)


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[] if case in EVERY_CHANGE else MANY) for case in CASES]
)
def test_fifty_more_steps(case):
    """Predictions are the same after fifty more steps, and no slot is missing."""
    model, found, expected = more_steps(CASES[case]())
    differences = model.conversion.differences
    assert [d for d in differences if "no slots" in d.text or d.what in CLIPPING] == []
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5)


CLIPPING = {"clipvalue": 0.003, "clipnorm": 0.02, "global_clipnorm": 0.05}


@pytest.mark.parametrize(
    "argument",
    [pytest.param(name, marks=[] if name == "clipnorm" else MANY, id=name) for name in CLIPPING],
)
def test_clipping_of_a_shared_table(argument):
    """Keras clips the sum of a table's lookups, which is a difference by name and in numbers."""
    optimizer = legacy("SGD", 0.5, **{argument: CLIPPING[argument]})
    seed = V2.RunConfig(tf_random_seed=3)  # with some initial values little is clipped
    estimator = V2.DNNClassifier([4], shared_words(), optimizer=optimizer, config=seed)
    model, found, expected = more_steps(estimator)
    (difference,) = [d for d in model.conversion.differences if d.what == argument]
    assert difference.column == "the optimizer of dnn"
    assert "feet_linear_feet_shared_embedding" in difference.text
    assert np.abs(found - expected).max() > 1e-4


def test_an_optimizer_of_a_namesake():
    """A program's own class that is called as one of TensorFlow isn't taken for that one."""

    class AdamOptimizer(tf1.train.AdamOptimizer):
        """One of a program."""

    estimator = V1.LinearRegressor([fc.numeric_column("x")], optimizer=AdamOptimizer(0.1))
    estimator.train(data, steps=1)
    (difference,) = [
        d for d in to_keras(estimator).conversion.differences if d.column.startswith("the optim")
    ]
    assert difference.what == "rule" and "AdamOptimizer isn't TensorFlow's" in difference.text


def test_no_optimizer_is_chosen_silently():
    """A model whose optimizer has no counterpart evaluates, and trains by one that is chosen."""
    keras = pytest.importorskip("keras")
    estimator = V2.LinearClassifier([fc.numeric_column("x")], optimizer=legacy("Nadam", 0.1))
    estimator.train(data, steps=5)
    model = to_keras(estimator)
    batches = data().take(3).map(model.training_batch)
    expected = estimator.evaluate(lambda: data().take(3))["loss"]
    found = model.evaluate(batches, verbose=0, return_dict=True)["loss"]
    assert found == pytest.approx(expected, 1e-5)
    with pytest.raises(ValueError, match="no optimizer.*set one of your choice"):
        model.fit(batches, verbose=0)
    model.optimizer = keras.optimizers.Adam(0.01)
    losses = model.fit(batches, epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
