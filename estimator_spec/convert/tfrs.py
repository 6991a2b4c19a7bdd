# SPDX-License-Identifier: Apache-2.0
"""Converts a spec to tensorflow-recommenders' `PartialTPUEmbedding`.

Needs the extra `tfrs` and legacy Keras (TF_USE_LEGACY_KERAS=1 from TensorFlow 2.16 on). The layer
looks up small tables without combiner, weights and sequences, unlike `to_partial_embedding`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from estimator_spec.convert import resolved_spec
from estimator_spec.convert.features import attach
from estimator_spec.convert.mid_level import build_configurations
from estimator_spec.convert.optional_packages import load_extra
from estimator_spec.convert.partial import SIZE_THRESHOLD, PartialConversion, exceeds_threshold
from estimator_spec.convert.report import Entry, Status
from estimator_spec.convert.resolved_spec import ResolvedSpec
from estimator_spec.convert.trained_tables import TrainedTables
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec
from tpu_columns.placement import Hardware


def to_partial_tpu_embedding(
    spec: EmbeddingConfigSpec,
    checkpoint: Any = None,
    *,
    size_threshold: int | None = SIZE_THRESHOLD,
    batch_size: int | None = None,
    step: Any = None,
    num_shards: int | None = None,
    variable_names: Mapping[str, str] | None = None,
    hardware: Hardware | None = None,
    allow_lossy: bool = False,
) -> Any:
    """Returns a `tfrs.experimental.layers.embedding.PartialTPUEmbedding` for a spec.

    Args:
        spec: columns or dictionaries.
        checkpoint: a legacy checkpoint's prefix, or a directory; None: initial values.
        size_threshold: tables with more rows are on the TPU. 0: all; None: none.
        batch_size: examples of a step, or None.
        step: step that `learning_rate_fn`s of large tables read; see `to_mid_level`.
        num_shards: as in `to_serving`.
        variable_names: as in `to_serving`.
        hardware: the hardware that `combiner=None` of a column refers to: mean on a CPU, sum on a
            TPU.
        allow_lossy: converts in spite of losses, and reports them. Small tables nearly always
            have losses.

    Returns:
        The layer, with the conversion as its attribute `conversion`.

    Raises:
        ImportError: tensorflow-recommenders isn't installed (the message names the extra), or
            `tf.keras` is Keras 3.
        LossyConversionError: an option is lost, and `allow_lossy` is False.
        CheckpointError: the checkpoint is missing or damaged, or lacks a table.
        ValueError, TypeError: as `tables_and_features`.
    """
    recommenders = load_extra("tensorflow_recommenders", "tfrs")
    resolved = resolved_spec.resolve(spec, hardware)
    # The layer puts every large table on the TPU, including those of the tensor core.
    large = [
        table
        for table, config in sorted(resolved.tables.items())
        if exceeds_threshold(config.vocabulary_size, size_threshold)
    ]
    plain = sorted(set(resolved.tables) - set(large))
    more, trained = _lossy_entries(resolved, plain), None
    if checkpoint is not None:
        trained = TrainedTables(resolved, checkpoint, num_shards, variable_names)
        more += trained.slot_entries(large, "initial values", "not restored")
    converted = build_configurations(
        "PartialTPUEmbedding",
        resolved,
        large,
        plain,
        batch_size,
        step,
        allow_lossy,
        more,
    )
    layer = recommenders.experimental.layers.embedding.PartialTPUEmbedding(
        converted.feature_config,
        None,
        converted.pipeline_execution_with_tensor_core,
        batch_size,
        size_threshold,
    )
    if trained is not None:
        large_tables = layer.tpu_embedding.embedding_tables if large else {}
        for config, variable in large_tables.items():
            trained.assign_to(variable, config.name)
        for name, plain_layer in layer.keras_embedding_layers.items():
            plain_layer.build((None,))
            trained.assign_to(plain_layer.embeddings, converted.feature_config[name].table.name)
    return attach(layer, PartialConversion(**vars(converted)))


def _lossy_entries(resolved: ResolvedSpec, plain: list[str]) -> list[Entry]:
    """Returns the entries of options that the layer doesn't support."""
    entries = []
    for table in sorted(resolved.tables):
        users = [resolved.features[key] for key in resolved.features_of(table)]
        if table in plain:
            note = "a small table takes dense ids and gives a row for each: nothing is combined"
            entries.append(
                Entry(table, "combiner", Status.LOST, resolved.combiner(table), note=note)
            )
            if any(feature.max_sequence_length for feature in users):
                note = "a small table neither cuts nor pads"
                entries.append(Entry(table, "max_sequence_length", Status.LOST, note=note))
        if any(feature.weight_key for feature in users):
            note = "the layer takes no weights (its tpu_embedding does, for large tables)"
            entries.append(Entry(table, "weight_key", Status.LOST, note=note))
    return entries
