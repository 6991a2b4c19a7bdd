# SPDX-License-Identifier: Apache-2.0
"""`add_metrics`: which metrics it adds, and what stays as it was."""

from __future__ import annotations

import functools

import pytest
import tensorflow as tf

import estimator_spec as es
import host_runs
import tpu_columns

tf1 = tf.compat.v1


def input_fn():
    """Returns eight examples in two batches."""
    features = {"x": [[1.0], [2.0]] * 4, "size": [[1.0], [3.0]] * 4}
    return tf.data.Dataset.from_tensor_slices((features, [[2.0], [4.0]] * 4)).batch(4)


def model_fn(features, labels, mode):
    """Predicts x times one number, and has one metric."""
    y = features["x"] * tf1.get_variable("w", [], initializer=tf1.ones_initializer())
    if mode == "infer":
        return es.EstimatorSpec(mode, {"y": y})
    loss = tf1.losses.mean_squared_error(labels, y)
    train_op = tf1.train.GradientDescentOptimizer(0.1).minimize(loss, tf1.train.get_global_step())
    metrics = {"mean": tf1.metrics.mean(y)}
    return es.EstimatorSpec(mode, {"y": y}, loss, train_op, metrics)


@pytest.fixture
def estimator(tmp_path):
    """Returns an estimator with a configuration of its own."""
    config = es.RunConfig(tf_random_seed=5, save_summary_steps=7)
    return es.Estimator(model_fn, tmp_path / "model", config)


def test_metrics_are_added(estimator):
    """A metric_fn sees labels, predictions, features and config, and its metrics come too."""

    def metric_fn(features, labels, predictions, config):
        error = tf.abs(labels - predictions["y"])
        return {
            "error": tf1.metrics.mean(error, weights=features["size"]),
            "seed": tf1.metrics.mean(float(config.tf_random_seed)),
        }

    result = es.add_metrics(estimator, metric_fn).evaluate(input_fn)
    assert result["mean"] == pytest.approx(1.5)
    assert result["error"] == pytest.approx((1 * 1 + 2 * 3) / 4)
    assert result["seed"] == 5.0


def test_a_metric_of_the_model_is_replaced(estimator):
    """A metric of the same name as the model's takes its place."""
    extended = es.add_metrics(estimator, lambda labels: {"mean": tf1.metrics.mean(labels)})
    assert extended.evaluate(input_fn)["mean"] == pytest.approx(3.0)
    assert estimator.evaluate(input_fn)["mean"] == pytest.approx(1.5)


def test_keras_metrics_are_added(estimator):
    """A metric_fn may return metrics of Keras 2."""

    def metric_fn(labels, predictions):
        metric = tf.keras.metrics.MeanAbsoluteError()
        metric.update_state(labels, predictions["y"])
        return {"mae": metric}

    extended = es.add_metrics(estimator, metric_fn)
    assert extended.evaluate(input_fn)["mae"] == pytest.approx(1.5)


def test_training_is_that_of_the_estimator(estimator):
    """Both estimators train the same model in the same directory, with the same configuration."""
    extended = es.add_metrics(estimator, lambda labels: {})
    extended.train(input_fn)
    assert extended.model_dir == estimator.model_dir
    assert extended.config.save_summary_steps == 7
    assert estimator.get_variable_value("global_step") == 2
    first, *_ = extended.predict(input_fn)
    assert first["y"] == pytest.approx(estimator.get_variable_value("w"))


def test_a_warm_start_stays(estimator, tmp_path):
    """The new estimator has the warm start of the old one."""
    estimator.train(input_fn, steps=2)
    warm = es.Estimator(model_fn, tmp_path / "warm", warm_start_from=estimator.model_dir)
    extended = es.add_metrics(warm, lambda labels: {})
    first, *_ = extended.predict(input_fn)
    assert first["y"] == pytest.approx(estimator.get_variable_value("w"))


def test_the_policy_for_invalid_ids_stays(tmp_path):
    """The new estimator reads invalid ids as the old one does."""
    words = tf.feature_column.categorical_column_with_identity("word", 3)
    column = tpu_columns.embedding_column(words, 2, initializer=tf1.ones_initializer())

    def embed(features, labels, mode):
        y = tf.reduce_sum(tpu_columns.input_layer(features, [column]), 1)
        return es.EstimatorSpec(mode, {"y": y}, tf.reduce_sum(y), tf.no_op())

    estimator = es.Estimator(embed, tmp_path, invalid_ids="clip")
    extended = es.add_metrics(estimator, lambda labels: {})
    found = extended.predict(lambda: tf.data.Dataset.from_tensors({"word": [[7], [-2], [1]]}))
    assert [each["y"] for each in found] == [2.0, 2.0, 2.0]


def test_params_and_subclasses_of_estimators(tmp_path):
    """The model of a `TPUEstimator` gets its params, and its metrics are added to."""

    def of_params(features, labels, mode, params):
        return model_fn({"x": features["x"] * params["scale"]}, labels, mode)

    estimator = host_runs.make_estimator(of_params, tmp_path, 4, params={"scale": 2.0})
    extended = es.add_metrics(estimator, lambda labels: {"l": tf1.metrics.mean(labels)})
    result = extended.evaluate(input_fn)
    assert result["mean"] == pytest.approx(3.0)
    assert result["l"] == pytest.approx(3.0)


def test_partials_and_keywords(estimator):
    """A partial's bound arguments aren't passed again, and `**kwargs` get all of them."""

    def metric_fn(labels, scale):
        return {"scaled": tf1.metrics.mean(labels * scale)}

    bound = es.add_metrics(estimator, functools.partial(metric_fn, scale=2.0))
    assert bound.evaluate(input_fn)["scaled"] == pytest.approx(6.0)
    seen = {}

    def any_names(**kwargs):
        seen.update(kwargs)
        return {}

    es.add_metrics(estimator, any_names).evaluate(input_fn)
    assert sorted(seen) == ["config", "features", "labels", "predictions"]


def test_unknown_arguments_are_refused(estimator):
    """A metric_fn with another argument is refused at once."""
    with pytest.raises(ValueError, match="following not expected args: .'logits'"):
        es.add_metrics(estimator, lambda labels, logits: {})


@pytest.mark.parametrize("bad", [None, "estimator", model_fn])
def test_only_estimators_are_extended(bad):
    """Something else than an estimator is refused by name."""
    with pytest.raises(TypeError, match="estimator must be an estimator_spec.Estimator"):
        es.add_metrics(bad, lambda labels: {})


def test_a_metric_fn_must_be_callable(estimator):
    """Metrics in place of a function are refused."""
    with pytest.raises(TypeError, match="metric_fn must be callable"):
        es.add_metrics(estimator, {"a": 1})
