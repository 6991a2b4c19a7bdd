# SPDX-License-Identifier: Apache-2.0
"""Clusters that are refused, and what is said about them."""

from __future__ import annotations

import json

import pytest
import tensorflow as tf

import estimator_spec
from estimator_spec.core.cluster import roles
from estimator_spec.run_config import RunConfig

tf1 = tf.compat.v1


@pytest.fixture
def place(monkeypatch):
    """Sets TF_CONFIG to a task of a cluster."""

    def place(cluster, task_type="chief", index=0):
        task = {"type": task_type, "index": index}
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))

    return place


@pytest.mark.parametrize(
    "cluster, message",
    [
        ({"chief": ["a:1"], "ps": ["b"]}, "address 'b' for ps 0. Expected 'host:port'"),
        ({"chief": ["a:1"], "ps": ["b:0"]}, "address 'b:0' for ps 0.*port from 1 to 65535"),
        ({"chief": ["a:1"], "ps": ["b:http"]}, "address 'b:http' for ps 0"),
        ({"chief": [":1"], "ps": ["b:1"]}, "address ':1' for chief 0"),
        ({"chief": ["a:1"], "ps": ["b:1", "a:1"]}, "address 'a:1' twice, for chief 0 and ps 1"),
        ({"chief": ["a:1"], "worker": ["b:1"]}, "chief 0, worker 0 without a parameter server"),
    ],
)
def test_clusters_that_cannot_train(place, cluster, message):
    """A wrong address, or no parameter server, is an error that names the task."""
    place(cluster)
    with pytest.raises(ValueError, match=message):
        roles.check_cluster(RunConfig())


@pytest.mark.parametrize(
    "tf_config, message",
    [
        ({"cluster": ["a:1"]}, "`cluster` in TF_CONFIG must be an object.*'a:1'"),
        ({"cluster": {"chief": 1}}, "`cluster` in TF_CONFIG must be an object"),
        ({"cluster": {"chief": ["a:1"]}, "task": "chief"}, "`task` in TF_CONFIG must be an object"),
    ],
)
def test_values_of_another_type(monkeypatch, tf_config, message):
    """An entry of TF_CONFIG with another type is an error that names the entry."""
    monkeypatch.setenv("TF_CONFIG", json.dumps(tf_config))
    with pytest.raises(TypeError, match=message):
        RunConfig()


def test_workers_without_servers_but_a_device_function(place):
    """A device_fn of the program may place the variables elsewhere."""
    place({"chief": ["a:1"], "worker": ["b:1"]}, "worker")
    roles.check_cluster(RunConfig(device_fn=lambda op: "/job:chief"))


def test_a_strategy_in_a_cluster(place):
    """A strategy of several processes is refused, with what to do instead."""
    place({"chief": ["a:1"], "worker": ["b:1"]}, "worker")
    config = RunConfig(train_distribute=tf.distribute.OneDeviceStrategy("/cpu:0"))
    with pytest.raises(NotImplementedError, match="chief 0, worker 0.*OneDeviceStrategy"):
        roles.check_cluster(config)


def test_a_listed_evaluator_is_no_training_process(place):
    """An evaluator in `cluster`, as Vertex AI lists it, takes no part in training."""
    place({"chief": ["a:1"], "evaluator": ["b:1"]})
    assert not roles.is_distributed(RunConfig())
    place({"chief": ["a:1"], "ps": ["c:1"], "evaluator": ["b:1"]})
    assert roles.training_jobs(RunConfig()) == {"chief": {0: "a:1"}, "ps": {0: "c:1"}}


def test_sessions_of_a_tpu_estimator_on_a_cpu(place, tmp_path):
    """TPUEstimator(use_tpu=False) connects to the servers and itself, and evaluates alone."""
    place({"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}, "worker")
    estimator = estimator_spec.TPUEstimator(
        lambda features, labels, mode, params: None,
        model_dir=str(tmp_path),
        config=estimator_spec.RunConfig(),
        use_tpu=False,
    )
    config = estimator.config
    assert config.master == "grpc://b:1"
    assert config.evaluation_master == ""
    assert list(config.session_config.device_filters) == ["/job:ps", "/job:worker/task:0"]


def test_sessions_of_an_estimator_with_a_tpu_configuration(place, tmp_path):
    """Those of a worker don't wait for a chief that has ended."""
    place({"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}, "worker")
    estimator = estimator_spec.Estimator(
        lambda features, labels, mode: None, str(tmp_path), estimator_spec.RunConfig()
    )
    found = estimator.config.session_config
    assert list(found.device_filters) == ["/job:ps", "/job:worker/task:0"]


def make_estimator(resolver):
    """Returns an estimator without a TPU whose configuration has a cluster resolver."""
    return estimator_spec.TPUEstimator(
        lambda features, labels, mode, params: None,
        config=estimator_spec.RunConfig(cluster=resolver),
        use_tpu=False,
    )


def test_a_resolver_that_hides_the_cluster(place):
    """A resolver with other addresses than TF_CONFIG's is refused in each task."""
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"tpu_worker": ["d:1"]}), master="grpc://d:1"
    )
    for task_type in ("chief", "worker", "ps"):
        place({"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}, task_type)
        message = f"a SimpleClusterResolver, has the jobs tpu_worker, but.*{task_type} 0 of another"
        with pytest.raises(ValueError, match=message):
            make_estimator(resolver)
    place({"chief": ["a:1"]})
    make_estimator(resolver)  # TF_CONFIG has no other process


def test_a_resolver_without_a_cluster(place):
    """A resolver of this machine hides TF_CONFIG's cluster: the process trains alone."""
    place({"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]})
    config = make_estimator(tf.distribute.cluster_resolver.TPUClusterResolver("local")).config
    assert config.master == ""
    assert not roles.is_distributed(config)
