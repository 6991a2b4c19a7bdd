# SPDX-License-Identifier: Apache-2.0
"""`Experiment` and `learn_runner` of `tf.contrib.learn`, with estimators of both kinds."""

from __future__ import annotations

import json
import os
import types

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
from estimator_spec.core.cluster import servers
from estimator_spec.legacy.contrib.learn import canned, columns, learn_runner
from estimator_spec.legacy.contrib.learn.experiment import Experiment
from estimator_spec.legacy.contrib.learn.exports import ExportStrategy, make_export_strategy
from estimator_spec.legacy.contrib.learn.model_fn_ops import InputFnOps
from estimator_spec.legacy.contrib.learn.run_config import RunConfig

tf1 = tf.compat.v1
X = np.random.RandomState(0).normal(size=(20, 1)).astype(np.float32)


def input_fn():
    """Returns twenty examples, as constants."""
    return {"x": tf.constant(X)}, tf.constant(X[:, 0] * 2)


def serving_input_fn():
    """Returns the inputs of an export."""
    inputs = {"x": tf1.placeholder(tf.float32, [None, 1])}
    return InputFnOps(inputs, None, inputs)


def receiver_fn():
    """Returns the inputs of an export of tf.estimator."""
    inputs = {"x": tf1.placeholder(tf.float32, [None, 1])}
    return estimator_spec.ServingInputReceiver(inputs, inputs)


@pytest.fixture(params=["contrib", "core"])
def kind(request):
    """Returns which kind of estimator an experiment has."""
    return request.param


@pytest.fixture
def make(tmp_path):
    """Returns a function that makes an experiment."""

    def experiment(kind="contrib", config=None, **options):
        config = config or RunConfig(
            model_dir=str(tmp_path / "model"), tf_random_seed=1, save_checkpoints_steps=10
        )
        if kind == "contrib":
            model = canned.LinearRegressor([columns.real_valued_column("x")], config=config)
        else:
            number = [tf.feature_column.numeric_column("x")]
            model = estimator_spec.canned.v1.LinearRegressor(number, config=config)
        options = {"train_steps": 30, "eval_steps": 1, "eval_delay_secs": 0, **options}
        return Experiment(model, input_fn, input_fn, **options)

    return experiment


def evaluated_steps(experiment, folder="eval"):
    """Returns the global steps whose evaluations are in event files."""
    directory = os.path.join(experiment.estimator.model_dir, folder)
    return sorted(
        {
            event.step
            for name in os.listdir(directory)
            for event in tf1.train.summary_iterator(os.path.join(directory, name))
            if event.summary.value
        }
    )


def test_training_with_evaluations(make, kind):
    """train_and_evaluate evaluates each checkpoint, and exports the last."""
    function = serving_input_fn if kind == "contrib" else receiver_fn
    experiment = make(kind, export_strategies=make_export_strategy(function))
    metrics, (path,) = experiment.train_and_evaluate()
    assert metrics["global_step"] == 30
    assert evaluated_steps(experiment)[-1] == 30
    assert {10, 20} & set(evaluated_steps(experiment))
    folder = os.path.join(experiment.estimator.model_dir, "export", "Servo")
    assert os.path.dirname(path.decode()) == folder


def test_no_evaluations_between(make):
    """min_eval_frequency=0 evaluates at the end only; local_run is the older name."""
    experiment = make(min_eval_frequency=0)
    metrics, exports = experiment.local_run()
    assert (metrics["global_step"], exports) == (30, [])
    assert evaluated_steps(experiment) == [30]


def test_export_of_each_checkpoint(make, kind):
    """checkpoint_and_export evaluates and exports each checkpoint when it is saved."""
    exported = []

    def export_fn(estimator, export_path, checkpoint_path, eval_result):
        exported.append((os.path.basename(checkpoint_path), int(eval_result["global_step"])))
        return export_path

    strategy = ExportStrategy("mine", export_fn)
    experiment = make(kind, checkpoint_and_export=True, export_strategies=[strategy])
    metrics, (path,) = experiment.train_and_evaluate()
    assert exported == [(f"model.ckpt-{step}", step) for step in (0, 10, 20, 30)][-len(exported) :]
    assert len(exported) >= 3
    assert metrics["global_step"] == 30
    assert path.endswith(os.path.join("export", "mine"))


def test_turns(make, kind):
    """continuous_train_and_eval trains and evaluates by turns, while its function says so."""
    experiment = make(kind, train_steps_per_iteration=10)
    assert experiment.continuous_train_and_eval()[0]["global_step"] == 30
    assert evaluated_steps(experiment) == [10, 20, 30]
    stopped = make(kind, train_steps=60, train_steps_per_iteration=10)
    found, _ = stopped.continuous_train_and_eval(
        lambda metrics: metrics is None or metrics["global_step"] < 50
    )
    assert found["global_step"] == 50


def test_evaluations_by_another_process(make, kind):
    """continuous_eval evaluates the checkpoints of a training until its last step."""
    experiment = make(kind, continuous_eval_throttle_secs=0)
    experiment.train()
    experiment.continuous_eval()
    experiment.continuous_eval_on_train_data()
    assert evaluated_steps(experiment, "eval_continuous") == [30]
    assert evaluated_steps(experiment, "eval_continuous_on_train_data") == [30]
    calls = []
    make(kind, train_steps=99).continuous_eval(
        throttle_delay_secs=0,
        evaluate_checkpoint_only_once=False,
        continuous_eval_predicate_fn=lambda metrics: calls.append(metrics) or len(calls) < 3,
    )
    assert [each and int(each["global_step"]) for each in calls] == [None, 30, 30]


def test_one_pass(make, kind):
    """test() trains one step and evaluates one batch; hooks can be added to training."""
    experiment = make(kind)
    experiment.extend_train_hooks([tf1.train.StopAtStepHook(1)])
    metrics, exports = experiment.test()
    assert (metrics["global_step"], exports) == (1, [])
    assert experiment.evaluate(name="x")["global_step"] == 1
    assert (experiment.train_steps, experiment.eval_steps, experiment.eval_metrics) == (30, 1, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "core", "eval_metrics": {}}, "`eval_metrics` must be `None`"),
        ({"export_strategies": [3]}, "must be an ExportStrategy"),
        ({"export_strategies": lambda: [ExportStrategy("a", len)] * 2}, "unique names"),
    ],
)
def test_wrong_arguments(make, options, message):
    """Wrong strategies, and metrics of an estimator of tf.estimator, are refused."""
    with pytest.raises(ValueError, match=message):
        make(**options)
    with pytest.raises(ValueError, match="`estimator` must implement"):
        Experiment({}, input_fn, input_fn)


def test_runner(make, tmp_path):
    """learn_runner makes the experiment by a directory, or by a configuration and hparams."""
    given = []

    def by_directory(output_dir):
        given.append(output_dir)
        return make(config=RunConfig(model_dir=output_dir))

    def by_config(run_config, hparams):
        given.append(hparams)
        return make(config=run_config)

    metrics, _ = learn_runner.run(by_directory, str(tmp_path / "a"))
    assert metrics["global_step"] == 30
    config = RunConfig(model_dir=str(tmp_path / "b"))
    model = learn_runner.run(by_config, run_config=config, hparams="h", schedule="train")
    assert model.model_dir == str(tmp_path / "b")
    assert given == [str(tmp_path / "a"), "h"]
    trials = iter([True, True, False])
    tuner = types.SimpleNamespace(
        next_trial=lambda: next(trials), run_experiment=lambda function: given.append(function)
    )
    learn_runner.tune(by_config, tuner)
    assert given[2:] == [by_config, by_config]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Must specify an output directory"),
        ({"output_dir": "a", "run_config": 1}, "both `output_dir` and `run_config`"),
        ({"output_dir": "a", "hparams": 1}, "Must set `run_config`"),
        ({"run_config": 1}, "tf.contrib.learn.RunConfig"),
        ({"run_config": RunConfig()}, "Must specify a model directory"),
        ({"output_dir": "a", "experiment_fn": 3}, "is not callable"),
        ({"output_dir": "a", "experiment_fn": str}, "did not return an Experiment"),
        ({"output_dir": "a", "schedule": "no_such"}, "non-existent task no_such.*train_and_eval"),
    ],
)
def test_wrong_runs(make, options, message):
    """Arguments that exclude each other, and unknown methods, are errors."""
    with pytest.raises((ValueError, TypeError), match=message):
        learn_runner.run(**{"experiment_fn": lambda output_dir: make(), **options})


@pytest.mark.parametrize(
    ("task", "method"),
    [
        ("master", "train_and_evaluate"),
        ("chief", "train_and_evaluate"),
        ("worker", "train"),
        ("ps", "serve"),
    ],
)
def test_schedules_of_a_cluster(make, tmp_path, monkeypatch, task, method):
    """In a cluster each task runs its own method."""
    cluster = {"chief" if task == "chief" else "master": ["h:1"], "worker": ["h:2"], "ps": ["h:3"]}
    tf_config = {"cluster": cluster, "task": {"type": task, "index": 0}, "environment": "cloud"}
    monkeypatch.setenv("TF_CONFIG", json.dumps(tf_config))
    called = []
    for name in ("train", "train_and_evaluate"):
        monkeypatch.setattr(Experiment, name, lambda self, name=name: called.append(name))
    monkeypatch.setattr(servers, "serve", lambda config: called.append("serve"))
    learn_runner.run(
        lambda run_config, hparams: make(config=run_config),
        run_config=RunConfig(model_dir=str(tmp_path)),
    )
    assert called == [method]


def test_a_server_needs_a_cluster(make):
    """run_std_server without a cluster is an error that names TF_CONFIG."""
    with pytest.raises(ValueError, match="TF_CONFIG must have a cluster"):
        make().run_std_server()


def test_workers_wait(make, monkeypatch):
    """A later worker starts later, or waits for a global step."""
    waited = []
    monkeypatch.setattr("time.sleep", waited.append)
    experiment = make()
    config = types.SimpleNamespace(task_id=3, is_chief=True)
    monkeypatch.setattr(type(experiment.estimator), "config", config)
    trained = []
    monkeypatch.setattr(experiment.estimator, "train_with", lambda *args: trained.append(args))
    experiment.train()
    assert waited == [15]
    experiment.delay_workers_by_global_step = True
    experiment.train()
    _, hooks, *_ = trained[-1]
    assert isinstance(hooks[-1], tf1.train.GlobalStepWaiterHook)
