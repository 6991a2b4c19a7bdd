# SPDX-License-Identifier: Apache-2.0
"""Early stopping: this package's hooks and TensorFlow 2.15's."""

from __future__ import annotations

import json
import os

import pytest
import tensorflow as tf

from estimator_spec.core.driver import early_stopping, early_stopping_hooks

tf1 = tf.compat.v1

STOP = "signal_early_stopping/STOP"


def step_of(estimator):
    """Returns the global step of the latest checkpoint."""
    return estimator.get_variable_value("global_step")


def evaluated(directory, results):
    """Writes an event file like `evaluate`: one event for each {step: {metric: value}}."""
    with tf.Graph().as_default(), tf1.summary.FileWriter(str(directory)) as writer:
        for step, result in results.items():
            values = [
                tf1.Summary.Value(tag=tag, simple_value=value) for tag, value in result.items()
            ]
            writer.add_summary(tf1.Summary(value=values), step)


def asked(hook):
    """Returns whether a hook stops training at its first step."""
    with tf.Graph().as_default():
        step = tf1.train.create_global_step()
        with tf1.train.MonitoredSession(hooks=[hook]) as session:
            session.run(step)
            return session.should_stop()


@pytest.fixture
def history(fit):
    """Returns an estimator with evaluations at steps 10 to 50, losses 9 7 8 8.5 6."""
    estimator = fit.estimator()
    losses = {10: 9.0, 20: 7.0, 30: 8.0, 40: 8.5, 50: 6.0}
    evaluated(estimator.eval_dir(), {step: {"loss": loss} for step, loss in losses.items()})
    return estimator


@pytest.mark.parametrize(
    ("name", "threshold", "min_steps", "stops"),
    [
        ("stop_if_lower_hook", 6.5, 0, True),
        ("stop_if_lower_hook", 6.0, 0, False),
        ("stop_if_lower_hook", 7.5, 30, True),
        ("stop_if_lower_hook", 7.5, 60, False),
        ("stop_if_higher_hook", 8.9, 0, True),
        ("stop_if_higher_hook", 9.0, 0, False),
        ("stop_if_higher_hook", 8.9, 20, False),
        ("stop_if_no_decrease_hook", 20, 0, True),
        ("stop_if_no_decrease_hook", 30, 0, False),
        ("stop_if_no_decrease_hook", 20, 30, False),
        ("stop_if_no_decrease_hook", 10, 30, True),
        ("stop_if_no_increase_hook", 40, 0, True),
        ("stop_if_no_increase_hook", 41, 0, False),
        ("stop_if_no_increase_hook", 20, 20, False),
    ],
)
def test_when_a_metric_stops(fit, history, name, threshold, min_steps, stops):
    """A hook stops beyond the threshold, or N steps after the best value since `min_steps`."""
    hook = getattr(fit.api, name)(history, "loss", threshold, None, min_steps)
    assert asked(hook) is stops


@pytest.mark.parametrize(
    "name",
    [
        "stop_if_lower_hook",
        "stop_if_higher_hook",
        "stop_if_no_decrease_hook",
        "stop_if_no_increase_hook",
    ],
)
def test_without_evaluations_nothing_stops(fit, name):
    """A missing directory counts as no evaluation."""
    assert not asked(getattr(fit.api, name)(fit.estimator(), "loss", 1))


def test_another_directory(fit, tmp_path):
    """`eval_dir` sets the directory of the evaluations."""
    evaluated(tmp_path / "elsewhere", {1: {"auc": 0.9}})
    elsewhere = str(tmp_path / "elsewhere")
    assert asked(fit.api.stop_if_higher_hook(fit.estimator(), "auc", 0.8, elsewhere))


def test_metrics_of_several_files(fit, tmp_path):
    """Metrics of several event files are sorted by step."""
    estimator = fit.estimator()
    evaluated(estimator.eval_dir(), {30: {"loss": 3.0}, 40: {"loss": 4.0}})
    os.rename(estimator.eval_dir(), tmp_path / "first")
    evaluated(estimator.eval_dir(), {10: {"loss": 1.0}})
    for path in (tmp_path / "first").iterdir():
        os.rename(path, os.path.join(estimator.eval_dir(), path.name + ".first"))
    found = early_stopping.read_eval_metrics(estimator.eval_dir())
    assert found == {10: {"loss": 1.0}, 30: {"loss": 3.0}, 40: {"loss": 4.0}}
    assert list(found) == [10, 30, 40]
    assert asked(fit.api.stop_if_no_decrease_hook(estimator, "loss", 30))


def test_training_stops(fit, tf_log):
    """Training ends with a checkpoint at the step at which the function returns true."""
    estimator = fit.estimator()
    answers = iter([False, False, True])
    hook = fit.api.make_early_stopping_hook(
        estimator, lambda: next(answers), run_every_secs=None, run_every_steps=5
    )
    estimator.train(fit.input_fn, hooks=[hook], steps=100)
    said = [line for line in tf_log if "Requesting early stopping at global step" in line]
    # The hook may read the global step before or after its increment.
    assert said[0].split()[-1] in ("10", "11", "12")
    assert 10 <= step_of(estimator) <= 12
    assert estimator.get_variable_value(STOP)


def test_training_that_is_not_stopped(fit):
    """Training runs all steps if the function returns false, and the variable is False."""
    estimator = fit.estimator()
    hook = fit.api.make_early_stopping_hook(estimator, lambda: False)
    estimator.train(fit.input_fn, hooks=[hook], steps=3)
    assert step_of(estimator) == 3
    assert not estimator.get_variable_value(STOP)
    assert estimator.get_variable_names() == ["bias", "global_step", STOP, "weight"]


def test_in_train_and_evaluate(fit):
    """Evaluations during training stop it, and the last checkpoint is evaluated."""
    estimator = fit.estimator(config={"save_checkpoints_steps": 10})
    hook = fit.api.stop_if_lower_hook(
        estimator, "loss", 1.0, run_every_secs=None, run_every_steps=1
    )
    metrics, _ = fit.api.train_and_evaluate(
        estimator,
        fit.api.TrainSpec(fit.input_fn, max_steps=500, hooks=[hook]),
        fit.api.EvalSpec(fit.input_fn, throttle_secs=0),
    )
    losses = early_stopping.read_eval_metrics(estimator.eval_dir())
    low = next(step for step, found in losses.items() if found["loss"] < 1.0)
    assert metrics["global_step"] == step_of(estimator)
    assert 10 <= low <= step_of(estimator) <= low + 2


def test_a_stopped_model_trains_on(fit):
    """A stopped model can be trained again."""
    estimator = fit.estimator()
    make = fit.api.make_early_stopping_hook
    estimator.train(fit.input_fn, hooks=[make(estimator, lambda: True)], steps=5)
    stopped = step_of(estimator)
    assert stopped < 5
    estimator.train(fit.input_fn, hooks=[make(estimator, lambda: False)], steps=5)
    assert step_of(estimator) == stopped + 5
    estimator.train(fit.input_fn, steps=1)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("estimator",), TypeError, "`estimator` must have type"),
        ((None, "stop"), TypeError, "`should_stop_fn` must be callable"),
        ((None, len, 60, 100), ValueError, "Only one of `run_every_secs` and `run_every_steps`"),
        ((None, len, None, None), ValueError, "."),
    ],
)
def test_arguments_are_checked(fit, arguments, error, message):
    """Wrong arguments raise an error when the hook is created."""
    first, *rest = arguments
    with pytest.raises(error, match=message):
        fit.api.make_early_stopping_hook(first or fit.estimator(), *(rest or [len]))


@pytest.fixture
def worker(fit, monkeypatch):
    """Returns the estimator of a worker with the chief's `model_dir`."""
    cluster = {"chief": ["localhost:1"], "worker": ["localhost:2"]}
    task = {"type": "worker", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    estimator = fit.estimator()
    assert not estimator.config.is_chief
    return estimator


def test_a_worker_stops_with_its_chief(fit, worker):
    """A worker stops by the variable; it doesn't call the function."""
    hook = fit.api.make_early_stopping_hook(worker, lambda: pytest.fail("asked"))
    with tf.Graph().as_default():
        step = tf1.train.create_global_step()
        with tf1.train.MonitoredSession(hooks=[hook]) as session:
            session.run(step)
            assert not session.should_stop()
            (stop,) = [v for v in tf1.global_variables() if v.name == STOP + ":0"]
            stop.load(True, session._tf_sess())
            session.run(step)
            assert session.should_stop()


def test_a_worker_whose_chief_saves_the_first_checkpoint(ours):
    """A worker takes a checkpoint whose state file isn't written yet for none."""
    estimator = ours.estimator()
    estimator.train(ours.input_fn, steps=2)
    os.remove(os.path.join(estimator.model_dir, "checkpoint"))
    hooks = [
        early_stopping_hooks.StopWithChief(estimator.model_dir),
        early_stopping_hooks.StopAtCheckpoint(
            estimator.model_dir, last_step=1, wait_after_file_check_secs=0
        ),
    ]
    with tf.Graph().as_default():
        step = tf1.train.create_global_step()
        with tf1.train.MonitoredSession(hooks=hooks) as session:
            session.run(step)
            assert not session.should_stop()


@pytest.mark.parametrize("step", [3, 4, 5])
def test_a_worker_waits_for_the_checkpoint(fit, worker, monkeypatch, step):
    """A worker stops when a checkpoint has the last step."""
    monkeypatch.delenv("TF_CONFIG")
    chief = fit.estimator()
    chief.train(fit.input_fn, steps=4)
    hook = fit.api.make_stop_at_checkpoint_step_hook(worker, step, wait_after_file_check_secs=0)
    with tf.Graph().as_default():
        global_step = tf1.train.create_global_step()
        train_op = tf1.assign_add(global_step, 1)
        with tf1.train.MonitoredSession(hooks=[hook]) as session:
            for _ in range(10):
                if session.should_stop():
                    break
                reached = session.run(train_op)
    # The hook may read the global step before or after its increment.
    assert reached in ((step - 1, step) if step <= 4 else (10,))


def test_a_chief_stops_at_a_step(fit):
    """The chief gets a StopAtStepHook."""
    estimator = fit.estimator()
    hook = fit.api.make_stop_at_checkpoint_step_hook(estimator, 4)
    estimator.train(fit.input_fn, hooks=[hook])
    assert step_of(estimator) == 4


def test_the_last_step_is_needed(fit):
    """make_stop_at_checkpoint_step_hook requires `last_step`."""
    with pytest.raises(ValueError, match="last_step must be specified"):
        fit.api.make_stop_at_checkpoint_step_hook(fit.estimator(), None)


def test_early_stopping_of_a_half_trained_model(ours, tf_log):
    """A checkpoint without the variable is restored."""
    estimator = ours.estimator()
    estimator.train(ours.input_fn, steps=2)
    for _ in range(2):
        hook = ours.api.make_early_stopping_hook(estimator, lambda: False)
        estimator.train(ours.input_fn, hooks=[hook], steps=2)
    assert step_of(estimator) == 6
    assert STOP not in estimator.get_variable_names()


def test_a_metric_that_no_evaluation_has(ours):
    """The error for an unknown metric names it and the existing ones."""
    estimator = ours.estimator()
    evaluated(estimator.eval_dir(), {1: {"loss": 1.0, "mae": 2.0}})
    hook = ours.api.stop_if_lower_hook(estimator, "lose", 1.0)
    with pytest.raises(ValueError, match="'lose'.*have only .'loss', 'mae'"):
        asked(hook)


def test_summaries_beside_the_evaluations(ours):
    """Steps without the metric are ignored."""
    estimator = ours.estimator()
    evaluated(estimator.eval_dir(), {1: {"loss": 1.0}, 2: {"a_summary_of_the_model": 0.0}})
    assert asked(ours.api.stop_if_lower_hook(estimator, "loss", 2.0))


def test_a_file_that_is_being_written(ours):
    """Events after the damage in an event file are ignored."""
    estimator = ours.estimator()
    evaluated(estimator.eval_dir(), {1: {"loss": 1.0}, 2: {"loss": 0.1}})
    (name,) = os.listdir(estimator.eval_dir())
    path = os.path.join(estimator.eval_dir(), name)
    with open(path, "rb+") as file:
        file.truncate(os.path.getsize(path) - 5)
    assert early_stopping.read_eval_metrics(estimator.eval_dir()) == {1: {"loss": 1.0}}
