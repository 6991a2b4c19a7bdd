# SPDX-License-Identifier: Apache-2.0
"""What a `TPUEstimator` knows about its run: batch sizes, and the system that it runs on."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from estimator_spec.config import host_fallback
from estimator_spec.config.run_config import InputPipelineConfig
from estimator_spec.config.tpu_context import Deployment
from estimator_spec.driver import replica_inputs, systems
from estimator_spec.driver.replica_inputs import Sharing
from estimator_spec.model.model_spec import ModeKeys


class RunContext:
    """The estimator's settings, seen in one mode.

    Subclasses of `TPUEstimator` ask it so:

        with self._ctx.with_mode(mode) as ctx:
            if ctx.is_running_on_cpu(): ...

    Args:
        config: the run configuration.
        train_batch_size: global batch size of training, or None.
        eval_batch_size: of evaluation, or None.
        predict_batch_size: of prediction, or None.
        use_tpu: whether the user asked for a TPU.
        eval_on_tpu: False keeps evaluation off it.
        embedding_config_spec: the embedding specification, or None.
        host_replicas: replicas on the host, which run as a TPU does; None: it runs as a CPU does.
    """

    def __init__(
        self,
        config: Any,
        train_batch_size: int | None,
        eval_batch_size: int | None,
        predict_batch_size: int | None,
        use_tpu: bool,
        eval_on_tpu: bool = True,
        embedding_config_spec: Any = None,
        host_replicas: int | None = None,
    ) -> None:
        self.config = config
        self.use_tpu = use_tpu
        self.eval_on_tpu = eval_on_tpu
        self.embedding_config_spec = embedding_config_spec
        self._host_replicas = host_replicas
        self._batch_sizes = {
            ModeKeys.TRAIN: train_batch_size,
            ModeKeys.EVAL: eval_batch_size,
            ModeKeys.PREDICT: predict_batch_size,
        }
        self._mode: str | None = None
        self._systems: dict[str, Any] = {}  # those that were found, by address
        self._on_one_device = False
        self.call: replica_inputs.Call | None = None  # of input_fn, while it runs

    @contextlib.contextmanager
    def with_mode(self, mode: str) -> Iterator[RunContext]:
        """Gives this context as it is in `mode`, one of `ModeKeys`."""
        seen = copy.copy(self)
        seen._mode = mode
        yield seen

    @contextlib.contextmanager
    def on_one_device(self) -> Iterator[None]:
        """Within, models are built for the host alone, whatever runs beside them."""
        was, self._on_one_device = self._on_one_device, True
        try:
            yield
        finally:
            self._on_one_device = was

    @property
    def mode(self) -> str:
        """The mode.

        Raises:
            RuntimeError: outside of `with_mode`.
        """
        if self._mode is None:
            raise RuntimeError("`mode` needs to be set via contextmanager `with_mode`.")
        return self._mode

    @property
    def num_replicas(self) -> int:
        """Copies of the model that run side by side in this mode."""
        system = self.system() if self._mode is not None else None
        return 1 if system is None else int(system.num_replicas)

    @property
    def num_hosts(self) -> int:
        """Hosts that feed them."""
        system = self.system() if self._mode is not None else None
        return 1 if system is None else int(system.num_hosts)

    @property
    def global_batch_size(self) -> int | None:
        """Examples in one step over all replicas, or None if the user didn't say."""
        return self._batch_sizes.get(self.mode)

    @property
    def batch_size_for_input_fn(self) -> int | None:
        """What `params['batch_size']` is in `input_fn`."""
        whole = self.global_batch_size
        if whole is None or self.system() is None:
            return whole
        return replica_inputs.batch_size(self.sharing, whole, self.num_replicas, self.num_hosts)

    @property
    def batch_size_for_model_fn(self) -> int | None:
        """What `params['batch_size']` is in `model_fn`: the size of one replica's part."""
        whole = self.global_batch_size
        if whole is None or self.system() is None or self.sharing is Sharing.SAME_BATCH:
            return whole
        return whole // self.num_replicas

    @property
    def sharing(self) -> Sharing:
        """Which replica gets which batch."""
        return replica_inputs.sharing(self.mode, self.config.tpu_config)

    def deployment(self) -> Deployment:
        """What `params['context']` says."""
        system = self.system()
        if system is None:
            return Deployment()
        calls = replica_inputs.calls(self.sharing, system.num_replicas, system.num_hosts)
        call = self.call or calls[0]
        devices = tuple(system.host_device(host) for host in range(system.num_hosts))
        return Deployment(
            system.num_replicas, system.num_hosts, len(calls), call.number, call.host, devices
        )

    def is_input_slice_broadcast_to_all_cores(self) -> bool:
        """Whether every core of a TPU gets a slice of one batch (evaluation and prediction)."""
        sliced = self.config.tpu_config.eval_training_input_configuration
        return self.mode != ModeKeys.TRAIN and sliced == InputPipelineConfig.SLICED

    def is_running_on_cpu(self, is_export_mode: bool = False) -> bool:
        """Whether this mode runs on the host.

        Args:
            is_export_mode: a graph is built for a SavedModel, not for a run.

        Raises:
            RuntimeError: it should run on a TPU, and can't.
            ValueError: the batch sizes or other numbers don't fit the TPU.
        """
        if not self.is_meant_for_tpu() or is_export_mode or self._on_one_device:
            return True
        if host_fallback.host_instead_of_tpu():
            host_fallback.warn_once(has_tables=self.embedding_config_spec is not None)
            return True
        self.system()
        return False

    def is_meant_for_tpu(self) -> bool:
        """Whether the user asked for a TPU in this mode; the host may stand in for it."""
        return self.use_tpu and (self.mode != ModeKeys.EVAL or self.eval_on_tpu)

    def system(self) -> Any:
        """The system whose replicas this mode runs on; None: it runs as a CPU does.

        Raises:
            RuntimeError: there is no TPU.
            ValueError: the batch sizes or other numbers don't fit the system.
        """
        if self._on_one_device:
            return None
        if self._host_replicas is not None:
            if self.mode == ModeKeys.EVAL and not self.eval_on_tpu:
                return None
            system: Any = systems.HostSystem(self._host_replicas)
        elif self.is_meant_for_tpu() and not host_fallback.host_instead_of_tpu():
            system = self._tpu()
        else:
            return None
        self._check(system)
        return system

    def _tpu(self) -> Any:
        evaluating = self.mode == ModeKeys.EVAL
        master = self.config.evaluation_master if evaluating else self.config.master
        if master not in self._systems:
            found = systems.find(self.config, master)
            if found is None:
                raise _no_tpu()
            self._systems[master] = found
        return self._systems[master]

    def _check(self, system: Any) -> None:
        """Refuses numbers that don't fit."""
        replicas, hosts, mode = system.num_replicas, system.num_hosts, self.mode
        name = replica_inputs.NAMES[mode]
        shards = self.config.tpu_config.num_shards
        if system.is_tpu and shards and shards != replicas:
            raise ValueError(
                f"TPUConfig.num_shards is not set correctly: the TPU system has {replicas} "
                f"replicas, but num_shards is {shards}. Leave it out, or set it to the number of "
                "cores divided by num_cores_per_replica."
            )
        if self.config.tpu_config.input_partition_dims is not None:
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
        everywhere = self.sharing in (Sharing.SAME_BATCH, Sharing.WHOLE_BATCH_CUT)
        if size % replicas and self.sharing is not Sharing.SAME_BATCH:
            raise ValueError(
                f"{name} batch size {size} must be divisible by number of replicas {replicas}"
            )
        dealt = self.sharing is Sharing.HOST_BATCHES_DEALT
        if hosts == 1 or mode == ModeKeys.TRAIN or everywhere:
            return
        if mode == ModeKeys.EVAL and not dealt:
            raise ValueError(
                "TPUEstimator.evaluate is only supported under three conditions: 1. num_hosts=1; "
                f"2. BROADCAST mode; 3. PER_HOST_V2 mode. There are {hosts} hosts, and the mode is "
                f"{self.sharing.value}."
            )
        if mode == ModeKeys.PREDICT and not (dealt and replicas == 1):
            raise ValueError(
                "TPUEstimator.predict is only supported under three conditions: 1. num_hosts=1; "
                f"2. BROADCAST mode; 3. PER_HOST_V2 mode with num_replicas=1. There are {hosts} "
                f"hosts and {replicas} replicas, and the mode is {self.sharing.value}."
            )


def _no_tpu() -> RuntimeError:
    devices = [device.name for device in tf.config.list_physical_devices()]
    return RuntimeError(
        "Cannot find any TPU cores in the system. To run on the CPU, give TPUEstimator "
        "use_tpu=False, or run the program by `python -m estimator_spec run --cpu`. If there "
        "should be a TPU, double check the Tensorflow master address and TPU worker(s). "
        f"Available devices are {devices}."
    )
