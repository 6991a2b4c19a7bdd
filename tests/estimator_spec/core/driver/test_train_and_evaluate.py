# SPDX-License-Identifier: Apache-2.0
"""train_and_evaluate: this package's and TensorFlow 2.15's."""

from __future__ import annotations

import itertools
import json
import os
import time
import types
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
from estimator_spec.core.driver import train_and_evaluate as module

tf1 = tf.compat.v1


class Diary(tf1.train.SessionRunHook):
    """Records when sessions begin and end."""

    def __init__(self, name, entries):
        self.name, self.entries = name, entries

    def begin(self):
        self.entries.append(f"{self.name} begins")

    def end(self, session):
        step = session.run(tf1.train.get_global_step())
        self.entries.append(f"{self.name} ends at {step}")


class Saves(tf1.train.CheckpointSaverListener):
    """Records when checkpoints are saved."""

    def __init__(self, entries):
        self.entries = entries

    def after_save(self, session, global_step_value):
        self.entries.append(f"saved {global_step_value}")


def specs(fit, entries=None, train=None, evaluate=None):
    """Returns a TrainSpec to step 6 and an EvalSpec without throttle, which record their calls."""
    entries = [] if entries is None else entries
    train_options = {
        "input_fn": fit.input_fn,
        "max_steps": 6,
        "hooks": [Diary("training", entries)],
        "saving_listeners": [Saves(entries)],
        **(train or {}),
    }
    eval_options = {
        "input_fn": fit.input_fn,
        "hooks": [Diary("evaluation", entries)],
        "throttle_secs": 0,
        **(evaluate or {}),
    }
    return fit.api.TrainSpec(**train_options), fit.api.EvalSpec(**eval_options)


def steps(events, directory):
    """Returns the steps that were evaluated."""
    return sorted(events(directory).get("mae", {}))


def every_two(fit, **kwargs):
    """Returns an Estimator with a checkpoint every two steps."""
    return fit.estimator(config={"save_checkpoints_steps": 2}, **kwargs)


def test_in_turns(fit, events):
    """Each checkpoint is evaluated when it is saved, except the one before the first step."""
    entries = []
    estimator = every_two(fit)
    metrics, exports = fit.api.train_and_evaluate(estimator, *specs(fit, entries))
    assert entries == [
        "training begins",
        "saved 0",
        "saved 2",
        "evaluation begins",
        "evaluation ends at 2",
        "saved 4",
        "evaluation begins",
        "evaluation ends at 4",
        "saved 6",
        "evaluation begins",
        "evaluation ends at 6",
        "training ends at 6",
    ]
    assert set(metrics) == {"mae", "loss", "global_step"}
    assert metrics["global_step"] == 6
    assert exports == []
    assert steps(events, estimator.eval_dir()) == [2, 4, 6]
    assert estimator.evaluate(fit.input_fn) == metrics


def test_the_arguments_of_the_specs(fit, events):
    """`steps` and `name` of the EvalSpec are passed to the evaluation."""
    estimator = every_two(fit)
    _, eval_spec = specs(fit, evaluate={"steps": 1, "name": "first"})
    metrics, _ = fit.api.train_and_evaluate(estimator, specs(fit)[0], eval_spec)
    assert steps(events, estimator.eval_dir("first")) == [2, 4, 6]
    assert steps(events, estimator.eval_dir()) == []
    assert metrics["mae"] == estimator.evaluate(fit.input_fn, steps=1)["mae"]


def test_throttled(fit, events, tf_log):
    """Within `throttle_secs` only the first and the last checkpoint are evaluated."""
    estimator = every_two(fit)
    fit.api.train_and_evaluate(estimator, *specs(fit, evaluate={"throttle_secs": 600}))
    assert steps(events, estimator.eval_dir()) == [2, 6]
    skipped = [line for line in tf_log if "Skip the current checkpoint eval" in line]
    assert len(skipped) == 2
    assert "(600 secs)" in skipped[0]


def test_the_start_delay_is_for_evaluators(fit, monkeypatch):
    """A single process ignores `start_delay_secs`."""
    waits = []
    monkeypatch.setattr(time, "sleep", waits.append)
    request = module.termination.EndRequest
    monkeypatch.setattr(request, "wait", lambda self, seconds: waits.append(seconds))
    fit.api.train_and_evaluate(every_two(fit), *specs(fit, evaluate={"start_delay_secs": 600}))
    assert max(waits, default=0) < 600  # other threads' sleeps are among them


def test_until_the_input_ends(fit):
    """Without max_steps an epoch is trained and evaluated; no export is the final one."""
    final = []

    class Watch(fit.api.Exporter):
        name = "watch"

        def export(self, is_the_final_export, **kwargs):
            final.append(is_the_final_export)

    data = lambda: fit.input_fn("eval")  # noqa: E731
    train, evaluate = specs(
        fit, train={"input_fn": data, "max_steps": None}, evaluate={"exporters": Watch()}
    )
    metrics, exports = fit.api.train_and_evaluate(every_two(fit), train, evaluate)
    assert metrics["global_step"] == 4
    assert exports == [None]
    assert final == [False, False]


def test_again(fit):
    """A model that has `max_steps` is neither trained nor evaluated."""
    estimator = every_two(fit)
    fit.api.train_and_evaluate(estimator, *specs(fit))
    assert fit.api.train_and_evaluate(estimator, *specs(fit)) == (None, None)
    entries = []
    fit.api.train_and_evaluate(estimator, *specs(fit, entries, train={"max_steps": 7}))
    assert entries == [
        "training begins",
        "saved 6",
        "saved 7",
        "evaluation begins",
        "evaluation ends at 7",
        "training ends at 7",
    ]


def test_a_listener_stops_the_training(fit):
    """A listener can stop training at a checkpoint."""

    class Stop(tf1.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            return global_step_value >= 4

    train, evaluate = specs(fit, train={"max_steps": 100, "saving_listeners": [Stop()]})
    metrics, _ = fit.api.train_and_evaluate(every_two(fit), train, evaluate)
    assert metrics["global_step"] == 4


def test_no_checkpoints_no_evaluation(fit):
    """A configuration that saves nothing is refused."""
    estimator = fit.estimator(
        config={"save_checkpoints_steps": None, "save_checkpoints_secs": None}
    )
    with pytest.raises(ValueError, match="There should be a CheckpointSaverHook"):
        fit.api.train_and_evaluate(estimator, *specs(fit))


@pytest.mark.parametrize(
    ("position", "message"),
    [
        (0, "`estimator` must have type"),
        (1, "`train_spec` must have type"),
        (2, "`eval_spec` must have type"),
    ],
)
def test_types(fit, position, message):
    """The type of each argument is checked."""
    arguments = [fit.estimator(), *specs(fit)]
    arguments[position] = "invalid"
    with pytest.raises(TypeError, match=message):
        fit.api.train_and_evaluate(*arguments)


def test_exporters(fit):
    """Exports are in model_dir/export/<name>; the result has one entry for each exporter."""
    latest = fit.api.LatestExporter("latest", fit.receiver_fn, exports_to_keep=1)
    final = fit.api.FinalExporter("final", fit.receiver_fn)
    best = fit.api.BestExporter("best", fit.receiver_fn)
    estimator = fit.estimator(config={"save_checkpoints_steps": 3})
    _, exports = fit.api.train_and_evaluate(
        estimator, *specs(fit, evaluate={"exporters": [latest, final, best]})
    )
    parents = [os.path.relpath(os.path.dirname(e.decode()), estimator.model_dir) for e in exports]
    assert parents == ["export/latest", "export/final", "export/best"]
    counts = [len(os.listdir(os.path.join(estimator.model_dir, path))) for path in parents]
    assert counts == [1, 1, 2]
    served = tf.saved_model.load(exports[1].decode()).signatures["serving_default"]
    expected = [p["y"] for p in estimator.predict(fit.input_fn)]
    got = served(x=tf.constant(fit.x))["y"].numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_what_an_exporter_is_given(fit):
    """An exporter gets the checkpoint, its metrics, and whether it is the last one."""
    calls = []

    class Watch(fit.api.Exporter):
        name = "watch"

        def export(self, **kwargs):
            calls.append(kwargs)
            return len(calls)

    estimator = fit.estimator(config={"save_checkpoints_steps": 3})
    metrics, exports = fit.api.train_and_evaluate(
        estimator, *specs(fit, evaluate={"exporters": Watch()})
    )
    assert exports == [2]
    assert calls[1] == {
        "estimator": estimator,
        "export_path": os.path.join(estimator.model_dir, "export", "watch"),
        "checkpoint_path": os.path.join(estimator.model_dir, "model.ckpt-6"),
        "eval_result": metrics,
        "is_the_final_export": True,
    }
    assert calls[0]["checkpoint_path"].endswith("model.ckpt-3")
    assert not calls[0]["is_the_final_export"]


@pytest.fixture
def place(monkeypatch):
    """Sets TF_CONFIG to a task of a cluster."""

    def place(task_type, index=0, **jobs):
        ports = itertools.count(1)
        cluster = {job: [f"localhost:{next(ports)}" for _ in range(n)] for job, n in jobs.items()}
        task = {"type": task_type, "index": index}
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))

    return place


def test_the_only_chief(fit, place):
    """The chief of a cluster of one trains without evaluating."""
    place("chief", chief=1)
    entries = []
    estimator = every_two(fit)
    assert fit.api.train_and_evaluate(estimator, *specs(fit, entries)) is None
    assert "evaluation begins" not in entries
    assert estimator.get_variable_value("global_step") == 6


def test_the_only_master(fit, place):
    """A master trains and evaluates."""
    place("master", master=1)
    entries = []
    fit.api.train_and_evaluate(every_two(fit), *specs(fit, entries))
    assert entries.count("evaluation begins") == 3
    assert entries[-1] == "training ends at 6"


def test_an_evaluator(fit, place, events, tf_log):
    """The evaluator evaluates and exports the latest checkpoint, and returns at `max_steps`."""
    train, evaluate = specs(fit, evaluate={"start_delay_secs": 0})
    estimator = every_two(fit)
    fit.api.train_and_evaluate(estimator, train, evaluate)
    place("evaluator", chief=1, worker=3, ps=2)
    entries = []
    exporter = fit.api.FinalExporter("final", fit.receiver_fn)
    train, evaluate = specs(
        fit, entries, evaluate={"start_delay_secs": 0, "exporters": exporter, "name": "late"}
    )
    estimator = every_two(fit)
    assert estimator.config.task_type == "evaluator"
    fit.api.train_and_evaluate(estimator, train, evaluate)
    assert entries == ["evaluation begins", "evaluation ends at 6"]
    assert steps(events, estimator.eval_dir("late")) == [6]
    assert len(os.listdir(os.path.join(estimator.model_dir, "export", "final"))) == 1
    assert [
        line for line in tf_log if "Exiting evaluation, global_step=6 >= train max_steps=6" in line
    ]


def test_one_evaluator_only(fit, place):
    """A second evaluator is refused."""
    place("evaluator", index=1, chief=1)
    of_a_test = mock.Mock(spec=fit.api.Estimator)  # as old programs' tests make them
    of_a_test.config = fit.estimator().config
    for estimator in (fit.estimator(), of_a_test):
        with pytest.raises(ValueError, match="only be one `evaluator` task .with task id 0"):
            fit.api.train_and_evaluate(estimator, *specs(fit))


def test_an_evaluator_does_not_train(fit, place):
    """Evaluators and parameter servers refuse to train."""
    place("evaluator", chief=1)
    with pytest.raises(ValueError, match="Train has been called wrong configuration"):
        fit.estimator().train(fit.input_fn, steps=1)
    place("ps", chief=1, ps=1)
    with pytest.raises(ValueError, match="Train has been called wrong configuration"):
        fit.estimator().train(fit.input_fn, steps=1)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("local", "`task.type` in TF_CONFIG cannot be `local`"),
        ("reader", "Task type reader is not supported. Supported task types are"),
    ],
)
def test_unknown_tasks(fit, place, task, message):
    """An unknown task type is refused."""
    place(task, chief=1, **{task: 1})
    with pytest.raises(ValueError, match=message):
        fit.api.train_and_evaluate(fit.estimator(), *specs(fit))


def test_no_task_type(fit, place):
    """A configuration without a task type is refused."""

    class NoTask(fit.api.RunConfig):
        task_type = None

    place("chief", chief=1)
    estimator = fit.api.Estimator(fit.model_fn, str(fit.model_dir), NoTask())
    with pytest.raises(ValueError, match="`estimator.config` must have task_type set"):
        fit.api.train_and_evaluate(estimator, *specs(fit))


@pytest.mark.parametrize("task", ["chief", "worker"])
def test_processes_without_servers_are_refused(ours, place, task):
    """A cluster of several processes that have no variables in common is refused at once."""
    place(task, chief=1, worker=2)
    with pytest.raises(ValueError, match="worker 1 without a parameter server"):
        ours.api.train_and_evaluate(ours.estimator(), *specs(ours))


def test_a_process_of_several_evaluates_and_predicts_alone(ours, place):
    """One of several training processes evaluates and predicts without the others."""
    place("chief", chief=1, worker=1, ps=1)
    estimator = ours.estimator()
    assert next(estimator.predict(ours.input_fn))
    assert estimator.evaluate(ours.input_fn)["global_step"] == 0


def test_an_evaluate_of_ones_own(make, line):
    """The result of an overridden `evaluate` is checked."""
    result = {}

    class Own(es.TPUEstimator):
        def evaluate(self, *args, **kwargs):
            return result["value"]

    train = es.TrainSpec(line.input_fn, max_steps=1)
    evaluate = es.EvalSpec(line.input_fn)

    def run(value):
        result["value"] = value
        estimator = make(kind=Own, model_dir=None)
        return es.train_and_evaluate(estimator, train, evaluate)

    assert run({"global_step": 1}) == ({"global_step": 1}, [])
    with pytest.raises(TypeError, match="should return dict"):
        run([1])
    with pytest.raises(ValueError, match="should never return empty metrics"):
        run({})


def test_a_checkpoint_that_vanishes(ours):
    """Checkpoints deleted during training raise an error."""

    class Delete(tf1.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            if global_step_value == 2:
                os.remove(os.path.join(ours.model_dir, "checkpoint"))

    train, evaluate = specs(ours, train={"saving_listeners": [Delete()]})
    with pytest.raises(RuntimeError, match="There was no new checkpoint after the training"):
        ours.api.train_and_evaluate(every_two(ours), train, evaluate)


@pytest.fixture
def waits(monkeypatch):
    """Replaces `time.sleep` by a function that calls `then` and records the seconds.

    The clock advances by these seconds only.
    """

    class Waits(list):
        then = staticmethod(lambda count: None)

        def sleep(self, seconds):
            self.append(seconds)
            self.then(len(self))

    found = Waits()
    clock = types.SimpleNamespace(monotonic=lambda: float(sum(found)), sleep=found.sleep)
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(
        module.termination.EndRequest, "wait", lambda request, seconds: found.sleep(seconds)
    )
    return found


def test_an_evaluator_waits_for_checkpoints(ours, place, waits, tf_log):
    """The evaluator waits start_delay_secs first, then throttle_secs between evaluations."""
    trainer = every_two(ours)
    place("evaluator", chief=1)
    evaluator = every_two(ours)
    # No checkpoint before the first evaluation; no new one after the third wait.
    training = {2: 3, 4: 6}
    waits.then = lambda count: (
        count in training and trainer.train(ours.input_fn, max_steps=training[count])
    )
    entries = []
    train, evaluate = specs(ours, entries, evaluate={"start_delay_secs": 7, "throttle_secs": 60})
    metrics, _ = ours.api.train_and_evaluate(evaluator, train, evaluate)
    assert entries == [
        "evaluation begins",
        "evaluation ends at 3",
        "evaluation begins",
        "evaluation ends at 6",
    ]
    assert metrics["global_step"] == 6
    assert waits == [7, 60, 60, 60]
    text = "\n".join(tf_log)
    assert "Estimator is not trained yet" in text
    assert "No new checkpoint ready for evaluation" in text


def test_an_evaluator_does_not_hurry(ours, place, waits, tf_log):
    """Without a throttle the evaluator polls once a second and warns once in ten minutes."""
    trainer = every_two(ours)
    place("evaluator", chief=1)
    waits.then = lambda count: count == 4 and trainer.train(ours.input_fn, max_steps=6)
    train, evaluate = specs(ours, evaluate={"start_delay_secs": 0})
    ours.api.train_and_evaluate(every_two(ours), train, evaluate)
    assert waits == [1, 1, 1, 1]
    assert len([line for line in tf_log if "Estimator is not trained yet" in line]) == 1


def test_training_deletes_what_is_evaluated(ours, place, waits, tf_log):
    """A checkpoint that goes away while its evaluation starts isn't an error of an evaluator."""
    trainer = every_two(ours)
    place("evaluator", chief=1)
    trainer.train(ours.input_fn, max_steps=2)
    index = Path(ours.model_dir, "model.ckpt-2.index")
    aside = Path(ours.model_dir, "aside")

    def input_fn():
        if index.exists():
            index.rename(aside)
        return ours.input_fn()

    def go_on(count):
        aside.rename(index)
        trainer.train(ours.input_fn, max_steps=6)

    waits.then = go_on
    train, evaluate = specs(ours, evaluate={"start_delay_secs": 0, "input_fn": input_fn})
    metrics, _ = ours.api.train_and_evaluate(every_two(ours), train, evaluate)
    assert metrics["global_step"] == 6
    assert waits == [1]
    assert "model.ckpt-2 before its evaluation ended: it keeps 5 checkpoints" in "\n".join(tf_log)
