# SPDX-License-Identifier: Apache-2.0
"""Damaged checkpoints raise an error that names the file, and are not changed."""

from __future__ import annotations

import os

import pytest
import tensorflow as tf

import estimator_spec as es
from estimator_spec.core.driver import checkpoint_state

tf1 = tf.compat.v1


def files(directory):
    """Returns the content of every file of a checkpoint, by name."""
    found = {}
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        if os.path.isfile(path) and "events" not in name:
            with open(path, "rb") as file:
                found[name] = file.read()
    return found


def cut(path, keep):
    """Truncates a file to `keep` bytes."""
    with open(path, "r+b") as file:
        file.truncate(keep)


def remove(path):
    """Deletes a file."""
    os.remove(path)


def scribble(path):
    """Overwrites the middle of a file."""
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        file.seek(size // 3)
        file.write(b"\xa5" * (size // 3))


DAMAGE = [
    ("model.ckpt-4.index", remove),
    ("model.ckpt-4.index", scribble),
    ("model.ckpt-4.index", lambda path: cut(path, 10)),
    ("model.ckpt-4.data-00000-of-00001", remove),
    ("model.ckpt-4.data-00000-of-00001", lambda path: cut(path, 3)),
    ("checkpoint", lambda path: cut(path, 0)),
    ("checkpoint", lambda path: cut(path, 20)),
]


@pytest.mark.parametrize("name, damage", DAMAGE)
@pytest.mark.parametrize("task", ["train", "evaluate", "predict", "latest_checkpoint"])
def test_damage_is_named_and_nothing_is_lost(trained, line, name, damage, task):
    """Every method refuses a damaged latest checkpoint, names the file, and changes no file."""
    path = os.path.join(trained.model_dir, name)
    damage(path)
    before = files(trained.model_dir)

    def input_fn(params):
        raise AssertionError("a graph was begun")

    run = {
        "train": lambda: trained.train(input_fn, max_steps=9),
        "evaluate": lambda: trained.evaluate(input_fn),
        "predict": lambda: next(trained.predict(input_fn)),
        "latest_checkpoint": trained.latest_checkpoint,
    }[task]
    with pytest.raises(es.CheckpointError) as caught:
        run()
    assert isinstance(caught.value, RuntimeError)
    assert caught.value.path == path
    assert path in str(caught.value)
    assert "Nothing was changed" in str(caught.value)
    assert files(trained.model_dir) == before


def test_an_error_of_a_hook_is_no_damage(trained, line):
    """An OutOfRangeError of a program's hook, while the checkpoint is whole, stays what it is."""

    class Reads(tf1.train.SessionRunHook):
        def after_create_session(self, session, coord):
            raise tf.errors.OutOfRangeError(None, None, "the hook's own input ended")

    with pytest.raises(tf.errors.OutOfRangeError, match="the hook's own input ended"):
        trained.train(line.input_fn, steps=1, hooks=[Reads()])


def test_an_older_checkpoint_can_be_chosen(trained, line):
    """Naming an older checkpoint in the state file works, as the message advises."""
    remove(os.path.join(trained.model_dir, "model.ckpt-4.index"))
    with pytest.raises(es.CheckpointError, match="name another checkpoint in"):
        trained.train(line.input_fn, max_steps=5)
    with open(os.path.join(trained.model_dir, "checkpoint"), "w") as file:
        file.write('model_checkpoint_path: "model.ckpt-2"\n')
    trained.train(line.input_fn, max_steps=5)
    assert trained.get_variable_value("global_step") == 5


def test_a_data_file_is_missing(tmp_path):
    """A missing data file is an error, even if another file has a name like it."""
    with tf.Graph().as_default(), tf1.Session() as session:
        one, two = tf1.get_variable("one", [3]), tf1.get_variable("two", [3])
        session.run([one.initializer, two.initializer])
        prefix = tf1.train.Saver(sharded=True).save(session, str(tmp_path / "model.ckpt"))
    checkpoint_state.check_files(prefix)
    shard = tmp_path / "model.ckpt.data-00000-of-00001"
    os.rename(shard, tmp_path / "model.ckpt.data-00000-of-00002")
    with pytest.raises(es.CheckpointError, match="data-00000-of-00001' is missing"):
        checkpoint_state.check_files(prefix)


def test_names_that_tensorflow_misreads(make, line, tmp_path):
    """A model_dir with '[' is refused, because TensorFlow would not find its checkpoints."""
    estimator = make(model_dir=str(tmp_path / "run[1]"))
    with pytest.raises(es.ModelDirError, match="reads that as a pattern"):
        estimator.train(line.input_fn, steps=1)


@pytest.mark.parametrize("task", ["train", "evaluate", "predict"])
def test_model_dir_is_a_file(make, line, tmp_path, task):
    """A model_dir that is a file is refused before a graph is built."""
    path = tmp_path / "file"
    path.write_text("mine")
    with pytest.raises(es.ModelDirError, match="must be a directory") as caught:
        list(getattr(make(model_dir=str(path)), task)(lambda params: 1 / 0))
    assert caught.value.path == str(path)
    assert path.read_text() == "mine"


@pytest.mark.parametrize("task", ["train", "evaluate"])
def test_model_dir_below_a_file(make, tmp_path, task):
    """A model_dir that can't be created is refused before a graph is built."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="can't be written"):
        getattr(make(model_dir=str(tmp_path / "file" / "model")), task)(lambda params: 1 / 0)


def test_read_only_model_dir(make, tmp_path, monkeypatch):
    """A read-only model_dir is refused before a graph is built."""
    # Tests may run as root, who can write anywhere: use the driver's own check.
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    with pytest.raises(es.ModelDirError, match="read-only"):
        make(model_dir=str(tmp_path)).train(lambda params: 1 / 0)


def test_variables_that_a_checkpoint_lacks(trained, line):
    """TensorFlow's error names the variable that the checkpoint lacks."""

    def grown(features, labels, mode, params):
        tf1.get_variable("new_one", [2])
        return line.model_fn(features, labels, mode, params)

    bigger = es.TPUEstimator(
        grown, trained.model_dir, es.RunConfig(), use_tpu=False, eval_batch_size=8
    )
    with pytest.raises(tf.errors.NotFoundError, match="new_one"):
        bigger.evaluate(line.input_fn)


def test_a_file_that_lacks_one_byte(tmp_path):
    """A data file that was cut short by a byte is found without reading it."""
    prefix = str(tmp_path / "model.ckpt-1")
    tf.raw_ops.SaveV2(
        prefix=prefix, tensor_names=["v"], shape_and_slices=[""], tensors=[tf.zeros([100])]
    )
    checkpoint_state.check_files(prefix)
    os.truncate(prefix + ".data-00000-of-00001", 399)
    with pytest.raises(es.CheckpointError, match="has 399 bytes, its variables need 400"):
        checkpoint_state.check_files(prefix)
