# SPDX-License-Identifier: Apache-2.0
"""Converts a spec to a `keras_rs.layers.DistributedEmbedding` with trained tables.

Needs the extra `keras-rs`. The layer is keras_rs' own: a model that contains it runs without this
project. `features_for` returns its input, dense ids and weights, and checks ids: keras_rs itself
reads the last row for -1.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from estimator_spec.convert import checks, keras_optimizers, keras_tables, report, resolved_spec
from estimator_spec.convert.features import Conversion, LookupInputs, attach
from estimator_spec.convert.keras_initializers import keras_initializer
from estimator_spec.convert.keras_tables import table_variable
from estimator_spec.convert.optional_packages import load_extra
from estimator_spec.convert.report import Entry, Status
from estimator_spec.convert.resolved_spec import ResolvedSpec
from estimator_spec.convert.trained_tables import TrainedTables
from estimator_spec.core.common.checks import check_positive_ints
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec
from tpu_columns.placement import Hardware, LookupDevice

DEFAULT_DEVICE, AUTO = "default_device", "auto"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DistributedEmbedding(Conversion):
    """Conversion to a `keras_rs.layers.DistributedEmbedding`.

    Attributes:
        layer_name: name of the layer.
        table_names: keras_rs' name of each table, by key; Keras names can't contain a slash.
        optimizers: Keras optimizer by table key; None if the spec has none.
        trained: the tables of the checkpoint, or None.
        max_ids: maximum number of ids in a row, by feature; None: any number.
    """

    layer_name: str
    table_names: dict[str, str]
    optimizers: dict[str, Any]
    trained: TrainedTables | None
    max_ids: dict[str, int | None]

    input_layout: ClassVar[str] = "padded"
    takes_all: ClassVar[bool] = True  # tables of the tensor core are on the default device

    def width(self, feature: str) -> int | None:
        """Returns the maximum number of ids in a row."""
        return self.max_ids[feature]

    def finish(self, inputs: Any) -> Any:
        """Converts tensors to arrays for backends other than TensorFlow."""
        backend = load_extra("keras").backend.backend()
        if backend == "tensorflow" or not tf.executing_eagerly():
            return inputs
        return LookupInputs(*tf.nest.map_structure(lambda tensor: tensor.numpy(), tuple(inputs)))

    def optimizer(self, default: Any) -> Any:
        """Returns a `MultiOptimizer`: an optimizer for each table, `default` for other variables.

        Args:
            default: a Keras optimizer for variables that aren't tables, and for tables if
                the spec has no optimizer.
        """
        keras = load_extra("keras")
        names = self.table_names
        by_path = {
            f"(.*/)?{re.escape(f'{self.layer_name}/{names[table]}/embeddings')}": optimizer
            for table, optimizer in self.optimizers.items()
            if optimizer is not None
        }
        optimizer_map = keras.optimizers.OptimizerMap(default, by_path)
        return keras.optimizers.MultiOptimizer(optimizer_map)

    def load_slots(self, layer: Any) -> list[str]:
        """Loads the optimizers' slot variables from the checkpoint, to continue training.

        For `optimizers='core'` only. Call it after the model's optimizer is built.

        Args:
            layer: the layer.

        Returns:
            The tables whose slot variables were found.

        Raises:
            ValueError: there is no checkpoint, or an optimizer isn't built or has other slot
                variables.
        """
        if self.trained is None:
            raise ValueError(
                "There are no slots without a checkpoint: to_distributed_embedding(spec, checkpoint"
                ", optimizers='core')."
            )
        found = []
        for table, optimizer in self._core_optimizers():
            slots = self.trained.slots(table, optimizer.parameters)
            variable = table_variable(layer, self.table_names[table])
            for slot, value in slots.items():
                optimizer.slot(slot, variable).assign(value)
            if slots:
                found.append(table)
        return found

    def read_tables(self, layer: Any) -> dict[str, dict[str, Any]]:
        """Returns tables and slots for `estimator_spec.mid_level.load_tables`.

        Slots are those of `optimizers='core'`, if the optimizers are built.

        Args:
            layer: the layer.

        Returns:
            By table key, then by the mid-level API's name of the slot ('parameters' for the table
            itself): float32 [V, D].
        """
        return {
            table: {slot: np.array(variable) for slot, variable in variables.items()}
            for table, variables in self._variables(layer).items()
        }

    def load_tables(self, layer: Any, values: Mapping[str, Mapping[str, Any]]) -> None:
        """Assigns the tables and slots of an embedding object of the mid-level API.

        Args:
            layer: the layer.
            values: as `estimator_spec.mid_level.read_tables` returns them. Slots go to the
                optimizers of `optimizers='core'`, once they are built.

        Raises:
            ValueError: there is no such table or slot, or it has another shape. Nothing is
                assigned.
        """
        keras_tables.assign(self._variables(layer), values)

    def _variables(self, layer: Any) -> dict[str, dict[str, Any]]:
        return keras_tables.variables_of(layer, self.table_names, self.optimizers)

    def _core_optimizers(self) -> Iterator[tuple[str, Any]]:
        """Yields the optimizers with the core's rules by table; others are errors."""
        for table, optimizer in self.optimizers.items():
            if optimizer is None:  # trained by the model's optimizer
                continue
            if not hasattr(optimizer, "slot"):
                raise ValueError(
                    f"The optimizer of table {table!r} is Keras' own. Only optimizers with the "
                    "core's rules take a checkpoint's slots: "
                    "to_distributed_embedding(spec, checkpoint, optimizers='core')."
                )
            if not optimizer.built:
                raise ValueError(
                    f"The optimizer of table {table!r} isn't built, so it has no slots yet. Call "
                    "model.optimizer.build(model.trainable_variables) before load_slots."
                )
            yield table, optimizer


def to_distributed_embedding(
    spec: EmbeddingConfigSpec,
    checkpoint: Any = None,
    *,
    batch_size: int | None = None,
    max_ids: int | Mapping[str, int] | None = None,
    optimizers: str = "keras",
    name: str = "distributed_embedding",
    num_shards: int | None = None,
    variable_names: Mapping[str, str] | None = None,
    hardware: Hardware | None = None,
    allow_lossy: bool = False,
    **options: Any,
) -> Any:
    """Returns a Keras 3 layer for a spec, with trained tables if there is a checkpoint.

    Call it as `layer(inputs, weights)` with the result of `features_for(layer, batch)`; it
    returns `[B, D]` by feature key (`[B, L, D]` for a sequence). Its attribute `conversion`, a
    `DistributedEmbedding` of this module, has the report and
    `conversion.optimizer(default)` for `model.compile`.

    A table whose columns' lookup device is the CPU or the tensor core is on the default device;
    other tables are on SparseCore if there is one (`auto`).

    Args:
        spec: columns or dictionaries.
        checkpoint: a legacy checkpoint's prefix, or a directory; None: initial values.
        batch_size: examples of a step; None: any number.
        max_ids: maximum number of ids in a row (a step of a sequence), for all features or by key;
            None: as many as the batch has. SparseCore, XLA and JAX need it for static shapes.
        optimizers: 'keras': the nearest of Keras' own; 'core': ours, which implements the
            embedding core's rules exactly and updates the rows of a step only.
        name: name of the layer.
        num_shards: as in `to_serving`.
        variable_names: as in `to_serving`.
        hardware: the hardware that `combiner=None` of a column refers to: mean on a CPU, sum on a
            TPU.
        allow_lossy: converts in spite of losses, and reports them.
        **options: further arguments of the layer, such as `table_stacking`.

    Returns:
        A `keras_rs.layers.DistributedEmbedding`, built.

    Raises:
        ImportError: keras_rs isn't installed; the message names the extra.
        LossyConversionError: something has no counterpart, and `allow_lossy` is False.
        CheckpointError: the checkpoint is missing or damaged, or lacks a table.
        ValueError, TypeError: as `tables_and_features`; or `optimizers` is neither of the two.
    """
    layers = load_extra("keras_rs").layers
    target = _target(optimizers)
    check_positive_ints(optional=True, batch_size=batch_size)
    resolved = resolved_spec.resolve(spec, hardware)
    widths = _max_ids_by_feature(resolved, max_ids)
    trained = None
    if checkpoint is not None:
        trained = TrainedTables(resolved, checkpoint, num_shards, variable_names)
    backend = load_extra("keras").backend.backend()
    made = _report(resolved, target, backend, trained, allow_lossy)
    names = _table_names(resolved)
    by_table = _optimizers(resolved, target, trained)
    configs = {
        table: _table_config(layers, resolved, table, names[table], backend)
        for table in resolved.tables
    }
    features = {
        key: _feature(layers, key, feature, configs[feature.table_id], batch_size, widths[key])
        for key, feature in sorted(resolved.features.items())
    }
    layer = layers.DistributedEmbedding(features, name=name, **options)
    layer.build({key: feature.input_shape for key, feature in features.items()})
    if trained is not None:
        for table in resolved.tables:
            _assign(table_variable(layer, names[table]), trained, table)
    conversion = DistributedEmbedding(
        source=resolved,
        report=made,
        layer_name=name,
        table_names=names,
        optimizers=by_table,
        trained=trained,
        max_ids=widths,
    )
    return attach(layer, conversion)


def _target(optimizers: str) -> str:
    if optimizers not in ("keras", "core"):
        raise ValueError(f"optimizers must be 'keras' or 'core', got {optimizers!r}.")
    return "keras" if optimizers == "keras" else "keras_core"


def _max_ids_by_feature(
    resolved: ResolvedSpec, max_ids: int | Mapping[str, int] | None
) -> dict[str, int | None]:
    """Returns the maximum number of ids in a row by feature."""
    if not isinstance(max_ids, Mapping):
        check_positive_ints(optional=True, max_ids=max_ids)
        return dict.fromkeys(resolved.features, max_ids)
    checks.known("max_ids", "feature", max_ids, resolved.features)
    for key, width in max_ids.items():
        check_positive_ints(optional=True, **{f"max_ids[{key!r}]": width})
    return {key: max_ids.get(key) for key in resolved.features}


def _report(
    resolved: ResolvedSpec,
    target: str,
    backend: str,
    trained: TrainedTables | None,
    allow_lossy: bool,
) -> report.Report:
    entries = [
        *report.table_entries(resolved, sorted(resolved.tables)),
        *report.layout_entries(resolved),
    ]
    instead = ""
    if target == "keras":
        entries += report.multiplier_entries(resolved, "Keras has none; optimizers='core' has")
        instead = "optimizers='core' has the embedding core's own rules."
        entries += _bias_entries(resolved, backend)
    if trained is not None:
        by_core = ("conversion.load_slots(layer)", "call it once the optimizer is built")
        by_keras = ("initial values", "not restored; optimizers='core' can load them")
        tables = resolved.core_tables
        entries += trained.slot_entries(tables, *(by_keras if target == "keras" else by_core))
    if resolved.spec.pipeline_execution_with_tensor_core:
        note = "a step's lookups see the update of the step before"
        entries.append(
            Entry("", "pipeline_execution_with_tensor_core", Status.LOST, True, note=note)
        )
    name = "keras_rs.layers.DistributedEmbedding"
    return report.build_report(name, resolved, entries, allow_lossy, target, instead=instead)


def _bias_entries(resolved: ResolvedSpec, backend: str) -> list[Entry]:
    """Returns the entries of tables whose Adam differs on SparseCore by this backend alone."""
    found = []
    for table in resolved.core_tables:
        parameters = resolved.parameters(table)
        if parameters is None or not keras_optimizers.corrects_bias(parameters, backend):
            continue
        if keras_optimizers.sparse_core_arguments(parameters, backend) is not None:
            note = "on SparseCore, step t of jax_tpu_embedding adds epsilon·√(1 - beta2ᵗ) to √v"
            label = "Adam.epsilon on SparseCore"
            found.append(Entry(table, label, Status.LOST, note=note))
    return found


def _table_names(resolved: ResolvedSpec) -> dict[str, str]:
    """Returns a unique name for each table that Keras accepts."""
    names: dict[str, str] = {}
    for table in sorted(resolved.tables):
        name = base = table.replace("/", "_")
        number = 1
        while name in names.values():
            number += 1
            name = f"{base}_{number}"
        names[table] = name
    return names


def _optimizers(
    resolved: ResolvedSpec, target: str, trained: TrainedTables | None
) -> dict[str, Any]:
    """Returns the optimizer by table; tables with equal parameters and rate share one."""
    made: dict[Any, Any] = {}
    by_table: dict[str, Any] = {}
    multiplier = resolved.spec.experimental_gradient_multiplier_fn
    for table in resolved.tables:
        parameters = resolved.parameters(table)
        if parameters is None or table in resolved.on_tensor_core:
            by_table[table] = None  # trained by the model's optimizer
            continue
        key = (parameters, resolved.required_learning_rate(table))
        if key not in made:
            made[key] = keras_optimizers.make_optimizer(target, *key, multiplier)
            if trained is not None:
                # Learning rates that depend on the step continue from the checkpoint's step.
                made[key].iterations.assign(trained.global_step)
        by_table[table] = made[key]
    return by_table


def _table_config(layers: Any, resolved: ResolvedSpec, table: str, name: str, backend: str) -> Any:
    """Returns the `keras_rs.layers.TableConfig` of a table."""
    config, on_tensor_core = resolved.tables[table], table in resolved.on_tensor_core
    return layers.TableConfig(
        name=name,
        vocabulary_size=config.vocabulary_size,
        embedding_dim=config.dimension,
        initializer=keras_initializer(config.initializer),
        optimizer=keras_optimizers.sparse_core_optimizer(
            None if on_tensor_core else resolved.parameters(table),
            resolved.learning_rate(table),
            backend,
        ),
        combiner=resolved.combiner(table),
        placement=placement(
            on_tensor_core, [resolved.columns.get(key) for key in resolved.features_of(table)]
        ),
    )


def placement(on_tensor_core: bool, columns: Iterable[Any]) -> str:
    """Returns keras_rs' placement of a table.

    Args:
        on_tensor_core: whether the tensor core looks the table up.
        columns: its columns, with None for a feature without one.
    """
    devices = {column.embedding_lookup_device for column in columns if column is not None}
    elsewhere = {LookupDevice.CPU, LookupDevice.TPU_TENSOR_CORE}
    if on_tensor_core or (devices and devices <= elsewhere):
        return DEFAULT_DEVICE
    return AUTO


def _feature(
    layers: Any, key: str, feature: Any, table: Any, batch_size: int | None, width: int | None
) -> Any:
    steps = (feature.max_sequence_length,) if feature.max_sequence_length else ()
    return layers.FeatureConfig(
        name=key,
        table=table,
        input_shape=(batch_size, *steps, width),
        output_shape=(batch_size, *steps, table.embedding_dim),
    )


def _assign(variable: Any, trained: TrainedTables, table: str) -> None:
    if isinstance(variable.value, tf.Variable):
        trained.assign_to(variable.value, table)
    else:
        variable.assign(np.asarray(trained.rows(table)))
