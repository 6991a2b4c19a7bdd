# SPDX-License-Identifier: Apache-2.0
"""Keras models of canned estimators predict, evaluate and train as the estimators."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
from estimator_spec import canned, heads
from estimator_spec.convert import to_keras
from estimator_spec.core.common.legacy_keras import keras_2
from estimator_spec.heads.first_generation import contrib as v1_heads

pytest.importorskip("keras_rs", reason="needs the extra keras-rs")

tf1 = tf.compat.v1
fc = tf.feature_column
V1, V2 = canned.v1, estimator_spec
SIZE = 48


def words():
    """Returns the categorical column of the words."""
    return fc.categorical_column_with_hash_bucket("word", 5)


def wide():
    """Returns columns of linear models."""
    return [words(), fc.numeric_column("x"), fc.crossed_column(["word", "tag"], 7)]


def deep():
    """Returns columns of deep models."""
    buckets = fc.bucketized_column(fc.numeric_column("x"), [0.0])
    return [buckets, fc.embedding_column(words(), 2), fc.numeric_column("x")]


def features():
    """Returns examples."""
    random = np.random.RandomState(0)
    return {
        "word": random.choice(["ant", "bee", "cow", ""], SIZE),
        "tag": random.choice(["x", "y"], SIZE),
        "x": random.normal(size=SIZE).astype(np.float32),
        "weight": random.uniform(0.5, 2.0, SIZE).astype(np.float32),
    }


IDS = (features()["x"] > 0).astype(np.int64)
NAMES = np.where(IDS == 1, "yes", "no")
BOTH = {"linear_feature_columns": wide(), "dnn_feature_columns": deep(), "dnn_hidden_units": [4, 3]}
DEEP = {"feature_columns": deep(), "hidden_units": [4]}
WIDE = {"feature_columns": wide()}


def squared_hinge(logits, labels):
    """Returns a loss of a program: the order of the arguments doesn't matter."""
    return tf.square(tf.nn.relu(1.0 - (2.0 * labels - 1.0) * logits))


def of_classes(labels, logits, loss_reduction):
    """Returns a loss of classes, which are integers."""
    assert loss_reduction == "sum"
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels[:, 0], logits)[:, None] * 2.0


def heads_of_several(weights=None):
    """Returns a head of three objectives, of which one has weights of examples."""
    return heads.MultiHead(
        [
            heads.RegressionHead(2, name="size"),
            heads.BinaryClassHead(
                weight_column="weight", label_vocabulary=["no", "yes"], name="sold"
            ),
            heads.MultiClassHead(3, name="kind"),
        ],
        weights,
    )


SEVERAL = {
    "size": np.stack([features()["x"], IDS], 1).astype(np.float32),
    "sold": NAMES,
    "kind": IDS + 1,
}

CASES = {
    "combined": (
        lambda: V2.DNNLinearCombinedClassifier(
            **BOTH, weight_column="weight", label_vocabulary=["no", "yes"]
        ),
        NAMES,
    ),
    "combined of the first generation": (
        lambda: V1.DNNLinearCombinedClassifier(
            **BOTH, weight_column=fc.numeric_column("weight", normalizer_fn=lambda x: x + 1.0)
        ),
        IDS,
    ),
    "classes": (
        lambda: V1.DNNClassifier(
            **DEEP, n_classes=3, batch_norm=True, optimizer="Adam", activation_fn=tf.nn.tanh
        ),
        IDS + 1,
    ),
    "several numbers": (
        lambda: V2.LinearRegressor(
            **WIDE, label_dimension=2, loss_reduction="sum", sparse_combiner="mean"
        ),
        np.stack([features()["x"], IDS], 1).astype(np.float32),
    ),
    "weighted mean": (
        lambda: V1.LinearRegressor(
            **WIDE,
            weight_column="weight",
            loss_reduction=tf1.losses.Reduction.MEAN,
            optimizer=lambda: tf1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
        ),
        features()["x"],
    ),
    "baseline": (lambda: V2.BaselineClassifier(n_classes=3), IDS),
    "baseline of the first generation": (lambda: V1.BaselineRegressor(), features()["x"]),
    "counts": (
        lambda: V2.DNNEstimator(
            heads.PoissonRegressionHead(),
            **DEEP,
            optimizer=keras_2().optimizers.legacy.SGD(0.01, momentum=0.5),
        ),
        np.array([0, 1, 2, 5] * (SIZE // 4)),
    ),
    "momentum": (
        lambda: V1.DNNRegressor(
            **DEEP, optimizer=tf1.train.MomentumOptimizer(0.0005, 0.9, use_nesterov=True)
        ),
        features()["x"],
    ),
    "a probability": (
        lambda: V2.LinearEstimator(heads.LogisticRegressionHead(), **WIDE),
        IDS.astype(np.float32),
    ),
    "several heads": (lambda: V2.DNNEstimator(heads_of_several([0.5, 2.0, 1.0]), **DEEP), SEVERAL),
    "several linear heads": (lambda: V2.LinearEstimator(heads_of_several(), **WIDE), SEVERAL),
    "several heads of the first generation": (
        lambda: V1.DNNLinearCombinedEstimator(
            v1_heads.multi_head(
                [v1_heads.regression_head(name="size"), v1_heads.multi_class_head(3, name="kind")],
                head_weights=[0.5, 3.0],
            ),
            **BOTH,
        ),
        {"size": features()["x"], "kind": IDS + 1},
    ),
    "a loss of its own": (
        lambda: V2.LinearEstimator(
            heads.BinaryClassHead(loss_fn=squared_hinge, weight_column="weight"), **WIDE
        ),
        IDS,
    ),
    "a loss of classes": (
        lambda: V2.DNNEstimator(
            heads.MultiClassHead(3, loss_fn=of_classes, loss_reduction="sum"), **DEEP
        ),
        IDS + 1,
    ),
    "a link": (
        lambda: V2.LinearEstimator(heads.RegressionHead(inverse_link_fn=tf.exp), **WIDE),
        features()["x"],
    ),
    "labels": (
        lambda: V2.LinearEstimator(heads.MultiLabelHead(3, thresholds=[0.4]), **WIDE),
        np.stack([IDS, 1 - IDS, IDS], 1),
    ),
}


def dataset(labels):
    """Returns the examples in batches."""
    return tf.data.Dataset.from_tensor_slices((features(), labels)).batch(16)


@pytest.mark.parametrize("case", CASES)
def test_an_estimator_goes_on_in_keras(case):
    """Predictions, loss and metrics are the same, also after more steps from the checkpoint."""
    make, labels = CASES[case]
    estimator = make()
    estimator.train(lambda: dataset(labels).repeat(), steps=5)
    model = to_keras(estimator)
    assert model.conversion.variables
    for more in (0, 12):
        if more:
            estimator.train(lambda: dataset(labels).repeat(), steps=more)
            batches = dataset(labels).repeat().map(model.training_batch)
            model.fit(batches, steps_per_epoch=more, verbose=0)
        expected = list(estimator.predict(lambda: dataset(labels)))
        found = model.predictions(features())
        assert len(found) == len(expected[0])
        for key in expected[0]:
            # The estimator has tuples for the names of several heads.
            value = found["/".join(key) if isinstance(key, tuple) else key]
            old = np.array([prediction[key] for prediction in expected])
            if old.dtype.kind == "f":
                np.testing.assert_allclose(value, old, rtol=1e-4, atol=1e-5 if more else 1e-6)
            else:
                np.testing.assert_array_equal(np.asarray(value), old)
    check_metrics(estimator.evaluate(lambda: dataset(labels)), model, labels)


def check_metrics(expected, model, labels):
    """Compares the metrics of an evaluation; the names of Keras' begin with their output."""
    batches = dataset(labels).map(model.training_batch)
    found = model.evaluate(batches, return_dict=True, verbose=0)
    by_name = {name: value for name, value in found.items() if name in expected}
    for name, value in found.items():  # of a model with several outputs
        for output in model.core.output:
            if name == f"{output}_loss" and "/" in output:
                by_name[f"loss/{output.partition('/')[0]}"] = value
            elif name.startswith(f"{output}_"):
                by_name[name.removeprefix(f"{output}_")] = value
    assert by_name.keys() == expected.keys() - {"global_step"}
    for name in sorted(by_name):
        tolerance = 2e-2 if name == "auc_precision_recall" else 1e-3
        np.testing.assert_allclose(
            by_name[name], expected[name], rtol=tolerance, atol=1e-6, err_msg=name
        )


def test_predictions_compiled_by_xla():
    """A model of all kinds of lookups compiles, and predicts the same several batches at a time."""
    keras = pytest.importorskip("keras")
    estimator = V2.DNNLinearCombinedClassifier(n_classes=3, **BOTH)
    estimator.train(lambda: dataset(IDS + 1), steps=5)
    model = to_keras(estimator)
    fast = keras.Model(model.core.input, model.core.output)
    fast.compile(jit_compile=True, steps_per_execution=2)
    found = fast.predict(dataset(IDS).map(lambda x, _: model.preprocess(x)), verbose=0)
    for name, expected in model.core(model.preprocess(features())).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-6)


def test_dropout_and_other_layers():
    """Hidden layers have their dropout, and activations their names."""
    for function, name in ((tf.nn.leaky_relu, "leaky_relu"), (tf1.nn.tanh, "tanh")):
        estimator = V2.DNNRegressor(**DEEP, dropout=0.3, activation_fn=function)
        estimator.train(lambda: dataset(features()["x"]), steps=1)
        core = to_keras(estimator).core
        assert [each.rate for each in core.layers if hasattr(each, "rate")] == [0.3]
        assert core.get_layer("hiddenlayer_0").activation.__name__ == name


class OwnHead(heads.RegressionHead):
    """A head of a program."""


REFUSED = {
    "a loss of the features": (
        lambda: V2.LinearEstimator(
            heads.BinaryClassHead(loss_fn=lambda labels, logits, features: logits - labels), **WIDE
        ),
        "loss_fn of the BinaryClassHead takes the features",
    ),
    "a link of its own": (
        lambda: V2.LinearEstimator(heads.RegressionHead(inverse_link_fn=lambda x: x + 1), **WIDE),
        "inverse_link_fn",
    ),
    "a head of its own": (
        lambda: V2.LinearEstimator(
            heads.MultiHead([heads.RegressionHead(name="a"), OwnHead(name="b")]), **WIDE
        ),
        "OwnHead has no counterpart",
    ),
    "an activation": (lambda: V2.DNNClassifier(**DEEP, activation_fn=tf.nn.crelu), "activation_fn"),
    "an own activation": (
        lambda: V2.DNNClassifier(**DEEP, activation_fn=lambda x: x),
        "activation_fn",
    ),
    "no training": (lambda: V2.LinearRegressor(**WIDE), "checkpoint"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    """What has no counterpart is named, with what to do."""
    make, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        to_keras(make())


def test_a_layer_of_an_estimator_is_refused(tmp_path):
    """Only columns are put into a layer of choice."""
    with pytest.raises(ValueError, match="layer='input_layer'"):
        to_keras(V2.LinearRegressor(**WIDE), layer="input_layer")


def test_an_optimizer_without_a_counterpart_is_named():
    """An optimizer with another rule is a difference."""
    estimator = V1.LinearRegressor(**WIDE, optimizer=tf1.train.ProximalAdagradOptimizer(0.1))
    estimator.train(lambda: dataset(features()["x"]), steps=1)
    model = to_keras(estimator)
    found = [d for d in model.conversion.differences if d.column == "the optimizer of linear"]
    assert found[0].what == "rule"


class Losses(tf1.train.SessionRunHook):
    """Remembers the losses of steps."""

    def __init__(self):
        self.values = []

    def before_run(self, run_context):
        return tf1.train.SessionRunArgs(tf1.get_collection(tf1.GraphKeys.LOSSES)[-1])

    def after_run(self, run_context, run_values):
        self.values.append(float(run_values.results))


@pytest.mark.nightly("200 steps, of which 12 are with every change")
@pytest.mark.parametrize("generation", [V1, V2], ids=["v1", "v2"])
@pytest.mark.parametrize("optimizer", ["Adagrad", "Adam", "SGD"])
def test_two_hundred_more_steps(generation, optimizer):
    """Losses of 200 steps from the checkpoint are the same to 1e-4, for the rules that are."""
    estimator = generation.DNNLinearCombinedClassifier(**BOTH, dnn_optimizer=optimizer)
    estimator.train(lambda: dataset(IDS).repeat(), steps=5)
    model = to_keras(estimator)
    losses = Losses()
    estimator.train(lambda: dataset(IDS).repeat(), steps=200, hooks=[losses])
    batches = dataset(IDS).repeat().map(model.training_batch).take(200)
    found = [model.train_on_batch(x, y, return_dict=True)["loss"] for x, y in once(model, batches)]
    assert len(found) == len(losses.values) == 200
    np.testing.assert_allclose(found, losses.values, rtol=1e-4, atol=1e-4)


def once(model, batches):
    """Yields batches; the loss of each is its own, and no mean of those so far."""
    for batch in batches:
        model.reset_metrics()
        yield batch
