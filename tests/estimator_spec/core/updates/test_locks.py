# SPDX-License-Identifier: Apache-2.0
"""Locks of updates, without processes; `cluster/test_locked_updates.py` has them in a cluster."""

from __future__ import annotations

import pytest
import tensorflow as tf

from estimator_spec.core.updates import locks

tf1 = tf.compat.v1


@pytest.mark.parametrize("awaits", [False, True])
def test_updates_that_have_no_lock(caplog, awaits):
    """A warning names a table of which one update awaits another, by way of a worker."""
    with tf.Graph().as_default() as graph, tf.device("/job:ps/task:0"):
        table = tf1.get_variable("table", initializer=[[1.0]])
        first = tf1.scatter_add(table, [0], [[2.0]])
        waits = tf.control_dependencies([first] if awaits else [])
        with waits, tf.device("/job:worker/task:0"):
            more = tf.random.normal([1, 1])
        second = tf1.scatter_add(table, [0], more)
        locks.lock_updates(graph, tf.group(first, second))
    found = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert [each.partition(" have no lock")[0] for each in found] == ["Updates of table"] * awaits
