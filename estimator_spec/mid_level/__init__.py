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

from typing import TYPE_CHECKING

from tpu_columns import lazy_names

if TYPE_CHECKING:
    # isort: off
    from estimator_spec.mid_level.embedding import TPUEmbedding as TPUEmbedding
    from estimator_spec.mid_level.embedding_v2 import TPUEmbeddingV2 as TPUEmbeddingV2
    from estimator_spec.mid_level.moving import (
        estimator_values as estimator_values,
        load_tables as load_tables,
        read_sparse_core_checkpoint as read_sparse_core_checkpoint,
        read_tables as read_tables,
        save_for_estimator as save_for_estimator,
    )
    from estimator_spec.mid_level.recommenders import embedding_layer as embedding_layer
else:
    __getattr__, __dir__, __all__ = lazy_names.attach(__name__)
