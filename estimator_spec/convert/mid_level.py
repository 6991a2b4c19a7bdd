# SPDX-License-Identifier: Apache-2.0
"""Converts a spec to TensorFlow 2's mid-level API, `tf.tpu.experimental.embedding`.

Without a TPU a `TPUEmbedding` can be built, checkpointed, restored and looked up
(`tf.tpu.experimental.embedding.serving_embedding_lookup`); `enqueue`, `dequeue` and
`apply_gradients` need a `TPUStrategy`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import tensorflow as tf

from estimator_spec.convert import report, resolved_spec, target_support
from estimator_spec.convert.features import Conversion, attach
from estimator_spec.convert.report import Entry, Status
from estimator_spec.convert.resolved_spec import ResolvedSpec
from estimator_spec.convert.trained_tables import TrainedTables
from estimator_spec.core._tensorflow import tpu_embedding
from estimator_spec.core.common.checks import check_positive_ints
from estimator_spec.core.embedding import optimizers as ours
from estimator_spec.core.embedding.mid_level_slots import mid_level_slot_names
from estimator_spec.core.embedding.optimizers import OptimizationParameters
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec
from tpu_columns.placement import Hardware


@dataclasses.dataclass(frozen=True, kw_only=True)
class MidLevel(Conversion):
    """Conversion to configurations of the mid-level API.

    Attributes:
        feature_config: `FeatureConfig` by feature key; features of a table share its
            `TableConfig`, whose name is the table key; tables with equal optimizers share one.
        pipeline_execution_with_tensor_core: as in the spec.
        step: step that learning-rate functions read: a variable of ours or the caller's argument;
            None without such functions. The training loop increments it.
    """

    feature_config: dict[str, Any]
    pipeline_execution_with_tensor_core: bool
    step: Any = None

    input_layout: ClassVar[str] = "sparse"
    drops_negative_weights: ClassVar[bool] = True

    @property
    def tables(self) -> dict[str, Any]:
        """Returns `TableConfig` by table key."""
        return {feature.table.name: feature.table for feature in self.feature_config.values()}


def to_mid_level(
    spec: EmbeddingConfigSpec,
    *,
    batch_size: int | None = None,
    step: Any = None,
    hardware: Hardware | None = None,
    allow_lossy: bool = False,
) -> MidLevel:
    """Returns `FeatureConfig`s and `TableConfig`s, with an optimizer for each table.

    Columns for the tensor core are left out: the model looks them up.

    Args:
        spec: columns or dictionaries.
        batch_size: examples of a step on one replica. Needed on a TPU for sequences with weights.
        step: step that `learning_rate_fn`s read: a variable, or a function without arguments,
            such as `lambda: optimizer.iterations`. None: a new variable that the training loop
            increments.
        hardware: the hardware that `combiner=None` of a column refers to: mean on a CPU, sum on a
            TPU.
        allow_lossy: converts in spite of losses, and reports them.

    Returns:
        A `MidLevel`.

    Raises:
        LossyConversionError: an option has no counterpart, and `allow_lossy` is False.
        ValueError, TypeError: as `tables_and_features`.
    """
    resolved = resolved_spec.resolve(spec, hardware)
    tables = resolved.core_tables
    return build_configurations(
        "tf.tpu.experimental.embedding", resolved, tables, [], batch_size, step, allow_lossy
    )


def build_configurations(
    target: str,
    resolved: ResolvedSpec,
    tables: list[str],
    plain: list[str],
    batch_size: int | None,
    step: Any,
    allow_lossy: bool,
    more: Sequence[Entry] = (),
) -> MidLevel:
    """Builds the configurations of some or all tables of a spec; see `to_mid_level`.

    `tables` are those of the embedding core; `plain` ones are variables of the model and get no
    optimizer. The entries `more` replace those of the same table and argument.
    """
    check_positive_ints(optional=True, batch_size=batch_size)
    entries = [
        *report.table_entries(resolved, sorted({*tables, *plain})),
        *report.layout_entries(resolved),
    ]
    replaced = {(entry.table, entry.argument) for entry in more}
    entries = [entry for entry in entries if (entry.table, entry.argument) not in replaced]
    if tables:
        entries += report.multiplier_entries(
            resolved, "multiply the gradients before apply_gradients"
        )
    entries += [
        *model_table_entries(resolved, sorted((resolved.on_tensor_core - {*tables}) | {*plain})),
        *more,
    ]
    made = report.build_report(target, resolved, entries, allow_lossy, "tpu_embedding", tables)
    optimizers = Optimizers("tpu_embedding", resolved, step)
    configs = {
        table: table_config(resolved, table, optimizers.for_table(table)) for table in tables
    }
    configs.update((table, table_config(resolved, table, None)) for table in plain)
    return MidLevel(
        source=resolved,
        report=made,
        feature_config={
            key: feature_config(resolved, key, configs[feature.table_id], batch_size)
            for key, feature in sorted(resolved.features.items())
            if feature.table_id in configs
        },
        pipeline_execution_with_tensor_core=bool(resolved.spec.pipeline_execution_with_tensor_core),
        step=optimizers.step,
    )


def to_tpu_embedding(
    spec: EmbeddingConfigSpec,
    checkpoint: Any = None,
    *,
    batch_size: int | None = None,
    step: Any = None,
    num_shards: int | None = None,
    variable_names: Mapping[str, str] | None = None,
    hardware: Hardware | None = None,
    allow_lossy: bool = False,
) -> Any:
    """Returns a `tf.tpu.experimental.embedding.TPUEmbedding` for a spec.

    Within the scope of a `TPUStrategy` the object is for a TPU: build it there, restore a
    checkpoint into it, train. Otherwise it is built here, with the tables and slot variables of a
    legacy checkpoint if one is given; `tf.train.Checkpoint(embedding=…)` transfers them to a TPU.
    Slot variables that the checkpoint lacks have initial values; the report names them.

    Args:
        spec: columns or dictionaries.
        checkpoint: a legacy checkpoint, or its directory; None: initial values.
        batch_size: as in `to_mid_level`.
        step: as in `to_mid_level`; a new variable starts at the checkpoint's step.
        num_shards: as in `to_serving`.
        variable_names: as in `to_serving`.
        hardware: as in `to_mid_level`.
        allow_lossy: as in `to_mid_level`.

    Returns:
        The object, with a `MidLevel` as its attribute `conversion`.

    Raises:
        LossyConversionError: an option has no counterpart, and `allow_lossy` is False.
        CheckpointError: the checkpoint is missing or damaged, or lacks a table.
        ValueError, TypeError: as `to_mid_level`; or there are a checkpoint and a `TPUStrategy`.
    """
    on_tpu = isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy)
    if on_tpu and checkpoint is not None:
        raise ValueError(
            "A legacy checkpoint is loaded outside of the TPUStrategy: convert it there, save "
            "it with tf.train.Checkpoint(embedding=embedding), and restore that within."
        )
    resolved = resolved_spec.resolve(spec, hardware)
    tables = resolved.core_tables
    trained, more = None, []
    if checkpoint is not None:
        trained = TrainedTables(resolved, checkpoint, num_shards, variable_names)
        more = trained.slot_entries(
            table for table in tables if mid_level_slot_names(resolved.parameters(table))
        )
    converted = build_configurations(
        "tf.tpu.experimental.embedding", resolved, tables, [], batch_size, step, allow_lossy, more
    )
    embedding = tf.tpu.experimental.embedding.TPUEmbedding(
        converted.feature_config,
        None,
        converted.pipeline_execution_with_tensor_core,
    )
    if on_tpu:
        return attach(embedding, converted)
    embedding.build()
    if trained is not None:
        _load(embedding, converted, trained)
        if step is None and converted.step is not None:
            converted.step.assign(trained.global_step)
    return attach(embedding, converted)


def _load(embedding: Any, converted: MidLevel, trained: TrainedTables) -> None:
    """Assigns a legacy checkpoint's tables and slot variables to a built object."""
    for name, config in converted.tables.items():
        trained.assign_to(embedding.embedding_tables[config], name)
        parameters = converted.source.parameters(name)
        targets = mid_level_slot_names(parameters)
        if parameters is None or not targets:
            continue
        variables = tpu_embedding.variables(embedding)[name]
        for slot, value in trained.slots(name, parameters).items():
            if slot in targets:
                variables[targets[slot]].assign(value)


class Optimizers:
    """Mid-level optimizers of a spec; tables with equal parameters and rate share one.

    Args:
        target: 'tpu_embedding' or 'tpu_embedding_v2'.
        resolved: the resolved spec.
        step: step that learning-rate functions read; None: a new variable.

    Attributes:
        step: the step, None as long as no function reads it.
    """

    def __init__(self, target: str, resolved: ResolvedSpec, step: Any) -> None:
        self.step: Any = None
        self._target = target
        self._read = resolved
        self._given_step = step
        self._made: dict[Any, Any] = {}
        self._rates: dict[Any, Callable[[], Any]] = {}

    def for_table(self, table: str) -> Any:
        """Returns the optimizer of a table, None if neither it nor the spec has one."""
        parameters = self._read.parameters(table)
        if parameters is None:
            return None
        rate = self._read.required_learning_rate(table)
        key = (parameters, rate)
        if key not in self._made:
            self._made[key] = self._make(parameters, rate)
        return self._made[key]

    def _make(self, parameters: OptimizationParameters, rate: Any) -> Any:
        support = target_support.find_support(self._target, parameters)
        arguments = {**support.fixed, **target_support.target_arguments(parameters, support)}
        limits = (parameters.clip_gradient_min, parameters.clip_gradient_max)
        if limits != (None, None) and support.arguments["clip_gradient_min"].target_argument:
            arguments["clipvalue"] = limits
        if isinstance(parameters, ours.RMSPropParameters):
            arguments["epsilon"] = math.sqrt(arguments["epsilon"])
        arguments["learning_rate"] = self._rate(parameters, rate)
        return fix_packing_status(getattr(tf.tpu.experimental.embedding, support.name)(**arguments))

    def _rate(self, parameters: OptimizationParameters, rate: Any) -> Any:
        if isinstance(parameters, ours.FrequencyEstimatorParameters):
            return 0.0  # see target_support
        if not callable(rate):
            return float(rate)
        if self.step is None:
            self.step = self._given_step
            if self.step is None:
                self.step = tf.Variable(0, trainable=False, dtype=tf.int64, name="embedding_step")
        if rate not in self._rates:
            # One function object for each rate, so that tables with the same rate share a tag.
            self._rates[rate] = lambda: tf.cast(rate(self._read_step()), tf.float32)
        return self._rates[rate]

    def _read_step(self) -> Any:
        return tf.convert_to_tensor(self.step() if callable(self.step) else self.step)


def fix_packing_status(optimizer: Any) -> Any:
    """Works around an optimizer that can't be serialized to its message.

    protobuf 7.34 and newer accept no bool for an enum, and TensorFlow 2.21 has one there.
    """
    if hasattr(optimizer, "low_dimensional_packing_status"):
        optimizer.low_dimensional_packing_status = int(optimizer.low_dimensional_packing_status)
    return optimizer


def table_config(resolved: ResolvedSpec, table: str, optimizer: Any, **more: Any) -> Any:
    """Returns a table's mid-level `TableConfig`; `more` are more of its arguments."""
    config = resolved.tables[table]
    return tf.tpu.experimental.embedding.TableConfig(
        vocabulary_size=config.vocabulary_size,
        dim=config.dimension,
        initializer=config.initializer,
        optimizer=optimizer,
        combiner=resolved.combiner(table),
        name=table,
        **more,
    )


def model_table_entries(resolved: ResolvedSpec, tables: list[str]) -> list[Entry]:
    """Returns the entries about tables that are variables of the model."""
    entries = []
    for table in tables:
        was = "the tensor core's" if table in resolved.on_tensor_core else "the embedding core's"
        note = "a variable of the model, trained by the model's optimizer"
        entries.append(Entry(table, "table", Status.CHANGED, None, was, "the model's", note))
    return entries


def feature_config(resolved: ResolvedSpec, key: str, table: Any, batch_size: int | None) -> Any:
    """Returns the mid-level `FeatureConfig` of a feature; see `to_mid_level`."""
    feature = resolved.features[key]
    length: int = feature.max_sequence_length
    output_shape = None
    if length and feature.weight_key is not None:
        # The API refuses weights for sequences; a two-dimensional output shape is equivalent.
        length, output_shape = 0, [batch_size, length]
    column = resolved.columns.get(key)
    safe = column is None or column.use_safe_embedding_lookup
    return tf.tpu.experimental.embedding.FeatureConfig(
        table=table,
        max_sequence_length=length,
        validate_weights_and_indices=safe,
        output_shape=output_shape,
        name=key,
    )
