# SPDX-License-Identifier: Apache-2.0
"""TensorFlow 2's own embedding API: `tf.tpu.experimental.embedding`.

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

from estimator_spec._tensorflow import tpu_embedding
from estimator_spec.convert import report, spec_source, target_support
from estimator_spec.convert.attached_report import Conversion, attach
from estimator_spec.convert.report import Entry, Status
from estimator_spec.convert.spec_source import Source
from estimator_spec.convert.trained_tables import TrainedTables
from estimator_spec.embedding import optimizers as ours
from estimator_spec.embedding.mid_level_slots import mid_level_slot_names
from estimator_spec.embedding.optimizers import OptimizationParameters
from estimator_spec.embedding.spec import EmbeddingConfigSpec
from estimator_spec.validation.checks import check_positive_ints
from tpu_columns import Hardware


@dataclasses.dataclass(frozen=True, kw_only=True)
class MidLevel(Conversion):
    """Configurations of the mid-level API.

    Attributes:
        feature_config: `FeatureConfig` by feature key; features of one table share its
            `TableConfig`, whose name is the table key, and tables of equal optimizers share one.
        pipeline_execution_with_tensor_core: as in the spec.
        step: what learning-rate functions read: a variable of ours, or what the caller gave; None
            if there is none. Whoever trains counts it up.
    """

    feature_config: dict[str, Any]
    pipeline_execution_with_tensor_core: bool
    step: Any = None

    form: ClassVar[str] = "sparse"
    drops_negative_weights: ClassVar[bool] = True

    @property
    def tables(self) -> dict[str, Any]:
        """`TableConfig` by table key."""
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

    Columns for the tensor core aren't among them: they are the model's, as they always were.

    Args:
        spec: columns or dictionaries.
        batch_size: examples of a step on one replica. Needed on a TPU for sequences with weights;
            others are shaped by their input.
        step: what `learning_rate_fn`s read: a variable, or a function without arguments, such as
            `lambda: optimizer.iterations`. None: a new variable, which the training loop counts.
        hardware: whose meaning a column's combiner of None has: mean on a CPU, sum on a TPU.
        allow_lossy: convert, and only report what is lost.

    Returns:
        A `MidLevel`.

    Raises:
        LossyConversionError: something has no counterpart, and `allow_lossy` is False.
        ValueError, TypeError: as `tables_and_features`.
    """
    read = spec_source.read(spec, hardware)
    tables = sorted(set(read.tables) - read.on_tensor_core)
    return configurations(
        "tf.tpu.experimental.embedding", read, tables, [], batch_size, step, allow_lossy
    )


def configurations(
    target: str,
    read: Source,
    tables: list[str],
    plain: list[str],
    batch_size: int | None,
    step: Any,
    allow_lossy: bool,
    more: Sequence[Entry] = (),
) -> MidLevel:
    """The configurations of a spec's tables, or some of them.

    Args:
        target: for whom, in a person's words.
        read: the spec.
        tables: tables of the embedding core.
        plain: further tables, which are the model's: they get no optimizer.
        batch_size: as in `to_mid_level`.
        step: as in `to_mid_level`.
        allow_lossy: as in `to_mid_level`.
        more: further lines of the report.
    """
    check_positive_ints(optional=True, batch_size=batch_size)
    entries = [*report.of_tables(read, sorted({*tables, *plain})), *report.of_layout(read)]
    if tables:
        entries += report.of_multiplier(read, "multiply the gradients before apply_gradients")
    entries += [*of_plain(read, sorted((read.on_tensor_core - {*tables}) | {*plain})), *more]
    made = report.make(target, read, entries, allow_lossy, "tpu_embedding", tables)
    has_rates = any(callable(read.learning_rate(table)) for table in tables)
    if step is None and has_rates:
        step = tf.Variable(0, trainable=False, dtype=tf.int64, name="embedding_step")
    optimizers = Optimizers("tpu_embedding", read, step)
    configs = {table: table_config(read, table, optimizers.of(table)) for table in tables}
    configs.update((table, table_config(read, table, None)) for table in plain)
    return MidLevel(
        source=read,
        report=made,
        feature_config={
            key: feature_config(read, key, configs[feature.table_id], batch_size)
            for key, feature in sorted(read.features.items())
            if feature.table_id in configs
        },
        pipeline_execution_with_tensor_core=bool(read.spec.pipeline_execution_with_tensor_core),
        step=step if has_rates else None,
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

    Within the scope of a `TPUStrategy` it is one for a TPU: build it there, restore a checkpoint
    into it, train. Elsewhere it is built at once, and holds the tables and slots of a legacy
    checkpoint if one is given; `tf.train.Checkpoint(embedding=…)` carries them to a TPU. Slots that
    the checkpoint hasn't begin anew; the report says which.

    Args:
        spec: columns or dictionaries.
        checkpoint: a legacy checkpoint, or its directory; None: initial values.
        batch_size: as in `to_mid_level`.
        step: as in `to_mid_level`; a new variable begins at the checkpoint's step.
        num_shards: as in `to_serving`.
        variable_names: as in `to_serving`.
        hardware: as in `to_mid_level`.
        allow_lossy: as in `to_mid_level`.

    Returns:
        The object, with a `MidLevel` as its attribute `conversion`.

    Raises:
        LossyConversionError: something has no counterpart, and `allow_lossy` is False.
        CheckpointError: the checkpoint is missing or damaged, or lacks a table.
        ValueError, TypeError: as `to_mid_level`; or a checkpoint together with a `TPUStrategy`.
    """
    on_tpu = isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy)
    if on_tpu and checkpoint is not None:
        raise ValueError(
            "A legacy checkpoint is loaded outside of the TPUStrategy: convert it there, save "
            "it with tf.train.Checkpoint(embedding=embedding), and restore that within."
        )
    read = spec_source.read(spec, hardware)
    tables = sorted(set(read.tables) - read.on_tensor_core)
    trained, more = None, []
    if checkpoint is not None:
        trained = TrainedTables(read, checkpoint, num_shards, variable_names)
        more = trained.slot_entries(table for table in tables if _slots_of(read, table))
    converted = configurations(
        "tf.tpu.experimental.embedding", read, tables, [], batch_size, step, allow_lossy, more
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


def _slots_of(read: Source, table: str) -> dict[str, str]:
    parameters = read.parameters(table)
    return {} if parameters is None else mid_level_slot_names(parameters)


def _load(embedding: Any, converted: MidLevel, trained: TrainedTables) -> None:
    """Puts a legacy checkpoint's tables, and those slots that it has, into a built object."""
    for name, config in converted.tables.items():
        trained.assign_to(embedding.embedding_tables[config], name)
        parameters, targets = converted.source.parameters(name), _slots_of(converted.source, name)
        if parameters is None or not targets:
            continue
        variables = tpu_embedding.slot_variables(embedding, name)
        for slot, value in trained.slots(name, parameters).items():
            if slot in targets:
                variables[targets[slot]].assign(value)


def slot_names(target: str, parameters: OptimizationParameters) -> dict[str, str]:
    """The mid-level name of each of our slots that has one.

    Args:
        target: 'tpu_embedding' or 'tpu_embedding_v2'; both name them alike.
        parameters: our optimizer.
    """
    return mid_level_slot_names(parameters)


class Optimizers:
    """The mid-level optimizers of a spec: one for all tables that agree in everything.

    Args:
        target: 'tpu_embedding' or 'tpu_embedding_v2'.
        read: the spec.
        step: what learning-rate functions read.
    """

    def __init__(self, target: str, read: Source, step: Any) -> None:
        self._target = target
        self._read = read
        self._step = step
        self._made: dict[Any, Any] = {}
        self._rates: dict[Any, Callable[[], Any]] = {}

    def of(self, table: str) -> Any:
        """The optimizer of a table, None if neither it nor the spec has one."""
        parameters = self._read.parameters(table)
        if parameters is None:
            return None
        rate = self._read.rate_to_train(table)
        key = (parameters, rate)
        if key not in self._made:
            self._made[key] = self._make(parameters, rate)
        return self._made[key]

    def _make(self, parameters: OptimizationParameters, rate: Any) -> Any:
        becomes = target_support.becomes(self._target, parameters)
        # Those of an optimizer without a counterpart have no facts of their own.
        common = target_support.becomes(
            self._target, ours.StochasticGradientDescentParameters
        ).facts
        arguments = {**becomes.fixed, **_common_arguments(parameters, common)}
        arguments.update(_own_arguments(parameters, becomes))
        arguments["learning_rate"] = self._rate(parameters, rate)
        return mended(getattr(tf.tpu.experimental.embedding, becomes.name)(**arguments))

    def _rate(self, parameters: OptimizationParameters, rate: Any) -> Any:
        if isinstance(parameters, ours.FrequencyEstimatorParameters):
            return 0.0  # see the table of facts
        if not callable(rate):
            return float(rate)
        if rate not in self._rates:
            # One function for each: tables of one rate share its tag.
            self._rates[rate] = lambda: tf.cast(rate(self._read_step()), tf.float32)
        return self._rates[rate]

    def _read_step(self) -> Any:
        return tf.convert_to_tensor(self._step() if callable(self._step) else self._step)


def mended(optimizer: Any) -> Any:
    """A mid-level optimizer that can write its message.

    From 7.34 on protobuf takes no bool for an enum, and TensorFlow 2.21 has one there.

    Args:
        optimizer: one of `tf.tpu.experimental.embedding`, or None.
    """
    if hasattr(optimizer, "low_dimensional_packing_status"):
        optimizer.low_dimensional_packing_status = int(optimizer.low_dimensional_packing_status)
    return optimizer


def table_config(read: Source, table: str, optimizer: Any, **more: Any) -> Any:
    """A table's mid-level `TableConfig`.

    Args:
        read: the spec.
        table: key of the table.
        optimizer: mid-level optimizer, or None.
        **more: further arguments.
    """
    config = read.tables[table]
    return tf.tpu.experimental.embedding.TableConfig(
        vocabulary_size=config.vocabulary_size,
        dim=config.dimension,
        initializer=config.initializer,
        optimizer=optimizer,
        combiner=read.combiner(table),
        name=table,
        **more,
    )


def of_plain(read: Source, tables: list[str]) -> list[Entry]:
    """The lines about tables that are variables of the model.

    Args:
        read: the spec.
        tables: their keys.
    """
    entries = []
    for table in tables:
        was = "the tensor core's" if table in read.on_tensor_core else "the embedding core's"
        note = "a variable of the model, trained by the model's optimizer"
        entries.append(Entry(table, "table", Status.CHANGED, None, was, "the model's", note))
    return entries


def feature_config(read: Source, key: str, table: Any, batch_size: int | None) -> Any:
    """A feature's mid-level `FeatureConfig`.

    Args:
        read: the spec.
        key: the feature.
        table: its mid-level `TableConfig`.
        batch_size: examples of a step on one replica, or None.
    """
    feature = read.features[key]
    length: int = feature.max_sequence_length
    output_shape = None
    if length and feature.weight_key is not None:
        # The API refuses weights for sequences, but an output of two axes is the same thing.
        length, output_shape = 0, [batch_size, length]
    column = read.columns.get(key)
    safe = column is None or column.use_safe_embedding_lookup
    return tf.tpu.experimental.embedding.FeatureConfig(
        table=table,
        max_sequence_length=length,
        validate_weights_and_indices=safe,
        output_shape=output_shape,
        name=key,
    )


def _common_arguments(
    parameters: OptimizationParameters, common: Mapping[str, target_support.Fact]
) -> dict[str, Any]:
    """The arguments that all mid-level optimizers have, without those that would be ignored."""
    names = (
        *("use_gradient_accumulation", "clip_weight_min", "clip_weight_max"),
        *("weight_decay_factor", "multiply_weight_decay_factor_by_learning_rate"),
    )
    arguments = {name: getattr(parameters, name) for name in names if common[name].becomes == name}
    limits = (parameters.clip_gradient_min, parameters.clip_gradient_max)
    if limits != (None, None) and common["clip_gradient_min"].becomes == "clipvalue":
        arguments["clipvalue"] = limits
    return arguments


def _own_arguments(
    parameters: OptimizationParameters, becomes: target_support.TargetOptimizer
) -> dict[str, Any]:
    """The arguments that one optimizer has, under the target's names."""
    if isinstance(parameters, ours.RMSPropParameters):
        return {"beta_2": parameters.rho, "epsilon": math.sqrt(parameters.epsilon)}
    if isinstance(parameters, ours.ProximalYogiParameters):
        return {
            "beta_1": parameters.beta1,
            "beta_2": parameters.beta2,
            "epsilon": parameters.epsilon,
        }
    arguments = {}
    for argument, fact in becomes.facts.items():
        if fact.becomes and fact.becomes != "clipvalue":
            arguments[fact.becomes] = getattr(parameters, argument)
    if arguments.get("initial_accumulator_value") == 0:
        arguments["initial_accumulator_value"] = 1e-30
    return arguments
