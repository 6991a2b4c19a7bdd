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

# The only place of the version; setup.cfg reads it without importing the package.
__version__ = "0.1.0"

if TYPE_CHECKING:
    # isort: off
    from tpu_columns.column_types import (
        EmbeddingColumn as EmbeddingColumn,
        SharedEmbeddingColumn as SharedEmbeddingColumn,
        TPUEmbeddingColumn as TPUEmbeddingColumn,
    )
    from tpu_columns.columns import (
        embedding_column as embedding_column,
        shared_embedding_columns as shared_embedding_columns,
        split_sequence_columns as split_sequence_columns,
    )
    from tpu_columns.eager_tables import sharing_tables as sharing_tables
    from tpu_columns.feature_layers import (
        input_layer as input_layer,
        sequence_input_layer as sequence_input_layer,
    )
    from tpu_columns.lookup_errors import IdOutOfRangeError as IdOutOfRangeError
    from tpu_columns.partition import RowPartition as RowPartition
    from tpu_columns.placement import (
        Hardware as Hardware,
        LookupDevice as LookupDevice,
        Mode as Mode,
        route as route,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names.attach(__name__)
