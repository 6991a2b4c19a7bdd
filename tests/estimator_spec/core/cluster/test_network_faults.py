# SPDX-License-Identifier: Apache-2.0
"""Faults of machines and links: each task has a network namespace and an address of its own.

docs/cluster_faults.md has the table of what these tests show.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tensorflow as tf

from cluster_network import Quality
from cluster_results import losses, variables
from counting_program import START, count_wrong_rows, read_table
from estimator_spec import checkpoints

CENSUS = str(Path(__file__).resolve().parents[4] / "examples" / "census" / "census_cluster.py")
# A batch of 4,096 examples, so that a run of minutes has a few hundred steps.
FLAGS = {"batch_size": 4096, "learning_rate": 0.0002, "save_checkpoints_steps": 20}
COUNTING = {"program": "counting_program", "save_steps": 100}
NIGHTLY = pytest.mark.nightly("minutes of a cluster in namespaces")
SLOW = Quality(delay=0.02, loss=0.01)
TOLD = 30  # seconds until a process says that training stands still
RUN = 900  # seconds of a run of six processes on two busy cores
BACK = 200  # seconds until it goes on: TCP and gRPC wait longer between attempts with time
STANDSTILL = r"session with the parameter servers was lost|Training has stood still for"
GOES_ON = r"session of global step \d+ ended. Training goes on from global step \d+"
FOREVER = 10**6


def census(cluster, network, model_dir, **flags):
    """Returns the cluster of the census: a chief, two workers, two servers and an evaluator."""
    return cluster(model_dir, 2, 2, True, program=CENSUS, network=network, **{**FLAGS, **flags})


def sizes(made):
    """Returns the length of each task's output."""
    return {task: len(made.output(task)) for task in made.environments}


def trainers(made):
    """Returns the names of the chief and the workers."""
    return [task for task in made.environments if task.split()[0] in ("chief", "worker")]


def saved_step(model_dir):
    """Returns the step of the latest checkpoint."""
    return int(tf.train.latest_checkpoint(str(model_dir)).rsplit("-", 1)[1])


def wait_for_saves(model_dir, count=2, limit=240):
    """Waits until there are more checkpoints."""
    for _ in range(count):
        before, end = tf.train.latest_checkpoint(str(model_dir)), time.monotonic() + limit
        while tf.train.latest_checkpoint(str(model_dir)) == before:
            assert time.monotonic() < end, f"no checkpoint after {before}"
            time.sleep(0.2)


def wait_for_all(made):
    """Waits until each trainer has made steps."""
    for task in trainers(made):
        made.wait_for(task, r"loss = \S+, step = \d+")


def end_census(cluster, network, made, model_dir):
    """Lets the census end after 40 more steps, and checks its last evaluation."""
    made.kill_all()
    last = saved_step(model_dir) + 40
    again = census(cluster, network, model_dir, train_steps=last)
    again.run(RUN)
    assert saved_step(model_dir) >= last
    assert checkpoints.verify(str(model_dir)).ok
    assert auc(again) > 0.89


def auc(made):
    """Returns what the evaluator prints at the end."""
    return float(re.search(r"test AUC (\S+) at step", made.output("evaluator 0"))[1])


def test_links_of_the_network(make_network):
    """Tasks reach each other by their addresses unless a link is cut; slow links are slow."""
    for quality, seconds in ((None, 0.0), (Quality(0.05, 0.0), 0.2)):
        network = make_network(0, 1, quality=quality)
        server = subprocess.Popen(
            network.command("ps 0", [sys.executable, "-c", ECHO]), stdout=subprocess.PIPE
        )
        try:
            server.stdout.readline()
            found = []
            for is_up, limit in ((False, "0.5"), (True, "60")):
                network.set_link("ps 0", is_up)
                command = [sys.executable, "-c", CALL, network.address("ps 0"), limit]
                done = subprocess.run(network.command("chief 0", command), capture_output=True)
                found.append(done.stdout)
        finally:
            server.kill()
            server.communicate()
        assert found[0] == b""
        assert float(found[1]) >= seconds


ECHO = """
import socket
listener = socket.create_server(("", 2222))
print(flush=True)
connection = listener.accept()[0]
connection.sendall(connection.recv(9))
"""
CALL = """
import socket, sys, time
start = time.monotonic()
peer = socket.create_connection((sys.argv[1], 2222), float(sys.argv[2]))
peer.sendall(b"x")
peer.recv(9)
print(time.monotonic() - start)
"""


@NIGHTLY
def test_each_role_is_killed(cluster, make_network, tmp_path):
    """Killed and started again, each role goes on; a server's end costs steps since a checkpoint.

    In the end all machines lose their power.
    """
    network, model_dir = make_network(2, 2, True), tmp_path / "model"
    made = census(cluster, network, model_dir, train_steps=FOREVER)
    made.start()
    wait_for_all(made)
    wait_for_saves(model_dir)

    before = sizes(made)
    made.kill("worker 1")
    made.kill("evaluator 0")
    wait_for_saves(model_dir)
    assert not re.search(STANDSTILL, made.output("chief 0")[before["chief 0"] :])
    made.start("worker 1", "evaluator 0")
    made.wait_for("worker 1", r"loss = \S+, step = \d+", start=before["worker 1"])
    made.wait_for("evaluator 0", "Saving dict for global step", start=before["evaluator 0"])

    before = sizes(made)
    made.kill("ps 1")
    for task in trainers(made):
        made.wait_for(task, STANDSTILL, start=before[task], limit=TOLD)
    made.start("ps 1")
    for task in trainers(made):
        made.wait_for(task, "Training goes on after", start=before[task], limit=BACK)
    made.wait_for("chief 0", GOES_ON, start=before["chief 0"])
    for task in trainers(made):
        repeated = re.findall(r"and repeats (\d+) step", made.output(task)[before[task] :])
        assert sum(map(int, repeated)) <= FLAGS["save_checkpoints_steps"] + len(trainers(made))

    before = sizes(made)
    made.kill("chief 0")
    saved = saved_step(model_dir)
    made.start("chief 0")
    made.wait_for("chief 0", rf"model\.ckpt-{saved}\b", start=before["chief 0"])
    wait_for_saves(model_dir)
    end_census(cluster, network, made, model_dir)


@NIGHTLY
@pytest.mark.parametrize("task", ["worker 1", "ps 1"])
def test_a_task_is_cut_off(cluster, make_network, tmp_path, task):
    """For 20 and 120 seconds: who needs the link says so, and goes on when it is back."""
    network, model_dir = make_network(2, 2, True), tmp_path / "model"
    made = census(cluster, network, model_dir, train_steps=FOREVER)
    made.start()
    wait_for_all(made)
    wait_for_saves(model_dir)
    told = trainers(made) if task == "ps 1" else [task]
    for seconds in (20, 120):
        cut(made, network, task, told, seconds)
        wait_for_saves(model_dir)
    end_census(cluster, network, made, model_dir)


def cut(made, network, task, told, seconds):
    """Cuts a task off for some seconds; `told` are those that wait for it, or it for others."""
    before = sizes(made)
    start = time.monotonic()
    network.set_link(task, is_up=False)
    server = r"ps \d" if task not in told and "ps" not in task else "ps 1|ps 0"
    for each in told:
        text = rf"stood still for \d+ seconds: (?:{server}) at 10\.77\S+ (?:doesn't|can't)"
        made.wait_for(each, text, start=before[each], limit=TOLD)
    time.sleep(max(0.0, start + seconds - time.monotonic()))
    others = [each for each in trainers(made) if each not in told]
    for each in others:
        assert not re.search(STANDSTILL, made.output(each)[before[each] :])
    network.set_link(task, is_up=True)
    for each in told:
        made.wait_for(each, "Training goes on after", start=before[each], limit=BACK)
    print(f"{task} cut off for {seconds} s: goes on after {time.monotonic() - start:.0f} s")


@NIGHTLY
def test_slow_links_that_lose_frames(cluster, make_network, tmp_path):
    """With 20 ms of delay and a loss of 1 % training ends as without, and nobody complains."""
    found = []
    for quality in (None, SLOW):
        network, model_dir = make_network(2, 2, True, quality), tmp_path / str(quality)
        made = census(cluster, network, model_dir, train_steps=200, learning_rate=0.001)
        made.run(RUN)
        assert saved_step(model_dir) >= 200
        assert checkpoints.verify(str(model_dir)).ok
        for task in made.environments:
            assert not re.search("was lost|doesn't answer", made.output(task))
        found.append(auc(made))
    assert abs(found[0] - found[1]) < 0.01


@NIGHTLY
def test_no_update_is_lost(cluster, make_network, tmp_path):
    """No checkpoint of a run with kills and cuts has a torn row, or fewer updates than steps."""
    network, model_dir = make_network(2, 2), tmp_path / "model"
    made = cluster(model_dir, 2, 2, network=network, max_steps=FOREVER, **COUNTING)
    made.start()
    wait_for_saves(model_dir, 3)
    for task in ("worker 1", "ps 1", "chief 0"):
        made.kill(task)
        made.start(task)
        wait_for_saves(model_dir, 3)
    for task in ("worker 1", "ps 1"):
        network.set_link(task, is_up=False)
        time.sleep(20)
        network.set_link(task, is_up=True)
        wait_for_saves(model_dir, 3)
    made.kill_all()
    last = saved_step(model_dir) + 300
    cluster(model_dir, 2, 2, network=network, max_steps=last, **COUNTING).run(RUN)
    found = tf.train.get_checkpoint_state(str(model_dir)).all_model_checkpoint_paths
    assert len(found) > 15 and saved_step(model_dir) >= last
    for path in found:
        reader = tf.train.load_checkpoint(path)
        assert count_wrong_rows(reader) == 0, path
        updates = (read_table(reader)[1][:, 0] - START).round().sum()
        assert updates >= reader.get_tensor("global_step") * 1_500, path


STRATEGY = {"program": "strategy_program", "repeat": True, "seconds_of_a_step": 0.05}


def run_again(cluster, network, model_dir):
    """Starts the processes of a strategy once more, for three steps after the checkpoint."""
    saved = int(variables(model_dir)["global_step"])
    made = cluster(model_dir, 1, 0, network=network, max_steps=saved + 3, **STRATEGY)
    made.run()
    assert list(losses(made.output("worker 0"))) == [saved + 1, saved + 2, saved + 3]


@NIGHTLY
@pytest.mark.parametrize("fault", ["chief 0", "worker 0", 20, 120])
def test_a_strategy_of_collectives(cluster, make_network, tmp_path, fault):
    """After a kill the other process ends; after a cut both go on, or both end, and say so."""
    network, model_dir = make_network(1, 0), tmp_path / "model"
    made = cluster(model_dir, 1, 0, network=network, max_steps=FOREVER, **STRATEGY)
    made.start()
    made.wait_for("worker 0", r"step \d+ loss", times=9)
    before = sizes(made)
    if fault in made.environments:
        made.kill(fault)
        (other,) = set(made.environments) - {fault}
        made.finish(other, status=1)
        assert "lost the connection to another process of its strategy" in made.output(other)
        run_again(cluster, network, model_dir)
        return
    network.set_link("worker 0", is_up=False)
    for task in made.environments:
        text = r"stood still for \d+ seconds: \w+ 0 at 10\.77\S+ (?:doesn't|can't)"
        made.wait_for(task, text, start=before[task], limit=TOLD)
    time.sleep(fault)
    network.set_link("worker 0", is_up=True)
    end = time.monotonic() + BACK
    goes_on = False
    while not goes_on and not all(map(made.has_ended, made.environments)):
        assert time.monotonic() < end
        time.sleep(0.2)
        outputs = [made.output(task)[before[task] :] for task in made.environments]
        goes_on = all("Training goes on after" in each for each in outputs)
    print(f"collectives after {fault} s:", "go on" if goes_on else "ended with status 1")
    if not goes_on:
        made.finish(*made.environments, status=1)
    made.kill_all()
    run_again(cluster, network, model_dir)


@NIGHTLY
def test_collectives_on_slow_links(cluster, make_network, tmp_path):
    """With 20 ms of delay and a loss of 1 % each step has the loss that it has without."""
    found = []
    for quality in (None, SLOW):
        network = make_network(1, 0, quality=quality)
        made = cluster(
            *(tmp_path / str(quality), 1, 0),
            network=network,
            program="strategy_program",
            max_steps=5,
        )
        made.run()
        found.append(losses(made.output("chief 0")))
    assert found[1] == pytest.approx(found[0], rel=1e-4)
