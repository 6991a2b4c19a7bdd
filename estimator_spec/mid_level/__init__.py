# SPDX-License-Identifier: Apache-2.0
"""TensorFlow 2's mid-level API, `tf.tpu.experimental.embedding`, on any machine."""

from estimator_spec.mid_level.embedding import TPUEmbedding
from estimator_spec.mid_level.embedding_v2 import TPUEmbeddingV2

__all__ = ["TPUEmbedding", "TPUEmbeddingV2"]
