# SPDX-License-Identifier: Apache-2.0
"""Processes that update one table at once, and saves beside them: see `updates.locks`."""

from __future__ import annotations

import functools
import json
import threading

import pytest
import tensorflow as tf

import estimator_spec as es
from counting_program import RATE, START, count_wrong_rows, random_ids, read_table
from estimator_spec.core import updates
from estimator_spec.core.cluster import devices, local_cluster
from estimator_spec.core.cores.host import HostCore
from tpu_columns import storage, tables
from tpu_columns.kernels import loading
from tpu_columns.optimizations import Optimization
from tpu_columns.storage import TableStorage

tf1 = tf.compat.v1

ROWS, WIDTH, BATCH = 2_000, 16, 1_500
SERVERS, PROCESSES, STEPS, SAVES = 2, 3, 40, 10


@pytest.fixture(scope="module")
def servers():
    """Returns a cluster's addresses and its servers, all in this process."""
    addresses = [f"127.0.0.1:{port}" for port in local_cluster.find_free_ports(SERVERS + PROCESSES)]
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


def by_optimizer(optimizer, use_resource=True):
    """Trains a table by an optimizer of TensorFlow, each row with the gradient one."""
    initializer = tf1.zeros_initializer()
    scope = tf1.variable_scope("model", use_resource=use_resource)
    with scope, storage.storing(TableStorage("mod", SERVERS)):
        table = tables.get_table("table", (ROWS, WIDTH), initializer)
    loss = tf.reduce_sum(table.gather(random_ids(ROWS, BATCH)))
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


def train(servers, monkeypatch, make_update, directory, locked=True, steps=STEPS, saves=SAVES):
    """Trains in all processes at once, while the first saves; returns the checkpoints."""
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


def count_uneven_rows(reader):
    """Returns how many rows of a table and its slots have elements that differ.

    All have the same gradient, so that one that differs has lost an update.
    """
    shapes = reader.get_variable_to_shape_map()
    values = [reader.get_tensor(name) for name in shapes if len(shapes[name]) == 2]
    return sum(int((value.min(axis=1) != value.max(axis=1)).sum()) for value in values)


def natively(make_update):
    """Trains a table by native updates."""
    op = make_update()
    op = updates.optimize_training_graph(op.graph, op, frozenset(Optimization))
    assert any(each.type.startswith(loading.PREFIX) for each in op.graph.get_operations())
    return op


ADAGRAD = functools.partial(tf1.train.AdagradOptimizer, RATE, START)
ADAM = functools.partial(tf1.train.AdamOptimizer, RATE)
WAYS = {
    "adagrad": (lambda: by_optimizer(ADAGRAD()), count_wrong_rows),
    "native_adagrad": (lambda: natively(lambda: by_optimizer(ADAGRAD())), count_wrong_rows),
    "native_references": (
        lambda: natively(lambda: by_optimizer(ADAGRAD(), use_resource=False)),
        count_wrong_rows,
    ),
    "host_core": (by_host_core, count_wrong_rows),
    "references": (lambda: by_optimizer(ADAGRAD(), use_resource=False), count_wrong_rows),
    "adam": (lambda: by_optimizer(ADAM()), count_uneven_rows),
    "adam_of_references": (lambda: by_optimizer(ADAM(), use_resource=False), count_uneven_rows),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_row_is_torn(servers, monkeypatch, tmp_path, request, way):
    """In each save, each row agrees with its slot, and no element has lost an update."""
    if way.startswith("native"):
        request.getfixturevalue("built_kernels")
    make_update, count = WAYS[way]
    readers = train(servers, monkeypatch, make_update, tmp_path)
    assert len(readers) > 2
    assert [count(reader) for reader in readers] == [0] * len(readers)


def test_nobody_waits_for_a_process_that_stands_still(servers, monkeypatch):
    """An update holds no lock while it waits for its gradient, nor after it has failed."""
    cluster, running = servers
    task = {"type": "chief", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    with tf.Graph().as_default() as graph, graph.device(devices.device_function(es.RunConfig())):
        row = tf1.placeholder(tf.int64, [None])
        queue = tf.queue.FIFOQueue(10, [tf.float32], [[1, 2]], shared_name="gradients")
        table = tf1.get_variable("small", [4, 2], initializer=tf1.zeros_initializer())
        values = queue.dequeue()
        op = ADAGRAD().apply_gradients([(tf.IndexedSlices(values, row), table)])
        op = updates.lock_updates(graph, op)
        give = queue.enqueue(tf.ones([1, 2]))
        initialize = tf1.global_variables_initializer()
    options = tf1.RunOptions(timeout_in_ms=30_000)
    with tf1.Session(running[0].target, graph=graph) as session:
        session.run(initialize)
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(op, {row: [4], values: [[1, 1]]}, options)
        waiting = threading.Thread(target=session.run, args=[op, {row: [1]}])
        waiting.start()
        with tf1.Session(running[1].target, graph=graph) as other:
            other.run(op, {row: [2], values: [[1, 1]]}, options)
        assert (session.run(table) < 0).any(axis=1).tolist() == [False, False, True, False]
        session.run(give)
        waiting.join()
        assert (session.run(table) < 0).any(axis=1).tolist() == [False, True, True, False]


def test_the_step_is_that_of_the_name(monkeypatch, tmp_path):
    """A checkpoint holds the step of its name, though others make steps; also when resumed."""
    (address, server) = (f"127.0.0.1:{port}" for port in local_cluster.find_free_ports(2))
    cluster = {"chief": [address], "worker": ["127.0.0.1:1"], "ps": [server]}
    task = {"type": "chief", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    running = tf.distribute.Server(cluster, "ps", 0)

    class AnotherWorker(tf1.train.CheckpointSaverListener):
        """Makes steps when the chief saves."""

        def begin(self):
            """Adds the op of a step."""
            self._step = tf1.assign_add(tf1.train.get_global_step(), 2)

        def before_save(self, session, global_step_value):
            """Makes two steps."""
            session.run(self._step)

    def model_fn(features, labels, mode):
        weight = tf1.get_variable("weight", [], initializer=tf1.zeros_initializer())
        step = tf1.train.get_or_create_global_step()
        optimizer = tf1.train.GradientDescentOptimizer(0.1)
        return es.EstimatorSpec(
            mode, loss=weight**2, train_op=optimizer.minimize(weight**2, global_step=step)
        )

    config = es.run_config.RunConfig(
        str(tmp_path), save_checkpoints_steps=5, keep_checkpoint_max=99
    )
    estimator = es.Estimator(model_fn, config=config)

    def input_fn():
        return tf.data.Dataset.from_tensors({"x": [0.0]}).repeat()

    for max_steps in (20, 50):
        estimator.train(input_fn, max_steps=max_steps, saving_listeners=[AnotherWorker()])
    del running
    prefixes = tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths
    steps = [tf1.train.load_checkpoint(each).get_tensor("global_step") for each in prefixes]
    assert len(prefixes) > 6
    assert [int(prefix.rpartition("-")[2]) for prefix in prefixes] == steps


@pytest.mark.nightly("5,000 steps of three processes, for what threads show in part")
@pytest.mark.parametrize("core", [None, "host"])
def test_processes(cluster, tmp_path, core):
    """No checkpoint of 50 has a torn row, and after 5,000 steps no row has lost an update."""
    model_dir = tmp_path / "model"
    run = cluster(
        model_dir,
        workers=2,
        servers=2,
        program="counting_program",
        core=core,
        rows=20_000,
        batch=2_000,
        max_steps=5_000,
        save_steps=70,
    )
    run.run()
    prefixes = tf.train.get_checkpoint_state(str(model_dir)).all_model_checkpoint_paths
    found = {}
    for prefix in prefixes:
        reader = tf1.train.load_checkpoint(prefix)
        number = int(prefix.rpartition("-")[2])
        found[number] = (int(reader.get_tensor("global_step")), count_wrong_rows(reader))
    assert len(found) >= 20  # how many depends on the machine
    assert max(found) >= 5_000
    assert found == {number: (number, 0) for number in found}
    rows, _ = read_table(tf1.train.load_checkpoint(prefixes[-1]))
    assert (rows[1:] < 0).all()  # id 0 is padding on the host core
