# SPDX-License-Identifier: Apache-2.0
"""Objects of the user's program are the same after a run as before it."""

from __future__ import annotations

import contextlib
import functools
import itertools
import shutil
import types
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import host_runs
import tpu_columns
from estimator_spec.core.driver import patching

tf1 = tf.compat.v1

ROWS = 7


def columns():
    """A column whose table the tests shard."""
    word = tf.feature_column.categorical_column_with_identity("word", ROWS)
    return [tpu_columns.embedding_column(word, 2)]


def input_fn(params):
    """Batches of ids and labels."""
    word = np.arange(8) % ROWS
    data = tf.data.Dataset.from_tensor_slices(({"word": word[:, None]}, word.astype(np.float32)))
    return data.repeat(4).batch(params["batch_size"], drop_remainder=True)


def receiver_fn():
    """The inputs of an exported model."""
    word = tf1.placeholder(tf.int64, [None, 1], name="word")
    return es.export.ServingInputReceiver({"word": word}, {"word": word})


class Program:
    """A program that keeps the scaffolds, savers and hooks that it passes to an estimator."""

    def __init__(self):
        self.scaffolds, self.savers = [], []
        self.listeners = [tf1.train.CheckpointSaverListener()]
        self.training_hooks = [tf1.train.SessionRunHook()]
        self.hooks = [tf1.train.SessionRunHook()]
        self.saver_hook = None

    def scaffold(self):
        """Returns a new scaffold with a saver."""
        self.savers.append(tf1.train.Saver(sharded=True))
        self.scaffolds.append(tf1.train.Scaffold(saver=self.savers[-1]))
        return self.scaffolds[-1]

    def model_fn(self, features, labels, mode, params):
        """A linear model with a scaffold, a hook that saves, and other hooks."""
        layer = tf1.feature_column.input_layer(features, columns())
        output = tf.reduce_sum(layer, axis=1)
        scaffold = self.scaffold()
        if mode == es.ModeKeys.PREDICT:
            return es.EstimatorSpec(mode, predictions={"output": output}, scaffold=scaffold)
        loss = tf1.losses.mean_squared_error(labels, output)
        optimizer = tf1.train.GradientDescentOptimizer(0.1)
        self.saver_hook = tf1.train.CheckpointSaverHook(
            params["model_dir"], save_steps=2, scaffold=scaffold, listeners=self.listeners
        )
        return es.EstimatorSpec(
            mode,
            loss=loss,
            train_op=optimizer.minimize(loss, tf1.train.get_global_step()),
            scaffold=scaffold,
            training_hooks=self.training_hooks,
            training_chief_hooks=[self.saver_hook],
        )

    def estimator(self, model_dir, strategy, shards):
        """Returns an estimator whose table has a layout."""
        return host_runs.make_estimator(
            self.model_fn,
            model_dir,
            4,
            config={"tf_random_seed": 1},
            params={"model_dir": str(model_dir)},
            embedding_config_spec=es.EmbeddingConfigSpec(
                columns(), es.StochasticGradientDescentParameters(0.1), partition_strategy=strategy
            ),
            embedding_shards=shards,
        )

    def check_unchanged(self):
        """Asserts that all objects are as the program made them."""
        assert self.savers
        for scaffold, saver in zip(self.scaffolds, self.savers, strict=True):
            assert scaffold.saver is saver
            assert "restore" not in vars(saver)
        assert [type(each) for each in self.listeners] == [tf1.train.CheckpointSaverListener]
        assert self.saver_hook is None or self.saver_hook._listeners is self.listeners
        for hooks in (self.training_hooks, self.hooks):
            assert [type(hook) for hook in hooks] == [tf1.train.SessionRunHook]


def train(program, estimator):
    """Trains with a listener, so that the driver adds listeners to the hook that saves."""
    listener = tf1.train.CheckpointSaverListener()
    estimator.train(input_fn, program.hooks, steps=3, saving_listeners=[listener])


def train_and_evaluate(program, estimator):
    """Trains and evaluates with a listener."""
    es.train_and_evaluate(
        estimator,
        es.TrainSpec(
            input_fn,
            max_steps=9,
            hooks=program.hooks,
            saving_listeners=[tf1.train.CheckpointSaverListener()],
        ),
        es.EvalSpec(input_fn, steps=1, hooks=program.hooks, throttle_secs=0),
    )


def predict_one(program, estimator):
    """Predicts one example, and closes the generator."""
    predictions = estimator.predict(input_fn, hooks=program.hooks)
    next(predictions)
    predictions.close()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Returns the directory of a program with three mod shards, whose objects are unchanged."""
    program = Program()
    model_dir = tmp_path_factory.mktemp("trained") / "model"
    train(program, program.estimator(model_dir, "mod", 3))
    program.check_unchanged()
    return model_dir


@pytest.mark.parametrize(
    "run",
    [
        train,
        lambda program, estimator: estimator.evaluate(input_fn, 1, program.hooks),
        lambda program, estimator: list(estimator.predict(input_fn, hooks=program.hooks)),
        predict_one,
        train_and_evaluate,
        lambda program, estimator: estimator.export_saved_model(
            estimator.model_dir + "-exports", receiver_fn
        ),
    ],
    ids=["train", "evaluate", "predict", "predict-one", "train-and-evaluate", "export"],
)
def test_a_run_changes_no_object_of_the_program(trained, tmp_path, tf_log, run):
    """Savers, scaffolds, hooks and lists are as before a run that restores another layout."""
    shutil.copytree(trained, tmp_path / "model")
    program = Program()
    run(program, program.estimator(tmp_path / "model", "div", 1))
    assert any("are copied" in line for line in tf_log)
    program.check_unchanged()


def test_a_failed_run_changes_no_object_of_the_program(tmp_path):
    """An error in training leaves savers, hooks and lists as they were."""

    class Failing(tf1.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            raise KeyError("a hook's own error")

    program = Program()
    estimator = program.estimator(tmp_path / "model", "mod", 3)
    with pytest.raises(KeyError, match="a hook's own error"):
        estimator.train(input_fn, [Failing()], steps=3)
    program.check_unchanged()


def test_a_listener_is_called_once_a_checkpoint_in_each_run(tmp_path):
    """A hook that is used in several runs gets the listeners of the current run only."""

    class Counting(tf1.train.CheckpointSaverListener):
        def __init__(self):
            self.saved = []

        def after_save(self, session, global_step_value):
            self.saved.append(global_step_value)

    model_dir = tmp_path / "model"
    saver_hook = tf1.train.CheckpointSaverHook(str(model_dir), save_steps=100)

    def model_fn(features, labels, mode):
        step = tf1.train.get_global_step()
        loss = tf.reduce_mean(tf.cast(features["word"], tf.float32))
        return es.EstimatorSpec(mode, loss=loss, train_op=step.assign_add(1))

    estimator = es.Estimator(model_fn, model_dir=str(model_dir))
    first, second = Counting(), Counting()
    for listener in (first, second):
        estimator.train(
            lambda: input_fn({"batch_size": 4}), [saver_hook], steps=2, saving_listeners=[listener]
        )
    assert first.saved == [0, 2]
    assert second.saved == [2, 4]


@pytest.mark.parametrize("own", [{}, {"restore": "its own"}])
def test_an_attribute_is_set_back_after_an_error(own):
    """An attribute of the object's own gets its value back, and one of its class is removed."""

    class Saver:
        restore = "of the class"

    saver = Saver()
    vars(saver).update(own)
    with pytest.raises(KeyError), patching.set_temporarily(saver, "restore", "ours"):
        assert saver.restore == "ours"
        raise KeyError
    assert vars(saver) == own


@pytest.mark.parametrize("own", [{}, {"save": "own".join}])
@pytest.mark.parametrize("order", itertools.permutations("abc"))
def test_wrappers_of_a_method_end_in_any_order(own, order):
    """Each wrapper acts until its own block ends, and none after the last."""

    class Saver:
        def save(self, parts):
            return "class".join(parts)

    saver = Saver()
    vars(saver).update(own)
    plain = saver.save("()")
    blocks = {}
    for name in "abc":
        wrapper = functools.partial(lambda name, save, parts: name + save(parts), name)
        blocks[name] = contextlib.ExitStack()
        blocks[name].enter_context(patching.wrap_method(saver, "save", wrapper))
    for name in order:
        assert saver.save("()") == "".join(sorted(blocks, reverse=True)) + plain
        blocks.pop(name).close()
    assert vars(saver) == own


def test_a_users_wrapper_stays():
    """A method that was replaced inside the block stays replaced, without the block's wrapper."""
    saver = types.SimpleNamespace(save=str.upper)
    with patching.wrap_method(saver, "save", lambda save, path: save(path) + "!"):
        ours = saver.save
        saver.save = lambda path: f"<{ours(path)}>"
        assert saver.save("a") == "<A!>"
    assert saver.save("a") == "<A>"


def test_a_saver_that_a_mock_wraps(tmp_path):
    """A saver may be an object that passes on a Saver's methods, as mocks of old programs do."""
    savers = []

    def model_fn(features, labels, mode):
        weight = tf1.get_variable("weight", [])
        real = tf1.train.Saver()
        savers.append(mock.Mock(wraps=real, saver_def=real.saver_def))
        step = tf1.assign_add(tf1.train.get_global_step(), 1)
        scaffold = tf1.train.Scaffold(saver=savers[-1])
        return es.EstimatorSpec(mode, loss=weight + 0.0, train_op=step, scaffold=scaffold)

    estimator = es.Estimator(model_fn, str(tmp_path))
    estimator.train(lambda: tf.data.Dataset.from_tensors(tf.zeros([1])), steps=1)
    estimator.evaluate(lambda: tf.data.Dataset.from_tensors(tf.zeros([1])), steps=1)
    trained, evaluated = savers
    assert trained.save.called
    assert evaluated.restore.called
