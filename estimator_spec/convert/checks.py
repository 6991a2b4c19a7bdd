# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments that several conversions take, before anything is built; and of weights."""

from __future__ import annotations

from collections.abc import Collection

import tensorflow as tf


def known(argument: str, what: str, given: Collection[str], there: Collection[str]) -> None:
    """Checks names that a caller gave.

    Args:
        argument: what the caller calls them.
        what: what they name: 'table' or 'feature'.
        given: them.
        there: the names that there are.

    Raises:
        ValueError: one isn't there.
    """
    unknown = sorted(set(given) - set(there))
    if unknown:
        raise ValueError(
            f"{argument} names the {what} {unknown[0]!r}, which isn't there; those that are: "
            f"{sorted(there)}."
        )


def a_weight_each(key: str, ids: tf.SparseTensor, weights: tf.SparseTensor) -> tf.SparseTensor:
    """Returns the weights, if there are as many as ids.

    Args:
        key: the feature.
        ids: of a batch.
        weights: theirs.

    Raises:
        InvalidArgumentError: there are more or fewer (in a graph: when it runs).
    """
    check = tf.debugging.assert_equal(
        tf.shape(ids.indices),
        tf.shape(weights.indices),
        f"Feature {key!r} must have a weight for each id, at the same places as the ids; there "
        "are more or fewer weights (or their tensor has more or fewer axes).",
    )
    with tf.control_dependencies([check] if check is not None else []):
        return weights.with_values(tf.identity(weights.values))
