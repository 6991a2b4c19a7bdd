# SPDX-License-Identifier: Apache-2.0
"""Replaces feature layers by constants: what remains of a step is input, network and optimizer.

No lookup can make a step faster than that. The gradient of the layer isn't computed either.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import tpu_columns

tf1 = tf.compat.v1


def replace_feature_layers(batch_size: int) -> None:
    """Replaces `tpu_columns.input_layer` and `sequence_input_layer` in this process.

    Args:
        batch_size: number of examples in a batch, B.
    """

    def constant(*shape: int) -> Any:
        """Returns ones, [B, *shape], from a variable: Grappler folds what reads a constant."""
        with tf1.variable_scope("constant_layers", reuse=tf1.AUTO_REUSE):
            return tf1.get_variable(
                "x".join(map(str, shape)),
                [batch_size, *shape],
                initializer=tf1.ones_initializer(),
                trainable=False,
            )

    def input_layer(features: Any, columns: list[Any]) -> Any:
        """Returns a layer of the width of all columns; reads the numeric ones."""
        tables = [column for column in columns if hasattr(column, "dimension")]
        layer = constant(sum(column.dimension for column in tables))
        numeric = [column for column in columns if column not in tables]
        if not numeric:
            return layer
        return tf.concat([layer, tf1.feature_column.input_layer(features, numeric)], 1)

    def sequence_input_layer(features: Any, columns: list[Any]) -> tuple[Any, Any]:
        """Returns the sequences of one column and their lengths, all of which are the longest."""
        del features
        (column,) = columns
        longest = column.get_max_sequence_length()
        return constant(longest, column.dimension), tf.fill([batch_size], longest)

    tpu_columns.input_layer = input_layer
    tpu_columns.sequence_input_layer = sequence_input_layer
