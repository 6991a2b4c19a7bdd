# SPDX-License-Identifier: Apache-2.0
"""Converts trained tables to a `TPUEmbeddingForServing` and its SavedModel."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import tensorflow as tf

from estimator_spec.convert import report, resolved_spec
from estimator_spec.convert.features import Conversion, attach, features_for
from estimator_spec.convert.mid_level import feature_config, table_config
from estimator_spec.convert.partial_lookup import kind_of
from estimator_spec.convert.trained_tables import TrainedTables
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec
from tpu_columns.placement import Hardware


@dataclasses.dataclass(frozen=True, kw_only=True)
class Serving(Conversion):
    """Conversion to configurations without optimizers.

    Attributes:
        feature_config: `FeatureConfig` by feature key, including those of the tensor core.
    """

    feature_config: dict[str, Any]

    input_layout: ClassVar[str] = "sparse"
    drops_negative_weights: ClassVar[bool] = True
    takes_all: ClassVar[bool] = True


def to_serving(
    spec: EmbeddingConfigSpec,
    checkpoint: Any,
    *,
    num_shards: int | None = None,
    variable_names: Mapping[str, str] | None = None,
    hardware: Hardware | None = None,
    allow_lossy: bool = False,
) -> Any:
    """Returns a `TPUEmbeddingForServing` that holds the tables of a legacy checkpoint.

    Args:
        spec: columns or dictionaries that the checkpoint was trained with.
        checkpoint: a checkpoint of `TPUEstimator` on a CPU or TPU, in any number of shards, div or
            mod as in the spec: its prefix, or a directory with the latest checkpoint.
        num_shards: shards of each table, if the checkpoint has no record and
            partition_strategy='mod'; None: as many as a table is stored in.
        variable_names: full variable names by a name of their table, if a checkpoint has several
            candidates, or a table with more rows than the spec, of which the first are meant.
        hardware: the hardware that `combiner=None` of a column refers to: mean on a CPU, sum on a
            TPU.
        allow_lossy: converts in spite of losses, and reports them.

    Returns:
        The object, built, with a `Serving` as its attribute `conversion`.

    Raises:
        LossyConversionError: a combiner is ambiguous, and `allow_lossy` is False.
        CheckpointError: the checkpoint is missing or damaged, or lacks a table.
        ValueError, TypeError: as `tables_and_features`.
    """
    resolved = resolved_spec.resolve(spec, hardware)
    made = report.build_report(
        "TPUEmbeddingForServing",
        resolved,
        report.table_entries(resolved, sorted(resolved.tables)),
        allow_lossy,
    )
    trained = TrainedTables(resolved, checkpoint, num_shards, variable_names)
    configs = {table: table_config(resolved, table, None) for table in sorted(resolved.tables)}
    features = {
        key: feature_config(resolved, key, configs[feature.table_id], None)
        for key, feature in sorted(resolved.features.items())
    }
    embedding = tf.tpu.experimental.embedding.TPUEmbeddingForServing(features, None)
    with tf.init_scope():
        embedding.build()
    for name, config in configs.items():
        trained.assign_to(embedding.embedding_tables[config], name)
    return attach(embedding, Serving(source=resolved, report=made, feature_config=features))


def save_serving(embedding: Any, export_dir: str, batch: Mapping[str, Any]) -> None:
    """Writes a SavedModel that takes a legacy features dict and returns activations.

    The signature `serving_default` takes the tensors of `batch` by key (a sparse or ragged one as
    its parts, `<key>_values`, `<key>_indices`, `<key>_dense_shape`, or `<key>_row_splits`), with
    any number of rows, and returns float32 `[B, D]` (`[B, L, D]` of a sequence) by key, and
    lengths under `<key>_seq_length_`. A server doesn't need this project.

    Args:
        embedding: result of `to_serving`.
        export_dir: a directory that doesn't exist or is empty.
        batch: an example of a batch, for the kinds and dtypes of its tensors.
    """
    kinds = {key: kind_of(value) for key, value in batch.items()}
    module = tf.Module()
    module.embedding = embedding

    @tf.function(autograph=False)
    def serve(**parts: Any) -> dict[str, Any]:
        return look_up(embedding, {key: _rebuild_tensor(key, kinds[key], parts) for key in kinds})

    signature: dict[str, Any] = {}
    for key, value in batch.items():
        signature.update(_tensor_specs(key, kinds[key], value))
    concrete = serve.get_concrete_function(**signature)
    # Vocabulary tables, which tracing created, must be saved as well.
    module.vocabularies = embedding.conversion.source.vocabularies.resources()
    tf.saved_model.save(module, export_dir, signatures={"serving_default": concrete})


@tf.autograph.experimental.do_not_convert
def look_up(embedding: Any, batch: Mapping[str, Any]) -> dict[str, Any]:
    """Looks up a legacy features dict as the legacy columns did on a CPU.

    Args:
        embedding: result of `to_serving` or `to_tpu_embedding`.
        batch: tensors by key.

    Returns:
        float32 [B, D] by feature key ([B, L, D] for a sequence, and its lengths under
        `<key>_seq_length_`).
    """
    found = features_for(embedding, batch)
    looked_up = tf.tpu.experimental.embedding.serving_embedding_lookup(
        found.inputs,
        found.weights,
        embedding.embedding_tables,
        embedding.conversion.feature_config,
    )
    return {**looked_up, **found.sequence_lengths}


def _tensor_specs(key: str, kind: str, value: Any) -> dict[str, Any]:
    """Returns the TensorSpecs of one tensor's parts by name, with any number of rows."""

    def spec(name: str, shape: list[int | None], dtype: Any) -> dict[str, Any]:
        return {name: tf.TensorSpec(shape, dtype, name)}

    if kind == "dense":
        dense = tf.convert_to_tensor(value)
        return spec(key, [None] * dense.shape.rank, dense.dtype)
    if kind == "ragged":
        return {
            **spec(f"{key}_values", [None], value.dtype),
            **spec(f"{key}_row_splits", [None], tf.int64),
        }
    rank = len(value.dense_shape)
    return {
        **spec(f"{key}_values", [None], tf.as_dtype(value.values.dtype)),
        **spec(f"{key}_indices", [None, rank], tf.int64),
        **spec(f"{key}_dense_shape", [rank], tf.int64),
    }


def _rebuild_tensor(key: str, kind: str, parts: dict[str, Any]) -> Any:
    if kind == "dense":
        return parts[key]
    if kind == "ragged":
        splits = tf.cast(parts[f"{key}_row_splits"], tf.int64)
        return tf.RaggedTensor.from_row_splits(parts[f"{key}_values"], splits)
    return tf.SparseTensor(
        parts[f"{key}_indices"], parts[f"{key}_values"], parts[f"{key}_dense_shape"]
    )
