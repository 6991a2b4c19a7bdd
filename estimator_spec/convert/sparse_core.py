# SPDX-License-Identifier: Apache-2.0
"""SparseCore: configurations and layouts for `tf.tpu.experimental.embedding.TPUEmbeddingV2`.

Its constructor needs a `TPUStrategy`, and the ops that prepare its input have no CPU kernels. What
can be done before is done here: configurations, layouts of the tables, checks, features.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import tensorflow as tf

from estimator_spec._tensorflow import private
from estimator_spec.convert import report, spec_source
from estimator_spec.convert.attached_report import Conversion
from estimator_spec.convert.mid_level import Optimizers, of_plain, table_config
from estimator_spec.convert.report import Entry, Status
from estimator_spec.convert.spec_source import Source
from estimator_spec.embedding.spec import EmbeddingConfigSpec
from estimator_spec.validation.checks import check_positive_ints
from tpu_columns import Hardware

_INT32_ROWS = 2**31


@dataclasses.dataclass(frozen=True, kw_only=True)
class SparseCore(Conversion):
    """Configurations for a `TPUEmbeddingV2`.

    Attributes:
        feature_config: `FeatureConfig` by feature key. `output_shape` is [B], or [B, L] of a
            sequence, for the B examples of one chip.
        layouts: where each table lies, a `SparseCoreTableLayout` message by table key; also in the
            `TableConfig`s, so that `TPUEmbeddingV2` takes them as they are.
        sparse_core_embedding_config: sizes of buffers.
        pipeline_execution_with_tensor_core: as in the spec.
        step: what learning-rate functions read, or None; see `MidLevel`.
    """

    feature_config: dict[str, Any]
    layouts: dict[str, Any]
    sparse_core_embedding_config: Any
    pipeline_execution_with_tensor_core: bool
    step: Any = None

    form: ClassVar[str] = "samples"

    def embedding(self) -> Any:
        """Makes the `TPUEmbeddingV2`; call it within the scope of a `TPUStrategy`.

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

    What `TPUEmbeddingV2` would ignore without a word (limits of weights and gradients, gradient
    accumulation off, Adam that isn't lazy) is refused here.

    Args:
        spec: columns or dictionaries; columns for the tensor core stay the model's.
        batch_size: examples of a step on all chips together.
        num_chips: of the TPU; the number of replicas of its `TPUStrategy`.
        num_sparse_cores_per_chip: 4 on TPU v5p, 2 on v6e.
        disable_table_stacking: leave tables of one width and optimizer apart.
        step: what `learning_rate_fn`s read; see `to_mid_level`.
        hardware: whose meaning a column's combiner of None has: mean on a CPU, sum on a TPU.
        allow_lossy: convert, and only report what is lost.
        **buffers: further arguments of `SparseCoreEmbeddingConfig`: `max_ids_per_table`,
            `max_unique_ids_per_table` (by the name of a stacked table, see `layouts`), ….

    Returns:
        A `SparseCore`.

    Raises:
        LossyConversionError: something has no counterpart, and `allow_lossy` is False.
        RuntimeError: this TensorFlow has no SparseCore.
        ValueError: a batch that can't be shared out, or a table without an optimizer; as
            `tables_and_features`.
    """
    api = tf.tpu.experimental.embedding
    if not hasattr(api, "TPUEmbeddingV2"):
        raise RuntimeError(
            f"TensorFlow {tf.__version__} has no TPUEmbeddingV2; a newer one has (2.21 does)."
        )
    read = spec_source.read(spec, hardware)
    tables = sorted(set(read.tables) - read.on_tensor_core)
    made = report.make(
        "TPUEmbeddingV2", read, _entries(read, tables), allow_lossy, "tpu_embedding_v2"
    )
    per_chip = _examples_per_chip(read, batch_size, num_chips, num_sparse_cores_per_chip)
    _check_optimizers(read, tables)
    has_rates = any(callable(read.learning_rate(table)) for table in tables)
    if step is None and has_rates:
        step = tf.Variable(0, trainable=False, dtype=tf.int64, name="embedding_step")
    optimizers = Optimizers("tpu_embedding_v2", read, step)
    by_table = {table: optimizers.of(table) for table in tables}
    shapes = {
        key: [per_chip, *([feature.max_sequence_length] if feature.max_sequence_length else [])]
        for key, feature in sorted(read.features.items())
        if feature.table_id in by_table
    }
    stacker = private.sparse_core_layout_stacker(
        num_partitions=num_chips,
        sparse_cores_per_partition=num_sparse_cores_per_chip,
        disable_table_stacking=disable_table_stacking,
    )
    layouts = _layouts(stacker, read, by_table, shapes)
    configs = {
        table: table_config(read, table, by_table[table], layout=layouts[table]) for table in tables
    }
    return SparseCore(
        source=read,
        report=made,
        feature_config={
            key: api.FeatureConfig(
                table=configs[read.features[key].table_id], output_shape=shape, name=key
            )
            for key, shape in shapes.items()
        },
        layouts=layouts,
        sparse_core_embedding_config=api.SparseCoreEmbeddingConfig(
            disable_table_stacking=disable_table_stacking, **buffers
        ),
        pipeline_execution_with_tensor_core=bool(spec.pipeline_execution_with_tensor_core),
        step=step if has_rates else None,
    )


def _entries(read: Source, tables: list[str]) -> list[Entry]:
    entries = [
        *report.of_tables(read, tables),
        *report.of_layout(read),
        *report.of_multiplier(read, "multiply the gradients before apply_gradients"),
        *of_plain(read, sorted(read.on_tensor_core)),
    ]
    for table in tables:
        rows = read.tables[table].vocabulary_size
        if rows > _INT32_ROWS:
            note = "ids become int32: those from 2³¹ on would be others"
            entries.append(Entry(table, "vocabulary_size", Status.LOST, rows, note=note))
    for key, feature in sorted(read.features.items()):
        if feature.max_sequence_length and feature.table_id in tables:
            length, note = feature.max_sequence_length, f"feature {key}"
            entries.append(
                Entry(
                    feature.table_id,
                    "max_sequence_length",
                    Status.CHANGED,
                    length,
                    length,
                    f"output_shape [B, {length}]",
                    note,
                )
            )
    return entries


def _examples_per_chip(read: Source, batch_size: int, num_chips: int, cores: int) -> int:
    check_positive_ints(batch_size=batch_size, num_chips=num_chips, num_sparse_cores_per_chip=cores)
    if batch_size % (num_chips * cores):
        raise ValueError(
            f"batch_size {batch_size} isn't a multiple of the {num_chips * cores} SparseCores of "
            f"{num_chips} chip(s): TPUEmbeddingV2 would leave examples out. Take a batch size that "
            "is one."
        )
    return batch_size // num_chips


def _check_optimizers(read: Source, tables: list[str]) -> None:
    missing = [table for table in tables if read.parameters(table) is None]
    if missing:
        raise ValueError(
            f"Tables {missing} have no optimizer, and TPUEmbeddingV2 needs one. Give the spec "
            "optimization_parameters."
        )


def _layouts(
    stacker: Any, read: Source, optimizers: dict[str, Any], shapes: dict[str, list[int]]
) -> dict[str, Any]:
    """Where each table lies. Tables of one optimizer and width may be stacked."""
    groups = {id(optimizer): number for number, optimizer in enumerate(optimizers.values())}
    for table in sorted(optimizers):
        users = [key for key in read.users(table) if key in shapes]
        stacker.AddTable(
            table_name=table,
            table_height=read.tables[table].vocabulary_size,
            table_width=read.tables[table].dimension,
            group=f"optimizer_{groups[id(optimizers[table])]}",
            output_samples=sum(math.prod(shapes[key]) for key in users),
            num_features=len(users),
        )
    return {layout.table_name: layout for layout in stacker.GetLayouts().tables}
