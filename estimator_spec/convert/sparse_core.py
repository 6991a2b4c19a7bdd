# SPDX-License-Identifier: Apache-2.0
"""Converts a spec to configurations and layouts for SparseCore (`TPUEmbeddingV2`).

The constructor of `TPUEmbeddingV2` needs a `TPUStrategy`, and the ops that prepare its input have
no CPU kernels; configurations, table layouts, checks and features don't need a TPU.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import tensorflow as tf

from estimator_spec.convert import report, resolved_spec
from estimator_spec.convert.features import Conversion
from estimator_spec.convert.mid_level import Optimizers, model_table_entries, table_config
from estimator_spec.convert.report import Entry, Status
from estimator_spec.convert.resolved_spec import ResolvedSpec
from estimator_spec.core._tensorflow import private
from estimator_spec.core.common.checks import check_positive_ints
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec
from tpu_columns.placement import Hardware

_INT32_ROWS = 2**31


@dataclasses.dataclass(frozen=True, kw_only=True)
class SparseCore(Conversion):
    """Conversion to configurations for a `TPUEmbeddingV2`.

    Attributes:
        feature_config: `FeatureConfig` by feature key. `output_shape` is [B], or [B, L] for a
            sequence, with the B examples of one chip.
        layouts: `SparseCoreTableLayout` message by table key; also in the
            `TableConfig`s, so that `TPUEmbeddingV2` uses these layouts.
        sparse_core_embedding_config: buffer sizes.
        pipeline_execution_with_tensor_core: as in the spec.
        step: step that learning-rate functions read, or None; see `MidLevel`.
    """

    feature_config: dict[str, Any]
    layouts: dict[str, Any]
    sparse_core_embedding_config: Any
    pipeline_execution_with_tensor_core: bool
    step: Any = None

    input_layout: ClassVar[str] = "samples"

    def embedding(self) -> Any:
        """Creates the `TPUEmbeddingV2`, within the scope of a `TPUStrategy`.

        Raises:
            RuntimeError: there is no `TPUStrategy`.
        """
        return tf.tpu.experimental.embedding.TPUEmbeddingV2(
            self.feature_config,
            None,
            self.pipeline_execution_with_tensor_core,
            self.sparse_core_embedding_config,
        )


def to_tpu_embedding_v2(
    spec: EmbeddingConfigSpec,
    *,
    batch_size: int,
    num_chips: int = 1,
    num_sparse_cores_per_chip: int = 4,
    disable_table_stacking: bool = False,
    step: Any = None,
    hardware: Hardware | None = None,
    allow_lossy: bool = False,
    **buffers: Any,
) -> SparseCore:
    """Returns configurations and layouts for SparseCore.

    Options that `TPUEmbeddingV2` silently ignores (clipping of weights and gradients, disabled
    gradient accumulation, non-lazy Adam) are refused.

    Args:
        spec: columns or dictionaries; columns for the tensor core are left out.
        batch_size: examples of a step on all chips.
        num_chips: chips of the TPU, the number of replicas of its `TPUStrategy`.
        num_sparse_cores_per_chip: 4 on TPU v5p, 2 on v6e.
        disable_table_stacking: doesn't stack tables of equal dimension and optimizer.
        step: step that `learning_rate_fn`s read; see `to_mid_level`.
        hardware: the hardware that `combiner=None` of a column refers to: mean on a CPU, sum on a
            TPU.
        allow_lossy: converts in spite of losses, and reports them.
        **buffers: more arguments of `SparseCoreEmbeddingConfig`: `max_ids_per_table`,
            `max_unique_ids_per_table` (by the name of a stacked table, see `layouts`), ….

    Returns:
        A `SparseCore`.

    Raises:
        LossyConversionError: an option has no counterpart, and `allow_lossy` is False.
        RuntimeError: this TensorFlow has no SparseCore.
        ValueError: the batch size isn't divisible, or a table has no optimizer; as
            `tables_and_features`.
    """
    api = tf.tpu.experimental.embedding
    if not hasattr(api, "TPUEmbeddingV2"):
        raise RuntimeError(
            f"TensorFlow {tf.__version__} has no TPUEmbeddingV2; a newer one has (2.21 does)."
        )
    resolved = resolved_spec.resolve(spec, hardware)
    tables = resolved.core_tables
    made = report.build_report(
        "TPUEmbeddingV2", resolved, _entries(resolved, tables), allow_lossy, "tpu_embedding_v2"
    )
    per_chip = _examples_per_chip(resolved, batch_size, num_chips, num_sparse_cores_per_chip)
    _check_optimizers(resolved, tables)
    optimizers = Optimizers("tpu_embedding_v2", resolved, step)
    by_table = {table: optimizers.for_table(table) for table in tables}
    shapes = {
        key: [per_chip, *([feature.max_sequence_length] if feature.max_sequence_length else [])]
        for key, feature in sorted(resolved.features.items())
        if feature.table_id in by_table
    }
    stacker = private.sparse_core_layout_stacker(
        num_partitions=num_chips,
        sparse_cores_per_partition=num_sparse_cores_per_chip,
        disable_table_stacking=disable_table_stacking,
    )
    layouts = _layouts(stacker, resolved, by_table, shapes)
    configs = {
        table: table_config(resolved, table, by_table[table], layout=layouts[table])
        for table in tables
    }
    return SparseCore(
        source=resolved,
        report=made,
        feature_config={
            key: api.FeatureConfig(
                table=configs[resolved.features[key].table_id], output_shape=shape, name=key
            )
            for key, shape in shapes.items()
        },
        layouts=layouts,
        sparse_core_embedding_config=api.SparseCoreEmbeddingConfig(
            disable_table_stacking=disable_table_stacking, **buffers
        ),
        pipeline_execution_with_tensor_core=bool(spec.pipeline_execution_with_tensor_core),
        step=optimizers.step,
    )


def _entries(resolved: ResolvedSpec, tables: list[str]) -> list[Entry]:
    entries = [
        *report.table_entries(resolved, tables),
        *report.layout_entries(resolved),
        *report.multiplier_entries(resolved, "multiply the gradients before apply_gradients"),
        *model_table_entries(resolved, sorted(resolved.on_tensor_core)),
    ]
    for table in tables:
        rows = resolved.tables[table].vocabulary_size
        if rows > _INT32_ROWS:
            note = "ids become int32: those from 2³¹ on would be others"
            entries.append(Entry(table, "vocabulary_size", Status.LOST, rows, note=note))
    for key, feature in sorted(resolved.features.items()):
        if feature.max_sequence_length and feature.table_id in tables:
            length, argument = feature.max_sequence_length, "max_sequence_length"
            shape, note = f"output_shape [B, {length}]", f"feature {key}"
            entries.append(Entry.changed(feature.table_id, argument, length, shape, note))
    return entries


def _examples_per_chip(resolved: ResolvedSpec, batch_size: int, num_chips: int, cores: int) -> int:
    check_positive_ints(batch_size=batch_size, num_chips=num_chips, num_sparse_cores_per_chip=cores)
    if batch_size % (num_chips * cores):
        raise ValueError(
            f"batch_size {batch_size} isn't a multiple of the {num_chips * cores} SparseCores of "
            f"{num_chips} chip(s): TPUEmbeddingV2 would leave examples out. Take a batch size that "
            "is one."
        )
    return batch_size // num_chips


def _check_optimizers(resolved: ResolvedSpec, tables: list[str]) -> None:
    missing = [table for table in tables if resolved.parameters(table) is None]
    if missing:
        raise ValueError(
            f"Tables {missing} have no optimizer, and TPUEmbeddingV2 needs one. Give the spec "
            "optimization_parameters."
        )


def _layouts(
    stacker: Any, resolved: ResolvedSpec, optimizers: dict[str, Any], shapes: dict[str, list[int]]
) -> dict[str, Any]:
    """Returns the layout of each table. Tables of equal optimizer and dimension may be stacked."""
    groups = {id(optimizer): number for number, optimizer in enumerate(optimizers.values())}
    for table in sorted(optimizers):
        features = [key for key in resolved.features_of(table) if key in shapes]
        private.add_table(
            stacker,
            table_name=table,
            table_height=resolved.tables[table].vocabulary_size,
            table_width=resolved.tables[table].dimension,
            group=f"optimizer_{groups[id(optimizers[table])]}",
            output_samples=sum(math.prod(shapes[key]) for key in features),
            num_features=len(features),
        )
    return {layout.table_name: layout for layout in stacker.GetLayouts().tables}
