# SPDX-License-Identifier: Apache-2.0
"""The field's own partial layer, `PartialTPUEmbedding` of tensorflow-recommenders.

Needs the extra `tfrs` and legacy Keras (TF_USE_LEGACY_KERAS=1 from TensorFlow 2.16 on). It looks
small tables up without combiner, weights and sequences; `to_partial_embedding` does with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from estimator_spec.convert import spec_source
from estimator_spec.convert.attached_report import attach
from estimator_spec.convert.mid_level import configurations
from estimator_spec.convert.optional_packages import load_extra
from estimator_spec.convert.partial import SIZE_THRESHOLD, PartialConversion, is_large
from estimator_spec.convert.report import Entry, Status
from estimator_spec.convert.spec_source import Source
from estimator_spec.convert.trained_tables import TrainedTables
from estimator_spec.embedding.spec import EmbeddingConfigSpec
from tpu_columns import Hardware


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
        size_threshold: tables with more rows are the TPU's. 0: all; None: none.
        batch_size: examples of a step, or None.
        step: what `learning_rate_fn`s of large tables read; see `to_mid_level`.
        num_shards: as in `to_serving`.
        variable_names: as in `to_serving`.
        hardware: whose meaning a column's combiner of None has: mean on a CPU, sum on a TPU.
        allow_lossy: convert, and only report what is lost: for small tables nearly always
            something is.

    Returns:
        The layer, with its conversion as the attribute `conversion`.

    Raises:
        ImportError: tensorflow-recommenders isn't installed (the message names the extra), or
            `tf.keras` is Keras 3.
        LossyConversionError: something is lost, and `allow_lossy` is False.
        CheckpointError: the checkpoint is missing or damaged, or lacks a table.
        ValueError, TypeError: as `tables_and_features`.
    """
    recommenders = load_extra("tensorflow_recommenders", "tfrs")
    read = spec_source.read(spec, hardware)
    # Any table may be the TPU's, but there is no way to keep a large one from it.
    large = [
        table
        for table, config in sorted(read.tables.items())
        if is_large(config.vocabulary_size, size_threshold)
    ]
    plain = sorted(set(read.tables) - set(large))
    more, trained = _losses(read, plain), None
    if checkpoint is not None:
        trained = TrainedTables(read, checkpoint, num_shards, variable_names)
        more += trained.slot_entries(large, "initial values", "they begin anew")
    converted = configurations(
        "PartialTPUEmbedding",
        read,
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
        for name, feature in converted.feature_config.items():
            plain_layer = layer.keras_embedding_layers.get(name)
            if plain_layer is not None:
                plain_layer.build((None,))
                trained.assign_to(plain_layer.embeddings, feature.table.name)
            else:
                tables = layer.tpu_embedding.embedding_tables
                trained.assign_to(_by_name(tables, feature.table.name), feature.table.name)
    return attach(layer, PartialConversion(**vars(converted)))


def _by_name(tables: Mapping[Any, Any], name: str) -> Any:
    return next(variable for config, variable in tables.items() if config.name == name)


def _losses(read: Source, plain: list[str]) -> list[Entry]:
    """What the layer can't take."""
    entries = []
    for table in sorted(read.tables):
        users = [read.features[key] for key in read.users(table)]
        if table in plain:
            note = "a small table takes dense ids and gives a row for each: nothing is combined"
            entries.append(Entry(table, "combiner", Status.LOST, read.combiner(table), note=note))
            if any(feature.max_sequence_length for feature in users):
                note = "a small table neither cuts nor pads"
                entries.append(Entry(table, "max_sequence_length", Status.LOST, note=note))
        if any(feature.weight_key for feature in users):
            note = "the layer takes no weights (its tpu_embedding does, for large tables)"
            entries.append(Entry(table, "weight_key", Status.LOST, note=note))
    return entries
