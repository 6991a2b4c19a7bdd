# SPDX-License-Identifier: Apache-2.0
"""Runs the embedding core of a TPU through TensorFlow's `TPUEmbedding`, for `cores.tpu`.

It is in `driver` because it uses `convert`, which `cores` must not import.

Not verified on hardware: its graphs were built for a TPU, but never run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from estimator_spec.convert import mid_level
from estimator_spec.core._tensorflow import tpu_embedding
from estimator_spec.core.cores.tpu import Shards
from estimator_spec.core.embedding.mid_level_slots import mid_level_slot_names
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec
from tpu_columns.placement import Hardware


class MidLevelEngine:
    """TensorFlow's `TPUEmbedding` in a TF1 graph under a `TPUStrategy`.

    Args:
        spec: the embedding specification.
        batch_size: examples of a step on one replica.

    Raises:
        LossyConversionError: the mid-level API doesn't support an option of the spec.
    """

    def __init__(self, spec: EmbeddingConfigSpec, batch_size: int) -> None:
        # `TpuCore` multiplies the gradients itself.
        spec = spec._replace(experimental_gradient_multiplier_fn=None)
        self._embedding = mid_level.to_tpu_embedding(
            spec,
            batch_size=batch_size,
            step=lambda: self._step,
            hardware=Hardware.TPU,
        )
        self._step: Any = None
        self._source = self._embedding.conversion.source
        self.configuration = tpu_embedding.configure_tpu_embedding(self._embedding, batch_size)

    def enqueue(self, ids: Any, weights: Any, training: bool) -> list[Any]:
        """Implements `Engine`."""
        return tpu_embedding.ops_created_by(
            lambda: self._embedding.enqueue(ids, weights=weights, training=training),
            "EnqueueTPUEmbedding",
        )

    def dequeue(self) -> dict[str, Any]:
        """Implements `Engine`."""
        return dict(self._embedding.dequeue())

    def apply_gradients(self, gradients: Mapping[str, Any], step: Any) -> list[Any]:
        """Implements `Engine`."""
        self._step = step
        return tpu_embedding.ops_created_by(
            lambda: self._embedding.apply_gradients(dict(gradients)), "SendTPUEmbeddingGradients"
        )

    def slot_names(self, table: str) -> dict[str, str]:
        """Implements `Engine`."""
        return mid_level_slot_names(self._source.parameters(table))

    def load(self, shards: Shards) -> Any:
        """Implements `Engine`."""
        return tpu_embedding.load_tpu_embedding(self._embedding, shards)

    def retrieve(self, shards: Shards) -> Any:
        """Implements `Engine`."""
        return tpu_embedding.retrieve_tpu_embedding(self._embedding, shards)
