# SPDX-License-Identifier: Apache-2.0
"""Faster ops in the place of those that read and update tables, equal to them.

From TensorFlow 2.20 on the kernels that optimizers use for rows of a table (`SparseApplyAdagrad`
and its family) take several times as long as before (`docs/speed.md`), and optimizers look for
repeated ids where a lookup found them already. The driver owns the finished graph, so it may do
better:

    from estimator_spec import updates
    train_op = updates.made_faster(tf.compat.v1.get_default_graph(), train_op)

A graph that writes no table sums rows without copying them, and copies single ones faster; one that
is to be exported, with as few kinds of ops as can be, does the first alone:

    updates.made_to_read_faster(graph)
    updates.straight_from_tables(graph)

`TPU_COLUMNS_FAST_UPDATES=0` in the environment, or `fast_updates=False`, which comes first, turns
this package off. Lookups, quiet steps and initial values are as they are.
"""

from estimator_spec.updates.direct_sums import straight_from_tables
from estimator_spec.updates.rewriting import (
    made_faster,
    made_to_read_faster,
    wanted,
)

__all__ = [
    "made_faster",
    "made_to_read_faster",
    "straight_from_tables",
    "wanted",
]
