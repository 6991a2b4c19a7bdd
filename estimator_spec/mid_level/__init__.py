# SPDX-License-Identifier: Apache-2.0
"""TensorFlow 2's mid-level API, `tf.tpu.experimental.embedding`, on any machine.

| name                                              |                                              |
|---------------------------------------------------|----------------------------------------------|
| `TPUEmbedding`, `TPUEmbeddingV2`                  | TensorFlow's objects, trained without a TPU  |
| `read_tables`, `load_tables`                      | their values, by table and slot              |
| `read_sparse_core_checkpoint`                     | the same of a checkpoint of stacked tables   |
| `estimator_values`                                | the same by an Estimator's names             |
| `save_for_estimator`                              | writes them as an Estimator's checkpoint     |
| `embedding_layer`                                 | the layer of TensorFlow Recommenders         |
"""

from estimator_spec.mid_level.embedding import TPUEmbedding
from estimator_spec.mid_level.embedding_v2 import TPUEmbeddingV2
from estimator_spec.mid_level.moving import (
    estimator_values,
    load_tables,
    read_sparse_core_checkpoint,
    read_tables,
    save_for_estimator,
)
from estimator_spec.mid_level.recommenders import embedding_layer
from tpu_columns.lazy_names import public_dir

__all__ = [
    "TPUEmbedding",
    "TPUEmbeddingV2",
    "embedding_layer",
    "estimator_values",
    "load_tables",
    "read_sparse_core_checkpoint",
    "read_tables",
    "save_for_estimator",
]

__dir__ = public_dir(__name__)
