# SPDX-License-Identifier: Apache-2.0
"""Trained tables for servers: `TPUEmbeddingForServing`, and a SavedModel of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import tensorflow as tf

from estimator_spec.convert import report, spec_source
from estimator_spec.convert.attached_report import Conversion, attach
from estimator_spec.convert.features import features_for
from estimator_spec.convert.mid_level import feature_config, table_config
from estimator_spec.convert.trained_tables import TrainedTables
from estimator_spec.embedding.spec import EmbeddingConfigSpec
from tpu_columns import Hardware


@dataclasses.dataclass(frozen=True, kw_only=True)
class Serving(Conversion):
    """Configurations for lookups alone: no optimizers.

    Attributes:
        feature_config: `FeatureConfig` by feature key, those of the tensor core's tables included.
    """

    feature_config: dict[str, Any]

    form: ClassVar[str] = "sparse"
    drops_negative_weights: ClassVar[bool] = True

    def takes(self, feature: str) -> bool:
        """All features are served."""
        return True


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
        spec: columns or dictionaries, as the checkpoint was trained with.
        checkpoint: what `TPUEstimator` wrote, on a CPU or TPU, in any number of shards, div or mod
            (the spec says which): its prefix, or a directory, whose latest checkpoint is meant.
        num_shards: shards of each table, where the checkpoint has no record of them and
            partition_strategy='mod'; None: as many as a table is stored in.
        variable_names: full names of tables' variables by table key, where a checkpoint has
            several candidates.
        hardware: whose meaning a column's combiner of None has: mean on a CPU, sum on a TPU.
        allow_lossy: convert, and only report what is lost.

    Returns:
        The object, built, with a `Serving` as its attribute `conversion`.

    Raises:
        LossyConversionError: a combiner isn't clear, and `allow_lossy` is False.
        CheckpointError: the checkpoint is missing or damaged, or lacks a table.
        ValueError, TypeError: as `tables_and_features`.
    """
    read = spec_source.read(spec, hardware)
    made = report.make(
        "TPUEmbeddingForServing", read, report.of_tables(read, sorted(read.tables)), allow_lossy
    )
    trained = TrainedTables(read, checkpoint, num_shards, variable_names)
    configs = {table: table_config(read, table, None) for table in sorted(read.tables)}
    features = {
        key: feature_config(read, key, configs[feature.table_id], None)
        for key, feature in sorted(read.features.items())
    }
    embedding = tf.tpu.experimental.embedding.TPUEmbeddingForServing(features, None)
    with tf.init_scope():
        embedding.build()
    for name, config in configs.items():
        trained.assign_to(embedding.embedding_tables[config], name)
    return attach(embedding, Serving(source=read, report=made, feature_config=features))


def save_serving(embedding: Any, export_dir: str, batch: Mapping[str, Any]) -> None:
    """Writes a SavedModel that takes a legacy features dict and returns activations.

    The signature `serving_default` takes the tensors of `batch` by key (a sparse or ragged one as
    its parts, `<key>_values`, `<key>_indices`, `<key>_dense_shape`, or `<key>_row_splits`), with
    any number of rows, and returns float32 `[B, D]` (`[B, L, D]` of a sequence) by key, and
    lengths under `<key>_seq_length_`. It needs nothing of this project to be served.

    Args:
        embedding: what `to_serving` returned.
        export_dir: a directory that doesn't exist, or is empty.
        batch: an example of a batch, for the kinds and types of its tensors.
    """
    kinds = {key: _kind(value) for key, value in batch.items()}
    module = tf.Module()
    module.embedding = embedding

    @tf.function(autograph=False)
    def serve(**parts: Any) -> dict[str, Any]:
        return look_up(embedding, {key: _together(key, kinds[key], parts) for key in kinds})

    signature: dict[str, Any] = {}
    for key, value in batch.items():
        signature.update(_specs(key, kinds[key], value))
    concrete = serve.get_concrete_function(**signature)
    # What strings go through is to be saved as well; tracing has made it.
    module.vocabularies = embedding.conversion.source.vocabularies.resources()
    tf.saved_model.save(module, export_dir, signatures={"serving_default": concrete})


@tf.autograph.experimental.do_not_convert
def look_up(embedding: Any, batch: Mapping[str, Any]) -> dict[str, Any]:
    """Looks a legacy features dict up, as the legacy columns did on a CPU.

    Args:
        embedding: what `to_serving` or `to_tpu_embedding` returned.
        batch: tensors by key.

    Returns:
        float32 [B, D] by feature key ([B, L, D] of a sequence, and its lengths under
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


def _kind(value: Any) -> str:
    if isinstance(value, (tf.SparseTensor, tf.compat.v1.SparseTensorValue)):
        return "sparse"
    return "ragged" if isinstance(value, tf.RaggedTensor) else "dense"


def _specs(key: str, kind: str, value: Any) -> dict[str, Any]:
    """The parts of one tensor of a batch, by name, of any number of rows."""

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


def _together(key: str, kind: str, parts: dict[str, Any]) -> Any:
    if kind == "dense":
        return parts[key]
    if kind == "ragged":
        splits = tf.cast(parts[f"{key}_row_splits"], tf.int64)
        return tf.RaggedTensor.from_row_splits(parts[f"{key}_values"], splits)
    return tf.SparseTensor(
        parts[f"{key}_indices"], parts[f"{key}_values"], parts[f"{key}_dense_shape"]
    )
