# SPDX-License-Identifier: Apache-2.0
"""Tests when `Estimator` calls hooks and functions and where it writes, also with tf.estimator."""

from __future__ import annotations

import copy
import functools
import os

import pytest
import tensorflow as tf
from estimator_spec.run_config import TPURunConfig

tf1 = tf.compat.v1


class Diary(tf1.train.SessionRunHook):
    """A hook that records its calls."""

    def __init__(self, name, entries):
        self.name, self.entries = name, entries

    def begin(self):
        self.entries.append(f"{self.name} begin")

    def after_create_session(self, session, coord):
        self.entries.append(f"{self.name} session")

    def before_run(self, run_context):
        self.entries.append(f"{self.name} before")

    def after_run(self, run_context, run_values):
        self.entries.append(f"{self.name} after")

    def end(self, session):
        self.entries.append(f"{self.name} end")


class Saves(tf1.train.CheckpointSaverListener):
    """A listener that records its calls."""

    def __init__(self, name, entries):
        self.name, self.entries = name, entries

    def begin(self):
        self.entries.append(f"{self.name} begin")

    def before_save(self, session, global_step_value):
        self.entries.append(f"{self.name} before {global_step_value}")

    def after_save(self, session, global_step_value):
        self.entries.append(f"{self.name} after {global_step_value}")

    def end(self, session, global_step_value):
        self.entries.append(f"{self.name} end {global_step_value}")


def with_hooks(fit, entries):
    """The line's model with hooks of its own in each mode."""

    def model_fn(features, labels, mode):
        spec = fit.model_fn(features, labels, mode)
        return spec._replace(
            training_hooks=[Diary("model", entries)],
            training_chief_hooks=[Diary("chief", entries)],
            evaluation_hooks=[Diary("model's evaluation", entries)],
            prediction_hooks=[Diary("model's prediction", entries)],
        )

    return fit.estimator(model_fn)


def moments(entries, moment):
    """Returns the hooks and listeners that a method was called on, in order."""
    return [entry.removesuffix(f" {moment}") for entry in entries if entry.endswith(f" {moment}")]


def test_hooks_of_training_in_order(fit):
    """The chief's hooks come first, the saver with its listeners among them."""
    entries = []
    listeners = [Saves("first", entries), Saves("second", entries)]
    hooks = [Diary("caller", entries), Diary("caller too", entries)]
    with_hooks(fit, entries).train(fit.input_fn, hooks, steps=1, saving_listeners=listeners)
    both, four = ("first", "second"), ("chief", "caller", "caller too", "model")
    assert entries == [
        f"{name} {moment}"
        for names, moment in (
            *((both, "begin"), (four, "begin"), (both, "before 0"), (both, "after 0")),
            *((four, "session"), (four, "before"), (four, "after")),
            *((both, "before 1"), (both, "after 1"), (both, "end 1"), (four, "end")),
        )
        for name in names
    ]


@pytest.mark.parametrize("moment", ["begin", "session", "before", "after", "end"])
def test_hooks_of_evaluation_and_prediction_in_order(fit, moment):
    """In evaluation and prediction the caller's hooks precede the model's."""
    entries = []
    estimator = with_hooks(fit, entries)
    estimator.evaluate(fit.input_fn, steps=1, hooks=[Diary("caller", entries)])
    assert moments(entries, moment) == ["caller", "model's evaluation"]
    entries.clear()
    next(estimator.predict(fit.input_fn, hooks=[Diary("caller", entries)]))
    # `predict` isn't at its end yet.
    told = ["caller", "model's prediction"]
    assert moments(entries, moment) == ([] if moment == "end" else told)


class Model:
    """A model_fn that is an object."""

    def __init__(self, fit):
        self.fit = fit

    def __call__(self, features, labels, mode):
        return self.fit.model_fn(features, labels, mode)

    def method(self, features, labels, mode, params):
        assert params == {"rate": 1}
        return self.fit.model_fn(features, labels, mode)


@pytest.mark.parametrize(
    ("make", "params"),
    [
        (lambda fit: Model(fit), None),
        (lambda fit: Model(fit).method, {"rate": 1}),
        (lambda fit: functools.partial(Model(fit).method, params={"rate": 1}), None),
        (
            lambda fit: functools.partial(
                lambda more, features, labels, mode: more.model_fn(features, labels, mode), fit
            ),
            None,
        ),
        (
            lambda fit: lambda features, labels, mode, config: fit.model_fn(features, labels, mode),
            None,
        ),
    ],
    ids=["object", "method", "partial by name", "partial by position", "lambda"],
)
def test_kinds_of_model_fn(fit, make, params):
    """A model_fn may be any callable with any of the arguments."""
    estimator = fit.estimator(make(fit), params=params)
    estimator.train(fit.input_fn, steps=1)
    assert len(list(estimator.predict(fit.input_fn))) == 32


def test_what_input_fn_is_given(fit):
    """An input_fn gets those of mode, params and config that it takes."""
    seen = []

    def input_fn(mode, params, config):
        seen.append((mode, params, config.model_dir))
        return fit.input_fn(mode)

    def model_fn(features, labels, mode, params):
        return fit.model_fn(features, labels, mode)

    estimator = fit.estimator(model_fn, params={"a": 1})
    estimator.train(input_fn, steps=1)
    estimator.evaluate(input_fn, steps=1)
    next(estimator.predict(input_fn))
    where = str(fit.model_dir)
    assert seen == [(mode, {"a": 1}, where) for mode in ("train", "eval", "infer")]


def test_params_are_copies(fit):
    """Changes that model_fn makes to its params are not visible to the next call."""
    seen = []

    def model_fn(features, labels, mode, params):
        seen.append(copy.deepcopy(params))
        params["a"].append(mode)
        params["b"] = mode
        return fit.model_fn(features, labels, mode)

    params = {"a": []}
    estimator = fit.estimator(model_fn, params=params)
    estimator.train(fit.input_fn, steps=1)
    estimator.evaluate(fit.input_fn, steps=1)
    assert seen == [{"a": []}, {"a": []}]
    assert params == estimator.params == {"a": []}


def test_a_model_without_labels(fit):
    """A model_fn without labels works if there are none, and raises an error otherwise."""

    def model_fn(features, mode):
        return fit.model_fn(features, 3 * features["x"] + 1, mode)

    estimator = fit.estimator(model_fn)
    unlabelled = lambda: fit.input_fn().map(lambda features, labels: features)  # noqa: E731
    estimator.train(unlabelled, steps=1)
    with pytest.raises(ValueError, match="model_fn does not take labels, but input_fn returns"):
        estimator.train(fit.input_fn, steps=1)


def test_directories(fit):
    """Checkpoints, graphs and summaries are written to the expected directories."""
    estimator = fit.estimator(config={"save_checkpoints_steps": 2})
    estimator.train(fit.input_fn, steps=3)
    estimator.evaluate(fit.input_fn)
    estimator.evaluate(fit.input_fn, name="other")
    # Event files have the machine's name.
    found = sorted({name.split(".tfevents")[0] for name in os.listdir(estimator.model_dir)})
    assert found == [
        "checkpoint",
        "eval",
        "eval_other",
        "events.out",
        "graph.pbtxt",
        *(
            f"model.ckpt-{step}.{part}"
            for step in (0, 2, 3)
            for part in ("data-00000-of-00001", "index", "meta")
        ),
    ]
    assert estimator.eval_dir("other") == os.path.join(estimator.model_dir, "eval_other")


def test_summaries(fit, events):
    """Summaries have the expected tags and steps."""
    estimator = fit.estimator(config={"save_summary_steps": 2, "log_step_count_steps": 3})
    estimator.train(fit.input_fn, steps=7)
    estimator.evaluate(fit.input_fn)
    found = events(estimator.model_dir)
    assert set(found) == {"loss", "global_step/sec"}
    assert len(found["loss"]) == 4
    found = events(estimator.eval_dir())
    assert {tag: list(steps) for tag, steps in found.items()} == {
        "loss": [7],
        "mae": [7],
        "checkpoint_path": [7],
    }


def signatures(path, tags=("serve",)):
    """Returns (method, inputs, outputs) of a SavedModel's graph, by signature."""
    with tf1.Session(graph=tf.Graph()) as session:
        graph = tf1.saved_model.load(session, list(tags), tf.compat.as_str_any(path))
    return {
        name: (
            signature.method_name.split("/")[-1],
            sorted(signature.inputs),
            sorted(signature.outputs),
        )
        for name, signature in graph.signature_def.items()
    }


def test_signatures(fit, api, tmp_path):
    """Predictions are served under the default name; a graph of each mode can be exported."""
    estimator = fit.estimator()
    estimator.train(fit.input_fn, steps=2)
    path = estimator.export_saved_model(str(tmp_path / "serving"), fit.receiver_fn)
    assert signatures(path) == {"serving_default": ("predict", ["x"], ["y"])}

    def supervised():
        features = {"x": tf1.placeholder(tf.float32, [None, 1])}
        labels = tf1.placeholder(tf.float32, [None, 1])
        return api.build_raw_supervised_input_receiver_fn(features, labels)()

    receivers = {"infer": fit.receiver_fn, "eval": supervised, "train": supervised}
    path = estimator.experimental_export_all_saved_models(str(tmp_path / "all"), receivers)
    assert signatures(path) == {"serving_default": ("predict", ["x"], ["y"])}
    inputs = ["label", "x"]
    metrics = ["metrics/mae/update_op", "metrics/mae/value"]
    outputs = ["loss", *metrics, "predictions/y"]
    assert signatures(path, ["eval"]) == {"eval": ("eval", inputs, outputs)}
    assert signatures(path, ["train"]) == {"train": ("training", inputs, outputs)}


def test_the_modes_of_a_saved_model_share_variables(fit, api, tmp_path):
    """All graphs share one set of variables, which includes the slot variables."""
    estimator = fit.estimator()
    estimator.train(fit.input_fn, steps=2)
    fed = lambda: {"x": tf1.placeholder(tf.float32, [None, 1])}  # noqa: E731

    def supervised():
        labels = tf1.placeholder(tf.float32, [None, 1])
        return api.build_raw_supervised_input_receiver_fn(fed(), labels)()

    receivers = {"infer": fit.receiver_fn, "train": supervised}
    path = estimator.experimental_export_all_saved_models(str(tmp_path / "all"), receivers)
    variables = os.path.join(tf.compat.as_str_any(path), "variables", "variables")
    assert [name for name, _ in tf.train.list_variables(variables)] == [
        "bias",
        "global_step",
        "weight",
    ]
    weight = estimator.get_variable_value("weight")
    for tags in (["serve"], ["train"]):
        with tf1.Session(graph=tf.Graph()) as session:
            tf1.saved_model.load(session, tags, tf.compat.as_str_any(path))
            (found,) = [v for v in tf1.global_variables() if v.op.name == "weight"]
            assert session.run(found) == weight


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"save_checkpoints_secs": 60, "keep_checkpoint_max": 3},
            {"save_checkpoints_secs": 60, "save_checkpoints_steps": None},
        ),
        ({"save_checkpoints_steps": 60}, {"save_checkpoints_secs": None}),
        ({}, {"save_checkpoints_secs": 600, "log_step_count_steps": 100, "is_chief": True}),
    ],
)
def test_config_of_an_estimator(fit, given, expected):
    """The estimator's configuration is the caller's with model_dir and session_config set."""
    config = fit.estimator(config=given).config
    for name, value in {**given, **expected, "model_dir": str(fit.model_dir)}.items():
        assert getattr(config, name) == value, name
    assert config.session_config.allow_soft_placement


def test_a_tpu_s_configuration_will_do(ours):
    """An Estimator also accepts a TPURunConfig."""
    config = TPURunConfig(model_dir=str(ours.model_dir))
    estimator = ours.api.Estimator(ours.model_fn, config=config)
    assert estimator.train(ours.input_fn, steps=1) is estimator
