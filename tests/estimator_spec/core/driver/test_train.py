# SPDX-License-Identifier: Apache-2.0
"""Effects of each argument of `train`."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import forking_python
import host_runs

tf1 = tf.compat.v1


def test_learns(make, line):
    """Training fits the line of the data, and saves the last step."""
    estimator = make()
    assert estimator.train(line.input_fn, steps=150) is estimator
    np.testing.assert_allclose(estimator.get_variable_value("weight"), [[3]], atol=1e-2)
    np.testing.assert_allclose(estimator.get_variable_value("bias"), [1], atol=1e-2)
    assert estimator.get_variable_value("global_step") == 150


def test_the_log_of_saves(make, line, tf_log):
    """The log says which checkpoints are saved, and reading the state file adds no line."""

    class Listener(tf1.train.CheckpointSaverListener):
        def __init__(self):
            self.calls = []

        def before_save(self, session, global_step_value):
            self.calls.append(("before", global_step_value))

        def after_save(self, session, global_step_value):
            self.calls.append(("after", global_step_value))

    make().train(line.input_fn, steps=5)
    tf_log.clear()
    listener = Listener()
    make().train(line.input_fn, steps=5, saving_listeners=[listener])
    saved = [text for text in tf_log if text.startswith("Saving checkpoints for")]
    assert [text.split()[3] for text in saved] == ["10"]
    assert [text for text in tf_log if text.endswith("-5 was restored, and is kept as it is.")]
    calls = [(when, step) for step in (5, 10) for when in ("before", "after")]
    assert listener.calls == calls
    assert not [text for text in tf_log if "all_model_checkpoint_paths" in text]


def test_steps_add_up_and_max_steps_do_not(make, line, tf_log):
    """`steps` counts from the current global step, `max_steps` from zero."""
    estimator = make()
    estimator.train(line.input_fn, steps=3)
    estimator.train(line.input_fn, steps=3)
    assert estimator.get_variable_value("global_step") == 6
    estimator.train(line.input_fn, max_steps=8)
    assert estimator.get_variable_value("global_step") == 8
    estimator.train(line.input_fn, max_steps=8)
    assert "Skipping training since max_steps has already saved." in tf_log
    assert estimator.get_variable_value("global_step") == 8


def test_a_new_estimator_continues_an_old_directory(make, line):
    """Training continues from the variables and slot variables in `model_dir`."""
    once, twice = make(model_dir=None), make(model_dir=None)
    once.train(line.input_fn, steps=6)
    twice.train(lambda params: line.input_fn("train", params), steps=4)
    again = make(model_dir=twice.model_dir)
    again.train(lambda params: line.input_fn("train", params).skip(4), steps=2)
    host_runs.assert_same_values(again, once, rtol=1e-6)


@pytest.mark.parametrize("max_steps", [None, 100])
def test_ends_with_the_input(make, line, max_steps):
    """If the data end before the last step, training ends with a checkpoint."""
    estimator = make()
    estimator.train(lambda params: line.input_fn("eval", params), max_steps=max_steps)
    assert estimator.get_variable_value("global_step") == 4


def test_a_hook_can_stop(make, line):
    """`request_stop` ends training after the step, with a checkpoint."""

    class Stop(tf1.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            run_context.request_stop()

    estimator = make()
    estimator.train(line.input_fn, hooks=[Stop()], steps=10)
    assert estimator.get_variable_value("global_step") == 1


class Listener(tf1.train.CheckpointSaverListener):
    """Records the steps that are saved."""

    def __init__(self):
        self.saved = []

    def after_save(self, session, global_step_value):
        self.saved.append(int(global_step_value))


def test_listeners_hear_of_every_checkpoint(make, line):
    """Listeners are called for the first, the periodic and the last checkpoint."""
    listener = Listener()
    estimator = make(config={"save_checkpoints_steps": 2})
    estimator.train(line.input_fn, steps=5, saving_listeners=[listener])
    # TensorFlow's hook may save a step early: it may read the global step before the increment.
    assert listener.saved == sorted(set(listener.saved))
    assert (listener.saved[0], listener.saved[-1]) == (0, 5)
    assert len(listener.saved) >= 4


def test_listeners_of_a_hook_of_the_users(make, line, tmp_path):
    """The user's CheckpointSaverHook replaces the driver's, and gets the listeners."""
    listener = Listener()
    hook = tf1.train.CheckpointSaverHook(str(tmp_path / "model"), save_steps=100)
    estimator = make(config={"save_checkpoints_steps": 1})
    estimator.train(line.input_fn, hooks=[hook], steps=4, saving_listeners=[listener])
    assert listener.saved == [0, 4]


def test_listeners_need_something_that_saves(make, line):
    """A listener is an error if no hook saves checkpoints."""
    estimator = make(config={"save_checkpoints_steps": None, "save_checkpoints_secs": None})
    with pytest.raises(ValueError, match="There should be a CheckpointSaverHook"):
        estimator.train(line.input_fn, steps=1, saving_listeners=[Listener()])


def test_checkpoints_by_steps(make, line):
    """A checkpoint is saved every N steps, and only the newest ones are kept."""
    estimator = make(config={"save_checkpoints_steps": 2, "keep_checkpoint_max": 2})
    estimator.train(line.input_fn, steps=7)
    state = tf.train.get_checkpoint_state(estimator.model_dir)
    kept = [os.path.basename(path) for path in state.all_model_checkpoint_paths]
    assert len(kept) == 2
    assert kept[-1] == "model.ckpt-7"
    assert estimator.latest_checkpoint() == os.path.join(estimator.model_dir, "model.ckpt-7")


def test_checkpoints_by_seconds(make, line, monkeypatch):
    """An interval in seconds saves checkpoints between the first and the last step."""
    real, passed = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + passed[0])

    class Slow(tf1.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            passed[0] += 300

    listener = Listener()
    estimator = make(config={"save_checkpoints_secs": 500})
    estimator.train(line.input_fn, hooks=[Slow()], steps=4, saving_listeners=[listener])
    assert listener.saved[0] == 0
    assert listener.saved[-1] == 4
    assert 3 <= len(listener.saved) <= 4


def test_a_directory_can_be_moved(make, line, tmp_path):
    """The state file has relative paths, so a copied directory works."""
    estimator = make()
    estimator.train(line.input_fn, steps=1)
    os.rename(estimator.model_dir, tmp_path / "moved")
    moved = make(model_dir=str(tmp_path / "moved"))
    assert moved.latest_checkpoint() == str(tmp_path / "moved" / "model.ckpt-1")
    moved.train(line.input_fn, max_steps=2)


def test_a_scaffold_brings_its_saver(make, line):
    """The saver of `scaffold_fn` saves the checkpoints."""

    def without_slots(mode):
        names = ("weight:0", "bias:0", "global_step:0")
        variables = [v for v in tf1.global_variables() if v.name in names]
        saver = tf1.train.Saver(variables)
        return {"scaffold_fn": lambda: tf1.train.Scaffold(saver=saver)}

    estimator = make(params={"spec": without_slots})
    estimator.train(line.input_fn, steps=1)
    assert estimator.get_variable_names() == ["bias", "global_step", "weight"]


def test_slots_are_in_the_checkpoint(make, line):
    """Slot variables are saved under TensorFlow's names."""
    estimator = make()
    estimator.train(line.input_fn, steps=1)
    assert estimator.get_variable_names() == [
        "bias",
        "bias/Momentum",
        "global_step",
        "weight",
        "weight/Momentum",
    ]


def test_nan_stops_training(make, line):
    """A NaN loss raises an error."""
    estimator = make()
    bad = lambda params: tf.data.Dataset.from_tensors(({"x": [[np.nan]]}, [[1.0]])).repeat()  # noqa: E731
    with pytest.raises(tf1.train.NanLossDuringTrainingError):
        estimator.train(bad, steps=5)


def test_loss_summary(make, line, events):
    """The summary 'loss' is written every N steps, with the speed."""
    estimator = make(config={"save_summary_steps": 2, "log_step_count_steps": 4})
    estimator.train(line.input_fn, steps=8)
    found = events(estimator.model_dir)
    # Hooks may read the global step after its increment.
    assert sorted(found["loss"])[0] == 1
    assert len(found["loss"]) in (3, 4)
    assert set(found) >= {"loss", "global_step/sec", "examples/sec"}


def test_a_loss_summary_of_the_models(make, line, events):
    """A model with its own summary 'loss' gets no second one."""

    def summarize(mode):
        tf1.summary.scalar("loss", tf.constant(42.0))
        return {}

    estimator = make(params={"spec": summarize}, config={"save_summary_steps": 1})
    estimator.train(line.input_fn, steps=2)
    found = events(estimator.model_dir)
    assert set(found["loss"].values()) == {42.0}
    assert not [tag for tag in found if tag.startswith("loss_")]


def test_no_summaries(make, line, events):
    """save_summary_steps=0 writes none."""
    estimator = make(config={"save_summary_steps": 0})
    estimator.train(line.input_fn, steps=3)
    assert events(estimator.model_dir) == {}


def test_log_lines(make, line, tf_log):
    """The log has the lines of TensorFlow's Estimator, which scripts parse."""
    estimator = make(config={"log_step_count_steps": 2})
    estimator.train(line.input_fn, steps=9)
    text = "\n".join(tf_log)
    assert "Calling model_fn." in text
    assert "Done calling model_fn." in text
    assert f"Saving checkpoints for 9 into {estimator.model_dir}/model.ckpt" in text
    assert "global_step/sec: " in text
    assert "examples/sec: " in text
    assert "Loss for final step: " in text
    losses = [entry for entry in tf_log if entry.startswith("loss = ")]
    # The hook may read the global step after its increment.
    steps = [int(entry.split("step = ")[1].split(" ")[0]) for entry in losses]
    assert [step // 2 for step in steps] == [0, 1, 2, 3, 4]


def test_no_log_lines(make, line, tf_log):
    """log_step_count_steps=None logs neither loss nor speed."""
    make(config={"log_step_count_steps": None}).train(line.input_fn, steps=5)
    text = "\n".join(tf_log)
    assert "loss = " not in text
    assert "/sec" not in text


def test_seeds(make, line):
    """The same seed gives the same initial values, another seed others."""

    def random(features, labels, mode, params):
        tf1.get_variable("noise", [4])
        return line.model_fn(features, labels, mode, params)

    def noise(seed):
        estimator = make(random, model_dir=None, config={"tf_random_seed": seed})
        estimator.train(line.input_fn, steps=1)
        return estimator.get_variable_value("noise").tolist()

    assert noise(7) == noise(7)
    assert noise(7) != noise(8)


def test_session_config_arrives(make, line):
    """The session has the user's `session_config`."""
    seen = []

    class Look(tf1.train.SessionRunHook):
        def after_create_session(self, session, coord):
            seen.append(session._config)

    config = tf1.ConfigProto(inter_op_parallelism_threads=1, operation_timeout_in_ms=54321)
    make(config={"session_config": config}).train(line.input_fn, hooks=[Look()], steps=1)
    assert seen[0].operation_timeout_in_ms == 54321


def test_init_from_checkpoint(make, line, trained, tmp_path):
    """A model that calls init_from_checkpoint starts from those values."""

    def load(mode):
        def scaffold_fn():
            tf1.train.init_from_checkpoint(trained.model_dir, {"weight": "weight"})
            return tf1.train.Scaffold()

        return {"scaffold_fn": scaffold_fn}

    new = make(model_dir=tmp_path / "new", params={"spec": load})
    new.train(line.input_fn, steps=1)
    weight = new.get_variable_value("weight")
    assert abs(weight - trained.get_variable_value("weight")) < abs(weight - 0.5)


def test_tables_are_initialized(make, line):
    """Lookup tables of the input and of the model are initialized."""

    def words_input_fn(params):
        words = tf.constant([["a"], ["b"]])
        return tf.data.Dataset.from_tensors(({"w": words}, [[1.0], [2.0]])).repeat()

    def words_model_fn(features, labels, mode, params):
        table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(["a", "b"], [1.0, 2.0]), -1.0
        )
        x = table.lookup(features["w"])
        with tf.control_dependencies([tf1.assert_equal(x, [[1.0], [2.0]])]):
            return line.model_fn({"x": tf.identity(x)}, labels, mode, params)

    estimator = make(words_model_fn).train(words_input_fn, steps=2)
    assert estimator.get_variable_value("global_step") == 2


def test_a_host_call_gets_the_step_before(make):
    """A host call gets the step before its increment, even if no other op orders the two."""
    seen = []

    def model_fn(features, labels, mode, params):
        step = tf1.train.get_global_step()
        increment = step.assign_add(1, read_value=False)
        read = tf.reshape(step, [1])
        return es.TPUEstimatorSpec(
            mode,
            loss=tf.zeros([]),
            train_op=increment,
            host_call=(lambda step: tf1.py_func(seen.append, [step[0]], []), [read]),
        )

    def input_fn(params):
        return tf.data.Dataset.from_tensors(({"x": tf.zeros([1])}, tf.zeros([1]))).repeat()

    make(model_fn).train(input_fn, steps=100)
    assert seen == list(range(100))


def test_without_a_batch_size(make, line, tf_log):
    """A CPU needs no train_batch_size; then there is no examples/sec."""
    estimator = make(train_batch_size=None, config={"log_step_count_steps": 2})
    estimator.train(line.input_fn, steps=9)
    text = "\n".join(tf_log)
    assert "global_step/sec" in text
    assert "examples/sec" not in text


def test_tensors_instead_of_a_dataset(make, line):
    """An input_fn may return tensors; then every step sees the same batch."""

    def tensors(params):
        return {"x": tf.constant(line.x)}, tf.constant(line.y)

    def dataset(params):
        return tf.data.Dataset.from_tensors(({"x": line.x}, line.y)).repeat()

    found = []
    for input_fn in (tensors, dataset):
        estimator = make(model_dir=None).train(input_fn, steps=2)
        found.append([estimator.get_variable_value(name).item() for name in ("weight", "bias")])
    assert found[0] == found[1]
    assert found[0][0] > 0.5


def test_other_errors_stay(make, line):
    """An error of the model's own ops is not changed."""

    def wrong(mode):
        with tf.control_dependencies([tf.debugging.Assert(False, ["mine"])]):
            return {"train_op": tf.no_op()}

    with pytest.raises(tf.errors.InvalidArgumentError, match="mine"):
        make(params={"spec": wrong}).train(line.input_fn, steps=1)


def test_device_fn(make, line):
    """A device function places the ops of the training graph."""
    seen = set()

    def device_fn(op):
        seen.add(op.name)
        return "/device:CPU:0"

    make(config={"device_fn": device_fn}).train(line.input_fn, steps=1)
    assert "weight" in seen


def test_eager_mode_stays_on(make, line):
    """Eager execution works after training."""
    make().train(line.input_fn, steps=1)
    assert tf.executing_eagerly()
    assert tf.constant(1).numpy() == 1


@pytest.mark.slow
def test_without_v2_behavior(line, tmp_path):
    """All methods, and replicas, work after disable_v2_behavior(), with reference variables."""
    parts = __file__.replace("test_train", "conftest")
    folders = [os.path.dirname(each) for each in (__file__, forking_python.__file__)]
    script = f"""
import importlib.util, sys
import tensorflow as tf
tf.compat.v1.disable_v2_behavior()
spec = importlib.util.spec_from_file_location("parts", {parts!r})
parts = importlib.util.module_from_spec(spec); spec.loader.exec_module(parts)
import estimator_spec
kinds = set()
def model_fn(features, labels, mode, params):
    found = parts.model_fn(features, labels, mode, params)
    kinds.update(type(v).__name__ for v in tf.compat.v1.trainable_variables())
    return found
estimator = estimator_spec.TPUEstimator(
    model_fn, config=estimator_spec.RunConfig(model_dir={str(tmp_path)!r}),
    use_tpu=False, train_batch_size=8, eval_batch_size=8, predict_batch_size=8)
estimator.train(parts.input_fn, steps=3)
assert estimator.evaluate(parts.input_fn)["global_step"] == 3
assert len(list(estimator.predict(parts.input_fn))) == 32
receiver = estimator_spec.build_raw_serving_input_receiver_fn({{"x": tf.zeros([1, 1])}})
path = estimator.export_saved_model({str(tmp_path / "export")!r}, receiver)
assert kinds == {{"RefVariable"}}, kinds
sys.path[:0] = {folders!r}
import test_device_loop as program
estimator = program.make({str(tmp_path / "loop")!r}, 2)
estimator.train(program.input_fn, steps=4)
assert estimator.get_variable_value("global_step") == 4
"""
    done = forking_python.run(["-c", script], timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
