# SPDX-License-Identifier: Apache-2.0
"""Checks arguments of conversions, and weights of ids."""

from __future__ import annotations

from collections.abc import Collection

import tensorflow as tf


def known(argument: str, what: str, given: Collection[str], there: Collection[str]) -> None:
    """Checks that names of tables or features exist.

    Args:
        argument: name of the argument that holds them.
        what: 'table' or 'feature'.
        given: the names.
        there: the existing names.

    Raises:
        ValueError: one doesn't exist.
    """
    unknown = sorted(set(given) - set(there))
    if unknown:
        raise ValueError(
            f"{argument} names the {what} {unknown[0]!r}, which isn't there; those that are: "
            f"{sorted(there)}."
        )


def check_weights(key: str, ids: tf.SparseTensor, weights: tf.SparseTensor) -> tf.SparseTensor:
    """Returns the weights after checking that there is one for each id.

    Args:
        key: the feature.
        ids: ids of a batch.
        weights: weights of these ids.

    Raises:
        InvalidArgumentError: there are more or fewer weights (in a graph: when it runs).
    """
    check = tf.debugging.assert_equal(
        tf.shape(ids.indices),
        tf.shape(weights.indices),
        f"Feature {key!r} must have a weight for each id, at the same places as the ids; there "
        "are more or fewer weights (or their tensor has more or fewer axes).",
    )
    with tf.control_dependencies([check] if check is not None else []):
        return weights.with_values(tf.identity(weights.values))
