# SPDX-License-Identifier: Apache-2.0
"""Programs of Horovod: its hook and its optimizer in an Estimator, by a stand-in.

Horovod has no wheels. The stand-in has the interface that programs use, of Horovod 0.28, and notes
the calls; its ranks are those of one process.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec

tf1 = tf.compat.v1


class DistributedOptimizer(tf1.train.Optimizer):
    """Averages gradients before another optimizer applies them, as Horovod's does."""

    def __init__(self, optimizer, average):
        super().__init__(name=f"Distributed{type(optimizer).__name__}", use_locking=False)
        self._optimizer, self._average = optimizer, average

    def compute_gradients(self, *args, **kwargs):
        """Returns the averaged gradients."""
        pairs = self._optimizer.compute_gradients(*args, **kwargs)
        return [(self._average(gradient), variable) for gradient, variable in pairs]

    def apply_gradients(self, *args, **kwargs):
        """Applies them."""
        return self._optimizer.apply_gradients(*args, **kwargs)

    def get_slot(self, *args, **kwargs):
        """Returns a slot of the other optimizer."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args, **kwargs):
        """Returns its slots."""
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args, **kwargs):
        """Returns its variables."""
        return self._optimizer.variables(*args, **kwargs)


class BroadcastGlobalVariablesHook(tf1.train.SessionRunHook):
    """Gives all processes the variables of one, after a session is created."""

    def __init__(self, root_rank, calls):
        self._root, self._calls, self._broadcast = root_rank, calls, None

    def begin(self):
        """Builds the broadcast of all variables."""
        variables = tf1.global_variables()
        self._calls.append(("begin", sorted(each.op.name for each in variables)))
        self._broadcast = tf.group(*[each.assign(each.read_value()) for each in variables])

    def after_create_session(self, session, coord):
        """Runs it."""
        session.run(self._broadcast)
        self._calls.append(("broadcast", int(session.run(tf1.train.get_global_step()))))


def input_fn():
    """Returns four batches of ids and labels."""
    ids = np.arange(16).reshape(8, 2) % 5
    labels = np.ones([8, 1], np.float32)
    return tf.data.Dataset.from_tensor_slices(({"id": ids}, labels)).batch(2)


@pytest.mark.parametrize("plain", [False, True])
def test_a_program_of_horovod(tmp_path, plain):
    """The hook sees all variables, slots too, and runs before a step; gradients pass the optimizer.

    A sparse gradient of a table reaches Horovod as IndexedSlices, which it gathers.
    """
    calls, kinds = [], []

    def average(gradient):
        kinds.append(type(gradient).__name__)
        return gradient

    def model_fn(features, labels, mode):
        table = tf1.get_variable("table", [5, 1], initializer=tf1.zeros_initializer())
        bias = tf1.get_variable("bias", [1], initializer=tf1.zeros_initializer())
        logits = tf.reduce_sum(tf.nn.embedding_lookup(table, features["id"]), 1) + bias
        loss = tf.reduce_mean((logits - labels) ** 2)
        optimizer = DistributedOptimizer(tf1.train.AdagradOptimizer(0.5), average)
        train_op = optimizer.minimize(loss, tf1.train.get_global_step())
        return estimator_spec.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = estimator_spec.Estimator(model_fn, str(tmp_path), plain=plain)
    for step in (0, 4):
        calls.clear()
        kinds.clear()
        estimator.train(input_fn, hooks=[BroadcastGlobalVariablesHook(0, calls)])
        names = ["bias", "bias/Adagrad", "global_step", "table", "table/Adagrad"]
        assert calls == [("begin", names), ("broadcast", step)]
        assert len(kinds) == 2 and kinds.count("IndexedSlices") == 1
    assert estimator.get_variable_value("global_step") == 8
    assert estimator.get_variable_value("table").min() > 0
