# SPDX-License-Identifier: Apache-2.0
"""TPU embedding columns, their lookups, and the rule that selects a lookup's device.

>>> import tensorflow as tf
>>> import tpu_columns
>>> words = tf.feature_column.categorical_column_with_identity("words", num_buckets=1000)
>>> column = tpu_columns.embedding_column(words, dimension=16, combiner="sum")
>>> column.get_embedding_table_size()
(1000, 16)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpu_columns import lazy_names

if TYPE_CHECKING:
    from tpu_columns.column_types import EmbeddingColumn, SharedEmbeddingColumn, TPUEmbeddingColumn
    from tpu_columns.columns import (
        embedding_column,
        shared_embedding_columns,
        split_sequence_columns,
    )
    from tpu_columns.eager_tables import sharing_tables
    from tpu_columns.feature_layers import input_layer, sequence_input_layer
    from tpu_columns.lookup_errors import IdOutOfRangeError
    from tpu_columns.partition import RowPartition
    from tpu_columns.placement import Hardware, LookupDevice, Mode, route

# The only place of the version; setup.cfg reads it without importing the package.
__version__ = "0.1.0"

__all__ = [
    "EmbeddingColumn",
    "Hardware",
    "IdOutOfRangeError",
    "LookupDevice",
    "Mode",
    "RowPartition",
    "SharedEmbeddingColumn",
    "TPUEmbeddingColumn",
    "embedding_column",
    "input_layer",
    "route",
    "sequence_input_layer",
    "shared_embedding_columns",
    "sharing_tables",
    "split_sequence_columns",
]

# The module that defines each name. Names are imported at their first use: tools on the command
# line start without TensorFlow.
_HOMES = {
    ".column_types": "EmbeddingColumn SharedEmbeddingColumn TPUEmbeddingColumn",
    ".columns": "embedding_column shared_embedding_columns split_sequence_columns",
    ".eager_tables": "sharing_tables",
    ".feature_layers": "input_layer sequence_input_layer",
    ".lookup_errors": "IdOutOfRangeError",
    ".partition": "RowPartition",
    ".placement": "Hardware LookupDevice Mode route",
}

if not TYPE_CHECKING:  # with it, type checkers would accept any name
    __getattr__ = lazy_names.make_getattr(__name__, _HOMES)
    __dir__ = lazy_names.make_dir(__name__, *__all__)
