# SPDX-License-Identifier: Apache-2.0
"""Looks up embedding features around a `model_fn`: by ops, or on an embedding core."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from estimator_spec.core.checkpoints import spec_tables
from estimator_spec.core.cores import (
    activation_gradients,
    engines,
    stacked_tables,
    tensor_core,
    tpu,
)
from estimator_spec.core.cores.host import HostCore
from estimator_spec.core.cores.interface import EmbeddingCore, TablesListener
from estimator_spec.core.driver import dict_mode
from estimator_spec.core.driver.table_records import TableRecordListener
from estimator_spec.core.driver.table_restore import set_default_strategy
from estimator_spec.core.embedding.spec import (
    EmbeddingConfigSpec,
    spec_of_embedding_core,
    tables_and_features,
    tensor_core_tables,
)
from estimator_spec.core.user_functions.model_spec import EstimatorSpec, ModeKeys, check_scaffold
from tpu_columns import optimizations, placement, shared_state, storage
from tpu_columns.optimizations import Optimization
from tpu_columns.partition import RowPartition
from tpu_columns.placement import Hardware, Mode
from tpu_columns.storage import TableStorage

tf1 = tf.compat.v1

CORES = (None, "host")

# Builds a model on its features; a second argument changes the result of `model_fn` before that is
# converted to an `EstimatorSpec`.
Model = Callable[..., EstimatorSpec]


@dataclasses.dataclass(eq=False)
class PlainEmbeddings:
    """Tables as ordinary variables of the model; in dict mode, lookups before the model.

    Args:
        spec: the embedding specification, or None.
        shards: number of shards of each table; `spec.partition_strategy` is their layout.
    """

    spec: EmbeddingConfigSpec | None
    shards: int = 1

    def hardware(self, mode: Mode) -> Hardware:
        """Returns the hardware that columns look up on."""
        return Hardware.CPU

    def listeners(self, config: Any) -> list[TablesListener]:
        """Returns the checkpoint listeners that tables need."""
        return [TableRecordListener(config.model_dir, self.spec)] if self.spec else []

    def storing_tables(self, exporting: bool) -> AbstractContextManager[None]:
        """Splits tables that are created within the block into shards, except in an export."""
        if self.spec is None:
            return contextlib.nullcontext()
        set_default_strategy(self.spec.partition_strategy)
        sharded = TableStorage(self.spec.partition_strategy, self.shards)
        return storage.storing(storage.current() if exporting else sharded)

    def before_receivers(self) -> None:
        """Creates the tables of dict mode before the receivers of an export.

        A receiver has the name of its feature. A table of the same name would get another name,
        which the checkpoint lacks.
        """
        if self.spec is not None and self.spec.feature_to_config_dict:
            with self.storing_tables(exporting=True):
                dict_mode.make_tables(tables_and_features(self.spec)[0])

    def call_model(self, model: Model, features: Any, mode: str, exporting: bool) -> EstimatorSpec:
        """Builds the model on the features that it expects.

        Args:
            model: builds the model.
            features: the result of `input_fn`, or the receivers of an export.
            mode: one of `ModeKeys`.
            exporting: whether the graph is for a SavedModel.
        """
        with self.storing_tables(exporting):
            if self.spec is not None and self.spec.feature_to_config_dict:
                features = dict_mode.look_up(self.spec, features)
            built = model(features)
        if self.spec is not None:
            _check_dimensions(self.spec)
        return built

    def call_on_replica(self, model: Model, features: Any, mode: str) -> EstimatorSpec:
        """Builds the model of one replica, after `receive` of the core."""
        return self.call_model(model, features, mode, exporting=False)

    def make_core(
        self, mode: str, batch_size: int | None = None, stack: bool = False
    ) -> EmbeddingCore:
        """Makes the embedding core of a new graph; call it within the strategy's scope.

        Args:
            mode: one of `ModeKeys`.
            batch_size: examples of a step on one replica; a TPU needs it.
            stack: whether tables may be stacked in training.
        """
        return EmbeddingCore()


def _check_dimensions(spec: EmbeddingConfigSpec) -> None:
    """Checks that the tables of the default graph have the dimensions of the specification."""
    recorded = storage.layouts(tf1.get_default_graph())
    matches = spec_tables.match_variables(spec_tables.list_tables(spec), recorded)
    for variable in tf1.global_variables():
        table = matches.get(variable.op.name)
        if table is not None and variable.shape.rank == 2 and variable.shape[1] != table.width:
            raise ValueError(
                f"Table {variable.op.name!r} of feature {table.features[0]!r} has dimension "
                f"{variable.shape[1]} in the model, but dimension {table.width} in the "
                "embedding_config_spec. Use the same columns in both."
            )


@dataclasses.dataclass(eq=False)
class HostEmbeddings(PlainEmbeddings):
    """Tables on the host's embedding core, looked up and trained as on a TPU.

    In an export they are ordinary variables.

    Args:
        spec: the embedding specification.
        shards: as for `PlainEmbeddings`.
        on_servers: whether the shards are on parameter servers.
        warm_start: whether training may start from values of another checkpoint.
    """

    spec: EmbeddingConfigSpec
    on_servers: bool = False
    warm_start: bool = False

    def hardware(self, mode: Mode) -> Hardware:
        """Returns TPU, except in a graph that is exported for serving on a CPU."""
        return Hardware.CPU if mode is Mode.SERVE else Hardware.TPU

    def listeners(self, config: Any) -> list[TablesListener]:
        """Returns the checkpoint listeners that tables and a pipelined core need."""
        listeners = super().listeners(config)
        if self.spec.pipeline_execution_with_tensor_core:
            return [ApplyHeldUpdates(), *listeners]
        return listeners

    def call_model(self, model: Model, features: Any, mode: str, exporting: bool) -> EstimatorSpec:
        """Builds the model; in training, its train_op also updates the tables."""
        scaffold_fns: list[Callable[[], Any]] = []

        def take_scaffold_fn(result: Any) -> Any:
            if getattr(result, "scaffold_fn", None) is None:
                return result
            scaffold_fns.append(result.scaffold_fn)
            return result._replace(scaffold_fn=None)

        built = self._call_model(
            lambda given: model(given, take_scaffold_fn), features, mode, exporting
        )
        if not scaffold_fns:
            return built
        scaffold = check_scaffold(scaffold_fns[0]())  # which may use the tables
        stacked_tables.check_saver(scaffold.saver)
        return built._replace(scaffold=scaffold)

    def _call_model(self, model: Model, features: Any, mode: str, exporting: bool) -> EstimatorSpec:
        if exporting:
            return super().call_model(model, features, mode, exporting)
        # TensorFlow's warm start initializes variables, which stacked tables don't have.
        stack = optimizations.is_used(Optimization.STACKED_TABLES) and not self.warm_start
        core = self.make_core(mode, stack=stack)
        (features,) = core.feed([features])
        features = core.receive(features)
        with activation_gradients.keeping_slots_local():
            built = self.call_on_replica(model, features, mode)
        ops = core.finish()
        return built._replace(train_op=tf.group(built.train_op, *ops)) if ops else built

    def call_on_replica(self, model: Model, features: Any, mode: str) -> EstimatorSpec:
        """Builds the model with columns that look up as on a TPU."""
        small = tensor_core_tables(self.spec)
        with placement.running(Mode(mode), self.hardware(Mode(mode)), small):
            return model(features)

    def make_core(
        self, mode: str, batch_size: int | None = None, stack: bool = False
    ) -> EmbeddingCore:
        """Makes the core of a new graph; one without tables if no feature is looked up on it."""
        set_default_strategy(self.spec.partition_strategy)
        spec = spec_of_embedding_core(self.spec, Mode(mode))
        if spec is None:
            return EmbeddingCore(self._pad)
        return self._core_of(spec, mode == ModeKeys.TRAIN, batch_size, stack)

    def _core_of(
        self, spec: EmbeddingConfigSpec, training: bool, batch_size: int | None, stack: bool
    ) -> EmbeddingCore:
        return HostCore(spec, training, self.shards, self.on_servers, stack, self._pad)

    def _pad(self, features: Any) -> dict[str, Any]:
        """Returns the features with the ids of the tensor core's columns padded."""
        if not isinstance(features, Mapping):
            raise ValueError(
                "With an embedding core, features must be a dict of tensors by name, but input_fn "
                f"returned {type(features).__name__}."
            )
        return tensor_core.pad(self.spec.tensor_core_feature_columns or (), features)


@dataclasses.dataclass(eq=False)
class TpuEmbeddings(HostEmbeddings):
    """Tables on a TPU's embedding core.

    Args:
        spec: the embedding specification.
        host_devices: the CPU device of each host.
    """

    host_devices: Sequence[str] = ()

    def _core_of(
        self, spec: EmbeddingConfigSpec, training: bool, batch_size: int | None, stack: bool
    ) -> EmbeddingCore:
        assert batch_size is not None  # checked for every run on a TPU
        engine = engines.load()(spec, batch_size)
        return tpu.TpuCore(spec, engine, training, self.host_devices, self._pad)


def choose_embeddings(
    spec: EmbeddingConfigSpec | None,
    core: str | None,
    use_tpu: bool,
    shards: int | None,
    num_servers: int | None,
    warm_start: bool,
) -> PlainEmbeddings:
    """Returns the embeddings that the arguments of `TPUEstimator` select.

    Args:
        spec: the embedding specification, or None.
        core: None or 'host'.
        use_tpu: whether the program runs on a TPU, which has an embedding core of its own.
        shards: number of shards of each table. None: one for each parameter server, if any.
        num_servers: number of parameter servers that training runs with; None without a cluster.
        warm_start: whether training may start from values of another checkpoint.

    Raises:
        ValueError: the core is unknown, or a core or shards are given without a spec or with
            `use_tpu`.
        TypeError: the number of shards isn't an int.
    """
    if shards is None:
        shards = 1 if spec is None else max(num_servers or 1, 1)
    if shards != 1:
        RowPartition("div", 0, shards)
        if spec is None or use_tpu:
            raise ValueError(
                f"embedding_shards={shards} cuts the tables of an embedding_config_spec on the "
                "host: "
                + ("there is no spec." if spec is None else "with use_tpu=True the TPU cuts them.")
            )
    if core is None:
        return PlainEmbeddings(spec, shards)
    if core not in CORES:
        raise ValueError(f"embedding_core must be one of {CORES}, got {core!r}.")
    if spec is None:
        raise ValueError(
            f"embedding_core={core!r} needs an embedding_config_spec: it says which tables there "
            "are and how they are trained."
        )
    if use_tpu:
        raise ValueError(
            f"embedding_core={core!r} runs on the host, but use_tpu is True, and a TPU has an "
            "embedding core of its own. Set use_tpu=False."
        )
    return HostEmbeddings(spec, shards, num_servers is not None, warm_start)


class ApplyHeldUpdates(TablesListener):
    """Applies the pending updates of a pipelined core before a checkpoint is written."""

    def begin(self) -> None:
        """Finds the update ops in the finished graph."""
        self._ops = tf1.get_collection(shared_state.HELD_UPDATES)

    def before_save(self, session: Any, global_step_value: int) -> None:
        """Applies the pending updates."""
        if self._ops:
            session.run(self._ops)
