# SPDX-License-Identifier: Apache-2.0
"""Names from TensorFlow's private modules, each with the reason why no public one serves."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any

import tensorflow as tf

# The messages that configure an embedding core: no public module has them.
from tensorflow.core.protobuf.tpu import (
    optimization_parameters_pb2,
    tpu_embedding_configuration_pb2,
)

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

# Whether `tf.config.experimental.enable_op_determinism` was called; only that is public.
from tensorflow.python.framework.config import is_op_determinism_enabled

# What tensorflow.contrib.lookup and tensorflow.contrib.summary were: the v1 signatures (`family`,
# the step of the graph) and the tables of ids have no public names.
from tensorflow.python.ops import lookup_ops
from tensorflow.python.ops import summary_ops_v2 as summary_ops

# How many replicas a computation is built for, and the loops of tensorflow.contrib.tpu: neither
# has a public name.
from tensorflow.python.tpu import tpu_function, training_loop

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


def look_for_keras_in(package: str) -> None:
    """Makes `import tensorflow.keras` and its like find this package's Keras.

    TensorFlow puts the directories of one Keras into the paths of its modules when it is imported,
    by the value that TF_USE_LEGACY_KERAS has then.
    """
    spec = importlib.util.find_spec(package)
    home = os.path.dirname(str(spec.origin)) if spec is not None else ""
    for name in ("", "._api.v2.compat.v1", ".compat.v1", "._api.v2.compat.v2", ".compat.v2"):
        module = sys.modules.get("tensorflow" + name)
        if module is None:
            continue
        face = "_v1" if name.endswith("v1") else "_v2"
        folder = os.path.join(home, "api", face)
        if os.path.isdir(folder) and folder not in module.__path__:
            module.__path__ = [folder, *module.__path__]


def sparse_core_layout_stacker(**arguments: Any) -> Any:
    """What lays tables out on SparseCores; TensorFlow from 2.18 or so on has it.

    `TPUEmbeddingV2` calls it with the samples of its first feature only, so we call it ourselves;
    its layouts can be handed over by the public `TableConfig(layout=…)`.
    """
    # The class is TensorFlow's own, in C++; no public name leads to it.
    from tensorflow.python.tpu import _pywrap_sparse_core_layout

    return _pywrap_sparse_core_layout.SparseCoreLayoutStacker(**arguments)


__all__ = [
    "DENSE_COLUMNS",
    "get_or_create_global_step_read",
    "is_op_determinism_enabled",
    "keras_is_chosen",
    "look_for_keras_in",
    "lookup_ops",
    "optimization_parameters_pb2",
    "sparse_core_layout_stacker",
    "summary_ops",
    "tpu_embedding_configuration_pb2",
    "tpu_function",
    "training_loop",
]
