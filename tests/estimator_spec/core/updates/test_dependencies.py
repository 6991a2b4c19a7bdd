# SPDX-License-Identifier: Apache-2.0
"""Rewrites preserve control dependencies and other writers."""

from __future__ import annotations

import time

import numpy as np
import pytest
import tensorflow as tf

from estimator_spec.core import updates
from tpu_columns.optimizations import Optimization

tf1 = tf.compat.v1
ROWS, WIDTH = 20_000, 16
# A rate that changes is a tensor, which optimizers take over when they apply gradients.
OPTIMIZERS = {
    "adagrad": lambda rate: tf1.train.AdagradOptimizer(rate, use_locking=True),
    "adam": lambda rate: tf1.train.AdamOptimizer(rate, use_locking=True),
    "ftrl": lambda rate: tf1.train.FtrlOptimizer(rate, use_locking=True),
    "momentum": lambda rate: tf1.train.MomentumOptimizer(rate, 0.9, use_locking=True),
    "rmsprop": lambda rate: tf1.train.RMSPropOptimizer(rate, use_locking=True),
    "sgd": lambda rate: tf1.train.GradientDescentOptimizer(rate, use_locking=True),
}
ALL = frozenset(Optimization)
every_variable = pytest.mark.parametrize("use_resource", [True, False])


def _table(use_resource, name="table"):
    zeros = tf1.zeros_initializer()
    return tf1.get_variable(name, [ROWS, WIDTH], initializer=zeros, use_resource=use_resource)


def _is_replaced(graph, name, by=("_native", "_in_one")):
    """Returns whether the update of a table was replaced."""
    names = [op.name for op in graph.get_operations() if f"update_{name}/" in op.name]
    assert names
    return any(each in name for each in by for name in names)


def _rows(table, unique=True):
    """Returns rows as a lookup gathers them in training, or with one row twice."""
    ids = tf.concat([tf.range(8000, dtype=tf.int64), [3]], 0)
    return tf.nn.embedding_lookup(table, tf.unique(ids)[0] if unique else ids)


def _slowly_refused():
    """Returns an op that fails after some time."""

    def refuse():
        time.sleep(0.3)
        raise ValueError("refused")

    return tf.numpy_function(refuse, [], [])


@every_variable
def test_an_update_that_is_refused(use_resource, subtests):
    """`apply_gradients` within a failing check doesn't change a table and its slots."""
    cases = [(name, unique) for name in OPTIMIZERS for unique in (True, False)]
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        rate = tf1.train.exponential_decay(0.1, tf1.train.get_or_create_global_step(), 10, 0.9)
        refused, steps = _slowly_refused(), []
        for name, unique in cases:
            rows = _rows(_table(use_resource, f"{name}_{unique}"), unique)
            optimizer = OPTIMIZERS[name](rate)
            gradients = optimizer.compute_gradients(
                tf.reduce_sum(rows * rows + rows), tf1.trainable_variables()[-1:]
            )
            with tf.control_dependencies([refused]):
                steps.append(optimizer.apply_gradients(gradients))
        train_op = updates.optimize_training_graph(graph, tf.group(*steps), ALL)
        variables = {v.op.name: v for v in tf1.global_variables()}
        session.run(tf1.global_variables_initializer())
        before = session.run(variables)
        with pytest.raises(tf.errors.OpError, match="refused"):
            session.run(train_op)
        after = session.run(variables)
    for name, unique in cases:
        with subtests.test(f"{name}, {unique=}"):
            table = f"{name}_{unique}"
            # Descent adds repeated ids one by one.
            assert _is_replaced(graph, table) == (unique or name != "sgd")
            own = [each for each in before if each.split("/")[0] == table]
            assert len(own) > 1 or name == "sgd"
            for each in own:
                np.testing.assert_array_equal(after[each], before[each], err_msg=each)


@every_variable
def test_two_updates_of_one_table(use_resource, subtests):
    """Two losses that train a table in one step both count, in the order of their dependencies."""
    cases = [(name, in_order) for name in OPTIMIZERS for in_order in (True, False)]
    found = []
    for fast in (False, True):
        with tf.Graph().as_default() as graph, tf1.Session() as session:
            steps = []
            for name, in_order in cases:
                table = _table(use_resource, f"{name}_{in_order}")
                rows = _rows(table)
                # Without an order, what one optimizer does mustn't depend on what the other did.
                first = OPTIMIZERS[name](0.1)
                second = first if in_order else OPTIMIZERS[name](0.1)
                gradients = [
                    optimizer.compute_gradients(factor * tf.reduce_sum(rows), [table])
                    for optimizer, factor in ((first, 1.0), (second, 2.0))
                ]
                one = first.apply_gradients(gradients[0])
                with tf.control_dependencies([one] if in_order else []):
                    steps += [one, second.apply_gradients(gradients[1])]
            train_op = tf.group(*steps)
            if fast:
                train_op = updates.optimize_training_graph(graph, train_op, ALL)
            session.run(tf1.global_variables_initializer())
            for _ in range(3):
                session.run(train_op)
            found.append(session.run({v.op.name: v for v in tf1.trainable_variables()}))
    for name, in_order in cases:
        with subtests.test(f"{name}, {in_order=}"):
            plain, ours = (values[f"{name}_{in_order}"] for values in found)
            # Ftrl forgets what the table was, and ResourceScatterAdd knows no locks.
            if in_order or name not in ("ftrl", "sgd"):
                np.testing.assert_allclose(ours, plain, rtol=1e-5)
            assert (ours[:8000] != 0).all()


def _written(how, table, directory):
    """Adds an access to a table besides its update; returns its op in the step."""
    if how == "saver":
        tf1.train.Saver([table])
    elif how == "warm start":
        path = str(directory / "model.ckpt")
        with tf.Graph().as_default(), tf1.Session() as session:
            other = _table(True)
            session.run(other.initializer)
            tf1.train.Saver([other]).save(session, path, write_meta_graph=False)
        tf1.train.init_from_checkpoint(path, {"table": table})
    elif how == "loading":
        table.assign(tf1.placeholder(tf.float32, [ROWS, WIDTH]))
    elif how == "asking":
        tf1.is_variable_initialized(table)
    elif how == "average":
        return tf1.train.ExponentialMovingAverage(0.9).apply([table])
    elif how == "assignment":
        return tf1.assign(table, tf.ones([ROWS, WIDTH]))
    elif how == "another optimizer":
        OPTIMIZERS["adagrad"](0.1).minimize(tf.reduce_sum(tf.gather(table, [1])), None, [table])
    return tf.no_op()


@every_variable
def test_what_else_writes(tmp_path, use_resource, subtests):
    """Initial values and reads don't prevent Adam's ops from being fused; assignments do.

    A hook may run a second optimizer's updates beside the step, so these prevent it, too.
    """
    ways = ["nothing", "saver", "warm start", "loading", "asking", "average"]
    ways += ["assignment", "another optimizer"]
    with tf.Graph().as_default() as graph:
        steps = []
        for how in ways:
            table = _table(use_resource, how.replace(" ", "_"))
            loss = tf.reduce_sum(_rows(table))
            steps.append(OPTIMIZERS["adam"](0.1).minimize(loss, None, [table]))
            steps.append(_written(how, table, tmp_path))
        updates.optimize_training_graph(graph, tf.group(*steps), ALL)
        for how in ways:
            with subtests.test(how):
                wanted = how not in ("assignment", "another optimizer")
                assert _is_replaced(graph, how.replace(" ", "_"), ["_in_one"]) == wanted
