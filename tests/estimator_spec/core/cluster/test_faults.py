# SPDX-License-Identifier: Apache-2.0
"""Faults of a cluster's processes: training goes on, or an error says what is wrong."""

from __future__ import annotations

import json
import re
import shutil
import signal
import time

import numpy as np
import pytest
import tensorflow as tf

import interruptions
from cluster_results import variables
from estimator_spec import checkpoints

pytestmark = pytest.mark.slow
NIGHTLY = pytest.mark.nightly("kills and restarts processes of a cluster")


def global_step(model_dir):
    """Returns the step of the latest checkpoint."""
    return int(tf.train.latest_checkpoint(str(model_dir)).rsplit("-", 1)[1])


def go(model_dir):
    """Lets a paused process go on."""
    (model_dir / "go").touch()


@NIGHTLY
def test_a_worker_is_killed(cluster, tmp_path):
    """Training goes on without a killed worker; started again, it trains on."""
    made = cluster(tmp_path / "model", workers=1, servers=2, max_steps=10**6)
    made.start()
    made.wait_for("worker 0", r"step \d+ loss")
    made.kill("worker 0")
    seen = len(re.findall(r"step \d+ loss", made.output("chief 0")))
    made.wait_for("chief 0", r"step \d+ loss", times=seen + 10)
    before = len(re.findall(r"step \d+ loss", made.output("worker 0")))
    made.start("worker 0")
    made.wait_for("worker 0", r"step \d+ loss", times=before + 10)


def test_a_server_is_killed(cluster, tmp_path):
    """With a new server, training goes on from the latest checkpoint, and the log says so.

    So it does while a server is stopped, here for a moment only.
    """
    model_dir = tmp_path / "model"
    made = cluster(model_dir, servers=2, max_steps=40, save_steps=10, pause_at=25)
    made.start()
    made.wait_for("chief 0", "paused at 25")
    assert global_step(model_dir) == 20
    made.send("ps 0", signal.SIGSTOP)
    made.wait_for("chief 0", r"stood still for \d+ seconds: ps 0 at \S+ doesn't answer")
    made.send("ps 0", signal.SIGCONT)
    made.kill("ps 1")
    made.start("ps 1")
    made.wait_for("ps 1", "serves variables", times=2)
    go(model_dir)
    made.finish("chief 0")
    output = made.output("chief 0")
    assert "The session with the parameter servers was lost" in output
    assert "the session of global step 25 ended. Training goes on from global step 20" in output
    assert "and repeats 5 steps" in output
    assert global_step(model_dir) == 40


@NIGHTLY
@pytest.mark.parametrize("fault", ["stopped", "cut"])
def test_a_minute_without_a_server(cluster, make_network, tmp_path, fault):
    """A server is stopped, or its link cut, for a minute: nothing is lost, and lines say so."""
    network = make_network(0, 2)
    made = cluster(tmp_path / "model", 0, 2, max_steps=40, pause_at=25, network=network)
    made.start()
    made.wait_for("chief 0", "paused at 25")
    is_cut = fault == "cut"
    network.set_link("ps 1", is_up=False) if is_cut else made.send("ps 1", signal.SIGSTOP)
    go(tmp_path / "model")
    time.sleep(60)
    lines = re.findall(r"Training has stood still for (\d+) seconds: .*", made.output("chief 0"))
    network.set_link("ps 1", is_up=True) if is_cut else made.send("ps 1", signal.SIGCONT)
    made.finish("chief 0")
    assert len(lines) >= 3  # how often depends on the machine
    assert "Training goes on after" in made.output("chief 0")
    assert global_step(tmp_path / "model") == 40
    assert checkpoints.verify(str(tmp_path / "model")).ok
    steps = len(re.findall(r"step \d+ loss", made.output("chief 0")))
    if "Training goes on from global step 20, and repeats 5 steps" in made.output("chief 0"):
        assert fault == "cut"  # TensorFlow may take the connection for lost
        assert steps == 45
        return
    assert steps == 40
    cluster(tmp_path / "undisturbed", 0, 2, max_steps=40).run()
    found, expected = variables(tmp_path / "model"), variables(tmp_path / "undisturbed")
    assert sorted(found) == sorted(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@NIGHTLY
@pytest.mark.parametrize("fault", ["stopped", "killed"])
def test_a_server_that_does_not_come_back(cluster, tmp_path, fault):
    """At the limit the training processes end, and say which server doesn't answer."""
    made = cluster(tmp_path / "model", 1, 2, max_steps=10**6, limit=30)
    made.start()
    tasks = ("chief 0", "worker 0")
    for task in tasks:
        made.wait_for(task, r"step \d+ loss")
    made.kill("ps 1") if fault == "killed" else made.send("ps 1", signal.SIGSTOP)
    start = time.monotonic()
    made.finish(*tasks, status=1)
    assert time.monotonic() - start < 60
    for task in tasks:
        assert re.search(r"ERROR:.*still for \d+ seconds: ps 1 at", made.output(task))


@NIGHTLY
def test_a_server_dies_again_and_again(cluster, tmp_path):
    """Each training process logs a line at once, and in every ten seconds of a standstill."""
    made = cluster(tmp_path / "model", 1, 2, max_steps=10**6)
    made.start()
    tasks = ("chief 0", "worker 0")
    for task in tasks:
        made.wait_for(task, r"step \d+ loss")
    for times, seconds in enumerate((0, 0, 15), 1):
        made.kill("ps 1")
        time.sleep(seconds)
        made.start("ps 1")
        for task in tasks:
            made.wait_for(task, "Training goes on after", times=times)
    for task in tasks:
        *parts, _ = re.split(r"Training goes on after (\d+) seconds", made.output(task))
        for text, seconds in zip(parts[::2], parts[1::2], strict=True):
            lines = re.findall("session with the parameter servers was lost|stood still for", text)
            assert len(lines) >= max(1, int(seconds) // 10), text[-3000:]


@NIGHTLY
def test_the_chief_is_killed(cluster, tmp_path):
    """A new chief goes on from the latest checkpoint, with the servers that it finds."""
    model_dir = tmp_path / "model"
    made = cluster(model_dir, servers=2, max_steps=40, save_steps=10, pause_at=25)
    made.start()
    made.wait_for("chief 0", "paused at 25")
    made.kill("chief 0")
    go(model_dir)
    made.start("chief 0")
    made.finish("chief 0")
    assert "model.ckpt-20" in made.output("chief 0")
    assert global_step(model_dir) == 40


@NIGHTLY
def test_a_half_written_checkpoint(cluster, tmp_path):
    """The evaluator waits while a file of the latest checkpoint is missing."""
    model_dir = tmp_path / "model"
    trainer = cluster(model_dir, servers=1, max_steps=20)
    trainer.start()
    trainer.finish("chief 0")
    (data,) = model_dir.glob("model.ckpt-20.data-*-of-*")
    shutil.move(data, tmp_path / "aside")
    made = cluster(model_dir, servers=1, evaluator=True, max_steps=20)
    made.start("evaluator 0")
    made.wait_for("evaluator 0", "waits until this or another checkpoint is whole.*is missing")
    shutil.move(tmp_path / "aside", data)
    made.finish("evaluator 0")
    assert "Saving dict for global step 20" in made.output("evaluator 0")


@NIGHTLY
@pytest.mark.parametrize("job", ["chief", "ps"])
def test_the_disk_is_full(cluster, tmp_path, job):
    """A checkpoint that can't be written is an error of the chief; the one before stays whole."""
    model_dir = tmp_path / "model"
    cluster(model_dir, servers=1, max_steps=20).run()
    library = interruptions.compile_library()
    made = cluster(model_dir, servers=1, max_steps=40, full=job)
    made.start(preload=library)
    made.finish("chief 0", status=1)
    refusal = "OSError: .*No space left on device.*Earlier checkpoints are unchanged"
    assert re.search(refusal, made.output("chief 0"))
    assert not checkpoints.verify(str(model_dir / "model.ckpt-20")).faults
    made.kill_all()
    cluster(model_dir, servers=1, max_steps=40).run()
    assert global_step(model_dir) == 40


def test_a_port_in_use(cluster, tmp_path):
    """A task whose port another process has says which, and what to do."""
    made = cluster(tmp_path / "model", servers=1)
    made.start("ps 0")
    made.wait_for("ps 0", "serves variables")
    second = cluster(tmp_path / "model", servers=1)
    second.environments = made.environments
    second.start("ps 0")
    second.finish("ps 0", status=1)
    address = json.loads(made.environments["ps 0"]["TF_CONFIG"])["cluster"]["ps"][0]
    assert f"can't listen at {address}" in second.output("ps 0")
    assert "Another process has the port" in second.output("ps 0")


def test_a_wrong_task(cluster, tmp_path):
    """A task that the cluster lacks is refused at once."""
    made = cluster(tmp_path / "model", servers=1)
    config = json.loads(made.environments["ps 0"]["TF_CONFIG"])
    config["task"]["index"] = 1
    made.environments["ps 0"]["TF_CONFIG"] = json.dumps(config)
    made.start("ps 0")
    made.finish("ps 0", status=1)
    assert "1 is not a valid task_id for task_type ps in the cluster_spec" in made.output("ps 0")
