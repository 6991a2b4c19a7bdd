# SPDX-License-Identifier: Apache-2.0
"""Steps without hooks: training has the same results as if hooks saw every step."""

from __future__ import annotations

import logging
import pathlib
import re
import tempfile
import types

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import estimator_spec as es
from estimator_spec.core.driver import hookless_steps, hooks
from estimator_spec.core.user_functions import skippable_hooks

tf1 = tf.compat.v1


@pytest.fixture(autouse=True)
def no_time_limit(monkeypatch):
    """Removes the time limit of runs without hooks, so that a busy machine changes nothing."""
    monkeypatch.setattr(hookless_steps, "_MAX_SECONDS", 600.0)


class CountingHook(tf1.train.SessionRunHook):
    """A user's hook that counts its calls; it is not a SkippableHook, so it sees all steps."""

    def __init__(self):
        self.seen = 0

    def after_run(self, run_context, run_values):
        """Counts."""
        self.seen += 1


def increment(by):
    """Returns a train_op that increments the global step by a function of the number of calls."""

    def count():
        step = tf1.train.get_or_create_global_step()
        calls = tf1.get_variable("calls", [], tf.int64, tf1.zeros_initializer(), trainable=False)
        with tf.control_dependencies([calls.assign_add(1)]):
            return step.assign_add(by(calls.read_value()))

    return count


def increment_by(by=1, every=1):
    """Returns a train_op that increments the global step in each N-th call."""
    return increment(lambda calls: by * tf.cast(tf.equal(calls % every, 0), tf.int64))


def trained(directory, with_hook, count=None, examples=10_000, start=0, nan_at=-1, **how):
    """Trains; returns its checkpoints, summaries, log lines and errors."""

    def model_fn(features, labels, mode):
        w = tf1.get_variable("w", [], initializer=tf1.zeros_initializer())
        loss = tf.square(w - tf.reduce_mean(features["x"]))
        tf1.summary.scalar("w", w)
        if count is None:
            optimizer = tf1.train.GradientDescentOptimizer(0.01)
            train_op = optimizer.minimize(loss, tf1.train.get_global_step())
        else:
            train_op = count()
        return es.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def input_fn():
        x = np.arange(examples, dtype=np.float32) % 7
        x[nan_at if nan_at >= 0 else len(x) :] = np.nan
        return tf.data.Dataset.from_tensor_slices({"x": x}).batch(1)

    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = logging.getLogger("tensorflow")
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    steps = {key: how.pop(key) for key in ("steps", "max_steps") if key in how}
    config = es.RunConfig(model_dir=str(directory), tf_random_seed=1, **how)
    error = None
    try:
        if start:
            es.Estimator(model_fn, config=config).train(input_fn, max_steps=start)
        estimator = es.Estimator(model_fn, config=config)
        estimator.train(input_fn, hooks=[CountingHook()] if with_hook else [], **steps)
    except tf1.train.NanLossDuringTrainingError as nan:
        error = type(nan)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    return {
        "checkpoints": sorted(p.name for p in pathlib.Path(directory).glob("*.index")),
        "w": last_w(directory),
        "summaries": summaries(directory),
        "losses": [
            (round(float(found.group(1)), 4), int(found.group(2)))
            for found in (re.match(r"loss = (\S+), step = (\d+)", line) for line in lines)
            if found
        ],
        "speeds": sum("global_step/sec" in line for line in lines),
        "last loss": [line for line in lines if line.startswith("Loss for final step")][-1:],
        "error": error,
    }


def last_w(directory):
    """Returns the trained variable of the latest checkpoint, if any."""
    saved = tf.train.latest_checkpoint(str(directory))
    return saved and float(tf.train.load_variable(saved, "w"))


def summaries(directory):
    """Returns the steps and values of the summaries of the loss."""
    tf1.summary.FileWriterCache.clear()  # writes what is held back
    found = []
    for path in sorted(map(str, pathlib.Path(directory).glob("events*"))):
        for event in tf1.train.summary_iterator(path):
            for value in event.summary.value:
                if value.tag == "loss":
                    found.append((event.step, round(value.simple_value, 4)))
    return sorted(found)


@settings(deadline=None, max_examples=6)
@given(
    steps=st.integers(1, 40),
    start=st.sampled_from([0, 3]),
    save=st.sampled_from([None, 1, 7, 13]),
    log=st.sampled_from([None, 1, 6, 11]),
    summarize=st.sampled_from([None, 5, 9]),
    examples=st.sampled_from([10_000, 17]),
)
def test_results_equal_those_with_hooks(steps, start, save, log, summarize, examples):
    """Checkpoints, summaries, log lines and the end are at the same steps as with hooks."""
    how = {
        "steps": steps,
        "start": start,
        "examples": examples,
        "save_checkpoints_steps": save,
        "save_checkpoints_secs": None,
        "log_step_count_steps": log,
        "save_summary_steps": summarize,
    }
    found = []
    for with_hook in (False, True):
        with tempfile.TemporaryDirectory() as directory:
            found.append(trained(directory, with_hook, **how))
    assert found[0] == found[1]


@pytest.mark.parametrize("with_hook, examples", [(True, 58), (False, 2), (False, 58), (False, 65)])
def test_the_loss_of_the_last_step(tmp_path, with_hook, examples):
    """If the input ends training, the log has the loss of the last example."""
    found = trained(tmp_path, with_hook, increment_by(), examples)
    loss = float(((examples - 1) % 7) ** 2)
    assert found["last loss"] == [f"Loss for final step: {loss}."]


class CoordinatorHook(skippable_hooks.SkippableHook, tf1.train.SessionRunHook):
    """Keeps the coordinator of a session."""

    def after_create_session(self, session, coord):
        """Keeps the coordinator."""
        self.coordinator = coord


def test_a_thread_that_stops_the_session(tmp_path):
    """Steps without hooks end soon after another thread requests the stop of the session."""
    hook = CoordinatorHook()

    def examples():
        for number in range(10_000):
            if number == 50:
                hook.coordinator.request_stop()
            yield {"x": np.float32(number % 7)}

    def input_fn():
        signature = {"x": tf.TensorSpec([], tf.float32)}
        return tf.data.Dataset.from_generator(examples, output_signature=signature).batch(1)

    def model_fn(features, labels, mode):
        loss = tf.reduce_mean(features["x"])
        return es.EstimatorSpec(mode, loss=loss, train_op=increment_by()())

    config = es.RunConfig(model_dir=str(tmp_path), log_step_count_steps=5000)
    estimator = es.Estimator(model_fn, config=config)
    estimator.train(input_fn, hooks=[hook])
    assert estimator.get_variable_value("global_step") < 60


def test_a_loss_that_is_no_number(tmp_path):
    """Training ends at the very step whose loss is NaN."""
    for with_hook in (False, True):
        directory = tmp_path / str(with_hook)
        how = {"steps": 100, "save_checkpoints_steps": 1, "keep_checkpoint_max": 50}
        found = trained(directory, with_hook, nan_at=20, **how)
        assert found["error"] is tf1.train.NanLossDuringTrainingError
        raw = trained(tmp_path / f"{with_hook}-raw", with_hook, nan_at=20, steps=100)
        assert raw["error"] is found["error"]
        # The hook ends the session before the step's checkpoint.
        assert raw["checkpoints"] == ["model.ckpt-0.index"]


@pytest.mark.parametrize(("by", "every"), [(1, 2), (3, 5)])
def test_other_increments(tmp_path, by, every):
    """A global step that isn't counted up by one each step ends where it does with hooks."""
    found = [
        trained(tmp_path / str(with_hook), with_hook, increment_by(by, every), max_steps=30)
        for with_hook in (False, True)
    ]
    assert found[0]["checkpoints"] == found[1]["checkpoints"]


@pytest.mark.parametrize("after, log", [(0, None), (10, None), (10, 100)])
def test_changing_increments(tmp_path, after, log):
    """If the increment changes during training, it ends about where it does with hooks."""

    def by(calls):
        return tf.where((calls < 20) | (calls > 40), tf.constant(1, tf.int64), after)

    ends = []
    for with_hook in (False, True):
        directory = tmp_path / str(with_hook)
        trained(directory, with_hook, increment(by), max_steps=100, log_step_count_steps=log)
        ends.append(int(tf.train.load_variable(str(directory), "global_step")))
    # A raw step runs before its increment is checked, and then a step with hooks.
    assert ends[1] <= ends[0] <= ends[1] + 2 * after


def test_hooks_see_the_step_before(tmp_path):
    """Hooks read the global step before its increment, even if no other op orders the two."""
    how = {"steps": 60, "log_step_count_steps": 1}
    found = trained(tmp_path, True, increment_by(), **how)
    assert [step for _, step in found["losses"]] == list(range(60))


@pytest.fixture
def calls(monkeypatch):
    """Returns a list with an element for each call of a hook of the driver."""
    found, after_run = [], hooks.LossLogger.after_run

    def counting(self, *arguments):
        found.append(1)
        after_run(self, *arguments)

    monkeypatch.setattr(hooks.LossLogger, "after_run", counting)
    return found


def test_calls_of_hooks(tmp_path, calls):
    """A user's hook sees every step; without one, the driver's hooks see few steps."""
    trained(tmp_path / "loud", True, steps=200)
    assert len(calls) == 200
    calls.clear()
    trained(tmp_path / "raw", False, steps=200)
    assert len(calls) < 20


def test_a_host_call(tmp_path, calls):
    """A host call runs in every step, also in those without hooks."""

    def model_fn(features, labels, mode, params):
        total = tf1.get_variable("total", [], tf.int64, tf1.zeros_initializer(), trainable=False)

        def host_fn(step):
            return total.assign_add(step[0])

        step = tf1.train.get_or_create_global_step()
        train_op = step.assign_add(1)
        with tf.control_dependencies([train_op]):
            numbers = tf.reshape(step.read_value(), [1])
        loss = tf.reduce_mean(features["x"])
        return es.TPUEstimatorSpec(
            mode, loss=loss, train_op=train_op, host_call=(host_fn, [numbers])
        )

    def input_fn(params):
        return tf.data.Dataset.from_tensors({"x": np.ones([params["batch_size"]])}).repeat()

    config = es.RunConfig(model_dir=str(tmp_path), tf_random_seed=1)
    estimator = es.TPUEstimator(model_fn, config=config, use_tpu=False, train_batch_size=2)
    estimator.train(input_fn, steps=200)
    assert estimator.get_variable_value("total") == sum(range(1, 201))
    assert len(calls) < 20


def test_hooks_that_go_by_the_clock(tmp_path, monkeypatch, calls):
    """Hooks see a step again after half a second, even if they need a much later one."""
    times = iter(range(10_000))
    clock = types.SimpleNamespace(monotonic=lambda: next(times) / 10)  # each look takes 0.1 s
    monkeypatch.setattr(hookless_steps, "_MAX_SECONDS", 0.5)
    monkeypatch.setattr(hookless_steps, "time", clock)
    trained(tmp_path, False, steps=100, log_step_count_steps=1000)
    assert 15 < len(calls) < 40


@pytest.fixture(scope="module")
def mean_model(tmp_path_factory):
    """Returns an estimator of a mean, trained for three steps."""

    def model_fn(features, labels, mode):
        w = tf1.get_variable("w", [], initializer=tf1.zeros_initializer())
        if mode == es.ModeKeys.PREDICT:
            return es.EstimatorSpec(
                mode, predictions={"twice": features["x"] * 2.0, "w": w + features["x"]}
            )
        loss = tf.reduce_mean(tf.square(w - features["x"]))
        metrics = {"mean": tf1.metrics.mean(features["x"])}
        step = tf1.train.get_global_step()
        train_op = tf1.train.GradientDescentOptimizer(0.01).minimize(loss, step)
        return es.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)

    estimator = es.Estimator(model_fn, str(tmp_path_factory.mktemp("mean")))
    estimator.train(_numbers, steps=3)
    return estimator


def _numbers():
    x = np.arange(60, dtype=np.float32)
    return tf.data.Dataset.from_tensor_slices({"x": x}).batch(2)


@pytest.mark.parametrize("steps", [None, 1, 7, 25, 30, 40])
def test_evaluations(mean_model, tf_log, steps):
    """Metrics and progress lines are the same with and without a user's hook, which sees all."""
    counting_hook, found = CountingHook(), []
    for hooks_ in ([], [counting_hook]):
        tf_log.clear()
        results = mean_model.evaluate(_numbers, steps=steps, hooks=hooks_)
        found.append((results, [line for line in tf_log if line.startswith("Evaluation [")]))
    assert found[0] == found[1]
    assert counting_hook.seen == min(steps or 30, 30)


def test_predictions(mean_model):
    """Predictions are the same with and without a user's hook, which sees every batch."""
    counting_hook, found = CountingHook(), []
    for hooks_ in ([], [counting_hook]):
        found.append(list(mean_model.predict(_numbers, hooks=hooks_)))
    assert found[0] == found[1]
    assert [example["twice"] for example in found[0]] == list(np.arange(60) * 2.0)
    assert counting_hook.seen == 30


GONE = tf.errors.AbortedError(None, None, "gone")
# What a worker got after a server's link was cut for 20 seconds.
CANCELLED = tf.errors.CancelledError(
    None,
    None,
    "RecvFromRemoteAsync is cancelled.\nAdditional GRPC error information from remote target "
    "/job:ps/replica:0/task:1 while calling /tensorflow.WorkerService/RecvTensor",
)
# What a chief got when a server was killed.
GIVEN_UP = tf.errors.CancelledError(
    None,
    None,
    "CANCELLED: From /job:chief/replica:0/task:0:\nRecvFromRemoteAsync is cancelled.\n"
    "ABORTED: From /job:ps/replica:0/task:1:\nSession handle is not found: 335407a30e65fbc4.",
)


def _lose_a_session(monkeypatch, at, error=GONE):
    """Makes one raw call fail as if the session were lost; returns the list of raw calls."""
    calls = []
    make_callable = tf1.Session.make_callable

    def made(self, fetches, *arguments, **named):
        call = make_callable(self, fetches, *arguments, **named)

        def run():
            calls.append(self)
            if len(calls) == at:
                raise error
            return call()

        return run

    monkeypatch.setattr(tf1.Session, "make_callable", made)
    return calls


@pytest.mark.parametrize("at, steps", [(1, None), (5, 100)])
def test_evaluations_whose_session_is_lost(mean_model, tf_log, monkeypatch, at, steps):
    """A new session evaluates the input from its beginning; no batch counts twice."""

    def input_fn():
        return _numbers().repeat(5)

    wanted = mean_model.evaluate(input_fn, steps=steps)
    calls = _lose_a_session(monkeypatch, at)
    tf_log.clear()
    assert mean_model.evaluate(input_fn, steps=steps) == wanted
    assert len(set(calls)) == 2
    lines = [line for line in tf_log if line.startswith("Evaluation [")]
    assert lines == [f"Evaluation [{count}/100]" for count in range(10, 101, 10) if steps]


def test_predictions_whose_session_is_lost(mean_model, monkeypatch):
    """A new session predicts the input from its beginning, as with hooks."""
    calls = _lose_a_session(monkeypatch, 5)
    found = [example["twice"] for example in mean_model.predict(_numbers)]
    assert found[-60:] == list(np.arange(60) * 2.0)
    assert len(set(calls)) == 2


@pytest.mark.parametrize(("at", "error"), [(1, GONE), (20, GONE), (20, CANCELLED), (20, GIVEN_UP)])
def test_trainings_whose_session_is_lost(tmp_path, monkeypatch, at, error):
    """Training continues from its last checkpoint to the requested step."""
    calls = _lose_a_session(monkeypatch, at, error)
    trained(tmp_path, with_hook=False, steps=40)
    assert tf.train.load_variable(str(tmp_path), "global_step") == 40
    assert len(set(calls)) == 2


def test_a_cancelled_step_of_the_process_ends_the_training(tmp_path, monkeypatch):
    """A step that no other task has cancelled isn't repeated."""
    _lose_a_session(monkeypatch, 20, tf.errors.CancelledError(None, None, "Enqueue was cancelled"))
    with pytest.raises(tf.errors.CancelledError, match="Enqueue was cancelled"):
        trained(tmp_path, with_hook=False, steps=40)


def test_steps_before_a_session_is_lost_count(mean_model, tf_log, monkeypatch):
    """Hooks hear of the steps that ran without them before the one that failed."""
    first = mean_model.get_variable_value("global_step")
    _lose_a_session(monkeypatch, 20)
    mean_model.train(lambda: _numbers().repeat(5), hooks=[hooks.LostSessionLogger()], steps=40)
    (line,) = [each for each in tf_log if "A parameter server was lost" in each]
    lost, restored = map(int, re.findall(r"global step (\d+)", line))
    assert restored == first
    assert lost > first + 15  # of 19 calls, some read the global step
