# SPDX-License-Identifier: Apache-2.0
"""The recipes of examples/engines on the real engines, on this machine: `nox -s engines`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent import futures
from pathlib import Path

import pytest
import tensorflow as tf

pytestmark = pytest.mark.nightly("clusters of Ray and Spark, in the session `engines`")

ENGINES = Path(__file__).resolve().parents[2] / "examples" / "engines"
STEPS = 2000


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Lets the engines' processes import the packages and the recipes, without a proxy."""
    paths = [str(ENGINES.parents[1]), str(ENGINES)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")
    monkeypatch.syspath_prepend(str(ENGINES))


def wait_for_checkpoint(model_dir, is_running):
    """Waits until there is a checkpoint of a training that is running."""
    while is_running():
        latest = tf.train.latest_checkpoint(str(model_dir))
        if latest and int(latest.rpartition("-")[2]):
            return
        time.sleep(0.1)


def test_ray(tmp_path):
    """Three nodes train; a killed chief goes on from the checkpoint, and its result is returned."""
    ray = pytest.importorskip("ray")
    import ray_cluster
    from ray import cluster_utils
    from ray.util import state

    cluster = cluster_utils.Cluster()
    try:
        for _ in range(3):
            cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
        ray.init(address=cluster.address, logging_level="WARNING")
        model_dir = tmp_path / "model"
        pool = futures.ThreadPoolExecutor(1)
        result = pool.submit(ray_cluster.train, str(model_dir), STEPS, 1, 1)
        wait_for_checkpoint(model_dir, result.running)
        nodes = {each["NodeID"] for each in ray.nodes() if each["Alive"]}
        actors = state.list_actors(filters=[("state", "=", "ALIVE")])
        assert {each.node_id for each in actors} == nodes and len(nodes) == 3
        (chief,) = (each for each in actors if each.name == "chief-0")
        os.kill(chief.pid, signal.SIGKILL)
        found = result.result(600)
        assert found["global_step"] >= STEPS and found["auc"] > 0.9
        (again,) = (a for a in state.list_actors() if a.name == "chief-0")
        assert again.pid != chief.pid
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_spark(tmp_path):
    """A barrier stage trains; when a task is killed Spark starts the stage again."""
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java; on Debian: apt-get install default-jre-headless")
    model_dir = tmp_path / "model"
    command = [
        str(Path(sys.executable).with_name("spark-submit")),
        *("--master", "local[3,4]", str(ENGINES / "spark_barrier.py")),
        *("--workers=1", "--servers=1", str(ENGINES / "clicks.py")),
        *(f"--model_dir={model_dir}", f"--train_steps={STEPS}"),
    ]
    variables = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with open(tmp_path / "log", "w") as log:
        files = {"stdout": subprocess.PIPE, "stderr": log}
        process = subprocess.Popen(command, env=variables, cwd=tmp_path, text=True, **files)
        try:
            wait_for_checkpoint(model_dir, lambda: process.poll() is None)
            os.kill(chief_of(model_dir), signal.SIGKILL)
            output, _ = process.communicate(timeout=600)
        finally:
            process.kill()
    logged = (tmp_path / "log").read_text()
    assert process.returncode == 0, logged[-3000:]
    found = json.loads(output.splitlines()[-1])
    assert found["global_step"] >= STEPS and found["auc"] > 0.9
    assert "chief 0 ended with status -9" in logged
    assert f"Restoring parameters from {model_dir}/model.ckpt-" in logged


def chief_of(model_dir):
    """Returns the process of the program whose TF_CONFIG says that it is the chief."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes()
            variables = (path / "environ").read_bytes()
        except OSError:
            continue
        is_program = f"clicks.py\0--model_dir={model_dir}\0".encode() in command
        if is_program and b'"type": "chief"' in variables:
            return int(path.name)
    raise AssertionError("no chief runs")
