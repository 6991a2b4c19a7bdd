# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's own embedding engine of a TPU, for `cores.tpu`.

It stands in the driver's room: it is made by a conversion, and a conversion knows the cores.

Not verified on hardware: graphs of it were built for a TPU, and never run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from estimator_spec._tensorflow import tpu_embedding
from estimator_spec.convert import mid_level
from estimator_spec.cores.tpu import Engine, Shards
from estimator_spec.embedding.mid_level_slots import mid_level_slot_names
from estimator_spec.embedding.spec import EmbeddingConfigSpec
from tpu_columns import Hardware


class MidLevelEngine:
    """TensorFlow's `TPUEmbedding`, in a TF1 graph under a `TPUStrategy`.

    Args:
        spec: what is looked up and how it is trained.
        batch_size: examples of a step on one replica.

    Raises:
        LossyConversionError: the mid-level API lacks something that the spec asks for.
    """

    def __init__(self, spec: EmbeddingConfigSpec, batch_size: int) -> None:
        # The core multiplies the gradients before it hands them over.
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
        """See `Engine`."""
        return tpu_embedding.ops_created_by(
            lambda: self._embedding.enqueue(ids, weights=weights, training=training),
            "EnqueueTPUEmbedding",
        )

    def dequeue(self) -> dict[str, Any]:
        """See `Engine`."""
        return dict(self._embedding.dequeue())

    def apply_gradients(self, gradients: Mapping[str, Any], step: Any) -> list[Any]:
        """See `Engine`."""
        self._step = step
        return tpu_embedding.ops_created_by(
            lambda: self._embedding.apply_gradients(dict(gradients)), "SendTPUEmbeddingGradients"
        )

    def slot_names(self, table: str) -> dict[str, str]:
        """See `Engine`."""
        parameters = self._source.parameters(table)
        return {} if parameters is None else mid_level_slot_names(parameters)

    def load(self, shards: Shards) -> Any:
        """See `Engine`."""
        return tpu_embedding.load_tpu_embedding(self._embedding, shards)

    def retrieve(self, shards: Shards) -> Any:
        """See `Engine`."""
        return tpu_embedding.retrieve_tpu_embedding(self._embedding, shards)


def make_engine(spec: EmbeddingConfigSpec, batch_size: int | None, training: bool) -> Engine:
    """The engine of a TPU, in the current graph and the scope of its strategy.

    Args:
        spec: what is looked up and how it is trained.
        batch_size: examples of a step on one replica.
        training: whether the graph trains; a core is configured alike for all graphs.
    """
    del training
    assert batch_size is not None  # checked for every run on a TPU
    return MidLevelEngine(spec, batch_size)
