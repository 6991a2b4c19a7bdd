# SPDX-License-Identifier: Apache-2.0
"""Builds the logits of baseline models: a bias, the same for all examples."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1

SCOPE = "baseline"


def build(features: dict[str, Any], units: int, use_resource: bool | None = None) -> Any:
    """Builds a baseline model, with the variable `baseline/bias`, which starts at zero.

    Args:
        features: tensors, arrays or lists by feature key; only their batch size matters.
        units: number of logits.
        use_resource: whether the bias is a resource variable; None: TensorFlow's default.

    Returns:
        Logits, [batch, units].

    Raises:
        ValueError: there is no feature, or a feature's batch size differs.
    """
    size = _batch_size(features)
    with tf1.variable_scope(SCOPE, use_resource=use_resource):
        bias = tf1.get_variable("bias", [units], tf.float32, tf1.zeros_initializer())
        return tf.tile(bias[tf.newaxis], [size, 1])


def _batch_size(features: dict[str, Any]) -> Any:
    """Returns the number of examples, after a check that all features have as many."""
    if not features:
        raise ValueError("features must not be empty: they tell the batch size.")
    sizes, read = {}, []
    static: dict[str, int] = {}
    for key, value in features.items():
        feature = _as_tensor(value)
        if feature.shape.rank == 0:
            raise ValueError(f"Feature {key!r} must have a batch dimension, but is a scalar.")
        known = tf.compat.dimension_value(feature.shape[0]) if feature.shape.rank else None
        if known is not None:
            static[key] = known
        sizes[key] = _first_dimension(feature)
        read += tf.nest.flatten(feature, expand_composites=True)[:1]
    if len(set(static.values())) > 1:
        raise ValueError(
            f"Batch size mismatch among features: {static}. The first dimension of all features "
            "must be the same."
        )
    first, *others = sizes
    checks = [
        tf1.assert_equal(
            sizes[first],
            sizes[key],
            message=f"Batch size mismatch of the features {first!r} and {key!r}",
        )
        for key in others
    ]
    # Also where the sizes are constants: predictions end with the input, so they have to read it.
    with tf.control_dependencies([*checks, *read]):
        return tf.identity(sizes[first])


def _as_tensor(feature: Any) -> Any:
    """Returns a dense, sparse or ragged tensor of a feature that may be an array or a list."""
    if isinstance(feature, tf.RaggedTensor):
        return feature
    return tf1.convert_to_tensor_or_sparse_tensor(feature)


def _first_dimension(feature: Any) -> Any:
    """Returns the batch size of a dense, sparse or ragged feature."""
    if isinstance(feature, tf.SparseTensor):
        return feature.dense_shape[0]
    if isinstance(feature, tf.RaggedTensor):
        return tf.cast(feature.nrows(), tf.int64)
    return tf.shape(feature, out_type=tf.int64)[0]
