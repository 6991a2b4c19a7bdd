# SPDX-License-Identifier: Apache-2.0
"""Maps the names of `tpu_columns` to TensorFlow's own TPU embedding columns and layers.

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
    """Returns the pooled columns concatenated, `[B, sum of dimensions]`."""
    if any(type(column).__name__.startswith("_TPUShared") for column in feature_columns):
        return tf.keras.layers.DenseFeatures(feature_columns)(features)
    return tf.compat.v1.feature_column.input_layer(features, feature_columns)


def sequence_input_layer(features, feature_columns):
    """Returns the sequence columns concatenated, `[B, T, sum of dimensions]`, and lengths `[B]`."""
    return tf.keras.experimental.SequenceFeatures(feature_columns)(features)


def split_sequence_columns(feature_columns):
    """Splits columns into sequence columns and others."""
    sequences = [column for column in feature_columns if column.is_sequence_column()]
    return sequences, [column for column in feature_columns if column not in sequences]
