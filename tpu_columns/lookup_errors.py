# SPDX-License-Identifier: Apache-2.0
"""Records lookups in a graph, and names the column in errors of bad ids and weights."""

from __future__ import annotations

import dataclasses
import re
from typing import NamedTuple

import tensorflow as tf

tf1 = tf.compat.v1

# A tuple, not a str: TensorFlow leaves such collections out of exported graphs, which can't hold
# Python objects.
LOOKUP_SITES = ("tpu_columns", "lookup_sites")

# Messages of ResourceGather, ResourceGatherNd and SparseTensorDenseMatMul, and of
# `estimator_spec/updates/native/`.
_OUT_OF_RANGE = re.compile(
    r"= (-?\d+) is not in \[0, "
    r"|= \[(-?\d+)\] does not index into"
    r"|k \((-?\d+)\) from index\[\d+,1\] out of"
)
# Messages of SparseTensorDenseMatMul, Select, of elementwise ops, of SparseReorder (indicator
# columns), and of `estimator_spec/updates/native/`, which add the feature's mark.
_COUNTS_DIFFER = re.compile(
    r"rows of a_indices does not match number of entries in a_values"
    r"|must have the same size and shape"
    r"|Incompatible shapes: \[\d+\] vs\. \[\d+\]"
    r"|elements in indices \(\d+\) and values \(\d+\) do not match"
)
# Scopes of TensorFlow's own columns, which record no site, over a weighted column.
_WEIGHTED_SCOPE = re.compile(
    r"(?:^|/)(([^/]+)_weighted_by_([^/]+)_(?:indicator|embedding))(?:_\d+)?(?:/|$)"
)
# Message of the assertion in `invalid_ids`, which escapes quotes.
_REFUSED = re.compile(r"assertion failed: \[(Column .*?:)\] \[(-?\d+)")
_NODE_NAME = re.compile(r"\{\{node ([^}]+)\}\}")


class Marked(NamedTuple):
    """Marking of ids out of range in a lookup of several columns at once.

    Attributes:
        added: what is added to the id; the sum tells the column.
        limit: before, the id is clipped to ± this limit.
    """

    added: int
    limit: int

    def read(self, marked: int) -> str | None:
        """Returns the id that was marked, for a message; None: it was marked otherwise.

        >>> Marked(-4000, 1000).read(-3993), Marked(-4000, 1000).read(-3000)
        ('7', '1000 or more')
        """
        number = marked - self.added
        if abs(number) > self.limit:
            return None
        ends = {self.limit: " or more", -self.limit: " or less"}
        return f"{number}{ends.get(number, '')}"


@dataclasses.dataclass(frozen=True)
class LookupSite:
    """Record of a lookup in a graph, for errors that name the column.

    Attributes:
        scope: name scope of the lookup's ops, with its closing slash.
        column_name: name of the column.
        feature_key: key of its ids in the features dict.
        num_rows: vocabulary size.
        marked: how ids out of range are marked, if several columns have the same scope.
        weight_key: key of its weights, or None.
    """

    scope: str
    column_name: str
    feature_key: str
    num_rows: int
    marked: Marked | None = None
    weight_key: str | None = None


class IdOutOfRangeError(tf.errors.InvalidArgumentError, ValueError):
    """An id is outside of its column's vocabulary."""


class WeightCountError(tf.errors.InvalidArgumentError, ValueError):
    """The numbers of a feature's ids and weights differ."""


def check_counts(
    column_name: str,
    feature_key: str,
    ids: tf.SparseTensor,
    weights: tf.SparseTensor | None,
    weight_key: str | None = None,
) -> None:
    """Checks that there are as many ids as weights, where the graph knows both numbers.

    Args:
        column_name: name of the column, for the message.
        feature_key: key of its ids, for the message.
        ids: the ids.
        weights: the weights, or None.
        weight_key: key of the weights, for the message.

    Raises:
        WeightCountError: the numbers differ.
    """
    if weights is not None and not ids.values.shape.is_compatible_with(weights.values.shape):
        raise _weight_count_error(column_name, feature_key, weight_key)


def _weight_count_error(
    column_name: str, feature_key: str, weight_key: str | None
) -> WeightCountError:
    weights = f"its weights, feature {weight_key!r}," if weight_key else "weights"
    return WeightCountError(
        None,
        None,
        f"Column {column_name!r}: feature {feature_key!r} must have a weight for each id, but its "
        f"ids and {weights} differ in number. Dense weights of 0 count as missing, as dense ids of "
        "-1 do: give no id the weight 0, or make ids and weights sparse.",
    )


def record_site(
    scope: str,
    column_name: str,
    feature_key: str,
    num_rows: int,
    marked: Marked | None = None,
    weight_key: str | None = None,
) -> None:
    """Records a lookup in the default graph; does nothing in eager mode."""
    if not tf.executing_eagerly():
        sites = tf1.get_default_graph().get_collection_ref(LOOKUP_SITES)
        sites.append(LookupSite(scope, column_name, feature_key, num_rows, marked, weight_key))


def explain(
    error: tf.errors.InvalidArgumentError, graph: tf.Graph
) -> IdOutOfRangeError | WeightCountError | None:
    """Returns an error that names the column, and id or weights, if a lookup failed.

    Args:
        error: error of a session.
        graph: the session's graph.

    Returns:
        An error to raise from `error`, or None if no recorded lookup failed.
    """
    refused = _REFUSED.search(error.message or "")
    if refused:
        text = refused.group(1).replace("\\'", "'")
        return IdOutOfRangeError(
            error.node_def,
            error.op,
            f"{text} {refused.group(2)}. Correct the input, or choose a policy other than "
            "invalid_ids='error'.",
        )
    match = _OUT_OF_RANGE.search(error.message or "")
    counts_differ = not match and _COUNTS_DIFFER.search(error.message or "")
    if not match and not counts_differ:
        return None
    nodes = _NODE_NAME.findall(error.message)
    if error.op is not None:
        nodes.append(error.op.name)
    for site in graph.get_collection(LOOKUP_SITES):
        # The op may be a gradient's, whose name has the scope behind `gradients/`.
        is_of_site = site.marked is None or f"(mark {site.marked.added})" in error.message
        if counts_differ and is_of_site and any(f"/{site.scope}" in f"/{node}" for node in nodes):
            return _weight_count_error(site.column_name, site.feature_key, site.weight_key)
        if match and any(node.startswith(site.scope) for node in nodes):
            number: str | None = match.group(match.lastindex or 0)
            if site.marked is not None:
                number = site.marked.read(int(str(number)))
            if number is None:  # another column's
                continue
            return IdOutOfRangeError(
                error.node_def,
                error.op,
                f"Column {site.column_name!r}: id {number} of feature "
                f"{site.feature_key!r} is outside of the vocabulary, whose size is "
                f"{site.num_rows} (valid: 0 to {site.num_rows - 1}). Correct the input, give the "
                "categorical column a default_value, or enlarge its num_buckets.",
            )
    weighted = [found for node in nodes if (found := _WEIGHTED_SCOPE.search(node))]
    if counts_differ and weighted:
        return _weight_count_error(*weighted[0].groups())
    return None
