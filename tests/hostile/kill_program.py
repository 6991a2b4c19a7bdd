# SPDX-License-Identifier: Apache-2.0
"""Interrupts a job at every N-th change that it makes to a directory, and checks what is left.

    LD_PRELOAD=kill_at.so python kill_program.py MODE JOB DIRECTORY N

| mode | what fails |
|---|---|
| kill | the process, before the change |
| full | this and all later changes that need room |
| unreadable, unreadable-from | one read in place of a change; all later ones, too |
| memory | one allocation of a save |

Each run is a fork of this process, which has loaded TensorFlow but started none of its threads.
Prints a line for each interruption.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import re
import shutil
import signal
import sys
import traceback
from pathlib import Path

import numpy as np
import tensorflow as tf
from google.protobuf.message import Error as MessageError

import estimator_spec as es
import table_program
from estimator_spec import checkpoints
from estimator_spec.core.checkpoints import state_file
from estimator_spec.core.checkpoints.errors import MissingStateFileError
from estimator_spec.core.driver import checkpoint_state

LAST_STEP = 2
LARGE = 4096  # bytes
killer = ctypes.CDLL(None)


def in_child(function, *args):
    """Runs a function in a fork; returns the status of `os.waitpid`."""
    child = os.fork()
    if not child:
        status = 1
        try:
            status = function(*args) or 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitpid(child, 0)[1]


def succeed(function, *args):
    """Runs a function in a fork, which must succeed."""
    status = in_child(function, *args)
    assert status == 0, (function.__name__, status)


def kill(n, function, directory):
    """Runs a job, killed before its n-th change of the directory; False if it has fewer."""

    def run():
        killer.kill_at(os.fsencode(directory), ctypes.c_long(n))
        function(directory)

    status = in_child(run)
    assert status == 0 or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL), status
    return status != 0


def fill(n, function, directory):
    """Runs a job, whose disk is full from its n-th write on; False if it has fewer.

    Raises:
        AssertionError: the error isn't one line that names a file.
    """

    def run():
        killer.full_at(os.fsencode(directory), ctypes.c_long(n))
        refusal = None
        try:
            function(directory)
        except OSError as error:
            refusal = error
        if refusal is not None:
            text = str(refusal)
            assert "No space left on device" in text, text
            assert directory in text and "\n" not in text and "{{node" not in text, text
            assert refusal.__cause__ is None or isinstance(refusal.__cause__, OSError)
            left = [name for name in os.listdir(directory) if "_temp" in name or "temp-" in name]
            assert not left, left
        return 3 if killer.calls_so_far() < n else 0

    status = in_child(run)
    assert status in (0, 3 << 8), status
    return status == 0


def damage_reads(n, function, directory, from_there_on=False):
    """Runs a job whose n-th read of the directory fails; False if it has fewer.

    Raises:
        AssertionError: the error isn't one line that names a file.
    """

    def run():
        killer.unreadable_at(os.fsencode(directory), ctypes.c_long(n), int(from_there_on))
        refusal = None
        try:
            function(directory)
        except (OSError, es.CheckpointError) as error:
            refusal = error
        is_over = killer.calls_so_far() < n
        killer.unreadable_at(b"", ctypes.c_long(0), 0)
        if refusal is not None:
            text = str(refusal)
            print(f"{n}: {type(refusal).__name__}: {text}", flush=True)
            assert "Input/output error" in text, text
            assert directory in text and "\n" not in text and "{{node" not in text, text
        return 3 if is_over else 0

    status = in_child(run)
    if os.WIFSIGNALED(status):  # TensorFlow crashes where it can't read what it has just written
        print(f"{n}: signal {os.WTERMSIG(status)}", flush=True)
        return True
    assert status in (0, 3 << 8), status
    return status == 0


class NoMemory(tf.compat.v1.train.CheckpointSaverListener):
    """Listener that lets the n-th large allocation of each save fail."""

    def __init__(self, n):
        self._n = n

    def before_save(self, session, global_step_value):
        killer.no_memory_at(ctypes.c_long(self._n), ctypes.c_size_t(LARGE))

    def after_save(self, session, global_step_value):
        self.stop()

    @staticmethod
    def stop():
        """Lets all allocations succeed again."""
        killer.no_memory_at(ctypes.c_long(0), ctypes.c_size_t(0))


def exhaust_memory(n, function, directory):
    """Runs a training in whose saves the n-th large allocation fails; False if they have fewer.

    Raises:
        AssertionError: it neither went on, nor ended by a signal or by a clear error.
    """

    def run():
        try:
            function(directory, [NoMemory(n)])
        except (MemoryError, OSError, MessageError, tf.errors.ResourceExhaustedError) as error:
            NoMemory.stop()
            print(f"{n}: {type(error).__name__}: {error}", flush=True)
            return 0
        return 3 if killer.allocations_so_far() < n else 0

    status = in_child(run)
    if os.WIFSIGNALED(status):  # as a process that the kernel kills because memory runs out
        print(f"{n}: signal {os.WTERMSIG(status)}", flush=True)
        return True
    assert status in (0, 3 << 8), status
    return status == 0


class StartsAt(tf.compat.v1.train.SessionRunHook):
    """Hook that fails if a training begins before a global step."""

    def __init__(self, step):
        self._step = step

    def before_run(self, run_context):
        return tf.compat.v1.train.SessionRunArgs(tf.compat.v1.train.get_global_step())

    def after_run(self, run_context, run_values):
        assert run_values.results >= self._step, "the training started over"


def train(directory, last=LAST_STEP, layout=("div", 1), listeners=(), first=0):
    """Trains to a step."""
    made = table_program.make(directory, *layout)
    hooks = [StartsAt(first)]
    made.train(table_program.input_fn, hooks, max_steps=last, saving_listeners=listeners)


def left_in(directory):
    """Returns temporary directories, unless they are empty: those may be somebody else's."""
    found = [each for each in Path(directory).iterdir() if re.search("temp|unfinished", each.name)]
    return [each for each in found if any(p.stat().st_size for p in each.rglob("*") if p.is_file())]


class Training:
    """A training from the start, or one that goes on in another layout."""

    def __init__(self, home, before=None):
        self.before, self.last = before, LAST_STEP + 1 if before else 1
        self.start = home / "start"
        if before:
            succeed(train, self.start, LAST_STEP, before)
        else:
            self.start.mkdir()
        whole = home / "whole"
        shutil.copytree(self.start, whole)
        table_program_make = table_program.make
        tables = home / "tables.npz"

        def all_steps():
            made = table_program_make(whole)
            found = {}
            for step in range(LAST_STEP if before else 1, self.last + 1):
                made.train(table_program.input_fn, max_steps=step)
                if not found and not before:
                    found["0"] = checkpoints.read_table(
                        str(whole / "model.ckpt-0"), table_program.TABLE
                    )
                found[str(step)] = made.get_variable_value(table_program.TABLE)
            np.savez(tables, **found)

        succeed(all_steps)
        self.tables = dict(np.load(tables))

    def job(self, directory, listeners=()):
        first = LAST_STEP if self.before else 0
        train(directory, self.last, listeners=listeners, first=first)

    def check(self, directory):
        """The latest checkpoint is complete, and the run goes on from it."""
        directory = str(directory)
        at_least = LAST_STEP if self.before else -1
        try:
            latest = checkpoint_state.find_latest(directory)
        except MissingStateFileError:
            # Killed between the first index and the first state file.
            assert not self.before
            latest = checkpoints.repair(directory).latest
        step = -1 if latest is None else int(latest.rpartition("-")[2])
        assert step >= at_least, (step, at_least)
        if latest is None:
            # At most the first index is there, cut short.
            names = [name for name in os.listdir(directory) if name.endswith(".index")]
            assert names in ([], ["model.ckpt-0.index"])
        else:
            assert checkpoints.verify(latest).ok, str(checkpoints.verify(latest))
            found = checkpoints.read_table(latest, table_program.TABLE)
            np.testing.assert_allclose(found, self.tables[str(step)], rtol=1e-6)
        train(directory, self.last)
        latest = checkpoint_state.find_latest(directory)
        assert latest.endswith(f"-{self.last}"), latest
        assert checkpoints.verify(latest).ok
        found = checkpoints.read_table(latest, table_program.TABLE)
        np.testing.assert_allclose(found, self.tables[str(self.last)], rtol=1e-6)
        assert not left_in(directory), left_in(directory)


class Export:
    """An export of a checkpoint."""

    def __init__(self, home):
        self.model = home / "model"
        succeed(train, self.model)
        self.start = home / "start"
        self.start.mkdir()

    def job(self, directory):
        made = table_program.make(self.model)
        return made.export_saved_model(str(directory), table_program.receiver_fn)

    def check(self, directory):
        """What servers take for a SavedModel is whole, and the next export leaves nothing else."""
        for name in os.listdir(directory):
            if name.isdigit():
                self.load(os.path.join(directory, name))
        path = self.job(directory).decode()
        assert not left_in(directory), left_in(directory)
        assert sorted(os.listdir(path)) == ["saved_model.pb", "variables"]
        self.load(path)

    def load(self, path):
        assert checkpoints.verify(os.path.join(path, "variables", "variables")).ok
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            tf.compat.v1.saved_model.load(session, ["serve"], path)


class Evaluation:
    """An evaluation and a prediction, which write nothing beside the checkpoint."""

    def __init__(self, home):
        self.start = home / "start"
        succeed(train, self.start)
        shutil.rmtree(self.start / "eval", ignore_errors=True)
        self.files = self.contents(self.start)

    def job(self, directory):
        made = table_program.make(directory)
        made.evaluate(table_program.input_fn, steps=1)
        next(made.predict(table_program.input_fn))
        made.get_variable_value(table_program.TABLE)

    def contents(self, directory):
        paths = Path(directory).glob("*")
        return {path.name: path.read_bytes() for path in paths if path.is_file()}

    def check(self, directory):
        """Nothing has changed, and the job succeeds."""
        assert self.contents(directory) == self.files
        self.job(directory)


class Convert:
    """A conversion beside the checkpoints of a run."""

    def __init__(self, home):
        self.start = home / "start"
        succeed(train, self.start, LAST_STEP, ("mod", 3))
        self.table = checkpoints.read_table(str(self.start), table_program.TABLE)

    def job(self, directory):
        source = os.path.join(directory, f"model.ckpt-{LAST_STEP}")
        target = os.path.join(directory, "new", "model.ckpt-9")
        checkpoints.convert(source, target, strategy="div", shards=2)

    def check(self, directory):
        """The source is as it was; a second conversion succeeds where the first one wasn't done."""
        assert checkpoints.verify(str(directory)).ok
        target = os.path.join(directory, "new", "model.ckpt-9")
        if not os.path.exists(target + ".index"):
            assert tf.train.latest_checkpoint(os.path.dirname(target)) is None
            self.job(directory)
        assert checkpoints.verify(target).ok
        assert tf.train.latest_checkpoint(os.path.dirname(target)) == target
        # Killed before it is marked, nothing shows whose the first file is.
        names = {*os.listdir(os.path.dirname(target))} - {"checkpoint", "model.ckpt-9.unfinished"}
        ends = (".data-00000-of-00001", ".index", ".tables.json")
        assert names == {f"model.ckpt-9{end}" for end in ends}
        np.testing.assert_array_equal(
            checkpoints.read_table(target, table_program.TABLE), self.table
        )


class Repair:
    """A state file that is written anew."""

    def __init__(self, home):
        self.start = home / "start"
        succeed(train, self.start)
        (self.start / "checkpoint").unlink()

    def job(self, directory):
        checkpoints.repair(directory)

    def check(self, directory):
        """The state file is whole, or still missing."""
        if os.path.exists(state_file.path_of(directory)):
            assert checkpoint_state.find_latest(str(directory)).endswith(f"-{LAST_STEP}")
        else:
            assert not checkpoints.repair(directory).skipped
        train(directory, LAST_STEP + 1)


JOBS = {
    "training": Training,
    "other shards": lambda home: Training(home, ("mod", 3)),
    "export": Export,
    "evaluation": Evaluation,
    "convert": Convert,
    "repair": Repair,
}


MODES = {
    "kill": kill,
    "full": fill,
    "unreadable": damage_reads,
    "unreadable-from": functools.partial(damage_reads, from_there_on=True),
    "memory": exhaust_memory,
}


def main():
    """Interrupts the job of the command line until it runs to its end."""
    interrupt = MODES[sys.argv[1]]
    name, home, every = sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    job = JOBS[name](home)
    interruptions, failed = 0, 0
    for n in itertools.count(1, every):
        directory = home / "killed"
        shutil.copytree(job.start, directory)
        try:
            if not interrupt(n, job.job, str(directory)):
                break
            status = in_child(job.check, str(directory))
        except AssertionError:
            traceback.print_exc()
            status = 1
        print(f"{n}: {'ok' if status == 0 else 'FAILED'}", flush=True)
        interruptions += 1
        failed += status != 0
        shutil.rmtree(directory)
    print(f"{interruptions} interruptions, {failed} failed", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(min(main(), 1))
