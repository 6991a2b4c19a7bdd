# SPDX-License-Identifier: Apache-2.0
"""The only door of `tpu_columns` to TensorFlow's private modules.

Each name says why no public one serves. Tried on TensorFlow 2.15.1, 2.16 and 2.21. None of these
imports costs time: TensorFlow has loaded every one of the modules by the time `import tensorflow`
returns.
"""

from __future__ import annotations

import tensorflow as tf

# `input_layer` of TF1 takes a column only if it is one of these two abstract classes; they were
# never exported. `_LazyBuilder` is what such columns read their features from: our own
# sequence_input_layer must hand one to columns that aren't ours.
from tensorflow.python.feature_column.feature_column import (
    _DenseColumn as DenseColumnV1,
)
from tensorflow.python.feature_column.feature_column import (
    _LazyBuilder as LazyBuilder,
)
from tensorflow.python.feature_column.feature_column import (
    _SequenceDenseColumn as SequenceDenseColumnV1,
)

# The classes behind tf.feature_column.categorical_column_with_*: only the factory functions are
# public, and what a column looks up can be told only from its class.
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

# Without this registration DenseFeatures.from_config can't bring our columns back.
from tensorflow.python.feature_column.serialization import register_feature_column

# Not documented, but exported on purpose for the Keras that lives outside TensorFlow.
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
