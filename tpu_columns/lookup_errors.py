# SPDX-License-Identifier: Apache-2.0
"""Records lookups in a graph, and names the column in errors of bad ids and weights."""

from __future__ import annotations

import dataclasses
import re
from typing import NamedTuple

import tensorflow as tf

from tpu_columns import shared_state

# Whole messages of our own ops (`kernels/cpp/features.h`): of bad ids, and of missing weights.
_OUT_OF_RANGE_HERE = re.compile(r"Column (?:'|\").*: id .* enlarge its num_buckets\.")
_COUNTS_DIFFER_HERE = re.compile(r"Column (?:'|\").*: feature .* make ids and weights sparse\.")
# Messages of ResourceGather, ResourceGatherNd and SparseTensorDenseMatMul.
_OUT_OF_RANGE = re.compile(
    r"= (-?\d+) is not in \[0, "
    r"|= \[(-?\d+)\] does not index into"
    r"|k \((-?\d+)\) from index\[\d+,1\] out of"
)
# Messages of SparseTensorDenseMatMul, Select, of elementwise ops, and of SparseReorder (indicator
# columns).
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


class LookupNames(NamedTuple):
    """Names of a lookup's column and features, for errors.

    Attributes:
        column: name of the column.
        feature_key: key of its ids in the features dict.
        weight_key: key of its weights, or None.
    """

    column: str
    feature_key: str
    weight_key: str | None = None


@dataclasses.dataclass(frozen=True)
class LookupSite:
    """Record of a lookup in a graph, for errors that name the column.

    Attributes:
        scope: name scope of the lookup's ops, with its closing slash.
        names: what errors name.
        num_rows: vocabulary size.
    """

    scope: str
    names: LookupNames
    num_rows: int


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
        raise _weight_count_error(LookupNames(column_name, feature_key, weight_key))


def _weight_count_error(names: LookupNames) -> WeightCountError:
    weights = f"its weights, feature {names.weight_key!r}," if names.weight_key else "weights"
    return WeightCountError(
        None,
        None,
        f"Column {names.column!r}: feature {names.feature_key!r} must have a weight for each id, "
        f"but its ids and {weights} differ in number. Dense weights of 0 count as missing, as "
        "dense ids of -1 do: give no id the weight 0, or make ids and weights sparse.",
    )


def record_site(
    scope: str, column_name: str, feature_key: str, num_rows: int, weight_key: str | None = None
) -> None:
    """Records a lookup in the default graph; does nothing in eager mode."""
    if not tf.executing_eagerly():
        sites = tf.compat.v1.get_default_graph().get_collection_ref(shared_state.LOOKUP_SITES)
        sites.append(LookupSite(scope, LookupNames(column_name, feature_key, weight_key), num_rows))


def names_of_scope() -> LookupNames | None:
    """Returns what errors of a lookup name, if it was recorded around the current name scope."""
    graph = tf.compat.v1.get_default_graph()
    scope = f"{graph.get_name_scope()}/"
    sites = reversed(graph.get_collection_ref(shared_state.LOOKUP_SITES))
    return next((site.names for site in sites if scope.startswith(site.scope)), None)


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
    here = _COUNTS_DIFFER_HERE.search(error.message or "")
    if here:
        return WeightCountError(error.node_def, error.op, here.group())
    here = _OUT_OF_RANGE_HERE.search(error.message or "")
    if here:
        return IdOutOfRangeError(error.node_def, error.op, here.group())
    match = _OUT_OF_RANGE.search(error.message or "")
    counts_differ = not match and _COUNTS_DIFFER.search(error.message or "")
    if not match and not counts_differ:
        return None
    nodes = _NODE_NAME.findall(error.message)
    if error.op is not None:
        nodes.append(error.op.name)
    for site in graph.get_collection(shared_state.LOOKUP_SITES):
        # The op may be a gradient's, whose name has the scope behind `gradients/`.
        if counts_differ and any(f"/{site.scope}" in f"/{node}" for node in nodes):
            return _weight_count_error(site.names)
        if match and any(node.startswith(site.scope) for node in nodes):
            return IdOutOfRangeError(
                error.node_def,
                error.op,
                f"Column {site.names.column!r}: id {match.group(match.lastindex or 0)} of feature "
                f"{site.names.feature_key!r} is outside of the vocabulary, whose size is "
                f"{site.num_rows} (valid: 0 to {site.num_rows - 1}). Correct the input, give the "
                "categorical column a default_value, or enlarge its num_buckets.",
            )
    weighted = [found for node in nodes if (found := _WEIGHTED_SCOPE.search(node))]
    if counts_differ and weighted:
        return _weight_count_error(LookupNames(*weighted[0].groups()))
    return None
