# SPDX-License-Identifier: Apache-2.0
"""Runs clusters of real processes on loopback; all are killed when a test ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from estimator_spec.cluster import local_cluster

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "cluster_program.py"
ROOT = HERE.parents[2]
LIMIT = 240  # seconds until a test gives up


class Cluster:
    """The processes of a cluster; each writes its output to a file.

    Args:
        directory: a new directory of this cluster.
        program: the interpreter, the program and its model_dir.
        options: options of the program.
        environments: environment variables by task, such as 'worker 0'.
    """

    def __init__(self, directory, program, options, environments):
        self.environments = environments
        self._directory = directory
        self._program = program
        self._options = options
        self._processes = {}

    def start(self, *tasks, preload=None, **options):
        """Starts the processes of tasks, or of all; one that ran before writes on."""
        command = [*self._program, json.dumps(self._options | options)]
        for task in tasks or self.environments:
            more = {"LD_PRELOAD": str(preload)} if preload else {}
            with open(self._log(task), "ab") as log:
                self._processes[task] = subprocess.Popen(
                    command,
                    env=self.environments[task] | more,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
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
            ended = self._processes[task].poll() is not None
            found = re.findall(text, self.output(task))
            if len(found) >= times:
                return found
            assert not ended, f"{task} ended without {text!r}:\n{self.output(task)[-4000:]}"
            assert time.monotonic() < end, f"no {text!r} of {task}:\n{self.output(task)[-4000:]}"
            time.sleep(0.05)

    def terminate(self, task):
        """Sends SIGTERM to the process of a task."""
        self._processes[task].send_signal(signal.SIGTERM)

    def kill(self, task):
        """Kills the process of a task."""
        self._processes[task].kill()
        self._processes[task].wait()

    def finish(self, *tasks, status=0):
        """Waits until tasks have ended with a status."""
        end = time.monotonic() + LIMIT
        for task in tasks:
            try:
                found = self._processes[task].wait(max(end - time.monotonic(), 1))
            except subprocess.TimeoutExpired:
                pytest.fail(f"{task} doesn't end:\n{self.output(task)[-4000:]}")
            assert found == status, f"{task}:\n{self.output(task)[-6000:]}"

    def kill_all(self):
        """Kills all processes that still run, with their children."""
        for process in self._processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _log(self, task):
        return self._directory / (task.replace(" ", "-") + ".log")


def variables_of(side, variables):
    """Returns the environment variables of the program on one side: 'ours' or 'reference'."""
    found = {**variables, "PYTHONPATH": str(ROOT), "SIDE": side}
    if side == "reference":
        found.pop("TF_USE_LEGACY_KERAS", None)
    return found


@pytest.fixture
def cluster(tmp_path):
    """Returns a function that makes a cluster, whose processes aren't started."""
    clusters = []

    def make(model_dir, workers=0, servers=1, evaluator=False, python=None, **options):
        size = local_cluster.Size(workers, servers, evaluator)
        side = "reference" if python else "ours"
        environments = {
            str(task): variables_of(side, variables)
            for task, variables in local_cluster.make_environments(size).items()
        }
        directory = tmp_path / f"logs-{len(clusters)}"
        directory.mkdir()
        program = [python or sys.executable, str(PROGRAM), str(model_dir)]
        clusters.append(Cluster(directory, program, options, environments))
        return clusters[-1]

    try:
        yield make
    finally:
        for each in clusters:
            each.kill_all()


@pytest.fixture
def alone():
    """Returns a function that runs the program in one process, and returns its output."""

    def run(model_dir, python=None, **options):
        environment = {k: v for k, v in os.environ.items() if k != "TF_CONFIG"}
        done = subprocess.run(
            [python or sys.executable, str(PROGRAM), str(model_dir), json.dumps(options)],
            env=variables_of("reference" if python else "ours", environment),
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    return run
