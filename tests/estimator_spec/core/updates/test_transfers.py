# SPDX-License-Identifier: Apache-2.0
"""Tensors that the tasks of a cluster send to each other, joined.

The graphs are built for several tasks and run on one, without their devices; test_devices.py and
test_models.py in ../cluster have real processes.
"""

from __future__ import annotations

import collections
import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tpu_columns
from estimator_spec.core import updates
from tpu_columns import placement

tf1 = tf.compat.v1

WORKER = "/job:worker/task:0"
TABLES, ROWS, WIDTH = 6, 40, 4


def server(number):
    """Returns the device of a parameter server."""
    return f"/job:ps/task:{number}"


def sent(graph, train_op):
    """Returns how many tensors with rows each pair of tasks sends in a step."""
    found = set()
    for op in updates.rewriting.dependencies.collect_ancestors(train_op):
        for value in op.inputs:
            if value.device and op.device and value.device != op.device and value.shape.rank:
                found.add((value.name, value.device, op.device))
    return dict(collections.Counter((sender, reader) for _, sender, reader in found))


def without_devices(graph):
    """Returns the definition of a graph with no op placed on a task."""
    definition = graph.as_graph_def()
    for node in definition.node:
        node.device = ""
    return definition


@functools.cache
def build(join, num_servers=2, chained=False):
    """Builds a training graph of tables with a shard on each server.

    Args:
        join: whether transfers are joined.
        num_servers: number of servers.
        chained: whether the ids of the second half of the tables are computed from rows of others.

    Returns:
        The graph's definition without devices, the names of train_op, loss and tables, and `sent`.
    """
    with (
        tf.Graph().as_default() as graph,
        graph.device(tf1.train.replica_device_setter(num_servers, worker_device=WORKER)),
        placement.running(placement.Mode.TRAIN, placement.Hardware.CPU),
    ):
        tf1.set_random_seed(7)
        partitioner = tf1.fixed_size_partitioner(num_servers)
        inputs = []
        for number in range(TABLES):
            ids = tf.constant(np.random.default_rng(number).integers(0, ROWS, (12, 2)))
            if chained and number >= TABLES // 2:
                looked_up = inputs[number - TABLES // 2]
                ids = tf.cast(tf.abs(looked_up[:, :2]) * 1e4, tf.int64) % ROWS
            category = tf.feature_column.categorical_column_with_identity(f"f{number}", ROWS)
            column = tpu_columns.embedding_column(category, WIDTH)
            with tf1.variable_scope("model", partitioner=partitioner):
                features = {f"f{number}": tf1.placeholder_with_default(ids, [None, 2])}
                inputs.append(tf1.feature_column.input_layer(features, [column]))
        tables = tf1.trainable_variables()
        loss = tf.reduce_sum(tf.square(tf.concat(inputs, 1) - 1.0))
        train_op = tf1.train.AdagradOptimizer(0.1).minimize(loss)
        train_op = updates.optimize_training_graph(graph, train_op)
        if join:
            updates.join_transfers(graph, train_op)
        init = tf1.global_variables_initializer()
        names = (init.name, train_op.name, loss.name, [table.op.name for table in tables])
        definition = without_devices(graph)
    return definition, names, sent(graph, train_op)


def train(definition, names, steps=4):
    """Trains an imported graph; returns losses and tables."""
    init, train_op, loss, tables = names
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        tf.import_graph_def(definition, name="")
        session.run(graph.get_operation_by_name(init))
        losses = []
        for _ in range(steps):
            losses.append(session.run(loss))
            session.run(graph.get_operation_by_name(train_op))
        reads = [value_of(graph, name) for name in tables]
        return losses, session.run(reads)


def value_of(graph, name):
    """Returns the value of a variable of an imported graph."""
    op = graph.get_operation_by_name(name)
    if op.type == "VarHandleOp":
        return tf.raw_ops.ReadVariableOp(resource=op.outputs[0], dtype=tf.float32)
    return op.outputs[0]


@pytest.mark.parametrize(("num_servers", "chained"), [(1, True), (2, False)])
def test_the_same_training(num_servers, chained):
    """Losses and tables after four steps are the same bit for bit."""
    plain, plain_names, sent_one_by_one = build(False, num_servers, chained)
    ours, names, sent_together = build(True, num_servers, chained)
    assert sum(sent_together.values()) < sum(sent_one_by_one.values())
    expected, found = train(plain, plain_names), train(ours, names)
    assert len(set(expected[0])) == 4
    np.testing.assert_array_equal(found[0], expected[0])
    for one, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_transfer_for_each_stage():
    """A worker sends each server ids and gradients, with their sizes, and gets rows and sizes."""
    _, _, before = build(False)
    _, _, after = build(True)
    for number in range(2):
        # The ids of each table, for lookup and update, and the gradient; its rows.
        assert before[WORKER, server(number)] == 3 * TABLES
        assert before[server(number), WORKER] == TABLES
        assert after[WORKER, server(number)] == 4
        assert after[server(number), WORKER] == 2


def test_lookups_by_looked_up_ids():
    """Ids that are computed from rows of other tables are sent after these."""
    _, _, after = build(True, num_servers=1, chained=True)
    assert after[WORKER, server(0)] < 2 * TABLES


def rows(count, device=WORKER):
    """Returns matrices with a number of rows that isn't known."""
    with tf1.device(device):
        return [
            tf1.placeholder_with_default(np.full([k + 1, 3], k, np.float32), [None, 3])
            for k in range(count)
        ]


def read(values, device):
    """Returns an op of a device that reads each value."""
    with tf1.device(device):
        return [tf.identity(value) for value in values]


@pytest.mark.parametrize("count", [3, 4])
def test_few_tensors(count):
    """Three tensors are sent one by one, four together."""
    with tf.Graph().as_default() as graph:
        values = rows(count)
        step = tf.group(*read(values, server(0)))
        updates.join_transfers(graph, step)
        assert sent(graph, step) == {(WORKER, server(0)): 3 if count == 3 else 2}


def test_many_tensors():
    """More than 32 tensors are sent in parts of at most as many, with their sizes."""
    with tf.Graph().as_default() as graph:
        values = rows(70)
        copies = read(values, server(0))
        step = tf.group(*copies)
        updates.join_transfers(graph, step)
        assert sent(graph, step) == {(WORKER, server(0)): 2 * 3}
    definition = without_devices(graph)
    with tf.Graph().as_default(), tf1.Session() as session:
        names = [value.name for value in copies]
        found = session.run(tf.import_graph_def(definition, return_elements=names))
    for number, value in enumerate(found):
        np.testing.assert_array_equal(value, np.full([number + 1, 3], number))


def test_tensors_of_unlike_kinds():
    """Each dtype and width is joined with its like; matrices of known size stay apart."""
    with tf.Graph().as_default() as graph:
        with tf1.device(WORKER):
            wide = [tf1.placeholder_with_default(np.ones([2, 5]), [None, 5]) for _ in range(4)]
            dense = [tf.random.normal([3, 3]) for _ in range(4)]
        values = rows(4) + wide + dense
        copies = read(values, server(0))
        step = tf.group(*copies)
        updates.join_transfers(graph, step)
        assert sent(graph, step) == {(WORKER, server(0)): 2 + 2 + 4}
        assert [copy.shape.as_list() for copy in copies] == [v.shape.as_list() for v in values]


def test_a_tensor_that_two_tasks_read():
    """A tensor goes to each of its readers; readers of the sender's own task keep theirs."""
    with tf.Graph().as_default() as graph:
        values = rows(4)
        own = read(values, WORKER)
        others = [read(values, server(number)) for number in range(2)]
        step = tf.group(*own, *others[0], *others[1])
        updates.join_transfers(graph, step)
        assert all(copy.op.inputs[0] is value for copy, value in zip(own, values, strict=True))
        assert set(sent(graph, step)) == {(WORKER, server(0)), (WORKER, server(1))}


def test_loops_of_tf1():
    """A step with a TF1 loop is left as it is: what a loop depends on has no stage."""
    with tf.Graph().as_default() as graph:
        tf1.disable_control_flow_v2()
        try:
            values = rows(4)
            total = tf1.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)])
        finally:
            tf1.enable_control_flow_v2()
        step = tf.group(total, *read(values, server(0)))
        updates.join_transfers(graph, step)
        assert sent(graph, step) == {(WORKER, server(0)): 4}


def test_branches_of_tf1():
    """Tensors in a branch of a TF1 `tf.cond`, which may not run, are sent one by one."""
    with tf.Graph().as_default() as graph:
        tf1.disable_control_flow_v2()
        try:
            values = rows(4, device="")

            def there():
                with tf1.device(WORKER):
                    doubled = [value * 2 for value in values]
                return read(doubled, server(0))

            results = tf1.cond(tf1.placeholder_with_default(True, []), there, lambda: values)
        finally:
            tf1.enable_control_flow_v2()
        step = tf.group(*results)
        before = graph.as_graph_def()
        updates.join_transfers(graph, step)
        assert graph.as_graph_def() == before


@settings(max_examples=settings.default.max_examples // 5)
@given(st.data())
def test_no_cycle(data):
    """Graphs of any shape over three tasks still run after the rewrite, with the same results."""
    devices = [WORKER, server(0), server(1)]
    with tf.Graph().as_default() as graph:
        values = rows(4)
        for _ in range(data.draw(st.integers(4, 25))):
            with tf1.device(data.draw(st.sampled_from(devices))):
                picked = data.draw(st.lists(st.sampled_from(range(len(values))), max_size=2))
                values.append(tf.concat([values[k] for k in [0, *picked]], 0)[:3] + 1.0)
        results = values[-6:]
        with tf1.device(WORKER):
            total = tf.add_n([tf.reduce_sum(value) for value in values])
        before = without_devices(graph)
        updates.join_transfers(graph, total.op)
        after = without_devices(graph)
    outcomes = []
    for definition in (before, after):
        with tf.Graph().as_default(), tf1.Session() as session:
            names = [total.name, *(value.name for value in results)]
            outcomes.append(session.run(tf.import_graph_def(definition, return_elements=names)))
    for one, other in zip(*outcomes, strict=True):
        np.testing.assert_array_equal(one, other)
