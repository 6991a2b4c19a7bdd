# SPDX-License-Identifier: Apache-2.0
"""Plans one `keras_rs.layers.DistributedEmbedding` for the tables of TPU embedding columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from estimator_spec.convert import keras_optimizers, resolved_spec
from estimator_spec.convert.keras_columns import lookups
from estimator_spec.convert.keras_columns.expressions import DictItem, Name, call
from estimator_spec.convert.keras_columns.plan import ModelPlan
from estimator_spec.convert.keras_rs import DEFAULT_DEVICE, placement
from estimator_spec.convert.resolved_spec import ResolvedSpec
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec
from tpu_columns.column_types import TPUEmbeddingColumn

# Arguments of `to_keras(embeddings=…)` and of `to-keras --embeddings`.
LAYERS, DISTRIBUTED = EMBEDDINGS = ("layers", "distributed")


def columns_of(spec: EmbeddingConfigSpec) -> list[Any]:
    """Returns the columns of a spec, on either core.

    Raises:
        ValueError: the spec has dictionaries.
    """
    if spec.feature_columns is None:
        raise ValueError(
            "An EmbeddingConfigSpec with feature_to_config_dict has no columns, which say how "
            "features are read. Use convert.to_distributed_embedding(spec) and features_for."
        )
    return [*spec.feature_columns, *(spec.tensor_core_feature_columns or ())]


def add_embeddings(
    plan: ModelPlan, columns: Iterable[Any], spec: EmbeddingConfigSpec | None = None
) -> None:
    """Adds one layer with the tables of all TPU embedding columns; `dense` takes its results.

    Args:
        plan: a plan without layers. Its `scope` is the columns' variable scope.
        columns: columns, of which those of `tpu_columns` are in the layer.
        spec: the spec with the tables' optimizers, or None.

    Raises:
        ValueError: there is no such column.
    """
    found = sorted(
        (column for column in columns if isinstance(column, TPUEmbeddingColumn)),
        key=lambda column: column.name,
    )
    if not found:
        raise ValueError(
            f"embeddings={DISTRIBUTED!r} is for embedding columns of tpu_columns, but there are "
            "none. Leave it out, or make the columns with tpu_columns.embedding_column."
        )
    resolved = None if spec is None else resolved_spec.resolve(spec)
    whole = "distributed_embedding"
    features: dict[str, Any] = {}
    ids: dict[str, Name] = {}
    weights: dict[str, Name] = {}
    for column in found:
        table = lookups.tpu_table(column)
        name = lookups.table_layer(table, plan)
        source = lookups.column_ids(column, plan)
        combiner = table.combiner or "mean"
        ids[column.name], weights[column.name] = lookups.add_ids(source, plan)
        sharing = [other for other in found if lookups.tpu_table(other).name == table.name]
        options = {"combiner": combiner, **_device(plan, resolved, name, sharing)}
        options["initializer"] = call("keras.initializers.get", Name("initializer"))
        sizes = {"vocabulary_size": source.size, "embedding_dim": int(table.dimension)}
        config = call("keras_rs.layers.TableConfig", name=name, **sizes, **options)
        made = plan.layer(f"{name}_table", config)
        lookups.add_table(plan, table, name, source.size, whole)
        axes = (None, source.steps) if source.is_sequence else (None,)
        features[column.name] = call(
            "keras_rs.layers.FeatureConfig",
            name=column.name,
            table=made,
            input_shape=(*axes, None),
            output_shape=(*axes, int(table.dimension)),
        )
    layer = call("keras_rs.layers.DistributedEmbedding", features, name=whole)
    made = plan.layer("embedding_layer", layer)
    rows = plan.layer("embeddings", made, ids, weights)
    plan.lookups.update({(plan.scope, key): DictItem(rows, key) for key in features})


def _device(
    plan: ModelPlan, resolved: ResolvedSpec | None, name: str, columns: list[Any]
) -> dict[str, Any]:
    """Returns the arguments of a table's device and of its optimizer, which SparseCore uses."""
    if resolved is None:
        plan.differ(
            "tables of columns",
            "optimizer",
            "on SparseCore tables train by Adam, keras_rs' default: without an EmbeddingConfigSpec "
            "there is no other; elsewhere by the model's optimizer",
        )
        return {"placement": placement(False, columns)}
    table = resolved.features[columns[0].get_feature_key_name()].table_id
    where = placement(table in resolved.on_tensor_core, columns)
    parameters = resolved.parameters(table)
    if where == DEFAULT_DEVICE or parameters is None:
        return {"placement": where}
    known = keras_optimizers.sparse_core_arguments(parameters, "tensorflow")
    if known is None:
        kind = type(parameters).__name__
        plan.differ(
            name,
            "optimizer",
            f"SparseCore has none equal to this {kind}, so the table is on the default device",
        )
        return {"placement": DEFAULT_DEVICE}
    keras_name, arguments = known
    if keras_optimizers.corrects_bias(parameters, "jax"):
        plan.differ(
            name,
            "optimizer",
            "on SparseCore Adam is the specification's with Keras' TensorFlow backend only: with "
            "JAX it corrects the bias, which scales "
            "step t by √(1 - beta_2ᵗ) / (1 - beta_1ᵗ), and adds epsilon to √v",
        )
    rate = resolved.learning_rate(table)
    if callable(rate):
        plan.differ(
            name, "learning_rate", "a function of the step: on SparseCore here what it is at step 0"
        )
        rate = rate(0)
    arguments["learning_rate"] = float(rate)
    return {
        "placement": where,
        "optimizer": call(f"keras.optimizers.{keras_name}", **arguments),
    }
