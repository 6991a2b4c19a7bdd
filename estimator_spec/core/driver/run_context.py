# SPDX-License-Identifier: Apache-2.0
"""Run settings of a `TPUEstimator` in each mode: system, batch sizes, distribution of inputs."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple

import tensorflow as tf

from estimator_spec.core.driver import batch_rows, replica_inputs, systems
from estimator_spec.core.driver.replica_inputs import InputCall, InputSharing
from estimator_spec.core.driver.replicas import ReplicatedModel
from estimator_spec.core.driver.systems import System
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec
from estimator_spec.core.run_config import InputPipelineConfig, TPURunConfig, host_fallback
from estimator_spec.core.run_config.tpu_context import Deployment
from estimator_spec.core.user_functions.model_spec import ModeKeys
from tpu_columns import shared_state


class BuildArguments(NamedTuple):
    """Arguments of the current build for methods whose signatures can't have them.

    Programs override `_call_input_fn` and `_call_model_fn` with the signatures of `tf.estimator`
    and call the base class with the same arguments, so these travel in a context variable.

    Attributes:
        replicas: call the model of a replica; None: the estimator's embeddings do.
        input_call: the call of `input_fn`; None: the first one.
        one_device: the graph is built without replicas, even if the estimator's runs have some.
    """

    replicas: ReplicatedModel | None = None
    input_call: InputCall | None = None
    one_device: bool = False


@dataclasses.dataclass(eq=False, repr=False)
class RunContext:
    """The run settings of an estimator in one mode.

    Subclasses of `TPUEstimator` use it like this:

        with self._ctx.with_mode(mode) as ctx:
            if ctx.is_running_on_cpu(): ...

    Args:
        config: the run configuration.
        batch_sizes: global batch size by mode, or None.
        use_tpu: whether the program is meant for a TPU.
        eval_on_tpu: False runs evaluation on the CPU.
        embedding_config_spec: the embedding specification, or None.
        host_replicas: number of replicas on the host, with `use_tpu` in place of a TPU's; None:
            runs have no replicas on the host.
    """

    config: TPURunConfig
    batch_sizes: Mapping[str, int | None]
    use_tpu: bool
    eval_on_tpu: bool
    embedding_config_spec: EmbeddingConfigSpec | None
    host_replicas: int | None

    def __post_init__(self) -> None:
        self._mode: str | None = None
        self._systems: dict[str, System] = {}  # by master address
        self._key = object()  # the same in the copies for the modes

    @contextlib.contextmanager
    def with_mode(self, mode: str) -> Iterator[RunContext]:
        """Yields a copy of this context for `mode`, one of `ModeKeys`."""
        seen = copy.copy(self)
        seen._mode = mode
        yield seen

    @property
    def build(self) -> BuildArguments:
        """The arguments of the estimator's current build."""
        return (shared_state.BUILDS.get() or {}).get(self._key, BuildArguments())

    def building(self, arguments: BuildArguments) -> AbstractContextManager[None]:
        """Sets `build` within the block, for this estimator."""
        # By estimator: a function of the user's may call the methods of another one.
        builds = {**(shared_state.BUILDS.get() or {}), self._key: arguments}
        return shared_state.setting(shared_state.BUILDS, builds)

    @property
    def mode(self) -> str:
        """One of `ModeKeys`.

        Raises:
            RuntimeError: the context isn't from `with_mode`.
        """
        if self._mode is None:
            raise RuntimeError("`mode` needs to be set via contextmanager `with_mode`.")
        return self._mode

    @property
    def num_replicas(self) -> int:
        """Number of replicas of the model in this mode."""
        system = None if self._mode is None else self.system()
        return system.num_replicas if system else 1

    @property
    def num_hosts(self) -> int:
        """Number of hosts that feed the replicas."""
        system = None if self._mode is None else self.system()
        return system.num_hosts if system else 1

    @property
    def global_batch_size(self) -> int | None:
        """Examples in one step over all replicas, or None if the user gave no batch size."""
        return self.batch_sizes.get(self.mode)

    @property
    def batch_size_for_input_fn(self) -> int | None:
        """The value of `params['batch_size']` in `input_fn`."""
        whole = self.global_batch_size
        if whole is None or self.system() is None:
            return whole
        return replica_inputs.input_batch_size(
            self.sharing, whole, self.num_replicas, self.num_hosts
        )

    @property
    def batch_size_for_model_fn(self) -> int | None:
        """The value of `params['batch_size']` in `model_fn`: the examples of one replica."""
        whole = self.global_batch_size
        if whole is None or self.system() is None or self.sharing is InputSharing.BROADCAST:
            return whole
        return whole // self.num_replicas

    @property
    def sharing(self) -> InputSharing:
        """Distribution of batches among the replicas."""
        return replica_inputs.input_sharing(self.mode, self.config.tpu_config)

    def deployment(self) -> Deployment:
        """Returns the contents of `params['context']`."""
        system = self.system()
        if system is None:
            return Deployment()
        calls = replica_inputs.input_calls(self.sharing, system.num_replicas, system.num_hosts)
        call = self.build.input_call or calls[0]
        devices = tuple(system.host_device(host) for host in range(system.num_hosts))
        return Deployment(
            system.num_replicas, system.num_hosts, len(calls), call.number, call.host, devices
        )

    def is_input_slice_broadcast_to_all_cores(self) -> bool:
        """Returns whether each core gets a slice of one batch (evaluation and prediction)."""
        sliced = self.config.tpu_config.eval_training_input_configuration
        return self.mode != ModeKeys.TRAIN and sliced == InputPipelineConfig.SLICED

    def is_running_on_cpu(self, is_export_mode: bool = False) -> bool:
        """Returns whether this mode runs on the host.

        Args:
            is_export_mode: whether the graph is for a SavedModel, not for a run.

        Raises:
            RuntimeError: it should run on a TPU, and there is none.
            ValueError: the batch sizes or other numbers don't fit the TPU.
        """
        if not self.is_meant_for_tpu() or is_export_mode or self.build.one_device:
            return True
        if host_fallback.host_instead_of_tpu():
            host_fallback.warn_once(self.embedding_config_spec is not None, self.host_replicas)
            return True
        self.system()
        return False

    def is_meant_for_tpu(self) -> bool:
        """Returns whether this mode is meant for a TPU; the host may replace it."""
        return self.use_tpu and (self.mode != ModeKeys.EVAL or self.eval_on_tpu)

    def system(self) -> System | None:
        """Returns the system whose replicas this mode runs on; None without replicas.

        Raises:
            RuntimeError: there is no TPU.
            ValueError: the batch sizes or other numbers don't fit the system.
        """
        if self.build.one_device:
            return None
        if self.host_replicas is not None:
            if self.mode == ModeKeys.EVAL and not self.eval_on_tpu:
                return None
            system: System = systems.HostSystem(self.host_replicas, self.use_tpu)
        elif self.is_meant_for_tpu() and not host_fallback.host_instead_of_tpu():
            system = self._tpu()
        else:
            return None
        self._check_fit(system)
        return system

    def _tpu(self) -> System:
        """Finds the TPU system of this mode."""
        evaluating = self.mode == ModeKeys.EVAL
        master = self.config.evaluation_master if evaluating else self.config.master
        if master not in self._systems:
            found = systems.find(self.config, master)
            if found is None:
                devices = [device.name for device in tf.config.list_physical_devices()]
                raise RuntimeError(
                    "Cannot find any TPU cores in the system. To run on the CPU, give TPUEstimator "
                    "use_tpu=False, run the program by `python -m estimator_spec run --cpu`, or "
                    "set the environment variable TPU_COLUMNS_CPU=1. If there should be a TPU, "
                    "double check the Tensorflow master address and TPU worker(s). Available "
                    f"devices are {devices}."
                )
            self._systems[master] = found
        return self._systems[master]

    def _check_fit(self, system: System) -> None:
        """Checks that the configuration and the batch sizes fit the system."""
        replicas, hosts, mode = system.num_replicas, system.num_hosts, self.mode
        name = batch_rows.MODE_NAMES[mode]
        shards = self.config.tpu_config.num_shards
        if system.is_tpu and shards and shards != replicas:
            raise ValueError(
                f"TPUConfig.num_shards is not set correctly: the TPU system has {replicas} "
                f"replicas, but num_shards is {shards}. Leave it out, or set it to the number of "
                "cores divided by num_cores_per_replica."
            )
        if system.is_tpu and self.config.tpu_config.input_partition_dims is not None:
            raise ValueError(
                "TPUConfig.input_partition_dims isn't supported here: tensors aren't cut among the "
                "cores of one replica. Leave it out."
            )
        size = self.global_batch_size
        if size is None:
            raise ValueError(
                f"{name}_batch_size in TPUEstimator constructor cannot be `None` if .{name} is "
                "running on TPU."
            )
        whole_batch = self.sharing in (InputSharing.BROADCAST, InputSharing.SPLIT_GLOBAL_BATCH)
        if size % replicas and self.sharing is not InputSharing.BROADCAST:
            raise ValueError(
                f"{name} batch size {size} must be divisible by number of replicas {replicas}"
            )
        per_replica = self.sharing is InputSharing.BATCH_PER_REPLICA
        if hosts == 1 or mode == ModeKeys.TRAIN or whole_batch:
            return
        if mode == ModeKeys.EVAL and not per_replica:
            raise ValueError(
                "TPUEstimator.evaluate is only supported under three conditions: 1. num_hosts=1; "
                f"2. BROADCAST mode; 3. PER_HOST_V2 mode. There are {hosts} hosts, and the mode is "
                f"{self.sharing.value}."
            )
        if mode == ModeKeys.PREDICT and not (per_replica and replicas == 1):
            raise ValueError(
                "TPUEstimator.predict is only supported under three conditions: 1. num_hosts=1; "
                f"2. BROADCAST mode; 3. PER_HOST_V2 mode with num_replicas=1. There are {hosts} "
                f"hosts and {replicas} replicas, and the mode is {self.sharing.value}."
            )
