# SPDX-License-Identifier: Apache-2.0
"""Runs clusters of real processes, on loopback or in a network; a test's end kills all."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import cluster_network
import forking_python
from estimator_spec.core.cluster import local_cluster

PROGRAM = "cluster_program"
HERE = Path(__file__).resolve().parent
PATH = os.pathsep.join([str(HERE.parents[3]), str(HERE)])
LIMIT = 240  # seconds until a test gives up


def start(program, model_dir, options, environment, log, python=None, wrap=None):
    """Starts a program, which appends its output to a file.

    It is one of this directory, by its name, or the path of any, whose flags the options are.
    `wrap` returns the command to run in place of a command.
    """
    if str(program).endswith(".py"):
        arguments = [program, *(f"--{name}={value}" for name, value in options.items())]
        arguments.append(f"--model_dir={model_dir}")
    else:
        code = f"import json, sys, {program}; {program}.main(sys.argv[1], json.loads(sys.argv[2]))"
        arguments = ["-c", code, model_dir, json.dumps(options)]
    python = python or sys.executable
    with open(log, "ab") as output:
        files = {"stdout": output, "stderr": output}
        if wrap is not None:  # a fork has threads, which can't join a namespace
            return subprocess.Popen(wrap([python, *arguments]), env=environment, **files)
        return forking_python.start(arguments, executable=python, env=environment, **files)


class Cluster:
    """The processes of a cluster; each writes its output to a file.

    Args:
        directory: a new directory of this cluster.
        python: the interpreter; None for this one.
        program: name of the program.
        model_dir: its model_dir.
        options: options of the program.
        environments: environment variables by task, such as 'worker 0'.
        network: the `Network` of its processes, or None.
    """

    def __init__(self, directory, python, program, model_dir, options, environments, network=None):
        self._network = network
        self.environments = environments
        self._directory = directory
        self._python = python
        self._program = program
        self._model_dir = str(model_dir)
        self._options = options
        self._processes = {}

    def start(self, *tasks, preload=None, **options):
        """Starts the processes of tasks, or of all; one that ran before writes on."""
        options = self._options | options
        more = {"LD_PRELOAD": str(preload)} if preload else {}
        for task in tasks or self.environments:
            environment, log = self.environments[task] | more, self._log(task)
            network = self._network
            wrap = None if network is None else functools.partial(network.command, task)
            self._processes[task] = start(
                *(self._program, self._model_dir, options, environment, log, self._python, wrap)
            )

    def run(self, limit=LIMIT):
        """Runs all tasks; ends the servers after training and evaluation."""
        self.start()
        servers = [task for task in self.environments if task.startswith("ps")]
        self.finish(*(task for task in self.environments if task not in servers), limit=limit)
        for task in servers:
            self.terminate(task)
        self.finish(*servers)

    def output(self, task):
        """Returns what the processes of a task wrote so far."""
        return self._log(task).read_text(errors="replace")

    def wait_for(self, task, text, times=1, start=0, limit=LIMIT):
        """Waits until a task has written lines that match a pattern; returns the matches.

        `start` is the length of its output before these lines, `limit` the seconds that it has.
        """
        end = time.monotonic() + limit
        while True:
            ended = self.has_ended(task)
            found = re.findall(text, self.output(task)[start:])
            if len(found) >= times:
                return found
            assert not ended, f"{task} ended without {text!r}:\n{self.output(task)[-4000:]}"
            assert time.monotonic() < end, f"no {text!r} of {task}:\n{self.output(task)[-4000:]}"
            time.sleep(0.05)

    def has_ended(self, task):
        """Returns whether the process of a task has ended."""
        return self._processes[task].poll() is not None

    def terminate(self, task):
        """Sends SIGTERM to the process of a task."""
        self.send(task, signal.SIGTERM)

    def send(self, task, number):
        """Sends a signal to the process of a task."""
        self._processes[task].send_signal(number)

    def kill(self, task):
        """Kills the process of a task."""
        self._processes[task].kill()
        self._processes[task].wait()

    def finish(self, *tasks, status=0, limit=LIMIT):
        """Waits until tasks have ended with a status; one with another status ends the waiting."""
        end = time.monotonic() + limit
        waiting = list(tasks)
        while waiting:
            for task in waiting:
                found = self._processes[task].poll()
                assert found in (None, status), f"{task}:\n{self.output(task)[-6000:]}"
            late = time.monotonic() > end
            assert not late, f"{waiting[0]} doesn't end:\n{self.output(waiting[0])[-4000:]}"
            waiting = [task for task in waiting if self._processes[task].poll() is None]
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
    found = {**variables, "PYTHONPATH": PATH, "SIDE": side}
    if side == "reference":
        found.pop("TF_USE_LEGACY_KERAS", None)
    return found


@pytest.fixture
def cluster(tmp_path):
    """Returns a function that makes a cluster, whose processes aren't started."""
    clusters = []

    def make(
        model_dir,
        workers=0,
        servers=1,
        evaluator=False,
        python=None,
        program=PROGRAM,
        network=None,
        **options,
    ):
        size = local_cluster.Size(workers, servers, evaluator)
        side = "reference" if python else "ours"
        environments = {
            str(task): variables_of(side, variables)
            for task, variables in local_cluster.make_environments(size).items()
        }
        if network is not None:
            environments = {k: network.variables(k, v) for k, v in environments.items()}
        directory = tmp_path / f"logs-{len(clusters)}"
        directory.mkdir()
        clusters.append(
            Cluster(directory, python, program, model_dir, options, environments, network)
        )
        return clusters[-1]

    try:
        yield make
    finally:
        for each in clusters:
            each.kill_all()


@pytest.fixture
def make_network():
    """Returns a function that makes a `Network` for a cluster of a size, of links of a quality."""
    with contextlib.ExitStack() as stack:

        def make(workers=0, servers=1, evaluator=False, quality=None):
            size = local_cluster.Size(workers, servers, evaluator)
            tasks = [str(task) for task in local_cluster.make_environments(size)]
            try:
                return stack.enter_context(cluster_network.Network(tasks, quality))
            except OSError as error:
                pytest.skip(f"needs network namespaces: {error}")

        yield make


@pytest.fixture
def alone(tmp_path):
    """Returns a function that runs a program in one process, and returns its output."""

    def run(model_dir, python=None, program=PROGRAM, **options):
        environment = {k: v for k, v in os.environ.items() if k != "TF_CONFIG"}
        environment = variables_of("reference" if python else "ours", environment)
        log = tmp_path / "alone.log"
        log.unlink(missing_ok=True)
        process = start(program, str(model_dir), options, environment, log, python)
        try:
            status = process.wait(LIMIT)
        finally:
            process.kill()
        assert status == 0, log.read_text()[-4000:]
        return log.read_text()

    return run
