# SPDX-License-Identifier: Apache-2.0
"""The only door of `estimator_spec` to TensorFlow's private modules.

Each name says why no public one serves. Tried on TensorFlow 2.15.1, 2.16 and 2.21.
"""

from __future__ import annotations

import tensorflow as tf

# The dense columns that a spec accepts beside TPU columns. Only the functions that make them are
# public. Both modules are loaded by `import tensorflow`.
from tensorflow.python.feature_column.feature_column import (
    _SharedEmbeddingColumn as SharedEmbeddingColumnV1,
)
from tensorflow.python.feature_column.feature_column_v2 import (
    EmbeddingColumn,
    NumericColumn,
    SharedEmbeddingColumn,
)

# The step counter's readable copy: MonitoredSession's hooks make it when they begin. A legacy
# Estimator makes it before the model, which op seeds that nobody set depend on (they are the
# number of ops in the graph).
from tensorflow.python.training.training_util import (
    _get_or_create_global_step_read as get_or_create_global_step_read,
)

DENSE_COLUMNS = (NumericColumn, EmbeddingColumn, SharedEmbeddingColumn, SharedEmbeddingColumnV1)


def keras_is_chosen() -> bool:
    """Whether `tf.keras` was used already: TensorFlow reads TF_USE_LEGACY_KERAS at that time.

    Asking the lazy loader the usual way would load Keras.
    """
    loader = vars(tf).get("keras")
    # From 2.16 on this is a loader until it has been used, then the module itself.
    return vars(loader).get("_tfll_initialized", True) if loader is not None else False


__all__ = ["DENSE_COLUMNS", "get_or_create_global_step_read", "keras_is_chosen"]
