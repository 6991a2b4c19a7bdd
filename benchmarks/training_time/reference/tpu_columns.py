# SPDX-License-Identifier: Apache-2.0
"""The name `tpu_columns`, for TensorFlow's own TPU embedding columns and feature layers.

`sequence_input_layer` is gone from TensorFlow 2.15; Keras' layer is what users had instead. The
TF1 `input_layer` refuses shared TPU columns; Keras' layer takes those.
"""

import tensorflow as tf
from tensorflow.compat.v1.tpu.experimental import embedding_column, shared_embedding_columns

__all__ = [
    "embedding_column",
    "input_layer",
    "sequence_input_layer",
    "shared_embedding_columns",
    "split_sequence_columns",
]


def input_layer(features, feature_columns):
    """The pooled columns side by side, `[B, sum of widths]`."""
    if any(type(column).__name__.startswith("_TPUShared") for column in feature_columns):
        return tf.keras.layers.DenseFeatures(feature_columns)(features)
    return tf.compat.v1.feature_column.input_layer(features, feature_columns)


def sequence_input_layer(features, feature_columns):
    """The sequence columns side by side, `[B, T, sum of widths]`, and their lengths `[B]`."""
    return tf.keras.experimental.SequenceFeatures(feature_columns)(features)


def split_sequence_columns(feature_columns):
    """Sequence columns, and the others."""
    sequences = [column for column in feature_columns if column.is_sequence_column()]
    return sequences, [column for column in feature_columns if column not in sequences]
