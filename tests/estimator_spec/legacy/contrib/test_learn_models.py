# SPDX-License-Identifier: Apache-2.0
"""Canned estimators of `tf.contrib.learn`: names of variables, heads, arguments.

Names are those of TensorFlow 1.15.5, of which a checkpoint is in tests/data/tf1_15_contrib_learn.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from estimator_spec.legacy.contrib.learn import canned, columns, heads
from estimator_spec.legacy.contrib.learn.run_config import RunConfig

tf1 = tf.compat.v1
TF1_MODEL = Path(__file__).parents[3] / "data" / "tf1_15_contrib_learn"
X = np.random.RandomState(0).normal(size=(40, 2))
Y = (X[:, 0] > 0).astype(int)
NUMBERS = [columns.real_valued_column("", 2)]


@pytest.fixture
def config(tmp_path):
    """Returns a seeded configuration."""
    return RunConfig(model_dir=str(tmp_path / "model"), tf_random_seed=1)


def names_without_slots(estimator):
    """Returns the variables of a checkpoint but for the optimizer's."""
    return [name for name in estimator.get_variable_names() if "part_0" not in name]


def test_names_of_a_deep_model(config):
    """Weights, biases, slots and the learning rate have their names in TensorFlow 1.15."""
    model = canned.DNNClassifier([3], NUMBERS, config=config).fit(X, Y, steps=1)
    assert model.get_variable_names() == [
        "dnn/binary_logistic_head/dnn/learning_rate",
        "dnn/hiddenlayer_0/biases",
        "dnn/hiddenlayer_0/biases//hiddenlayer_0/biases/part_0/Adagrad",
        "dnn/hiddenlayer_0/weights",
        "dnn/hiddenlayer_0/weights/hiddenlayer_0/weights/part_0/Adagrad",
        "dnn/logits/biases",
        "dnn/logits/biases/dnn/dnn/logits/biases/part_0/Adagrad",
        "dnn/logits/weights",
        "dnn/logits/weights/nn/dnn/logits/weights/part_0/Adagrad",
        "global_step",
    ]


def test_names_of_combined_models(config):
    """Both parts have the names of their columns; contrib's default counts each step twice."""
    word = columns.sparse_column_with_keys("word", ["a", "b"])
    number = columns.real_valued_column("x")
    model = canned.DNNLinearCombinedRegressor(
        config=config,
        linear_feature_columns=[word, number],
        dnn_feature_columns=[columns.embedding_column(word, 2), number],
        dnn_hidden_units=[3],
    )
    features = {"word": np.array([["a"], ["c"]] * 20), "x": X[:, 0]}
    model.fit(features, X[:, 1], steps=10)
    assert names_without_slots(model) == [
        "dnn/hiddenlayer_0/biases",
        "dnn/hiddenlayer_0/weights",
        "dnn/input_from_feature_columns/word_embedding/weights",
        "dnn/logits/biases",
        "dnn/logits/weights",
        "global_step",
        "linear/bias_weight",
        "linear/word/weights",
        "linear/x/weight",
        "regression_head/dnn/learning_rate",
        "regression_head/linear/learning_rate",
    ]
    assert model.get_variable_value("dnn/hiddenlayer_0/weights").shape == (3, 3)
    # The hook that ends training may read the step between the two counts.
    assert model.get_variable_value("global_step") in (10, 12)
    optimized = [name for name in model.get_variable_names() if "Ftrl_1" in name]
    assert len(optimized) == 3


def test_a_checkpoint_of_tensorflow_1(tmp_path):
    """A deep model that TensorFlow 1.15.5 has trained predicts the same, and trains further."""
    directory = shutil.copytree(TF1_MODEL, tmp_path / "model")
    expected = json.loads((TF1_MODEL / "expected.json").read_text())
    embedded = [
        columns.embedding_column(columns.sparse_column_with_hash_bucket(name, 100), 8)
        for name in ("workclass", "education", "occupation")
    ]
    genders = ["female", "male", "Female", "Male"]
    model = canned.DNNClassifier(
        [20, 10],
        [
            *embedded,
            columns.one_hot_column(columns.sparse_column_with_keys("gender", genders)),
            columns.real_valued_column("age", normalizer=lambda x: (tf1.to_float(x) - 50) / 20),
            columns.real_valued_column("education_num"),
            columns.real_valued_column(
                "hours_per_week", normalizer=lambda x: (tf1.to_float(x) - 35) / 15
            ),
        ],
        optimizer=tf1.train.ProximalAdagradOptimizer(0.1),
        model_dir=str(directory),
    )

    def input_fn():
        values = {name: np.array(value)[:, None] for name, value in expected["features"].items()}
        return tf.data.Dataset.from_tensors((values, np.zeros([5, 1], int)))

    np.testing.assert_allclose(
        list(model.predict_proba(input_fn=input_fn)), expected["probabilities"], rtol=1e-5
    )
    model.fit(input_fn=input_fn, steps=1)
    assert model.get_variable_names() == expected["variables"]
    assert model.get_variable_value("global_step") == 101


def test_a_checkpoint_with_these_names(config):
    """A checkpoint that has the variables' names predicts as its values say."""
    values = {
        "dnn/hiddenlayer_0/weights": [[1.0], [-1.0]],
        "dnn/hiddenlayer_0/biases": [0.5],
        "dnn/logits/weights": [[2.0]],
        "dnn/logits/biases": [1.0],
        "linear//weight": [[3.0], [0.0]],
        "linear/bias_weight": [10.0],
    }
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.train.create_global_step()
        for name, value in values.items():
            tf1.get_variable(name, initializer=value)
        session.run(tf1.global_variables_initializer())
        tf1.train.Saver().save(session, f"{config.model_dir}/model.ckpt", 0)
    model = canned.DNNLinearCombinedRegressor(
        config=config,
        linear_feature_columns=NUMBERS,
        dnn_feature_columns=NUMBERS,
        dnn_hidden_units=[1],
    )
    expected = 2 * np.maximum(X[:, 0] - X[:, 1] + 0.5, 0) + 1 + 3 * X[:, 0] + 10
    np.testing.assert_allclose(model.predict(X, as_iterable=False), expected, rtol=1e-5)


def test_core_columns(config):
    """Columns of tf.feature_column build the layers and names of tf.feature_column."""
    number = [tf.feature_column.numeric_column("x")]
    model = canned.DNNLinearCombinedClassifier(
        config=config,
        linear_feature_columns=number,
        dnn_feature_columns=number,
        dnn_hidden_units=[2],
    ).fit({"x": X[:, 0]}, Y, steps=1)
    assert "linear/linear_model/x/weights" in model.get_variable_names()
    assert "dnn/hiddenlayer_0/weights" in model.get_variable_names()


def test_labels_of_strings(config):
    """label_keys are the classes of labels that are strings, and of predictions."""
    keys = ["no", "yes"]
    labels = np.array(keys)[Y]
    model = canned.LinearClassifier(NUMBERS, config=config, label_keys=keys)
    model.fit(X, labels, steps=40)
    assert model.evaluate(X, labels)["accuracy"] > 0.9
    assert model.predict(X, as_iterable=False).astype(str).tolist()[:5] == [
        keys[int(p[1] > 0.5)] for p in model.predict_proba(X[:5])
    ]


def test_weights_of_examples(config):
    """A training's loss divides the weighted sum by the number of examples, an evaluation's not."""
    x = {"x": np.zeros([4, 1]), "w": np.array([1.0, 0.0, 3.0, 0.0])}
    y = np.array([1.0, 5.0, 2.0, 5.0])
    model = canned.LinearRegressor(
        [columns.real_valued_column("x")], config=config, weight_column_name="w", optimizer="SGD"
    )
    losses = []

    class Losses(tf1.train.SessionRunHook):
        def before_run(self, run_context):
            del run_context
            return tf1.train.SessionRunArgs(tf1.get_collection(tf1.GraphKeys.LOSSES)[-1])

        def after_run(self, run_context, run_values):
            losses.append(float(run_values.results))

    model.fit(x, y, steps=1, monitors=[Losses()])
    assert losses == [pytest.approx((1 + 3 * 4) / 4)]
    bias = model.get_variable_value("linear/bias_weight")[0]
    expected = ((1 - bias) ** 2 + 3 * (2 - bias) ** 2) / 4
    assert model.evaluate(x, y)["loss"] == pytest.approx(expected, rel=1e-5)


def test_several_numbers_and_scores(config):
    """A regression of several numbers predicts one row of scores for each example."""
    model = canned.LinearRegressor(NUMBERS, config=config, label_dimension=2, optimizer="Adam")
    model.fit(X, X, steps=200)
    scores = np.array(list(model.predict(X)))
    assert scores.shape == (40, 2)
    np.testing.assert_allclose(scores, model.predict_scores(X, as_iterable=False))
    assert set(next(model.predict(X, outputs=["scores", "other"]))) == {"scores"}


def test_feature_engineering(config):
    """feature_engineering_fn changes features and labels of each mode."""
    model = canned.LinearRegressor(
        NUMBERS,
        config=config,
        feature_engineering_fn=lambda x, y: (x * 0, None if y is None else y * 0 + 3),
    ).fit(X, X[:, 0], steps=300)
    assert next(model.predict(X[:1])) == pytest.approx(3, abs=0.1)


def test_heads_for_a_model_fn():
    """A head adds its own layer of logits, its name and label; no_op_train_fn trains nothing."""
    head = heads.multi_class_head(3, label_name="kind", head_name="kinds")
    with tf.Graph().as_default(), tf1.Session() as session:
        ops = head.create_model_fn_ops(
            {},
            "eval",
            {"kind": tf.constant([1, 2]), "other": tf.constant([0])},
            logits_input=tf.ones([2, 4]),
        )
        names = sorted(variable.op.name for variable in tf1.trainable_variables())
        assert names == ["kinds/logits/biases", "kinds/logits/weights"]
        assert sorted(ops.eval_metric_ops) == ["accuracy/kinds", "loss/kinds"]
        assert list(ops.output_alternatives) == ["kinds"]
        train = head.create_model_fn_ops(
            *({}, "train", {"kind": tf.constant([1])}, heads.no_op_train_fn, tf.zeros([1, 3]))
        )
        session.run(train.train_op)
        assert float(session.run(train.loss)) == pytest.approx(np.log(3))
        with pytest.raises(ValueError, match="label_name='kind' of the head is none of"):
            head.create_model_fn_ops({}, "eval", {"a": 1, "b": 2}, logits=tf.zeros([1, 3]))
        with pytest.raises(ValueError, match="train_op_fn can not be None"):
            head.create_model_fn_ops(
                {}, "train", {"kind": tf.constant([1])}, logits=tf.zeros([1, 3])
            )
        with pytest.raises(ValueError, match="Exactly one of logits and logits_input"):
            head.create_model_fn_ops({}, "infer")
        with pytest.raises(ValueError, match="labels is None"):
            head.create_model_fn_ops({}, "eval", logits=tf.zeros([1, 3]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: canned.DNNClassifier([2], []), "must not be empty"),
        (lambda: canned.LinearRegressor([]), "must not be empty"),
        (lambda: canned.DNNClassifier([0], NUMBERS), "hidden_units"),
        (lambda: canned.DNNClassifier([2], NUMBERS, enable_centered_bias=True), "Leave it out"),
        (lambda: canned.DNNRegressor([2], NUMBERS, enable_centered_bias=True), "Leave it out"),
        (lambda: canned.LinearClassifier(NUMBERS, _joint_weight=True), "Leave it out"),
        (
            lambda: canned.DNNClassifier([2], NUMBERS, embedding_lr_multipliers={1: 2}),
            "multiply the gradients in a model_fn",
        ),
        (lambda: canned.DNNLinearCombinedClassifier(), "Either linear_feature_columns or dnn_"),
        (
            lambda: canned.DNNLinearCombinedClassifier(dnn_feature_columns=NUMBERS),
            "dnn_hidden_units must be defined",
        ),
        (lambda: heads.multi_class_head(2, metric_class_ids=[1]), "evaluate\\(metrics="),
    ],
)
def test_refused_arguments(make, message):
    """What isn't restored is refused when the estimator is made, with the way out."""
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("optimizer", ["Momentum", tf1.train.RMSPropOptimizer(0.1), None])
def test_optimizers(config, optimizer):
    """Optimizers are names, objects or functions; an unknown one is an error."""
    model = canned.DNNClassifier([4], NUMBERS, config=config, optimizer=optimizer)
    before = model.fit(X, Y, steps=1).evaluate(X, Y)["loss"]
    assert model.fit(X, Y, steps=50).evaluate(X, Y)["loss"] < 0.8 * before


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [("Best", "Optimizer name should be one of"), (lambda: 3, "is not an Optimizer instance")],
)
def test_wrong_optimizers(config, optimizer, message):
    """An unknown name, and an object that is no optimizer, are errors."""
    with pytest.raises(ValueError, match=message):
        canned.LinearClassifier(NUMBERS, config=config, optimizer=optimizer).fit(X, Y, steps=1)
