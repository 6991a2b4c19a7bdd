# SPDX-License-Identifier: Apache-2.0
"""Lookups of a graph that writes no table: sums straight from it, without copies of its rows.

    table, ids ─▶ gather ─▶ rows ─▶ product of matrices      what a lookup makes
    table, ids ───────────────────▶ product of matrices      where nothing gathers or writes

TensorFlow gives a variable's whole value without copying it, unless some op of the session gathers
from it, or writes rows: from then on each reading copies all of it. So only a finished graph can
tell.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_spec._tensorflow import graph_surgery
from estimator_spec.updates import dependencies
from tpu_columns import combining

tf1 = tf.compat.v1

_GATHERS = frozenset({"ResourceGather", "ResourceGatherNd"})
_LARGEST = 2**31 - 1


def straight_from_tables(graph: tf.Graph) -> int:
    """Lets lookups of a finished graph read tables without gathering rows, where that is faster.

    Args:
      graph: of an evaluation, a prediction or a server. Its ops are changed and added to.

    Returns:
      How many lookups do so now.
    """
    lookups = [found for found in map(_Lookup.of, combining.sums_in(graph)) if found is not None]
    gathers = {found.gather for found in lookups}
    changed = 0
    for found in lookups:
        users = set(found.table.consumers()) - gathers
        gathered = any(user.type in _GATHERS for user in users)
        if not gathered and not dependencies.is_assigned(found.table):
            found.read_from_table(graph)
            changed += 1
    return changed


class _Lookup:
    """A sum of rows that were gathered for it alone.

    Args:
      noted: what the lookup says of itself.
      gather: the op that gathers.
      product: the op that sums.
    """

    def __init__(self, noted: combining.Sum, gather: Any, product: Any) -> None:
        self.table = gather.inputs[0]
        self.gather = gather
        self._noted = noted
        self._product = product

    @classmethod
    def of(cls, noted: combining.Sum) -> _Lookup | None:
        """The lookup that a note speaks of, if it can be changed."""
        gathered = noted.rows
        while gathered.op.type == "Identity":
            gathered = gathered.op.inputs[0]
        products = [op for op in noted.rows.consumers() if op.type == "SparseTensorDenseMatMul"]
        if (
            gathered.op.type != "ResourceGather"
            or len(products) != 1
            or products[0].inputs[3] is not noted.rows
            or graph_surgery.control_flow_context(products[0]) is not None
            or not 0 < (noted.num_rows_of_table or 0) < _LARGEST
        ):
            return None
        return cls(noted, gathered.op, products[0])

    def read_from_table(self, graph: tf.Graph) -> None:
        """Gives the product the table in the place of its rows."""
        noted, product = self._noted, self._product
        name = product.name + "_from_table/"
        with graph.as_default(), tf1.name_scope(name), tf1.device(product.device):
            # Pairs hold 32 bits: an id beyond them must not become another's.
            ids = tf.clip_by_value(tf.cast(noted.ids, tf.int64), -1, _LARGEST)
            table = tf.raw_ops.ReadVariableOp(resource=self.table, dtype=noted.rows.dtype)
            size = tf.constant(noted.num_rows_of_table, tf.int64)
            segments, num_rows = noted.segments, noted.num_rows
            # Not transposed: in a pair's second half an id may be negative.
            indices, shape = combining.matrix(ids, segments, num_rows, size, transposed=False)
            weights = product.inputs[1]
            summed = combining.product(indices, weights, shape, table, transposed=False)
        graph_surgery.replace_output(product.outputs[0], summed)
