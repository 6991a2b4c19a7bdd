# SPDX-License-Identifier: Apache-2.0
"""Records lookups in a graph, and names column and id in errors of ids out of range."""

from __future__ import annotations

import dataclasses
import re

import tensorflow as tf

tf1 = tf.compat.v1

# A tuple, not a str: TensorFlow leaves such collections out of exported graphs, which can't hold
# Python objects.
LOOKUP_SITES = ("tpu_columns", "lookup_sites")

# Messages of ResourceGather, ResourceGatherNd and SparseTensorDenseMatMul.
_OUT_OF_RANGE = re.compile(
    r"= (-?\d+) is not in \[0, "
    r"|= \[(-?\d+)\] does not index into"
    r"|k \((-?\d+)\) from index\[\d+,1\] out of"
)
_NODE_NAME = re.compile(r"\{\{node ([^}]+)\}\}")


@dataclasses.dataclass(frozen=True)
class LookupSite:
    """Record of a lookup in a graph, for errors that name the column.

    Attributes:
        scope: name scope of the lookup's ops, with its closing slash.
        column_name: name of the column.
        feature_key: key of its ids in the features dict.
        num_rows: vocabulary size.
    """

    scope: str
    column_name: str
    feature_key: str
    num_rows: int


class IdOutOfRangeError(tf.errors.InvalidArgumentError, ValueError):
    """An id is outside of its column's vocabulary."""


def record_site(scope: str, column_name: str, feature_key: str, num_rows: int) -> None:
    """Records a lookup in the default graph; does nothing in eager mode."""
    if not tf.executing_eagerly():
        sites = tf1.get_default_graph().get_collection_ref(LOOKUP_SITES)
        sites.append(LookupSite(scope, column_name, feature_key, num_rows))


def explain(error: tf.errors.InvalidArgumentError, graph: tf.Graph) -> IdOutOfRangeError | None:
    """Returns an error that names column, id and vocabulary size, if a lookup failed.

    Args:
        error: error of a session.
        graph: the session's graph.

    Returns:
        An error to raise from `error`, or None if no recorded lookup failed.
    """
    match = _OUT_OF_RANGE.search(error.message or "")
    if not match:
        return None
    nodes = _NODE_NAME.findall(error.message)
    if error.op is not None:
        nodes.append(error.op.name)
    for site in graph.get_collection(LOOKUP_SITES):
        if any(node.startswith(site.scope) for node in nodes):
            return IdOutOfRangeError(
                error.node_def,
                error.op,
                f"Column {site.column_name!r}: id {match.group(match.lastindex or 0)} of feature "
                f"{site.feature_key!r} is outside of the vocabulary, whose size is "
                f"{site.num_rows} (valid: 0 to {site.num_rows - 1}). Correct the input, give the "
                "categorical column a default_value, or enlarge its num_buckets.",
            )
    return None
