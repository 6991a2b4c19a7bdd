# SPDX-License-Identifier: Apache-2.0
"""Adapter of `tpu_columns` to TensorFlow's private modules: no other module may use them.

Each name comes with the reason why no public one serves; `tests/test_architecture.py` lists them
all. Tried on TensorFlow 2.15.1, 2.16 and 2.21. `import tensorflow` loads all of these modules, so
the imports take no time.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

# isort: off
# An op that reads a variable by its handle has no gradient on a tape without it.
from tensorflow.python.eager.tape import variable_accessed as variable_accessed

# `input_layer` of TF1 accepts only columns of these two abstract classes, which were never
# exported. Such columns read their features from a `_LazyBuilder`, which our
# `sequence_input_layer` passes to TensorFlow's own columns.
from tensorflow.python.feature_column.feature_column import (
    _DenseColumn as DenseColumnV1,
    _LazyBuilder as LazyBuilder,
    _SequenceDenseColumn as SequenceDenseColumnV1,
)

# The classes that tf.feature_column.categorical_column_with_* return: only these functions are
# public, and only its class tells what a column looks up.
from tensorflow.python.feature_column.feature_column_v2 import (
    BucketizedColumn as BucketizedColumn,
    CategoricalColumn as CategoricalColumn,
    CrossedColumn as CrossedColumn,
    EmbeddingColumn as EmbeddingColumn,
    HashedCategoricalColumn as HashedCategoricalColumn,
    IdentityCategoricalColumn as IdentityCategoricalColumn,
    NumericColumn as NumericColumn,
    SequenceCategoricalColumn as SequenceCategoricalColumn,
    VocabularyFileCategoricalColumn as VocabularyFileCategoricalColumn,
    VocabularyListCategoricalColumn as VocabularyListCategoricalColumn,
    WeightedCategoricalColumn as WeightedCategoricalColumn,
)

# Without this registration DenseFeatures.from_config can't restore our columns.
from tensorflow.python.feature_column.serialization import register_feature_column

# isort: on

# Names that aren't imported as themselves.
__all__ = ["DenseColumnV1", "LazyBuilder", "SequenceDenseColumnV1", "register_feature_column"]

# Not documented, but exported on purpose, for Keras outside of TensorFlow.
DenseColumn = tf.__internal__.feature_column.DenseColumn
SequenceDenseColumn = tf.__internal__.feature_column.SequenceDenseColumn
serialize_feature_column = tf.__internal__.feature_column.serialize_feature_column
deserialize_feature_column = tf.__internal__.feature_column.deserialize_feature_column


def dense_tensor(
    column: Any, builder: LazyBuilder, weight_collections: list[str], trainable: bool
) -> tf.Tensor:
    """Returns a dense column's tensor.

    TF1's feature-column protocol has only this method for it.
    """
    return column._get_dense_tensor(
        builder, weight_collections=weight_collections, trainable=trainable
    )


def sequence_tensor(
    column: Any, builder: LazyBuilder, weight_collections: list[str], trainable: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns a sequence column's dense tensor `[B, L, D]` and its lengths `[B]`.

    TF1's feature-column protocol has only this method for it; `tf.feature_column` exports no
    sequence layer for graphs.
    """
    return column._get_sequence_dense_tensor(
        builder, weight_collections=weight_collections, trainable=trainable
    )


def scope_name(column: Any) -> str:
    """Returns the variable scope of a column of TF1; the protocol has no public name."""
    return column._var_scope_name


def features_of(cache: Any) -> dict[Any, Any]:
    """Returns the features behind a layer's transformation cache, before any conversion.

    The caches convert them to dense or sparse tensors, which fails for ragged ones. A cache of
    another kind has no such attribute: its features are not known.
    """
    return getattr(cache, "_features", {})


def control_flow_context(graph: tf.Graph) -> Any:
    """Returns the TF1 `tf.cond` or `tf.while_loop` context that is being built, or None.

    No public name tells it.
    """
    return graph._get_control_flow_context()


def variable_shape(column: Any) -> tf.TensorShape:
    """Returns the shape of one row of a dense column of TF1; the protocol has no public name."""
    return column._variable_shape
