# SPDX-License-Identifier: Apache-2.0
"""Private names of the old Estimator; tests/programs/executor_clients.py compares them live."""

from __future__ import annotations

import json

import pytest
import tensorflow as tf

import estimator_spec
from estimator_spec.core.driver import checkpoint_evaluation
from estimator_spec.legacy import estimator_parts, export_gc, training_parts

tf1 = tf.compat.v1


def input_fn():
    """Returns eight examples."""
    return tf.data.Dataset.from_tensor_slices(({"x": [[1.0]] * 8}, [[2.0]] * 8)).batch(4)


def model_fn(features, labels, mode):
    """Fits one number."""
    y = features["x"] * tf1.get_variable("w", [])
    loss = tf1.losses.mean_squared_error(labels, y)
    train_op = tf1.train.GradientDescentOptimizer(0.1).minimize(loss, tf1.train.get_global_step())
    return estimator_spec.EstimatorSpec(mode, {"y": y}, loss, train_op)


@pytest.fixture
def estimator(tmp_path):
    """Returns an estimator."""
    return estimator_spec.Estimator(model_fn, tmp_path / "model")


@pytest.fixture
def executor(estimator):
    """Returns a function that creates an executor with a listener."""

    def create(listener=None, max_steps=4):
        return training_parts.TrainingExecutor(
            estimator,
            estimator_spec.TrainSpec(lambda: input_fn().repeat(), max_steps),
            estimator_spec.EvalSpec(input_fn, start_delay_secs=0, throttle_secs=0),
            continuous_eval_listener=listener,
        )

    return create


class Refuses(checkpoint_evaluation.EvaluationObserver):
    """Ends `train_and_evaluate` before or after the first evaluation."""

    def __init__(self, before):
        self.before = before
        self.statuses = []

    def before_eval(self):
        return not self.before

    def after_eval(self, eval_result):
        self.statuses.append(eval_result.status)
        return False


def test_an_executor_runs_every_task(executor, estimator):
    """`run_chief`, `run_master`, `run_local` and `run_evaluator` train and evaluate."""
    assert executor().estimator is estimator
    executor().run_chief()
    assert estimator_parts.load_global_step_from_checkpoint_dir(estimator.model_dir) == 4
    executor().run_evaluator()
    executor(max_steps=6).run_master()
    metrics, exports = executor(max_steps=8).run_local()
    assert metrics["global_step"] == 8 and exports == []


@pytest.mark.parametrize("before", [True, False])
def test_a_listener_ends_an_evaluator(executor, before):
    """A process that only evaluates ends when the listener says so, even without a checkpoint."""
    listener = Refuses(before)
    executor(listener).run_evaluator()
    assert listener.statuses == ([] if before else ["missing checkpoint"])


def test_a_listener_ends_training(executor, estimator):
    """A listener that refuses an evaluation ends training at the next checkpoint."""
    config = estimator_spec.run_config.RunConfig(save_checkpoints_steps=2)
    other = estimator_spec.Estimator(model_fn, estimator.model_dir, config)
    job = executor(Refuses(before=True), max_steps=100)
    job._job = job._job._replace(estimator=other)
    assert job.run() == (None, None)
    assert estimator_parts.load_global_step_from_checkpoint_dir(estimator.model_dir) == 2


def test_types_of_an_executor(estimator):
    """A listener of another class is refused; a process that only trains needs no EvalSpec."""
    train_spec = estimator_spec.TrainSpec(input_fn)
    training_parts.TrainingExecutor(estimator, train_spec, None)
    with pytest.raises(TypeError, match="eval_spec"):
        training_parts.TrainingExecutor(estimator, train_spec, None).run()
    with pytest.raises(TypeError, match="observer"):
        training_parts.TrainingExecutor(estimator, train_spec, None, None, object())


def test_an_iterator_of_an_input_fn(estimator):
    """`_get_iterator_from_input_fn` gives an iterator, and the hook that initializes it."""
    with tf.Graph().as_default(), tf1.Session() as session:
        iterator, (hook,) = estimator._get_iterator_from_input_fn(input_fn, "train")
        features, _ = iterator.get_next()
        hook.begin()
        hook.after_create_session(session, None)
        assert session.run(features["x"]).shape == (4, 1)
        with pytest.raises(ValueError, match="tf.distribute.Strategy"):
            estimator._get_iterator_from_input_fn(input_fn, "train", object())


def test_initializers_of_datasets():
    """`MultiHostDatasetInitializerHook` runs the initializers that it was given."""
    with tf.Graph().as_default(), tf1.Session() as session:
        iterator = tf1.data.make_initializable_iterator(tf.data.Dataset.range(3))
        hook = estimator_parts.MultiHostDatasetInitializerHook([iterator.initializer])
        hook.after_create_session(session, None)
        assert session.run(iterator.get_next()) == 0


def test_paths_without_a_version(tmp_path):
    """Filters of exports leave out paths without a version, and those that the parser drops."""
    for name in ("1", "2", "temp-3"):
        (tmp_path / name).mkdir()

    def parser(path):
        name = path.path.rpartition("/")[2]
        return path._replace(export_version=json.loads(name)) if name.isdigit() else None

    paths = export_gc.get_paths(tmp_path.as_posix(), parser)
    assert [path.export_version for path in paths] == [1, 2]
    extra = [*paths, export_gc.Path("none", None)]
    assert export_gc.largest_export_versions(1)(extra) == paths[1:]
    assert export_gc.largest_export_versions(0)(extra) == []
    assert export_gc.one_of_every_n_export_versions(5)(extra) == paths[1:]
    newest = export_gc.largest_export_versions(1)
    assert export_gc.negation(newest)(extra) == sorted([paths[0], extra[2]])
    assert export_gc.union(newest, export_gc.negation(newest))(extra) == sorted(extra)
