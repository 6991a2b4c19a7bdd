# SPDX-License-Identifier: Apache-2.0
"""Runs clusters of real processes on loopback; all are killed when a test ends."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

import forks as forks_lib
from estimator_spec.cluster import local_cluster

PROGRAM = "cluster_program"
ROOT = Path(__file__).resolve().parents[3]
LIMIT = 240  # seconds until a test gives up


class Process:
    """A process that writes its output to a file.

    Args:
        forks: starts it.
        program: name of the program.
        arguments: its model_dir and options.
        environment: its environment variables.
        log: path of the file.
    """

    def __init__(self, forks, program, arguments, environment, log):
        self._forks = forks
        self._id = forks.start(program, arguments, environment, log)

    @property
    def status(self):
        """Exit status; None while the process runs."""
        return self._forks.poll(self._id)

    def wait(self, until=float("inf")):
        """Waits for the end of the process, or a time; returns the status."""
        while self.status is None and time.monotonic() < until:
            time.sleep(0.02)
        return self.status

    def send(self, number):
        """Sends a signal to the process and its children, unless it has ended."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._id, number)


class Cluster:
    """The processes of a cluster; each writes its output to a file.

    Args:
        directory: a new directory of this cluster.
        forks: returns the `Forks` that start its processes, perhaps with a preloaded library.
        program: name of the program.
        model_dir: its model_dir.
        options: options of the program.
        environments: environment variables by task, such as 'worker 0'.
    """

    def __init__(self, directory, forks, program, model_dir, options, environments):
        self.environments = environments
        self._directory = directory
        self._forks = forks
        self._program = program
        self._model_dir = str(model_dir)
        self._options = options
        self._processes = {}

    def start(self, *tasks, preload=None, **options):
        """Starts the processes of tasks, or of all; one that ran before writes on."""
        forks = self._forks(preload)
        arguments = [self._model_dir, self._options | options]
        for task in tasks or self.environments:
            self._processes[task] = Process(
                forks, self._program, arguments, self.environments[task], self._log(task)
            )

    def run(self):
        """Runs all tasks; ends the servers after training and evaluation."""
        self.start()
        servers = [task for task in self.environments if task.startswith("ps")]
        self.finish(*(task for task in self.environments if task not in servers))
        for task in servers:
            self.terminate(task)
        self.finish(*servers)

    def output(self, task):
        """Returns what the processes of a task wrote so far."""
        return self._log(task).read_text(errors="replace")

    def wait_for(self, task, text, times=1):
        """Waits until a task has written lines that match a pattern; returns the matches."""
        end = time.monotonic() + LIMIT
        while True:
            ended = self._processes[task].status is not None
            found = re.findall(text, self.output(task))
            if len(found) >= times:
                return found
            assert not ended, f"{task} ended without {text!r}:\n{self.output(task)[-4000:]}"
            assert time.monotonic() < end, f"no {text!r} of {task}:\n{self.output(task)[-4000:]}"
            time.sleep(0.05)

    def terminate(self, task):
        """Sends SIGTERM to the process of a task."""
        self._processes[task].send(signal.SIGTERM)

    def kill(self, task):
        """Kills the process of a task."""
        self._processes[task].send(signal.SIGKILL)
        self._processes[task].wait()

    def finish(self, *tasks, status=0):
        """Waits until tasks have ended with a status; one that fails ends the waiting."""
        end = time.monotonic() + LIMIT
        waiting = list(tasks)
        while waiting:
            for task in waiting:
                found = self._processes[task].status
                assert found in (None, status), f"{task}:\n{self.output(task)[-6000:]}"
            late = time.monotonic() > end
            assert not late, f"{waiting[0]} doesn't end:\n{self.output(waiting[0])[-4000:]}"
            waiting = [task for task in waiting if self._processes[task].status is None]
            time.sleep(0.02)

    def kill_all(self):
        """Kills all processes that still run, with their children."""
        for task in self._processes:
            self.kill(task)

    def _log(self, task):
        path = self._directory / (task.replace(" ", "-") + ".log")
        path.touch()
        return path


def variables_of(side, variables):
    """Returns the environment variables of the program on one side: 'ours' or 'reference'."""
    found = {**variables, "PYTHONPATH": str(ROOT), "SIDE": side}
    if side == "reference":
        found.pop("TF_USE_LEGACY_KERAS", None)
    return found


@pytest.fixture(scope="session")
def forks():
    """Returns a function of a python, None for this one, that returns its `Forks`."""
    made = {}

    def get(python=None, preload=None):
        if (python, preload) not in made:
            side = "reference" if python else "ours"
            more = {"LD_PRELOAD": str(preload)} if preload else {}
            made[python, preload] = forks_lib.Forks(
                python or sys.executable, PROGRAM, variables_of(side, os.environ) | more
            )
        return made[python, preload]

    yield get
    for each in made.values():
        each.close()


@pytest.fixture
def cluster(tmp_path, forks):
    """Returns a function that makes a cluster, whose processes aren't started."""
    clusters = []

    def make(
        model_dir, workers=0, servers=1, evaluator=False, python=None, program=PROGRAM, **options
    ):
        size = local_cluster.Size(workers, servers, evaluator)
        side = "reference" if python else "ours"
        environments = {
            str(task): variables_of(side, variables)
            for task, variables in local_cluster.make_environments(size).items()
        }
        directory = tmp_path / f"logs-{len(clusters)}"
        directory.mkdir()
        get = functools.partial(forks, python)
        clusters.append(Cluster(directory, get, program, model_dir, options, environments))
        return clusters[-1]

    try:
        yield make
    finally:
        for each in clusters:
            each.kill_all()


@pytest.fixture
def alone(tmp_path, forks):
    """Returns a function that runs a program in one process, and returns its output."""

    def run(model_dir, python=None, program=PROGRAM, **options):
        environment = {k: v for k, v in os.environ.items() if k != "TF_CONFIG"}
        environment = variables_of("reference" if python else "ours", environment)
        log = tmp_path / "alone.log"
        log.unlink(missing_ok=True)
        process = Process(forks(python), program, [str(model_dir), options], environment, log)
        status = process.wait(time.monotonic() + LIMIT)
        process.send(signal.SIGKILL)
        assert status == 0, log.read_text()[-4000:]
        return log.read_text()

    return run
