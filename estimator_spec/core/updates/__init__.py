# SPDX-License-Identifier: Apache-2.0
"""Replaces ops that read and update tables in a finished graph by faster, equivalent ones.

From TensorFlow 2.20 on the kernels by which optimizers update rows of a table (`SparseApplyAdagrad`
and others) take several times as long as before (`docs/speed.md`), and optimizers search for
repeated ids that a lookup has found already. The driver rewrites the finished graph:

    from estimator_spec import updates
    train_op = updates.optimize_training_graph(tf.compat.v1.get_default_graph(), train_op)

In a cluster, what one task sends to another is then joined, and updates of several training
processes exclude each other, and saves:

    updates.join_transfers(graph, train_op)
    train_op = updates.lock_updates(graph, train_op)
    updates.lock_reads(graph)

In a graph that writes no table, sums read rows without copying them:

    updates.optimize_inference_graph(graph)

Switches: `Optimization.UPDATES` for what `optimize_training_graph` and `join_transfers` do
(`NATIVE_KERNELS` for the native ops among it), `LOOKUPS` for `optimize_inference_graph`. Locks
decide what a row's value is, so they are no optimization: `environment.LOCKED_UPDATES` is their
switch, and `plain=True` keeps them.
"""

from estimator_spec.core.updates.direct_sums import sum_from_tables
from estimator_spec.core.updates.locks import lock_reads, lock_updates, saved_variables
from estimator_spec.core.updates.rewriting import optimize_inference_graph, optimize_training_graph
from estimator_spec.core.updates.transfers import join_transfers

__all__ = [
    "join_transfers",
    "lock_reads",
    "lock_updates",
    "optimize_inference_graph",
    "optimize_training_graph",
    "saved_variables",
    "sum_from_tables",
]
