# SPDX-License-Identifier: Apache-2.0
"""Finds, describes and initializes the system that a training loop runs on.

That is a TPU, or a number of replicas on the host in its place; the training loop is the same.

`TpuSystem` was never run on a TPU: see "Not verified on hardware" in docs/status.md.
"""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from estimator_spec.core.run_config import TPURunConfig
from estimator_spec.core.run_config.tpu_context import HOST_DEVICE

tf1 = tf.compat.v1

# The variables that TPUClusterResolver reads if no name of a TPU is given.
_ENVIRONMENT = ("TPU_NAME", "TPU_CONFIG", "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS")

_MASTER_TIMEOUT_MS = 5 * 60 * 1000

# Cores of one replica, as a block (x, y, z, cores) of the topology, as in `tf.estimator`.
_BLOCKS = {
    1: [1, 1, 1, 1],
    2: [1, 1, 1, 2],
    4: [1, 2, 1, 2],
    8: [2, 2, 1, 2],
    16: [4, 2, 1, 2],
    32: [4, 4, 1, 2],
    64: [8, 4, 1, 2],
    128: [8, 8, 1, 2],
}


class HostSystem:
    """Replicas on the host, each on a logical CPU device.

    Args:
        replicas: their number.
        replaces_tpu: whether a program of a TPU runs on them, and is checked as on a TPU.
    """

    is_tpu = False
    num_hosts = 1

    def __init__(self, replicas: int, replaces_tpu: bool = False) -> None:
        self.num_replicas = replicas
        self.checks_as_tpu = replaces_tpu

    def strategy(self) -> Any:
        """Returns the strategy of the current graph: the default one for a single replica.

        Call it in a graph: outside of one, TensorFlow initializes its eager runtime, after which
        the number of logical devices can't be changed.
        """
        if self.num_replicas == 1:
            return tf.distribute.get_strategy()
        return tf.distribute.MirroredStrategy(
            [f"/cpu:{i}" for i in range(self.num_replicas)],
            cross_device_ops=tf.distribute.ReductionToOneDevice(),
        )

    def host_device(self, host: int) -> str:
        """Returns the CPU device of a host, given its index."""
        # With the name that a TPU of this machine would have.
        return f"/replica:0/task:0{HOST_DEVICE}" if self.checks_as_tpu else HOST_DEVICE

    def session_run_config(self, config: TPURunConfig) -> TPURunConfig:
        """Returns the configuration of the sessions, with a logical CPU device for each replica."""
        return config.replace(session_config=with_cpus(config.session_config, self.num_replicas))

    def running(self, embedding_config: Any) -> AbstractContextManager[None]:
        """Returns a context manager that does nothing."""
        return contextlib.nullcontext()


class TpuSystem:
    """A TPU system, local or behind the address of a session master.

    Args:
        resolver: a `TPUClusterResolver`, or None for a TPU of this machine.
        master: address of the session master; '' is this process.
        cores: device names of the TPU's cores, `/job:worker/replica:0/task:0/device:TPU:0`, ...
        cores_per_replica: number of cores of one replica; None: 1.
    """

    is_tpu = checks_as_tpu = True

    def __init__(
        self, resolver: Any, master: str, cores: Sequence[str], cores_per_replica: int | None = None
    ) -> None:
        self._resolver = resolver
        self.master = master
        self._cores = sorted(cores, key=_core_position)
        self._cores_per_replica = cores_per_replica
        self.num_cores = len(self._cores)
        self.num_hosts = len({_core_position(name)[:2] for name in self._cores})
        self.cores_per_host = self.num_cores // self.num_hosts

    @property
    def num_replicas(self) -> int:
        """Number of replicas of the model.

        Raises:
            ValueError: the number of cores isn't divisible by `cores_per_replica`.
        """
        wanted = self._cores_per_replica or 1
        if wanted > self.num_cores or self.num_cores % wanted:
            raise ValueError(
                f"TPUConfig.num_cores_per_replica is {wanted}, but the TPU system has "
                f"{self.num_cores} cores. Give a number that divides it."
            )
        return self.num_cores // wanted

    def strategy(self) -> Any:
        """Returns the `TPUStrategy` of the current graph."""
        if not self._cores_per_replica:
            return tf.distribute.TPUStrategy(self._resolver)
        topology = tf.tpu.experimental.Topology(serialized=self._initialize(None))
        assignment = tf.tpu.experimental.DeviceAssignment.build(
            topology,
            computation_shape=_BLOCKS[self._cores_per_replica],
            num_replicas=self.num_replicas,
        )
        return tf.distribute.TPUStrategy(self._resolver, experimental_device_assignment=assignment)

    def host_device(self, host: int) -> str:
        """Returns the CPU device of a host, given its index."""
        core = tf.DeviceSpec.from_string(self._cores[host * self.cores_per_host])
        return str(core.replace(device_type="CPU", device_index=0).to_string())

    def session_run_config(self, config: TPURunConfig) -> TPURunConfig:
        """Returns the configuration with the address and the jobs of the system."""
        return config.on_system(self.master, _add_cluster(config.session_config, self._resolver))

    @contextlib.contextmanager
    def running(self, embedding_config: Any) -> Iterator[None]:
        """Initializes the system and its embedding core, and shuts it down on exit.

        Args:
            embedding_config: a `TPUEmbeddingConfiguration`, or None without tables.
        """
        tf1.logging.info("Initializing the TPU system.")
        self._initialize(embedding_config)
        try:
            yield
        finally:
            try:
                self._run(lambda: tf1.tpu.shutdown_system(job=self._job()))
            except tf.errors.OpError as error:
                # Not raised: it would hide the exception that ended the run.
                tf1.logging.warning("The TPU system didn't shut down: %s", error)

    def _initialize(self, embedding_config: Any) -> bytes:
        """Initializes the system; returns its serialized topology."""
        topology = self._run(lambda: tf1.tpu.initialize_system(embedding_config, job=self._job()))
        if hasattr(self._resolver, "set_tpu_topology"):
            self._resolver.set_tpu_topology(topology)
        return bytes(topology)

    def _run(self, build: Callable[[], Any]) -> Any:
        """Runs the op that `build` returns in a graph and session of its own."""
        with tf.Graph().as_default():
            fetched = build()
            config = _add_cluster(tf1.ConfigProto(allow_soft_placement=True), self._resolver)
            with tf1.Session(self.master, config=config) as session:
                return session.run(fetched)

    def _job(self) -> str | None:
        """Returns the name of the TPU workers' job; None for a TPU of this process."""
        return tf.DeviceSpec.from_string(self._cores[0]).job if self.master else None


System = HostSystem | TpuSystem


def with_cpus(session_config: Any, count: int) -> Any:
    """Returns a copy of a session configuration that has at least `count` logical CPU devices."""
    config = copy.deepcopy(session_config)
    config.device_count["CPU"] = max(count, config.device_count["CPU"])
    return config


def find(config: TPURunConfig, master: str | None) -> TpuSystem | None:
    """Finds the TPU system of a run.

    Args:
        config: the `RunConfig`, whose `cluster` may be the resolver.
        master: address of the session master; '' or None: the TPU that the environment names, or
            that of this machine.

    Returns:
        The system; None if there are no TPU cores.

    Raises:
        RuntimeError: the session master doesn't answer.
    """
    resolver = config.cluster
    if resolver is None or (master and resolver.master() != master):
        resolver = _make_resolver(master)
    if resolver is None:
        return None
    address = master or resolver.master() or ""
    cores = [name for name in _devices(address, resolver) if "device:TPU:" in name]
    if not cores:
        return None
    return TpuSystem(resolver, address, cores, config.tpu_config.num_cores_per_replica)


def _make_resolver(master: str | None) -> Any:
    """Returns a `TPUClusterResolver`; None if no TPU is named and this machine has none."""
    make = tf.distribute.cluster_resolver.TPUClusterResolver
    if master:
        return make(tpu=master)
    if any(os.environ.get(name) for name in _ENVIRONMENT):
        return make()
    return make(tpu="local") if tf.config.list_physical_devices("TPU") else None


def _devices(master: str, resolver: Any) -> list[str]:
    """Returns the names of the devices of a session master."""
    config = _add_cluster(tf1.ConfigProto(operation_timeout_in_ms=_MASTER_TIMEOUT_MS), resolver)
    try:
        with tf.Graph().as_default(), tf1.Session(master, config=config) as session:
            return [device.name for device in session.list_devices()]
    except tf.errors.OpError as error:
        raise RuntimeError(
            f"Cannot find any TPU cores in the system: no TPU worker answers at {master!r} "
            f"({error.message}). Double check the Tensorflow master address and TPU worker(s). To "
            "run on the CPU, give TPUEstimator use_tpu=False, or run the program by `python -m "
            "estimator_spec run --cpu`."
        ) from error


def _add_cluster(given: Any, resolver: Any) -> Any:
    """Returns a copy of a session configuration with the resolver's cluster."""
    config = copy.deepcopy(given)
    config.isolate_session_state = True
    cluster = None if resolver is None else resolver.cluster_spec()
    if cluster:
        config.cluster_def.CopyFrom(cluster.as_cluster_def())
    return config


def _core_position(device: str) -> tuple[str, int, int]:
    """Returns job, task and index of a core, which order the replicas."""
    spec = tf.DeviceSpec.from_string(device)
    return spec.job or "", spec.task or 0, spec.device_index or 0
