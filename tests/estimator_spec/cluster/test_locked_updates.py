# SPDX-License-Identifier: Apache-2.0
"""Processes that update one table at once, and saves beside them: see `updates.locks`."""

from __future__ import annotations

import contextlib
import json
import socket
import threading

import pytest
import tensorflow as tf

import estimator_spec as es
from counting_program import RATE, START, count_wrong_rows, random_ids
from estimator_spec import updates
from estimator_spec.cluster import devices
from estimator_spec.cores.host import HostCore
from tpu_columns import storage, tables
from tpu_columns.storage import TableStorage

tf1 = tf.compat.v1

ROWS, WIDTH, BATCH = 2_000, 16, 1_500
SERVERS, PROCESSES = 2, 3


@pytest.fixture(scope="module")
def servers():
    """Returns a cluster's addresses and its servers, all in this process."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(SERVERS + PROCESSES)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    cluster = {
        "chief": addresses[:1],
        "worker": addresses[1:PROCESSES],
        "ps": addresses[PROCESSES:],
    }
    return cluster, [
        tf.distribute.Server(cluster, job, number)
        for job, tasks in cluster.items()
        for number in range(len(tasks))
    ]


def by_optimizer(optimizer):
    """Trains a table by an optimizer of TensorFlow, each row with the gradient one."""
    initializer = tf1.zeros_initializer()
    with storage.storing(TableStorage("mod", SERVERS)):
        table = tables.get_table("table", (ROWS, WIDTH), initializer)
    loss = tf.reduce_sum(table.gather(random_ids(ROWS, BATCH), unique=True))
    return optimizer.minimize(loss)


def by_host_core():
    """Trains a table by the host core, each row with the gradient one."""
    spec = es.EmbeddingConfigSpec(
        table_to_config_dict={
            "table": es.TableConfig(ROWS, WIDTH, tf1.zeros_initializer(), combiner="sum")
        },
        feature_to_config_dict={"word": es.FeatureConfig("table")},
        optimization_parameters=es.AdagradParameters(RATE, initial_accumulator=START),
        partition_strategy="mod",
    )
    core = HostCore(spec, training=True, num_shards=SERVERS, on_servers=True)
    step = tf1.train.get_or_create_global_step()
    ids = tf.sparse.from_dense(1 + random_ids(ROWS, BATCH)[:, tf.newaxis])
    found = core.look_up({"word": ids.with_values(ids.values - 1)}, step)
    loss = tf.reduce_sum(core.receive(found)["word"])
    tf1.gradients(loss, tf1.trainable_variables())
    core.attach()
    return core.update()


def train(servers, monkeypatch, make_update, locked, steps, saves, directory):
    """Trains in all processes at once, while the first saves; returns the values of each save."""
    cluster, running = servers
    tasks = [("chief", 0), *(("worker", i) for i in range(PROCESSES - 1))]
    graphs = []
    for job, number in tasks:
        task = {"type": job, "index": number}
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
        with (
            tf.Graph().as_default() as graph,
            graph.device(devices.device_function(es.RunConfig())),
        ):
            step = tf1.train.get_or_create_global_step()
            op = tf.group(make_update(), tf1.assign_add(step, 1))
            updates.join_transfers(graph, op)
            op = updates.lock_updates(graph, op) if locked else op
            saver = tf1.train.Saver(sharded=True, max_to_keep=None)
            if locked:
                updates.lock_reads(graph)
            graphs.append((graph, op, saver, tf1.global_variables_initializer()))
    errors = []

    def run(number):
        try:
            graph, op, _, _ = graphs[number]
            with tf1.Session(running[number].target, graph=graph) as session:
                for _ in range(steps):
                    session.run(op)
        except Exception as error:
            errors.append(error)

    graph, op, saver, initialize = graphs[0]
    found = []
    with tf1.Session(running[0].target, graph=graph) as session:
        session.run(initialize)
        threads = [threading.Thread(target=run, args=[i]) for i in range(PROCESSES)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads) and len(found) < saves:
            found.append(saver.save(session, str(directory / "at"), len(found)))
        for thread in threads:
            thread.join()
        found.append(saver.save(session, str(directory / "at"), len(found)))
    assert errors == []
    return [tf1.train.load_checkpoint(prefix) for prefix in found]


WAYS = {
    "adagrad": lambda: by_optimizer(tf1.train.AdagradOptimizer(RATE, START)),
    "host_core": by_host_core,
}


@pytest.mark.parametrize("way", WAYS)
def test_no_row_is_torn(servers, monkeypatch, tmp_path, way):
    """In each save, each row agrees with its slot; and no element loses an update."""
    readers = train(servers, monkeypatch, WAYS[way], True, 60, 20, tmp_path)
    assert [count_wrong_rows(reader) for reader in readers] == [0] * len(readers)
