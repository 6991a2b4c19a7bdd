# SPDX-License-Identifier: Apache-2.0
"""Tasks of clusters in TF_CONFIG, and errors of invalid clusters."""

from __future__ import annotations

import json

import pytest
import tensorflow as tf
from estimator_spec.run_config import RunConfig, TPURunConfig
from hypothesis import given
from hypothesis import strategies as st

from estimator_spec.core.run_config.tf_config import read_task

tf1 = tf.compat.v1

pytestmark = pytest.mark.usefixtures("no_tf_config")

CLUSTER = {
    "chief": ["host0:1"],
    "ps": ["host1:1", "host2:1"],
    "worker": ["host3:1", "host4:1", "host5:1"],
}
MASTER_CLUSTER = {"master": ["host0:1"], "ps": ["host1:1"], "worker": ["host3:1", "host4:1"]}

PLACE = (
    "task_type",
    "task_id",
    "master",
    "evaluation_master",
    "is_chief",
    "num_ps_replicas",
    "num_worker_replicas",
    "global_id_in_cluster",
    "service",
)


def config_of(job, index, cluster=CLUSTER, **others):
    """Returns the TF_CONFIG of a task."""
    return {"cluster": cluster, "task": {"type": job, "index": index}, **others}


BAD_TF_CONFIGS = [
    ({"task": {"type": "chief"}}, ValueError, '"cluster" is not set .* task type must be WORKER'),
    ({"task": {"index": 1}}, ValueError, '"cluster" is not set .* task index must be 0'),
    ({"service": 1}, TypeError, '"service" is set in TF_CONFIG, it must be a dict'),
    ({"model_dir": ""}, ValueError, "model_dir in TF_CONFIG should be non-empty"),
    (config_of("worker", 0, {"worker": ["a:1"]}), ValueError, 'it must have one "chief" node'),
    (
        config_of("chief", 0, {"chief": ["a:1", "b:1"]}),
        ValueError,
        'must have only one "chief" node',
    ),
    ({"cluster": CLUSTER}, ValueError, '"cluster" is set in TF_CONFIG, task type must be set'),
    (
        {"cluster": CLUSTER, "task": {"type": "worker"}},
        ValueError,
        '"cluster" is set in TF_CONFIG, task index must be set',
    ),
    (config_of("worker", -1), ValueError, "Task index must be non-negative number"),
    (config_of("driver", 0), ValueError, "driver is not a valid task_type in the cluster_spec"),
    (
        config_of("worker", 3),
        ValueError,
        "3 is not a valid task_id for task_type worker in the cluster_spec",
    ),
    (
        config_of("chief", 0, {**CLUSTER, "master": ["m:1"]}),
        ValueError,
        "If `master` node exists in `cluster`, job `chief` is not supported",
    ),
    (
        config_of("evaluator", 0, MASTER_CLUSTER),
        ValueError,
        "task_type `evaluator` is not supported",
    ),
]

GOOD_TF_CONFIGS = [
    {},
    {"session_master": "s", "eval_session_master": "e", "service": {"x": 1}},
    config_of("chief", 0, {"chief": ["a:1"]}),
    *[config_of(job, index) for job, tasks in CLUSTER.items() for index in range(len(tasks))],
    config_of("worker", 1, session_master="s"),
    config_of("evaluator", 7),
    config_of("evaluator", 0, eval_session_master="e"),
    config_of("master", 0, MASTER_CLUSTER),
    config_of("ps", 0, MASTER_CLUSTER),
    config_of("worker", 2, {**CLUSTER, "ads": ["x:1"]}),
]


class TestPlace:
    @pytest.mark.parametrize("tf_config, error, message", BAD_TF_CONFIGS)
    def test_bad_clusters_are_refused(self, monkeypatch, tf_config, error, message):
        """Invalid clusters and tasks are refused with a message for each rule."""
        monkeypatch.setenv("TF_CONFIG", json.dumps(tf_config))
        with pytest.raises(error, match=message):
            RunConfig()

    @pytest.mark.parametrize("text", ["", "{", "[1]", "3"])
    def test_what_is_no_json_object_is_refused(self, monkeypatch, text):
        """The error of invalid JSON names the variable."""
        monkeypatch.setenv("TF_CONFIG", text)
        with pytest.raises(ValueError, match="TF_CONFIG environment variable"):
            RunConfig()

    def test_an_index_that_is_no_number_is_refused(self):
        """The message shows the invalid index."""
        with pytest.raises(ValueError, match="Task index in TF_CONFIG must be an integer; got 'x'"):
            read_task(config_of("ps", "x"))

    def test_a_worker(self, monkeypatch):
        """A worker has its server's address and its number of peers, and isn't the chief."""
        tf_config = config_of("worker", 1)
        monkeypatch.setenv("TF_CONFIG", json.dumps(tf_config))
        config = RunConfig()
        assert config.cluster_spec.as_dict() == CLUSTER
        assert (config.master, config.task_id, config.is_chief) == ("grpc://host4:1", 1, False)
        assert (config.num_ps_replicas, config.num_worker_replicas) == (2, 4)
        assert config.global_id_in_cluster == 2

    def test_an_evaluator_is_outside(self):
        """An evaluator has no cluster and no global id."""
        here = read_task(config_of("evaluator", 7))
        assert not here.cluster_spec
        assert (here.task_id, here.master, here.is_chief) == (7, "", False)
        assert (here.num_worker_replicas, here.global_id_in_cluster) == (0, None)

    @given(
        workers=st.integers(0, 4),
        servers=st.integers(0, 3),
        chief=st.sampled_from(["chief", "master"]),
        others=st.sampled_from([(), ("ads",), ("zebra", "ads")]),
    )
    def test_every_task_of_a_cluster(self, workers, servers, chief, others):
        """Global ids count from the chief's 0 to the parameter servers; one task is the chief."""
        cluster = {chief: ["chief:1"]}
        cluster |= {"worker": [f"w{i}:1" for i in range(workers)]} if workers else {}
        cluster |= {"ps": [f"p{i}:1" for i in range(servers)]} if servers else {}
        cluster |= {other: [f"{other}:1"] for other in others}
        places = [
            read_task({"cluster": cluster, "task": {"type": job, "index": index}})
            for job, tasks in cluster.items()
            for index in range(len(tasks))
        ]
        by_id = sorted(places, key=lambda here: here.global_id_in_cluster)
        assert [here.global_id_in_cluster for here in by_id] == list(range(len(places)))
        assert [here.is_chief for here in by_id] == [True] + [False] * (len(places) - 1)
        assert all(here.task_type == "ps" for here in by_id[len(places) - servers :])
        for here in places:
            own = cluster[here.task_type][here.task_id]
            assert here.master == ("" if len(places) == 1 else f"grpc://{own}")
            assert here.num_worker_replicas == workers + 1
            assert here.num_ps_replicas == servers

    @pytest.mark.parametrize(
        "task, filters",
        [
            (("chief", 0), ["/job:ps", "/job:chief"]),
            (("worker", 1), ["/job:ps", "/job:worker/task:1"]),
            (("ps", 0), ["/job:ps", "/job:worker", "/job:chief", "/job:master"]),
        ],
    )
    def test_tasks_talk_to_parameter_servers_only(self, monkeypatch, task, filters):
        """Between-graph tasks get device filters; a user's session configuration isn't changed."""
        tf_config = config_of(task[0], task[1])
        monkeypatch.setenv("TF_CONFIG", json.dumps(tf_config))
        assert list(RunConfig().session_config.device_filters) == filters
        own = tf1.ConfigProto(allow_soft_placement=True)
        assert not RunConfig(session_config=own).session_config.device_filters
        assert TPURunConfig().session_config is None

    def test_model_dir_of_tf_config(self, monkeypatch):
        """A directory in TF_CONFIG is used, and must equal the program's."""
        monkeypatch.setenv("TF_CONFIG", json.dumps({"model_dir": "/there"}))
        assert RunConfig().model_dir == "/there"
        assert RunConfig(model_dir="/there").model_dir == "/there"
        with pytest.raises(ValueError, match="must have the same value as the model_dir in TF_CON"):
            RunConfig(model_dir="/here")


@pytest.mark.reference
class TestAgainstTheOldClasses:
    def test_session_configs(self, old_estimator, monkeypatch):
        """The session configurations of all tasks equal TensorFlow 2.15's."""
        for tf_config in GOOD_TF_CONFIGS:
            monkeypatch.setenv("TF_CONFIG", json.dumps(tf_config))
            assert RunConfig().session_config == old_estimator.RunConfig().session_config

    @pytest.mark.parametrize("tf_config, error, message", BAD_TF_CONFIGS)
    def test_bad_clusters(self, old_estimator, compare, monkeypatch, tf_config, error, message):
        """TensorFlow 2.15 refuses the same clusters with the same words."""
        del error
        monkeypatch.setenv("TF_CONFIG", json.dumps(tf_config))
        compare.refuse_alike(RunConfig, old_estimator.RunConfig, message)

    @pytest.mark.parametrize("tf_config", GOOD_TF_CONFIGS)
    def test_clusters(self, old_estimator, monkeypatch, tf_config):
        """Every task has the properties of TensorFlow 2.15."""
        monkeypatch.setenv("TF_CONFIG", json.dumps(tf_config))
        for ours, theirs in (
            (RunConfig(), old_estimator.RunConfig()),
            (TPURunConfig(), old_estimator.tpu.RunConfig()),
        ):
            assert {name: getattr(ours, name) for name in PLACE} == {
                name: getattr(theirs, name) for name in PLACE
            }
            assert ours.cluster_spec.as_dict() == theirs.cluster_spec.as_dict()


@pytest.mark.parametrize(
    ("index", "is_chief", "master"), [(0, True, "grpc://a:1"), (1, False, "grpc://b:1")]
)
def test_a_cluster_of_workers_for_a_strategy(index, is_chief, master):
    """Where a chief may be missing, worker 0 does its work; elsewhere that is an error."""
    tf_config = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": index}}
    task = read_task(tf_config, needs_chief=False)
    assert (task.is_chief, task.master, task.num_worker_replicas) == (is_chief, master, 2)
    with pytest.raises(ValueError, match='must have one "chief" node'):
        read_task(tf_config)
