# SPDX-License-Identifier: Apache-2.0
"""Tests the constructor and properties of `Estimator`, and overrides in subclasses."""

from __future__ import annotations

import functools
import os

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
from estimator_spec.run_config import RunConfig

tf1 = tf.compat.v1


def model_fn(features, labels, mode, params, config):
    """A `model_fn` whose signature is checked, but which is never called."""
    raise AssertionError("not called")


def test_model_dir_of_the_configuration(tmp_path):
    """model_dir comes from the constructor or from the configuration."""
    of_config = estimator_spec.Estimator(model_fn, config=RunConfig(model_dir=str(tmp_path)))
    assert of_config.model_dir == of_config.config.model_dir == str(tmp_path)
    of_argument = estimator_spec.Estimator(model_fn, tmp_path, params={})
    assert of_argument.model_dir == of_argument.config.model_dir == str(tmp_path)


def test_the_same_model_dir_twice(tmp_path):
    """model_dir and the configuration's may both be given if they are equal."""
    config = RunConfig(model_dir=str(tmp_path))
    assert estimator_spec.Estimator(model_fn, tmp_path, config).model_dir == str(tmp_path)


def test_two_model_dirs():
    """Two different model_dirs raise an error that names both."""
    with pytest.raises(ValueError, match=r"`model_dir` are set both in constructor.*/one.*/other"):
        estimator_spec.Estimator(model_fn, "/one", RunConfig(model_dir="/other"))


def test_a_temporary_model_dir(tf_log):
    """Without a model_dir a temporary directory is used, with a warning."""
    estimator = estimator_spec.Estimator(model_fn, params={})
    assert os.path.isdir(estimator.model_dir)
    assert f"Using temporary folder as model directory: {estimator.model_dir}" in tf_log


def test_wrong_config():
    """A config that isn't a RunConfig raises an error."""
    with pytest.raises(ValueError, match="config must be an instance of `RunConfig`"):
        estimator_spec.Estimator(model_fn, config={"model_dir": "/tmp"})


def test_properties_are_copies(tmp_path):
    """Changing `config` or `params` doesn't change the estimator."""
    mine = {"layers": [1, 2]}
    estimator = estimator_spec.Estimator(model_fn, tmp_path, params=mine)
    mine["layers"].append(3)
    estimator.params["layers"].append(4)
    estimator.config._model_dir = "elsewhere"
    assert estimator.params == {"layers": [1, 2]}
    assert estimator.config.model_dir == str(tmp_path)


def test_the_given_config_is_left_alone(tmp_path):
    """The estimator sets model_dir and session_config in a copy of the configuration."""
    config = RunConfig()
    estimator_spec.Estimator(model_fn, tmp_path, config)
    assert config.model_dir is None
    assert config.session_config is None


def test_no_model_fn():
    """A missing model_fn raises an error."""
    with pytest.raises(ValueError, match="model_fn must be provided to Estimator"):
        estimator_spec.Estimator(None)


@pytest.mark.parametrize(
    "fn, params, message",
    [
        (lambda labels: None, None, "must include features argument"),
        (lambda features: None, {"a": 1}, "does not include params argument, but params"),
        (lambda features, extra: None, None, r"has following not expected args: \['extra'\]"),
        (
            functools.partial(lambda features, x, y: None, x=1),
            None,
            r"has following not expected args: \['y'\]",
        ),
    ],
)
def test_signature_of_model_fn(fn, params, message):
    """The constructor checks the arguments that model_fn takes."""
    with pytest.raises(ValueError, match=message):
        estimator_spec.Estimator(fn, params=params)


def test_unused_params_warn(tmp_path, tf_log):
    """A model_fn that takes params logs a warning if none are given."""
    estimator_spec.Estimator(model_fn, tmp_path)
    assert any("params are not passed to Estimator" in entry for entry in tf_log)


class Bound:
    """A model whose `model_fn` is a bound method."""

    def __init__(self, line):
        self.line = line
        self.seen = []

    def model_fn(self, features, labels, mode, config):
        self.seen.append((mode, config.model_dir))
        return self.line.model_fn(features, labels, mode, {})


def test_what_model_fn_is_given(tmp_path, line):
    """A model_fn gets the arguments that its signature names."""
    bound = Bound(line)
    estimator = estimator_spec.Estimator(bound.model_fn, tmp_path)
    estimator.train(lambda: line.input_fn("train", {}), steps=1)
    estimator.evaluate(lambda: line.input_fn("eval", {}))
    next(estimator.predict(lambda: line.input_fn("eval", {})))
    assert bound.seen == [(mode, str(tmp_path)) for mode in ("train", "eval", "infer")]


@pytest.mark.parametrize("result", [None, 1.0, {"loss": 1}])
def test_what_model_fn_returns(tmp_path, line, result):
    """A result that isn't an EstimatorSpec raises an error that shows it."""
    estimator = estimator_spec.Estimator(lambda features: result, tmp_path)
    with pytest.raises(ValueError, match="model_fn should return an EstimatorSpec"):
        estimator.train(lambda: {"x": tf.constant(line.x)}, steps=1)


def test_public_model_fn(tmp_path, line):
    """The property model_fn builds the model in the current graph, with params bound."""
    estimator = estimator_spec.Estimator(line.model_fn, tmp_path, params={})
    with tf.Graph().as_default():
        features = {"x": tf1.placeholder(tf.float32, [None, 1])}
        spec = estimator.model_fn(features, None, "infer", estimator.config)
        assert isinstance(spec, estimator_spec.EstimatorSpec)
        assert [v.name for v in tf1.trainable_variables()] == ["weight:0", "bias:0"]


def test_wrong_warm_start():
    """A warm_start_from that is neither a path nor settings raises an error."""
    with pytest.raises(ValueError, match="warm_start_from must be a string"):
        estimator_spec.Estimator(model_fn, params={}, warm_start_from=3)


def test_subclasses_may_override_protected_methods(tmp_path, line):
    """The protected methods that programs override are called with their legacy arguments."""
    calls = []

    class Mine(estimator_spec.Estimator):
        def _call_input_fn(self, input_fn, mode, input_context=None):
            calls.append(("input", mode))
            return super()._call_input_fn(input_fn, mode, input_context)

        def _call_model_fn(self, features, labels, mode, config):
            calls.append(("model", mode))
            return super()._call_model_fn(features, labels, mode, config)

        def _convert_train_steps_to_hooks(self, steps, max_steps):
            calls.append(("steps", steps, max_steps))
            return super()._convert_train_steps_to_hooks(2, None)

        def _convert_eval_steps_to_hooks(self, steps):
            calls.append(("eval steps", steps))
            return super()._convert_eval_steps_to_hooks(steps)

        def _train_model(self, input_fn, hooks, saving_listeners):
            calls.append(("train", saving_listeners))
            return super()._train_model(input_fn, hooks, saving_listeners)

    estimator = Mine(line.model_fn, tmp_path, params={})
    estimator.train(line.input_fn, steps=9)
    assert estimator.evaluate(line.input_fn, steps=1)["global_step"] == 2
    assert calls == [
        ("steps", 9, None),
        ("train", []),
        ("input", "train"),
        ("model", "train"),
        ("eval steps", 1),
        ("input", "eval"),
        ("model", "eval"),
    ]


def test_subclasses_may_not_override_public_methods():
    """Overriding a public method, also in a base class, raises an error."""

    class Mine(estimator_spec.Estimator):
        def train(self, *args):
            pass

    class Further(Mine):
        def another(self):
            pass

    for kind in (Mine, Further):
        with pytest.raises(ValueError, match="cannot override members of Estimator.*'train'"):
            kind(model_fn, params={})


def test_subclasses_may_override_model_fn(tmp_path):
    """Subclasses may override model_fn and latest_checkpoint, as in tf.estimator."""

    class Mine(estimator_spec.Estimator):
        @property
        def model_fn(self):
            return "mine"

        def latest_checkpoint(self):
            return "other"

    estimator = Mine(model_fn, tmp_path, params={})
    assert (estimator.model_fn, estimator.latest_checkpoint()) == ("mine", "other")


def test_tensorflow_s_own_specs(make, line):
    """A program that still returns TensorFlow's own EstimatorSpec (2.15 has one) runs."""
    legacy = getattr(tf, "estimator", None)
    if legacy is None:
        pytest.skip("this TensorFlow has no tf.estimator")

    def old_fn(features, labels, mode, params):
        y = line.forward(features)
        loss = tf1.losses.mean_squared_error(labels, y)
        return tf1.estimator.EstimatorSpec(mode, predictions=y, loss=loss)

    assert np.isfinite(make(old_fn).evaluate(line.input_fn)["loss"])
