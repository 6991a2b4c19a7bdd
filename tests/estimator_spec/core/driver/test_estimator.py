# SPDX-License-Identifier: Apache-2.0
"""Tests the constructor and properties of `Estimator`, and overrides in subclasses."""

from __future__ import annotations

import functools
import os

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
from estimator_spec.run_config import RunConfig

tf1 = tf.compat.v1


def model_fn(features, labels, mode, params, config):
    """A `model_fn` whose signature is checked, but which is never called."""
    raise AssertionError("not called")


def test_model_dir(tmp_path):
    """The constructor, a configuration, which stays as it is, or both name it, if they agree."""
    path, unset = str(tmp_path), RunConfig()
    for model_dir, config in (
        (None, RunConfig(model_dir=path)),
        (tmp_path, None),
        (tmp_path, RunConfig(model_dir=path)),
        (path, unset),
    ):
        estimator = es.Estimator(model_fn, model_dir, config)
        assert estimator.model_dir == estimator.config.model_dir == path
    assert unset.model_dir is unset.session_config is None
    with pytest.raises(ValueError, match=r"`model_dir` are set both in constructor.*/one.*/other"):
        es.Estimator(model_fn, "/one", RunConfig(model_dir="/other"))


def test_a_temporary_model_dir(tf_log):
    """Without a model_dir a temporary directory is used, with a warning."""
    estimator = es.Estimator(model_fn, params={})
    assert os.path.isdir(estimator.model_dir)
    assert f"Using temporary folder as model directory: {estimator.model_dir}" in tf_log


def test_properties_are_copies(tmp_path):
    """Changing `config` or `params` doesn't change the estimator."""
    mine = {"layers": [1, 2]}
    estimator = es.Estimator(model_fn, tmp_path, params=mine)
    mine["layers"].append(3)
    estimator.params["layers"].append(4)
    estimator.config._model_dir = "elsewhere"
    assert estimator.params == {"layers": [1, 2]}
    assert estimator.config.model_dir == str(tmp_path)


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
        es.Estimator(fn, params=params)


def test_unused_params_warn(tmp_path, tf_log):
    """A model_fn that takes params logs a warning if none are given."""
    es.Estimator(model_fn, tmp_path)
    assert any("params are not passed to Estimator" in entry for entry in tf_log)


def test_public_model_fn(tmp_path, line):
    """The property model_fn builds the model in the current graph, with params bound."""
    estimator = es.Estimator(line.model_fn, tmp_path, params={})
    with tf.Graph().as_default():
        features = {"x": tf1.placeholder(tf.float32, [None, 1])}
        spec = estimator.model_fn(features, None, "infer", estimator.config)
        assert isinstance(spec, es.EstimatorSpec)
        assert [v.name for v in tf1.trainable_variables()] == ["weight:0", "bias:0"]


def test_subclasses_may_override_protected_methods(tmp_path, line):
    """The protected methods that programs override are called with their legacy arguments."""
    calls = []

    class Mine(es.Estimator):
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


def test_the_configuration_is_checked_first():
    """Of two wrong arguments the error names the configuration, as in TensorFlow."""
    with pytest.raises(ValueError, match="an instance of `RunConfig`"):
        es.Estimator(model_fn=None, config="NotARunConfig")


def test_subclasses_may_not_override_public_methods():
    """Overriding a public method, also in a base class, raises an error."""

    class Mine(es.Estimator):
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

    class Mine(es.Estimator):
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
