# SPDX-License-Identifier: Apache-2.0
"""Rewrites of updates: equal values, and the switch that turns them off."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
import tpu_columns
from estimator_spec.core import updates
from tpu_columns.optimizations import Optimization

tf1 = tf.compat.v1

ALL = frozenset(Optimization)


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize("unique", [True, False])
def test_adam_moves_a_table_in_one_op(use_resource, unique):
    """Fused Adam keeps table and slots equal for many steps, also in rows without ids."""
    values, kinds = [], []
    for fast in (False, True):
        with tf.Graph().as_default() as graph, tf1.Session() as session:
            tf1.set_random_seed(1)
            table = tf1.get_variable("table", [50, 3], use_resource=use_resource)
            ids = tf1.placeholder(tf.int32, [None])
            rows = tf.gather(table, tf.unique(ids)[0] if unique else ids)
            loss = tf.reduce_mean(tf.square(rows - 1.0))
            rate = tf1.placeholder_with_default(0.1, [])
            train_op = tf1.train.AdamOptimizer(rate, epsilon=1e-3).minimize(loss)
            if fast:
                train_op = updates.optimize_training_graph(graph, train_op)
            session.run(tf1.global_variables_initializer())
            rng = np.random.default_rng(5)
            for step in range(60):
                batch = rng.integers(0, 40, rng.integers(0, 9) if unique else 8)
                session.run(train_op, {ids: batch, rate: 0.1 / (step + 1)})
            values.append(session.run(tf1.global_variables()))
            kinds.append({op.type for op in graph.get_operations()})
    for quick, plain in zip(*values, strict=True):
        np.testing.assert_allclose(quick, plain, rtol=2e-5, atol=1e-8)
    assert ("ResourceApplyAdam" if use_resource else "ApplyAdam") in kinds[1] - kinds[0]


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16], ids=lambda d: d.name)
def test_adam_is_left_alone_in_16_bits(dtype, use_resource):
    """Adam on a table of 16 bits keeps its own ops: a fused one rounds elsewhere."""
    values = []
    for fast in (False, True):
        with tf.Graph().as_default() as graph, tf1.Session() as session:
            start = tf1.constant_initializer(np.linspace(-1, 1, 60).reshape(20, 3))
            table = tf1.get_variable("t", [20, 3], dtype, start, use_resource=use_resource)
            ids = tf1.placeholder_with_default([1, 2, 1, 7], [4])
            loss = tf.reduce_mean(tf.square(tf.gather(table, ids) - 1))
            train_op = tf1.train.AdamOptimizer(0.1).minimize(loss)
            if fast:
                train_op = updates.optimize_training_graph(graph, train_op)
            session.run(tf1.global_variables_initializer())
            for _ in range(20):
                session.run(train_op)
            values.append(session.run(tf.cast(table, tf.float32)))
    np.testing.assert_array_equal(values[1], values[0])


@pytest.mark.parametrize("use_resource", [True, False])
def test_an_op_of_adam_that_is_asked_for_by_name(use_resource):
    """Fetching a replaced op of Adam doesn't change table and slots again."""
    kinds = ("AssignVariableOp", "ResourceScatterAdd", "AssignSubVariableOp")
    kinds += ("Assign", "ScatterAdd", "AssignSub")
    results = []
    for fast in (False, True):
        with tf.Graph().as_default() as graph, tf1.Session() as session:
            ones = tf1.ones_initializer()
            table = tf1.get_variable("t", [50, 40], initializer=ones, use_resource=use_resource)
            ids = tf1.placeholder_with_default([1, 2, 1], [3])
            loss = tf.reduce_sum(tf.square(tf.gather(table, ids)))
            train_op = tf1.train.AdamOptimizer(0.1).minimize(loss)
            asked = [op for op in graph.get_operations() if op.name.startswith("Adam/update_t/")]
            asked = [op for op in asked if op.type in kinds]
            assert len(asked) == 5
            if fast:
                train_op = updates.optimize_training_graph(graph, train_op)
                assert any("_in_one" in op.name for op in graph.get_operations())
            session.run(tf1.global_variables_initializer())
            for _ in range(3):
                session.run([train_op, asked])
            results.append(session.run(tf1.global_variables()))
    for plain, faster in zip(*results, strict=True):
        np.testing.assert_allclose(faster, plain, rtol=1e-5, atol=1e-7)


def test_a_slot_that_is_read_in_between():
    """Adam's ops aren't fused if another op reads a slot between its decay and the addition."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        table = tf1.get_variable("table", [4, 2], use_resource=True)
        loss = tf.reduce_sum(tf.gather(table, tf1.placeholder_with_default([1, 2], [2])))
        optimizer = tf1.train.AdamOptimizer(0.1)
        train_op = optimizer.minimize(loss)
        m = optimizer.get_slot(table, "m")
        decays = [op for op in m.handle.consumers() if op.type == "AssignVariableOp"]
        with tf.control_dependencies(decays[1:]):  # the first gives it its initial value
            between = tf.identity(m.read_value())
        train_op = tf.group(updates.optimize_training_graph(graph, train_op), between)
        session.run(tf1.global_variables_initializer())
        session.run(train_op)
        np.testing.assert_allclose(session.run(m)[:2], [[0, 0], [0.1, 0.1]], rtol=1e-6)
        assert "ResourceApplyAdam" not in [op.type for op in graph.get_operations()]


def test_ids_that_may_repeat_are_summed():
    """Gradients of two lookups in one table, whose ids aren't unique together, add up."""
    values = []
    for fast in (False, True):
        with tf.Graph().as_default() as graph, tf1.Session() as session:
            table = tf1.Variable(tf.ones([5, 2]), use_resource=True)
            first = tf.gather(table, tf.unique(tf.constant([1, 3, 1]))[0])
            second = tf.gather(table, tf.unique(tf.constant([3, 4]))[0])
            loss = tf.reduce_sum(first) + 2 * tf.reduce_sum(second)
            train_op = tf1.train.AdagradOptimizer(0.5).minimize(loss)
            if fast:
                train_op = updates.optimize_training_graph(graph, train_op, ALL)
            session.run(tf1.global_variables_initializer())
            session.run(train_op)
            values.append(session.run(table))
    np.testing.assert_allclose(values[1], values[0], rtol=1e-6)
    assert values[1][3, 0] != 1


def test_only_the_unique_ids_are_unique():
    """The other output of `tf.unique` has repeats, which an update of distinct rows would lose."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        table = tf1.Variable(tf.zeros([5, 2]), use_resource=True)
        places = tf.unique(tf1.placeholder_with_default([7, 9, 7], [3]))[1]
        update = tf.raw_ops.ResourceScatterAdd(
            resource=table.handle, indices=places, updates=tf.ones([3, 2])
        )
        train_op = updates.optimize_training_graph(graph, update, ALL)
        session.run(tf1.global_variables_initializer())
        session.run(train_op)
        assert session.run(table)[:, 0].tolist() == [2, 1, 0, 0, 0]


def test_updates_within_a_condition_are_left_alone():
    """An update in a tf.cond isn't rewritten."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        tf1.disable_control_flow_v2()
        try:
            table = tf1.Variable(tf.ones([5, 2]), use_resource=True)
            slot = tf1.Variable(tf.ones([5, 2]), use_resource=True)
            held = tf1.placeholder(tf.bool, [])

            def change():
                ids, _ = tf.unique(tf.constant([1, 3]))
                with tf.control_dependencies(
                    [
                        tf.raw_ops.ResourceSparseApplyAdagrad(
                            var=table.handle,
                            accum=slot.handle,
                            lr=0.1,
                            grad=tf.ones([2, 2]),
                            indices=ids,
                        )
                    ]
                ):
                    return tf.constant(1)

            train_op = tf1.cond(held, change, lambda: tf.constant(0))
            number = len(graph.get_operations())
            assert updates.optimize_training_graph(graph, train_op, ALL) is train_op
            assert len(graph.get_operations()) == number
            session.run(tf1.global_variables_initializer())
            session.run(train_op, {held: False})
            np.testing.assert_array_equal(session.run(table), np.ones((5, 2)))
        finally:
            tf1.enable_control_flow_v2()


def _model_fn(features, labels, mode, params):
    columns = [
        tpu_columns.embedding_column(
            tf.feature_column.categorical_column_with_identity("a", 20), 4, combiner="sum"
        )
    ]
    loss = tf.reduce_mean(tf.square(tpu_columns.input_layer(features, columns) - 1.0))
    train_op = tf1.train.AdamOptimizer(0.1).minimize(loss, tf1.train.get_global_step())
    return estimator_spec.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)


def _ops_of_training(directory, **arguments):
    types = []

    class Look(tf1.train.SessionRunHook):
        def begin(self):
            types.extend(op.name for op in tf1.get_default_graph().get_operations())

    estimator = estimator_spec.TPUEstimator(
        _model_fn,
        config=estimator_spec.RunConfig(model_dir=str(directory)),
        use_tpu=False,
        train_batch_size=4,
        **arguments,
    )
    estimator.train(
        lambda params: tf.data.Dataset.from_tensors(({"a": tf.constant([[1], [2]])}, [0.0])),
        hooks=[Look()],
    )
    return [name for name in types if "_in_one" in name]


def test_the_switches(tmp_path, monkeypatch):
    """The argument takes precedence over the environment; the default is True."""
    assert _ops_of_training(tmp_path / "1")
    assert not _ops_of_training(tmp_path / "2", fast_updates=False)
    monkeypatch.setenv(Optimization.UPDATES.value, "0")
    assert not _ops_of_training(tmp_path / "3")
    assert _ops_of_training(tmp_path / "4", fast_updates=True)
    monkeypatch.setenv(Optimization.UPDATES.value, "maybe")
    with pytest.raises(ValueError, match="FAST_UPDATES='maybe' must be 0 or 1"):
        _ops_of_training(tmp_path / "5")


class AlmostAdam(tf1.train.AdamOptimizer):
    """TF1's Adam, or one that differs from it in one place."""

    def __init__(self, how):
        super().__init__(0.1)
        self.how = how

    def _apply_sparse_shared(self, grad, var, indices, scatter_add):
        rate, beta1, beta2, epsilon = map(tf.constant, (0.1, 0.9, 0.99, 1e-3))
        first, second = self.get_slot(var, "m"), self.get_slot(var, "v")
        first_ids, factor, other = indices, 1.0, grad
        if self.how == "other ids":
            first_ids = tf.identity(indices)
        elif self.how == "another factor":
            factor = 2.0
        elif self.how == "no squares":
            other = grad * 2.0
        added = grad * (factor - beta1), (grad * other) * (1 - beta2)
        with tf.control_dependencies([tf1.assign(first, first * beta1)]):
            m = scatter_add(first, first_ids, added[0])
        with tf.control_dependencies([tf1.assign(second, second * beta2)]):
            v = scatter_add(second, indices, added[1])
        moved = tf1.assign_sub(var, rate * m / (tf.sqrt(v) + epsilon))
        return tf.group(moved, m, v)


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize("how", ["the same", "other ids", "another factor", "no squares"])
def test_what_is_not_quite_adam_stays(how, use_resource):
    """Ops that differ from Adam's in one place are left alone, and train as they did."""
    results, replaced = [], []
    for fast in (False, True):
        with tf.Graph().as_default() as graph, tf1.Session() as session:
            ones = tf1.ones_initializer()
            table = tf1.get_variable("table", [9, 3], initializer=ones, use_resource=use_resource)
            ids = tf1.placeholder_with_default([1, 2, 1], [3])
            loss = tf.reduce_sum(tf.square(tf.gather(table, ids)))
            train_op = AlmostAdam(how).minimize(loss)
            if fast:
                train_op = updates.optimize_training_graph(graph, train_op)
            session.run(tf1.global_variables_initializer())
            for _ in range(3):
                session.run(train_op)
            results.append(session.run(tf1.global_variables()))
            replaced.append(any("_in_one" in op.name for op in graph.get_operations()))
    assert replaced == [False, how == "the same"]
    for plain, faster in zip(*results, strict=True):
        np.testing.assert_allclose(faster, plain, rtol=1e-5, atol=1e-7)
