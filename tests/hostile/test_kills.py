# SPDX-License-Identifier: Apache-2.0
"""Killed jobs: the latest complete checkpoint stays usable, and the next run goes on from it."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import signal
import subprocess
import sys
import types

import numpy as np
import pytest

import estimator_spec as es
import forks
import interruptions
import leftovers
import table_program
from estimator_spec import checkpoints
from estimator_spec.core.common import own_files
from estimator_spec.core.driver import model_dir_lock, saved_models

NIGHTLY = pytest.mark.nightly("kills each job dozens of times")


@pytest.mark.slow
@pytest.mark.parametrize(
    "job, every, at_least",
    [
        ("training", 9, 6),
        ("convert", 1, 15),
        *(
            pytest.param(job, 1, at_least, marks=NIGHTLY)
            for job, at_least in (
                ("training", 50),
                ("other shards", 35),
                ("export", 10),
                ("repair", 3),
            )
        ),
    ],
)
def test_killed_before_a_change(tmp_path, job, every, at_least):
    """Whatever change a job is killed before, its last result is whole, and it can run again."""
    assert interruptions.interrupt("kill", job, tmp_path, every) >= at_least


HOLDER = """
import sys, time
import table_program
from estimator_spec.core.driver import model_dir_lock
with model_dir_lock.hold(sys.argv[1]):
    print("holds", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock of a directory."""
    model_dir = tmp_path / "model"
    model_dir.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(model_dir)],
        env=interruptions.ENVIRONMENT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "holds\n"
    yield process
    process.kill()
    process.wait()


@pytest.mark.slow
def test_two_trainings_in_one_directory(holder, tmp_path):
    """The second one names the first's process and host and starts nothing, until that is dead."""
    estimator = table_program.make(tmp_path / "model")

    def never(params):
        raise AssertionError("a graph was begun")

    with pytest.raises(es.ModelDirError, match=f"process {holder.pid} on ") as caught:
        estimator.train(never, steps=1)
    assert os.uname().nodename in str(caught.value)
    # An evaluation is no training.
    estimator.evaluate(table_program.input_fn, steps=1)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    estimator.train(table_program.input_fn, steps=1)
    assert estimator.get_variable_value("global_step") == 1


def test_one_training_after_another(tmp_path):
    """The lock ends with a training, also with one that fails; another in it is refused."""
    estimator = table_program.make(tmp_path)
    refused = []

    class Inside(table_program.tf1.train.SessionRunHook):
        def begin(self):
            with pytest.raises(es.ModelDirError, match="Another training") as caught:
                table_program.make(tmp_path).train(table_program.input_fn, steps=1)
            refused.append(str(caught.value))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        estimator.train(table_program.input_fn, steps=1, hooks=[Inside()])
    assert f"process {os.getpid()} on" in refused[0]
    for step in (1, 2):
        estimator.train(table_program.input_fn, max_steps=step)
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".training")]


def test_lock_file_that_is_a_link(tmp_path):
    """A lock file that is a link to nothing is named; one to a file is locked, and stays."""
    made = table_program.make(tmp_path)
    path = tmp_path / ".training.lock"
    path.symlink_to(tmp_path / "gone")
    with pytest.raises(es.ModelDirError, match=rf"{path}.*is a link to .*gone.*Remove the link"):
        made.train(table_program.input_fn, steps=1)
    (tmp_path / "gone").touch()
    made.train(table_program.input_fn, steps=1)
    assert path.is_symlink()


def test_unfinished_graphs_of_a_killed_training(tmp_path):
    """What TensorFlow was writing of a graph at a kill goes with the next training, and no more."""
    foreign = [f"graph.pbtxt.tmp{'a' * 32}", "graph.pbtxt.tmp", f"notes.tmp{'b' * 32}"]
    left = [f"graph.pbtxt.tmp{'c' * 32}", f"model.ckpt-7.meta.tmp{'d' * 32}"]
    (tmp_path / foreign[0]).touch()
    child = os.fork()
    if child == 0:
        with model_dir_lock.hold(str(tmp_path)):
            for name in (*left, *foreign[1:]):
                (tmp_path / name).touch()
            (tmp_path / f"x.meta.tmp{'e' * 32}").symlink_to(tmp_path / foreign[0])
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    for _ in range(2):
        with model_dir_lock.hold(str(tmp_path)):
            there = {path.name for path in tmp_path.iterdir()} - {".training.lock"}
        assert there == {*foreign, f"x.meta.tmp{'e' * 32}"}


def test_file_systems_without_locks(tmp_path, monkeypatch):
    """Where files can't be locked, trainings and exports go on, and remove nothing."""

    def refuse(*args):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    left = leftovers.leave(tmp_path / "model.ckpt-7_temp", own_files.Job.SAVE)
    monkeypatch.setattr(fcntl, "flock", refuse)
    made = table_program.make(tmp_path)
    made.train(table_program.input_fn, steps=1)
    path = made.export_saved_model(str(tmp_path), table_program.receiver_fn).decode()
    assert sorted(os.listdir(path)) == ["saved_model.pb", "variables"]
    assert len(os.listdir(left)) == 3
    assert not (tmp_path / "model.ckpt-1_temp").exists()


def test_what_killed_exports_left(tmp_path, monkeypatch):
    """The next export removes what a killed one left, but not what a running one writes."""
    estimator = table_program.make(tmp_path / "model")
    estimator.train(table_program.input_fn, steps=1)
    base = tmp_path / "export"
    base.mkdir()
    leftovers.leave(base / "temp-123", own_files.Job.EXPORT)
    (base / "temp-mine").mkdir()
    seen = []
    seconds = itertools.count(1_700_000_000)  # exports are named by their second
    monkeypatch.setattr(saved_models, "time", types.SimpleNamespace(time=lambda: next(seconds)))

    def receiver_fn():
        if not seen:
            seen.append(sorted(os.listdir(base)))
            estimator.export_saved_model(str(base), table_program.receiver_fn)
            seen.append(sorted(os.listdir(base)))
        return table_program.receiver_fn()

    path = estimator.export_saved_model(str(base), receiver_fn).decode()
    running = f"temp-{os.path.basename(path)}"
    assert seen[0] == [running, "temp-mine"]
    assert running in seen[1]
    assert len(os.listdir(base)) == 3
    assert checkpoints.verify(os.path.join(path, "variables", "variables")).ok


def test_a_restored_checkpoint_is_not_written_again(tmp_path):
    """A run in another layout leaves the files of the checkpoint that it restored as they are."""
    before = table_program.make(tmp_path, "mod", 3)
    before.train(table_program.input_fn, max_steps=2)
    table = before.get_variable_value(table_program.TABLE)

    def files():
        return {path.name: path.read_bytes() for path in tmp_path.glob("model.ckpt-2.*")}

    old = files()
    seen = []

    class Look(table_program.tf1.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            seen.append((global_step_value, files() == old))

    now = table_program.make(tmp_path)
    now.train(table_program.input_fn, max_steps=3, saving_listeners=[Look()])
    assert seen == [(2, True), (3, True)]
    layouts = {
        step: checkpoints.inspect(str(tmp_path / f"model.ckpt-{step}")).tables[0] for step in (2, 3)
    }
    assert [(t.strategy, t.shards) for t in layouts.values()] == [("mod", 3), ("div", 1)]
    np.testing.assert_array_equal(
        checkpoints.read_table(str(tmp_path / "model.ckpt-2"), table_program.TABLE), table
    )


@pytest.mark.parametrize("moment", ["while it writes", "before the rename", "after the rename"])
def test_a_killed_write_of_a_file(tmp_path, moment):
    """The file is the old or the new one, whole; the next write removes what was left."""
    path = tmp_path / "checkpoint"
    path.write_text("old")
    (tmp_path / "notes.unfinished").mkdir()

    def write_and_be_killed():
        replace, fsync = os.replace, os.fsync

        def replace_and_be_killed(source, target):
            if moment == "before the rename":
                os._exit(0)
            replace(source, target)
            os._exit(0)

        os.replace = replace_and_be_killed  # of this process, a fork
        os.fsync = lambda file: os._exit(0) if moment == "while it writes" else fsync(file)
        own_files.write_file(str(path), b"new")

    forks.run_in_a_fork(write_and_be_killed)
    assert path.read_text() == ("new" if moment == "after the rename" else "old")
    assert len(os.listdir(tmp_path)) == 3
    own_files.write_file(str(path), b"newer")
    assert path.read_text() == "newer"
    assert sorted(os.listdir(tmp_path)) == ["checkpoint", "notes.unfinished"]


@pytest.mark.parametrize("obstacle", ["a file", "a directory", "no locks"])
def test_a_file_is_written_beside_obstacles(tmp_path, monkeypatch, obstacle):
    """Others' files of the temporary name, and missing locks, hinder no write and stay."""
    other = tmp_path / "checkpoint.unfinished"
    if obstacle == "a file":
        other.write_text("mine")
    elif obstacle == "a directory":
        other.mkdir()
        (other / "file").write_text("mine")
    else:

        def refuse(*args):
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

        monkeypatch.setattr(fcntl, "flock", refuse)
    before = sorted(tmp_path.rglob("*"))
    own_files.write_file(str(tmp_path / "checkpoint"), b"new", 0o640)
    assert (tmp_path / "checkpoint").read_text() == "new"
    assert (tmp_path / "checkpoint").stat().st_mode & 0o777 == 0o640
    assert sorted(tmp_path.rglob("*")) == sorted([*before, tmp_path / "checkpoint"])


def test_a_conversion_that_was_killed_when_it_was_done(tmp_path):
    """The next conversion into a directory removes what one left beside its finished checkpoint."""
    made = table_program.make(tmp_path / "model")
    made.train(table_program.input_fn, steps=1)
    target = str(tmp_path / "new" / "model.ckpt-1")
    checkpoints.convert(str(tmp_path / "model"), target)
    left = leftovers.leave(tmp_path / "new" / "model.ckpt-1.unfinished", own_files.Job.CONVERSION)
    with pytest.raises(ValueError, match="There is a checkpoint"):
        checkpoints.convert(str(tmp_path / "model"), target, dry_run=True)
    assert left.exists()
    with pytest.raises(ValueError, match="There is a checkpoint"):
        checkpoints.convert(str(tmp_path / "model"), target)
    assert not left.exists()


@pytest.mark.parametrize("name", ["model.py", "report.html", "vocabularies/words.txt"])
def test_a_program_of_keras_killed_while_it_writes_a_file(tmp_path, name):
    """What a killed to-keras left is removed whole, a file that it was writing included."""
    directory = tmp_path / ".out.unfinished"

    def write_and_be_killed():
        own_files.create(str(directory), own_files.Job.KERAS_PROGRAM)
        (directory / name).parent.mkdir(exist_ok=True)
        os.fsync = lambda file: os._exit(0)  # of this process, a fork
        own_files.write_file(str(directory / name), b"new")

    forks.run_in_a_fork(write_and_be_killed)
    assert (directory / f"{name}.unfinished").is_dir()
    own_files.remove_left(str(tmp_path))
    assert os.listdir(tmp_path) == []
