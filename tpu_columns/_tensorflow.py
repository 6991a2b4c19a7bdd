# SPDX-License-Identifier: Apache-2.0
"""Adapter of `tpu_columns` to TensorFlow's private modules.

A comment at each name gives the reason why no public name serves. Tried on TensorFlow 2.15.1, 2.16
and 2.21. The imports cost no time: `import tensorflow` has loaded all of these modules.
"""

from __future__ import annotations

import tensorflow as tf

# TF1's `input_layer` accepts only subclasses of these two abstract classes, which were never
# exported. Such columns read their features from a `_LazyBuilder`: our sequence_input_layer must
# pass one to other projects' columns.
from tensorflow.python.feature_column.feature_column import (
    _DenseColumn as DenseColumnV1,
)
from tensorflow.python.feature_column.feature_column import (
    _LazyBuilder as LazyBuilder,
)
from tensorflow.python.feature_column.feature_column import (
    _SequenceDenseColumn as SequenceDenseColumnV1,
)

# The classes made by tf.feature_column.categorical_column_with_*: only the factory functions are
# public, and only its class tells how a column makes ids.
from tensorflow.python.feature_column.feature_column_v2 import (
    BucketizedColumn,
    CategoricalColumn,
    CrossedColumn,
    HashedCategoricalColumn,
    IdentityCategoricalColumn,
    SequenceCategoricalColumn,
    VocabularyFileCategoricalColumn,
    VocabularyListCategoricalColumn,
    WeightedCategoricalColumn,
)

# DenseFeatures.from_config can restore registered columns only.
from tensorflow.python.feature_column.serialization import register_feature_column

# Not documented, but exported on purpose, for Keras outside of TensorFlow.
DenseColumn = tf.__internal__.feature_column.DenseColumn
SequenceDenseColumn = tf.__internal__.feature_column.SequenceDenseColumn
serialize_feature_column = tf.__internal__.feature_column.serialize_feature_column
deserialize_feature_column = tf.__internal__.feature_column.deserialize_feature_column

__all__ = [
    "BucketizedColumn",
    "CategoricalColumn",
    "CrossedColumn",
    "DenseColumn",
    "DenseColumnV1",
    "HashedCategoricalColumn",
    "IdentityCategoricalColumn",
    "LazyBuilder",
    "SequenceCategoricalColumn",
    "SequenceDenseColumn",
    "SequenceDenseColumnV1",
    "VocabularyFileCategoricalColumn",
    "VocabularyListCategoricalColumn",
    "WeightedCategoricalColumn",
    "deserialize_feature_column",
    "register_feature_column",
    "serialize_feature_column",
]
