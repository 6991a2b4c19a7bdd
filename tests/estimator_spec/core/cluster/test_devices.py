# SPDX-License-Identifier: Apache-2.0
"""Placement of the variables and ops of a training graph in a cluster."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import tensorflow as tf
from estimator_spec.run_config import RunConfig
from hypothesis import given
from hypothesis import strategies as st

import forking_python
from estimator_spec.core.cluster import devices

tf1 = tf.compat.v1

PROGRAMS = Path(__file__).parent
ROOT = PROGRAMS.parents[2]
CLUSTER = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1", "e:1", "f:1"]}


@pytest.fixture
def place(monkeypatch):
    """Sets TF_CONFIG to a task of the cluster."""

    def place(task_type, index=0, cluster=CLUSTER):
        task = {"type": task_type, "index": index}
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))

    return place


def server_of(variable):
    """Returns the index of a variable's parameter server."""
    device = tf.DeviceSpec.from_string(variable.device)
    assert device.job == "ps"
    return device.task


@pytest.mark.parametrize("resource", [True, False])
def test_shards_are_spread_with_their_slots(place, resource):
    """Shard k of a table is on server k, and its slot variable beside it."""
    place("worker", 1)
    with tf.Graph().as_default() as graph, graph.device(devices.device_function(RunConfig())):
        tf1.get_variable("big", [1000, 1000], use_resource=resource)  # unbalances the servers
        table = tf1.get_variable(
            "table",
            [7, 2],
            partitioner=tf1.fixed_size_partitioner(3),
            use_resource=resource,
        )
        rows = tf1.nn.embedding_lookup(table, tf.constant([1, 5]), partition_strategy="mod")
        tf1.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(rows))
        assert [server_of(shard) for shard in table] == [0, 1, 2]
        slots = [v for v in tf1.global_variables() if v.op.name.endswith("/Adagrad")]
        assert {v.op.name: server_of(v) for v in slots} == {
            f"table/part_{k}/Adagrad": k for k in range(3)
        }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sparse", "dense", "weighted"])
def test_a_server_gets_each_id_once(kind):
    """A step sends each distinct id, and its gradient, once to the server of its row."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = forking_python.run([PROGRAMS / "transfers_program.py", kind], env=env, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    # Server 0 has the rows of the ids 7 and 8, server 1 that of 60. Sizes are sorted as text.
    ids_and_gradients = {"0": ["16B", "32B"], "1": ["16B", "8B"]}
    assert json.loads(done.stdout.splitlines()[-1]) == ids_and_gradients


def test_other_ops_are_on_the_task(place):
    """Ops that hold no variable are placed on the process' own task."""
    place("worker", 1)
    with tf.Graph().as_default() as graph, graph.device(devices.device_function(RunConfig())):
        assert tf.constant(1.0).device == "/job:worker/task:1"
        with tf1.device("/cpu:0"):
            assert tf.constant(1.0).device == "/job:worker/task:1/device:CPU:0"


@given(st.lists(st.integers(1, 500), min_size=1, max_size=30), st.integers(1, 4))
def test_bytes_are_balanced(sizes, servers):
    """No server has more than the smallest load and the largest variable together."""
    loads = [0] * servers
    balance = devices.BytesBalance(servers)
    setter = tf1.train.replica_device_setter(ps_tasks=servers, ps_strategy=balance)
    with tf.Graph().as_default() as graph, graph.device(setter):
        for number, size in enumerate(sizes):
            variable = tf1.get_variable(f"v{number}", [size], use_resource=True)
            loads[server_of(variable)] += size
    assert max(loads) <= min(loads) + max(sizes)


def test_slots_count_where_they_are(place):
    """The slot of a large variable counts on the server of its variable."""
    place("chief")
    with tf.Graph().as_default() as graph, graph.device(devices.device_function(RunConfig())):
        first = tf1.get_variable("first", [100], use_resource=True)
        second = tf1.get_variable("second", [90], use_resource=True)
        third = tf1.get_variable("third", [80], use_resource=True)
        optimizer = tf1.train.AdagradOptimizer(0.1)
        optimizer.minimize(tf.reduce_sum(first), var_list=[first])
        # 200, 90 and 80 values so far.
        fourth = tf1.get_variable("fourth", [15], use_resource=True)
        fifth = tf1.get_variable("fifth", [1], use_resource=True)
    assert [server_of(v) for v in (first, second, third, fourth, fifth)] == [0, 1, 2, 2, 1]


def test_a_device_function_of_the_program(place):
    """RunConfig's device_fn takes precedence."""
    place("chief")

    def own(op):
        return "/job:ps/task:2"

    assert devices.device_function(RunConfig(device_fn=own)) is own


def test_one_process_places_nothing(place, monkeypatch):
    """A process without a cluster, or the only one of it, has no device function."""
    assert devices.device_function(RunConfig()) is None
    place("chief", cluster={"chief": ["a:1"]})
    assert devices.device_function(RunConfig()) is None
