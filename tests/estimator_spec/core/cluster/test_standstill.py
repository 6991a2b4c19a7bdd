# SPDX-License-Identifier: Apache-2.0
"""Standstills of a cluster's training are logged, and end at the limit; see also test_faults.py."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
import time

import pytest
import tensorflow as tf

from estimator_spec.core.cluster import probing
from estimator_spec.core.driver import standstill
from estimator_spec.core.driver.errors import first_line
from estimator_spec.run_config import RunConfig

LOST = tf.errors.UnavailableError(None, None, "Connection reset by peer\nmore")


@contextlib.contextmanager
def listening():
    """Yields the port of a process that accepts no connections, as one that is stopped."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def config(monkeypatch):
    """Returns the configuration of a chief with servers at these ports."""

    def make(*ports, **options):
        cluster = {"chief": ["127.0.0.1:9"], "ps": [f"127.0.0.1:{port}" for port in ports]}
        task = {"type": "chief", "index": 0}
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
        return RunConfig(**options)

    return make


@contextlib.contextmanager
def answering_late():
    """Yields the port of a server whose answer takes 1.5 seconds, as after a lost frame."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            connection = server.accept()[0]
            time.sleep(1.5)
            connection.sendall(b"x")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def test_servers_that_do_not_answer(config):
    """A server is named if nothing listens or nobody answers; one that answers, if late, isn't."""
    server = tf.distribute.Server.create_local_server()
    up = server.target.rpartition(":")[2]
    with listening() as stopped, answering_late() as late:
        with listening() as down:
            pass
        found = probing.find_silent(config(up, stopped, down, late))
    assert found == [
        f"ps 1 at 127.0.0.1:{stopped} doesn't answer",
        f"ps 2 at 127.0.0.1:{down} can't be reached (Connection refused)",
    ]


class Watched:
    """A watch whose clock and servers the test sets."""

    def __init__(self, config):
        self.silent = []
        self.now = 100.0
        self.watch = standstill.StepWatch(config, lambda config: self.silent, lambda: self.now)

    def wait(self, seconds):
        """Lets seconds pass, as the thread does."""
        for _ in range(seconds):
            self.now += 1
            self.watch.check()


@pytest.fixture
def watched(config, caplog):
    """Returns a function that makes a watch, and one that returns the lines since the last call."""
    caplog.set_level(logging.INFO, logger="tensorflow")

    def lines():
        found = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return found

    def make(**options):
        made = Watched(config(1, 2, **options))
        caplog.clear()
        return made

    return make, lines


def test_a_server_that_stops(watched):
    """There is a line after two seconds without a step, another every ten, and one at the end."""
    make, lines = watched
    made = make()
    made.watch.step_done()
    made.wait(60)
    assert lines() == []  # a long step
    made.watch.step_done()
    made.silent = ["ps 1 at b:1 doesn't answer"]
    made.wait(1)
    assert lines() == []
    made.wait(1)
    text = "Training has stood still for 2 seconds: ps 1 at b:1 doesn't answer. After 7200 seconds"
    (line,) = lines()
    assert line.startswith(text)
    made.wait(30)
    assert [line.partition(":")[0] for line in lines()] == [
        f"Training has stood still for {seconds} seconds" for seconds in (12, 22, 32)
    ]
    made.watch.step_done()
    assert lines() == ["Training goes on after 32 seconds."]
    made.silent = []
    made.wait(60)
    assert lines() == []


def test_a_session_that_is_lost_twice(watched):
    """A lost session is logged at once; while there is none, so is each tenth second."""
    make, lines = watched
    made = make()
    made.watch.step_done()
    for _ in range(2):
        made.now += 0.5
        made.watch.session_lost(LOST)
        (line,) = lines()
        assert "was lost (Connection reset by peer). Training stands still until" in line
        made.wait(25)
        assert [" ".join(line.split()[5:12]) for line in lines()] == [
            "10 seconds: all parameter servers answer, and",
            "20 seconds: all parameter servers answer, and",
        ]
        made.watch.step_done()
        assert lines() == ["Training goes on after 25 seconds."]


def test_workers_without_servers(watched, monkeypatch):
    """Workers of a collective strategy, which have no servers, don't read about any."""
    cluster = {"chief": ["127.0.0.1:9"], "worker": ["127.0.0.1:8"]}
    task = {"type": "chief", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    _, lines = watched
    made = Watched(RunConfig())
    made.watch.step_done()
    made.watch.session_lost(LOST)
    made.wait(11)
    found = lines()[-2:]  # after those of the configuration
    assert found[0].startswith("The session with the other workers was lost (Connection reset")
    assert found[1].startswith("Training has stood still for 10 seconds: a new session is being")


@pytest.fixture
def collective(watched, monkeypatch):
    """Returns the watch of a worker without servers after a step, and the function of its lines."""
    cluster = {"chief": ["127.0.0.1:9"], "worker": ["127.0.0.1:8"]}
    task = {"type": "chief", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))

    def end(status):
        raise SystemExit(status)

    monkeypatch.setattr(standstill.os, "_exit", end)
    made = Watched(RunConfig())
    made.watch.step_done()
    watched[1]()
    return made, watched[1]


@pytest.mark.parametrize("step, limit", [(1, 30), (6, 60)])
def test_a_step_that_a_lost_connection_interrupted(collective, step, limit):
    """Workers whose link was down for a while don't wait for ever when all answer again."""
    made, lines = collective
    made.wait(step)
    made.watch.step_done()
    made.silent = ["worker 0 at b:1 doesn't answer"]
    made.wait(20)
    made.silent = []
    found = lines()
    assert "worker 0 at b:1 doesn't answer. After 7200 seconds" in found[-1]
    # The last time that it was looked for and didn't answer is 12 seconds after the step.
    made.wait(12 + limit - 20 - 1)
    found = lines()
    assert "lost connection interrupted doesn't end. After" in found[0] and len(found) > 1
    with pytest.raises(SystemExit) as caught:
        made.wait(1)
    assert caught.value.code == 1
    (line,) = lines()
    assert "ends with status 1. Checkpoints are unchanged: run again" in line


def test_a_step_that_ends_after_a_lost_connection(collective):
    """Workers whose step ends after all go on; a later long step is no interrupted one."""
    made, lines = collective
    made.silent = ["worker 0 at b:1 doesn't answer"]
    made.wait(20)
    made.silent = []
    made.wait(5)
    made.watch.step_done()
    assert lines()[-1] == "Training goes on after 25 seconds."
    made.wait(1000)
    assert lines() == []


@pytest.mark.parametrize(
    "message, line",
    [
        ("Connection reset by peer\nmore", "Connection reset by peer"),
        ("Graph execution error:\n\nSocket closed.\nmore", "Socket closed"),
        ("From /job:ps/task:0:\nSocket closed\nmore", "From /job:ps/task:0: Socket closed"),
        (
            "Graph execution error:\n\nDetected at node 'a' defined at\n  x.py\n\nNode: 'a'\n"
            "Table not there {{node a}}\n\t [[{{node b}}]]",
            "Table not there",
        ),
        ("Graph execution error:", ""),
        (
            "Graph execution error:\n\n=====================\nUNAVAILABLE: From /job:ps/task:1:\n"
            "Connection reset by peer\nUNAVAILABLE: From /job:chief/task:0:\nmore",
            "UNAVAILABLE: From /job:ps/task:1: Connection reset by peer",
        ),
    ],
)
def test_the_reason_of_a_lost_session(message, line):
    """The line about a lost session has the reason, with the heading that it stands under."""
    assert first_line(tf.errors.UnavailableError(None, None, message)) == line


@pytest.mark.parametrize("phase", ["start", "step", "lost", "close"])
def test_the_limit(watched, monkeypatch, phase):
    """At the limit the process ends with status 1, whatever TensorFlow waits in."""
    make, lines = watched
    made = make(session_creation_timeout_secs=25)
    if phase != "start":
        made.watch.step_done()
    if phase in ("start", "step"):
        made.silent = ["ps 0 at a:1 doesn't answer"]
    if phase == "lost":
        made.watch.session_lost(LOST)
    if phase == "close":
        made.watch.closing()

    def end(status):
        raise SystemExit(status)

    monkeypatch.setattr(standstill.os, "_exit", end)
    made.wait(24)
    with pytest.raises(SystemExit) as caught:
        made.wait(1)
    assert caught.value.code == 1
    assert "Training stood still for 25 seconds" in lines()[-1]


@pytest.mark.parametrize("limit", [None, 25])
def test_no_limit(watched, limit):
    """Without a limit, or while a first session restores a large checkpoint, nothing ends."""
    make, lines = watched
    made = make(session_creation_timeout_secs=limit)
    if limit is None:
        made.watch.session_lost(LOST)
        lines()
    made.wait(10_000)
    assert len(lines()) == 1000
    assert "will end" not in "".join(lines())


def test_the_thread(config, caplog):
    """A watch in use notices a server that is stopped without being asked, and ends."""
    with listening() as stopped, standstill.StepWatch(config(stopped)) as watch:
        watch.step_done()
        for _ in range(100):
            if "ps 0" in caplog.text:
                break
            watch._is_over.wait(0.1)
    assert "Training has stood still for" in caplog.text
    assert watch._is_over.is_set()
