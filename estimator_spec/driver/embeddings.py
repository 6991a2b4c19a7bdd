# SPDX-License-Identifier: Apache-2.0
"""What happens to embedding features around a `model_fn`: nothing, dict-mode lookups, or a core."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.cores import tensor_core, tpu
from estimator_spec.cores.host import HELD_UPDATES, HostCore
from estimator_spec.cores.interface import EmbeddingCore, LoopCore, TablesListener
from estimator_spec.driver import dict_mode
from estimator_spec.driver.table_records import TableRecordListener
from estimator_spec.driver.table_restore import set_default_strategy
from estimator_spec.embedding import device_assignment
from estimator_spec.embedding.spec import tables_and_features
from estimator_spec.model.model_spec import ModeKeys
from tpu_columns import placement, storage
from tpu_columns.partition import RowPartition
from tpu_columns.placement import Hardware, Mode
from tpu_columns.storage import TableStorage

tf1 = tf.compat.v1

CORES = (None, "host")


class PlainEmbeddings:
    """Tables are ordinary variables of the model: columns look up by ops, dict mode before it.

    Args:
        spec: an `EmbeddingConfigSpec`, or None.
        shards: shards of each table, which `spec.partition_strategy` lays rows on.
    """

    def __init__(self, spec: Any, shards: int = 1) -> None:
        self._spec = spec
        self._shards = shards

    def hardware(self, mode: Mode) -> Hardware:
        """What columns are told to run on."""
        del mode
        return Hardware.CPU

    def listeners(self, config: Any) -> list[TablesListener]:
        """What must hear of checkpoints."""
        return [TableRecordListener(config.model_dir, self._spec)] if self._spec else []

    @contextlib.contextmanager
    def storing_tables(self, exporting: bool) -> Iterator[None]:
        """Tables that are made within are cut into shards; those of a SavedModel are whole."""
        if self._spec is None:
            yield
            return
        set_default_strategy(self._spec.partition_strategy)
        kept = TableStorage(self._spec.partition_strategy, self._shards)
        with storage.storing(storage.current() if exporting else kept):
            yield

    def before_receivers(self) -> None:
        """Makes tables named by dictionaries before a receiver takes the name of one.

        Receivers are named as their features, and a variable whose name is taken gets another one,
        which no checkpoint has.
        """
        if self._spec is not None and self._spec.feature_to_config_dict:
            with self.storing_tables(exporting=True):
                dict_mode.make_tables(tables_and_features(self._spec)[0])

    def call_model(self, model: Any, features: Any, mode: str, exporting: bool) -> Any:
        """Builds the model on what it expects to find in its features.

        Args:
            model: function of features that returns an `EstimatorSpec`.
            features: of `input_fn`, or of the receivers of an export.
            mode: one of `ModeKeys`.
            exporting: the graph is for a SavedModel.

        Returns:
            The `EstimatorSpec`.
        """
        del mode
        with self.storing_tables(exporting):
            if self._spec is not None and self._spec.feature_to_config_dict:
                features = dict_mode.look_up(self._spec, features)
            return model(features)

    def returned(self, result: Any) -> Any:
        """What `model_fn` returned, less what its surroundings take care of."""
        return result

    def loop_core(self, mode: str, batch_size: int | None) -> LoopCore:
        """The core of a loop in a new graph.

        Args:
            mode: one of `ModeKeys`.
            batch_size: examples of a step on one replica.
        """
        del mode, batch_size
        return LoopCore()


class HostEmbeddings(PlainEmbeddings):
    """Tables belong to the host core: looked up and trained as on a TPU. Exports are plain."""

    def hardware(self, mode: Mode) -> Hardware:
        """A TPU's, but in a graph that is exported for serving on a CPU."""
        return Hardware.CPU if mode is Mode.SERVE else Hardware.TPU

    def listeners(self, config: Any) -> list[TablesListener]:
        """A pipelined core applies what it holds back before a checkpoint is written."""
        listeners = super().listeners(config)
        if self._spec.pipeline_execution_with_tensor_core:
            return [ApplyHeldUpdates(), *listeners]
        return listeners

    def call_model(self, model: Any, features: Any, mode: str, exporting: bool) -> Any:
        """As `PlainEmbeddings`; in training, the train_op trains the tables too."""
        if exporting:
            return super().call_model(model, features, mode, exporting)
        core = self.core(mode)
        built = self.on_cores(model, self.prepare(core, features), mode)
        if core is None:
            return built
        core.attach()
        if mode != ModeKeys.TRAIN:
            return built
        return built._replace(train_op=tf.group(built.train_op, core.update(built.loss)))

    def core(self, mode: str) -> EmbeddingCore | None:
        """The core of a new graph; None if there is nothing for it to look up."""
        set_default_strategy(self._spec.partition_strategy)
        spec = device_assignment.spec_of_embedding_core(self._spec, Mode(mode))
        return None if spec is None else HostCore(spec, mode == ModeKeys.TRAIN, self._shards)

    def prepare(self, core: EmbeddingCore | None, features: Any) -> dict[str, Any]:
        """What the model finds in its features: activations, and ids padded for the tensor core."""
        padded = self.pad(features)
        return padded if core is None else core.look_up(padded, tf1.train.get_global_step())

    def pad(self, features: Any) -> dict[str, Any]:
        """Pads the ids of the tensor core's columns."""
        if not isinstance(features, Mapping):
            raise ValueError(
                "With an embedding core, features must be a dict of tensors by name, but input_fn "
                f"returned {type(features).__name__}."
            )
        return tensor_core.pad(self._spec.tensor_core_feature_columns or (), features)

    def loop_core(self, mode: str, batch_size: int | None) -> LoopCore:
        """The host core, for the features of all replicas."""
        del batch_size
        return HostLoopCore(self, self.core(mode))

    def on_cores(self, model: Any, features: Any, mode: str) -> Any:
        """Builds the model where columns look up as on a TPU."""
        small = device_assignment.tensor_core_tables(self._spec)
        with placement.running(Mode(mode), self.hardware(Mode(mode)), small):
            return model(features)


class TpuEmbeddings(HostEmbeddings):
    """Tables belong to a TPU's embedding core. Exports are plain.

    Args:
        spec: an `EmbeddingConfigSpec`.
        host_devices: the CPU of each host of the system.
    """

    def __init__(self, spec: Any, host_devices: Sequence[str]) -> None:
        super().__init__(spec)
        self._host_devices = host_devices

    def listeners(self, config: Any) -> list[Any]:
        """What must hear of checkpoints; the core's own listeners come before."""
        return PlainEmbeddings.listeners(self, config)

    def loop_core(self, mode: str, batch_size: int | None) -> LoopCore:
        """The TPU's core. Call it within the strategy's scope."""
        set_default_strategy(self._spec.partition_strategy)
        spec = device_assignment.spec_of_embedding_core(self._spec, Mode(mode))
        if spec is None:
            return HostLoopCore(self, None)
        training = mode == ModeKeys.TRAIN
        # Loads the conversions, which nobody needs without a TPU.
        from estimator_spec.driver import tpu_engine

        engine = tpu_engine.make_engine(spec, batch_size, training)
        return tpu.TpuCore(spec, engine, training, self._host_devices, self.pad)


class HostLoopCore(LoopCore):
    """A core of the host in a loop: it sees the features of all replicas as one batch.

    Args:
        embeddings: what prepares features.
        core: the core of this graph; None: ids are padded for the tensor core, no more.
    """

    def __init__(self, embeddings: HostEmbeddings, core: EmbeddingCore | None) -> None:
        self._embeddings = embeddings
        self._core = core

    def feed(self, features: list[Any]) -> list[Any]:
        """Puts activations in the place of ids."""
        return [self._embeddings.prepare(self._core, part) for part in features]

    def finish(self, loss: Any) -> list[Any]:
        """Makes the tables, and trains them."""
        if self._core is None:
            return []
        self._core.attach()
        return [] if loss is None else [self._core.update(loss())]


def for_tpu(spec: Any, host_devices: Sequence[str]) -> PlainEmbeddings:
    """What happens to embedding features in a run on a TPU.

    Args:
        spec: the `EmbeddingConfigSpec`, or None.
        host_devices: the CPU of each host of the system.
    """
    return PlainEmbeddings(None) if spec is None else TpuEmbeddings(spec, host_devices)


def choose(spec: Any, core: str | None, use_tpu: bool, shards: int = 1) -> PlainEmbeddings:
    """Returns what `TPUEstimator`'s arguments ask for.

    Args:
        spec: the `EmbeddingConfigSpec`, or None.
        core: None or 'host'.
        use_tpu: whether the program runs on a TPU, which has its own core.
        shards: shards of each table.

    Raises:
        ValueError: an unknown core, or a core or shards without a spec, or beside a TPU's.
        TypeError: a number of shards that is no int.
    """
    if shards != 1:
        _check_shards(spec, use_tpu, shards)
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
    return HostEmbeddings(spec, shards)


def _check_shards(spec: Any, use_tpu: bool, shards: Any) -> None:
    RowPartition("div", 0, shards)
    if spec is None or use_tpu:
        raise ValueError(
            f"embedding_shards={shards} cuts the tables of an embedding_config_spec on the host: "
            + ("there is no spec." if spec is None else "with use_tpu=True the TPU cuts them.")
        )


class ApplyHeldUpdates(TablesListener):
    """Applies, before a checkpoint is written, what a pipelined core holds back."""

    def begin(self) -> None:
        """Finds the ops in the finished graph."""
        self._ops = tf1.get_collection(HELD_UPDATES)

    def before_save(self, session: Any, global_step_value: int) -> None:
        """Applies them."""
        del global_step_value
        if self._ops:
            session.run(self._ops)
