# SPDX-License-Identifier: Apache-2.0
"""Sums rows straight from a table, without gathering them, in graphs that don't write it.

    table, ids ─▶ gather ─▶ rows ─▶ sparse matrix product      as built by a lookup
    table, ids ───────────────────▶ sparse matrix product      if no op gathers or writes

TensorFlow reads a variable's whole value without copying it, unless some op of the session gathers
from it or writes rows; then each read copies the table. So the rewrite needs the finished graph.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core._tensorflow import graph_surgery
from estimator_spec.core.updates import dependencies
from tpu_columns import combining

_GATHERS = frozenset({"ResourceGather", "ResourceGatherNd"})
_INT32_MAX = 2**31 - 1


def sum_from_tables(graph: tf.Graph) -> int:
    """Replaces gathers and sums of rows by sums straight from the table.

    Not if another op gathers from the table or writes it: then the rows are in a cache, or change.

    Args:
        graph: a finished graph for evaluation, prediction or serving; it is changed.

    Returns:
        The number of replaced sums.
    """
    sums = [found for found in map(_find_sum, combining.recorded_sums(graph)) if found is not None]
    gathers = {found.gather for found in sums}
    changed = 0
    for found in sums:
        users = set(found.table.consumers()) - gathers
        is_gathered = any(user.type in _GATHERS for user in users)
        if not is_gathered and not dependencies.is_assigned(found.table):
            _read_from_table(found)
            changed += 1
    return changed


class _SumOps(NamedTuple):
    """The ops of a sum of gathered rows.

    Attributes:
        recorded: the lookup's record.
        table: handle of the table.
        gather: the op that gathers rows.
        product: the op that sums them.
    """

    recorded: combining.SummedGather
    table: Any
    gather: Any
    product: Any


def _find_sum(recorded: combining.SummedGather) -> _SumOps | None:
    """Returns the ops of a recorded sum, or None if they can't be replaced."""
    gathered = recorded.rows
    while gathered.op.type == "Identity":
        gathered = gathered.op.inputs[0]
    products = [op for op in recorded.rows.consumers() if op.type == "SparseTensorDenseMatMul"]
    if (
        gathered.op.type != "ResourceGather"
        or len(products) != 1
        or products[0].inputs[3] is not recorded.rows
        or graph_surgery.control_flow_context(products[0]) is not None
        or not 0 < (recorded.num_rows_of_table or 0) < _INT32_MAX
    ):
        return None
    return _SumOps(recorded, gathered.op.inputs[0], gathered.op, products[0])


def _read_from_table(found: _SumOps) -> None:
    """Replaces a product with gathered rows by a product with the table."""
    recorded, product = found.recorded, found.product
    with dependencies.replacing(product, "_from_table", ()):
        # Indices are int32: an id out of that range must not become another row's.
        ids = tf.clip_by_value(tf.cast(recorded.ids, tf.int64), -1, _INT32_MAX)
        table = tf.raw_ops.ReadVariableOp(resource=found.table, dtype=recorded.rows.dtype)
        size = tf.constant(recorded.num_rows_of_table, tf.int64)
        # Not transposed: the second index of a pair may be negative, the first may not.
        indices, shape = combining.summing_matrix(
            ids, recorded.segments, recorded.num_rows, size, transposed=False
        )
        summed = combining.sparse_matmul(indices, product.inputs[1], shape, table, transposed=False)
    graph_surgery.replace_output(product.outputs[0], summed)
