# SPDX-License-Identifier: Apache-2.0
"""Whose lookup failed: lookups noted in a graph, and the error that names column and id."""

from __future__ import annotations

import dataclasses
import re

import tensorflow as tf

tf1 = tf.compat.v1

# A tuple, not a str: TensorFlow leaves such collections out of exported graphs, where Python
# objects could not go.
LOOKUP_SITES = ("tpu_columns", "lookup_sites")

# Of a gather, of the one that reads short rows, and of a product with the table.
_OUT_OF_RANGE = re.compile(
    r"= (-?\d+) is not in \[0, "
    r"|= \[(-?\d+)\] does not index into"
    r"|k \((-?\d+)\) from index\[\d+,1\] out of"
)
_NODE_NAME = re.compile(r"\{\{node ([^}]+)\}\}")


@dataclasses.dataclass(frozen=True)
class LookupSite:
    """One lookup in a graph, noted so that a failing op can be told in the user's words.

    Attributes:
      scope: name scope of the lookup's ops, with its closing slash.
      column_name: the column.
      feature_key: key of its ids in the features dict.
      num_rows: vocabulary size.
    """

    scope: str
    column_name: str
    feature_key: str
    num_rows: int


class IdOutOfRangeError(tf.errors.InvalidArgumentError, ValueError):
    """An id lies outside of its column's vocabulary."""


def record_site(scope: str, column_name: str, feature_key: str, num_rows: int) -> None:
    """Notes a lookup in the default graph; does nothing when ops run eagerly."""
    if not tf.executing_eagerly():
        sites = tf1.get_default_graph().get_collection_ref(LOOKUP_SITES)
        sites.append(LookupSite(scope, column_name, feature_key, num_rows))


def explain(error: tf.errors.InvalidArgumentError, graph: tf.Graph) -> IdOutOfRangeError | None:
    """Returns an error that names column, id and vocabulary size, if a lookup of `graph` failed.

    Args:
      error: what a session raised.
      graph: the session's graph.

    Returns:
      An error to raise from `error`, or None if it is about something else.
    """
    found = _OUT_OF_RANGE.search(error.message or "")
    if not found:
        return None
    nodes = _NODE_NAME.findall(error.message)
    if error.op is not None:
        nodes.append(error.op.name)
    for site in graph.get_collection(LOOKUP_SITES):
        if any(node.startswith(site.scope) for node in nodes):
            return IdOutOfRangeError(
                error.node_def,
                error.op,
                f"Column {site.column_name!r}: id {found.group(found.lastindex or 0)} of feature "
                f"{site.feature_key!r} is outside of the "
                f"vocabulary, whose size is {site.num_rows} (valid: 0 to {site.num_rows - 1}). "
                "Mend the input, give the "
                "categorical column a default_value, or enlarge its num_buckets.",
            )
    return None
