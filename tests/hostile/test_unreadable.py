# SPDX-License-Identifier: Apache-2.0
"""Reads and allocations that fail: an error that names the file, and nothing lost or begun anew."""

from __future__ import annotations

import errno
import itertools
import os
import shutil

import pytest
import tensorflow as tf

import interruptions
import table_program
from estimator_spec import checkpoints
from estimator_spec.core.driver.errors import find_file_fault

tf1 = tf.compat.v1


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Returns a directory with the checkpoints of steps 1 and 2."""
    directory = tmp_path_factory.mktemp("unreadable") / "model"
    table_program.make(directory, "mod", 3).train(table_program.input_fn, max_steps=2)
    return directory


class FirstStep(tf1.train.SessionRunHook):
    """Hook that keeps the global step at which a training begins."""

    def after_create_session(self, session, coord):
        self.step = session.run(tf1.train.get_global_step())


def test_a_state_file_that_tensorflow_cannot_read(trained, tmp_path, monkeypatch):
    """A training goes on even if TensorFlow, which begins at step 0 then, can't read the state."""
    directory = shutil.copytree(trained, tmp_path / "model")
    from tensorflow.python.checkpoint import checkpoint_management

    monkeypatch.setattr(checkpoint_management, "get_checkpoint_state", lambda *args: None)
    first = FirstStep()
    made = table_program.make(directory, "mod", 3)
    made.train(table_program.input_fn, [first], max_steps=3)
    assert first.step == 2
    # The saver knows the earlier checkpoints, too, and has deleted the oldest.
    names = sorted(path.stem for path in directory.glob("*.index"))
    assert names == ["model.ckpt-2", "model.ckpt-3"]


def repair(directory):
    """Writes the state file anew."""
    (directory / "checkpoint").unlink(missing_ok=True)
    checkpoints.repair(directory)


def convert(directory):
    """Converts to another layout, beside the checkpoints."""
    shutil.rmtree(directory / "new", ignore_errors=True)
    checkpoints.convert(directory, directory / "new" / "model.ckpt-9", shards=2)


def read_value(directory):
    """Reads the table of the latest checkpoint."""
    table_program.make(directory, "mod", 3).get_variable_value(table_program.TABLE)


def inspect(directory):
    """Inspects the latest checkpoint."""
    checkpoints.inspect(directory)


@pytest.mark.parametrize(
    "job", [repair, convert, inspect, read_value], ids=lambda job: job.__name__
)
def test_each_read_of_a_tool(trained, tmp_path, monkeypatch, job):
    """Whichever read of a tool fails, it names the file, and the checkpoints are as they were."""
    directory = shutil.copytree(trained, tmp_path / "model")
    before = {path.name: path.read_bytes() for path in directory.glob("model.ckpt*")}
    read = os.preadv
    for bad in itertools.count(1):
        numbers = itertools.count(1)

        def preadv(descriptor, *args, numbers=numbers, bad=bad):
            if next(numbers) == bad:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return read(descriptor, *args)

        with monkeypatch.context() as patched:
            patched.setattr(os, "preadv", preadv)
            try:
                failed = job(directory)
            except OSError as error:
                failed = error
        if failed is None:
            assert next(numbers) <= bad  # no read has failed
            break
        assert failed.errno == errno.EIO
        assert str(failed.filename).startswith(str(directory))
        after = {path.name: path.read_bytes() for path in directory.glob("model.ckpt*")}
        assert after == before
        repaired = (directory / "checkpoint").exists()
        assert not repaired or tf.train.latest_checkpoint(str(directory)).endswith("-2")
    assert bad > 2


@pytest.mark.parametrize(
    "message",
    [
        "/a b/x.data; Input/output error",
        "Graph execution error:\n\nNode: 'save/RestoreV2'\n/a b/x.data; Input/output error\n\t [[",
        "{{node save/RestoreV2}} /a b/x.data; Input/output error",
        "Unable to read file (/a b/x.data). Perhaps (failed to seek): /a b/x.data; "
        "Input/output error",
    ],
)
def test_the_file_in_an_error(message):
    """TensorFlow's messages name the file in several ways."""
    fault = find_file_fault(tf.errors.UnknownError(None, None, message))
    assert fault == (errno.EIO, "Input/output error", "/a b/x.data")
    assert find_file_fault(tf.errors.UnknownError(None, None, "x; y")) is None


@pytest.mark.slow
@pytest.mark.nightly("lets each read fail")
@pytest.mark.parametrize(
    "mode, job, at_least",
    [
        ("unreadable", "other shards", 40),
        ("unreadable-from", "other shards", 40),
        ("unreadable", "evaluation", 20),
        ("unreadable", "convert", 8),
        ("unreadable", "repair", 2),
    ],
)
def test_each_read(tmp_path, mode, job, at_least):
    """Whatever read fails, alone or with all later ones, the error names the file."""
    assert interruptions.interrupt(mode, job, tmp_path) >= at_least


@pytest.mark.slow
@pytest.mark.nightly("lets each large allocation of a save fail")
def test_no_memory_in_a_save(tmp_path):
    """If memory runs out in a save, the checkpoint before is whole; training goes on from it."""
    assert interruptions.interrupt("memory", "other shards", tmp_path) >= 60
