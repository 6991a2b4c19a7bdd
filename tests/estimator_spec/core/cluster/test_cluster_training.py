# SPDX-License-Identifier: Apache-2.0
"""Clusters of real processes on loopback: training, evaluation and checkpoints."""

from __future__ import annotations

import glob
import json
import re

import numpy as np
import pytest
import tensorflow as tf

from cluster_results import losses, variables
from estimator_spec import checkpoints

tf1 = tf.compat.v1

pytestmark = pytest.mark.slow

TABLE = "input_layer/word_embedding/embedding_weights"


@pytest.mark.parametrize("core", [None, "host"])
@pytest.mark.parametrize(
    "strategy", ["div", pytest.param("mod", marks=pytest.mark.nightly("four more processes"))]
)
def test_one_trainer_equals_one_process(cluster, alone, tmp_path, strategy, core):
    """A chief with two servers has the losses and variables of one process with two shards."""
    options = {"strategy": strategy, "max_steps": 30, "core": core}
    expected = losses(alone(tmp_path / "alone", shards=2, **options))
    made = cluster(tmp_path / "cluster", servers=2, **options)
    made.run()
    found = losses(made.output("chief 0"))
    assert list(found) == list(expected) == list(range(1, 31))
    np.testing.assert_allclose(list(found.values()), list(expected.values()), rtol=1e-5)
    ours, theirs = variables(tmp_path / "cluster"), variables(tmp_path / "alone")
    assert set(ours) == set(theirs)
    for name, value in ours.items():
        np.testing.assert_allclose(value, theirs[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_chief_workers_servers_and_evaluator(cluster, tmp_path):
    """All tasks end; only the chief saves; the evaluator evaluates the last checkpoint."""
    made = cluster(tmp_path / "model", workers=2, servers=2, evaluator=True, max_steps=200)
    made.run()
    for task in ("chief 0", "worker 0", "worker 1", "evaluator 0"):
        assert f"done {task}" in made.output(task)
        assert "done" not in made.output("ps 0")
    steps = {task: losses(made.output(task)) for task in ("chief 0", "worker 0", "worker 1")}
    assert max(max(each, default=0) for each in steps.values()) >= 200
    assert checkpoints.inspect(str(tmp_path / "model")).global_step >= 200
    assert re.search(
        r"Saving dict for global step 20\d.*auc = [01]\.\d", made.output("evaluator 0")
    )
    events = glob.glob(str(tmp_path / "model" / "events.*"))
    assert len(events) == 1


def test_the_cluster_continues_one_process_and_back(cluster, alone, tmp_path):
    """A checkpoint of one process goes on in a cluster by mod, and that one in one process."""
    model_dir = tmp_path / "model"
    alone(model_dir, max_steps=8)  # 8 batches, so that each run begins with the first
    made = cluster(model_dir, servers=3, strategy="mod", max_steps=16)
    made.run()
    found = losses(made.output("chief 0"))
    recorded = json.loads((model_dir / "model.ckpt-16.tables.json").read_text())
    assert '"mod"' in json.dumps(recorded)
    found |= losses(alone(model_dir, max_steps=24))
    expected = losses(alone(tmp_path / "straight", max_steps=24))
    assert list(found) == list(range(9, 25))
    np.testing.assert_allclose(list(found.values()), list(expected.values())[8:], rtol=1e-4)


def test_synchronous_replicas(cluster, tmp_path):
    """SyncReplicasOptimizer takes one step for the gradients of all training processes."""
    made = cluster(tmp_path / "model", workers=1, servers=2, optimizer="sync", max_steps=20)
    made.run()
    assert checkpoints.inspect(str(tmp_path / "model")).global_step >= 20


def test_train_in_place_of_train_and_evaluate(cluster, tmp_path):
    """`train` alone starts the server of a chief or worker, too."""
    made = cluster(tmp_path / "model", workers=1, servers=1, call="train", max_steps=20)
    made.start("chief 0", "worker 0")
    made.start("ps 0", call="train_and_evaluate")
    made.finish("chief 0", "worker 0")
    assert checkpoints.inspect(str(tmp_path / "model")).global_step >= 20


def test_an_evaluator_ends_at_sigterm(cluster, tmp_path):
    """At SIGTERM an evaluator that waits for more steps has evaluated the latest, and ends."""
    cluster(tmp_path / "model", servers=1, max_steps=20).run()
    made = cluster(tmp_path / "model", servers=1, evaluator=True, max_steps=1000)
    made.start("evaluator 0")
    made.wait_for("evaluator 0", "Saving dict for global step 20")
    made.terminate("evaluator 0")
    made.finish("evaluator 0")
    assert "Exiting evaluation: the process got SIGTERM" in made.output("evaluator 0")
    assert "done evaluator 0" in made.output("evaluator 0")


def test_a_master_evaluates_between_steps(cluster, tmp_path):
    """A master trains on the servers, and evaluates its checkpoints itself."""
    made = cluster(tmp_path / "model", workers=1, servers=2, max_steps=20)
    for variables_ in made.environments.values():
        variables_["TF_CONFIG"] = variables_["TF_CONFIG"].replace('"chief"', '"master"')
    made.run()
    output = made.output("chief 0")
    assert "done master 0" in output
    assert re.search(r"Saving dict for global step 2\d", output)
