# SPDX-License-Identifier: Apache-2.0
"""Plans the model of what the functions that convert are given: columns, a spec, an estimator."""

from __future__ import annotations

from typing import Any

from estimator_spec.convert.keras_columns import assembly, canned_models, distributed
from estimator_spec.convert.keras_columns.plan import ModelPlan
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec


def plan_source(
    source: Any,
    layer: str | None,
    units: int,
    sparse_combiner: str,
    embeddings: str = distributed.LAYERS,
    inline_words: int | None = None,
) -> ModelPlan:
    """Returns the plan of feature columns, of a specification's, or of a canned estimator.

    Args:
        source: as for `to_keras`.
        layer: as for `to_keras`.
        units: as for `to_keras`.
        sparse_combiner: as for `to_keras`.
        embeddings: one of `distributed.EMBEDDINGS`.
        inline_words: as in `ModelPlan`.

    Raises:
        ValueError: a column can't move, or the layer is one for an estimator.
    """
    plan = ModelPlan(inline_words=inline_words)
    model = getattr(source, "canned_model", None)
    if model is None:
        spec = source if isinstance(source, EmbeddingConfigSpec) else None
        columns = assembly.check_columns(source if spec is None else distributed.columns_of(spec))
        if embeddings == distributed.DISTRIBUTED:
            distributed.add_embeddings(plan, columns, spec)
        assembly.add_layer(plan, columns, layer, units, sparse_combiner)
        return plan
    if layer is not None:
        raise ValueError(f"layer={layer!r} is for columns; an estimator has its own layers.")
    canned_models.add_canned_model(plan, model, embeddings)
    return plan


def checkpoint_of(source: Any, checkpoint: Any) -> Any:
    """Returns the given checkpoint, or that of a canned estimator; None if there is none."""
    if checkpoint is None and getattr(source, "canned_model", None) is not None:
        return source.model_dir
    return checkpoint
