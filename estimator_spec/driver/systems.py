# SPDX-License-Identifier: Apache-2.0
"""What a training loop runs on: a TPU system, or replicas on the host that stand in for one.

Both say how many replicas and hosts there are, give the `tf.distribute` strategy of a graph, and
start and stop what must be started. The loop is the same on both.

No TPU was at hand when this was written: see "Not verified on hardware" in README.md.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1

# Where TPUClusterResolver looks for the name of a TPU that nobody gave it.
_ENVIRONMENT = ("TPU_NAME", "TPU_CONFIG", "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS")

_ANSWER_WITHIN_MS = 5 * 60 * 1000

# Cores of one replica, as a block (x, y, z, cores) of the topology; the old system's.
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
    """Replicas on the host: each is a logical CPU device.

    Args:
        replicas: how many.
    """

    is_tpu = False
    num_hosts = 1
    cores_per_host = 1

    def __init__(self, replicas: int) -> None:
        self.num_replicas = replicas

    def strategy(self) -> Any:
        """The strategy of the current graph: the default one for a single replica.

        Outside of a graph TensorFlow looks for the devices of its eager runtime, whose number can't
        be changed any more once it runs. A session makes its own.
        """
        if self.num_replicas == 1:
            return tf.distribute.get_strategy()
        return tf.distribute.MirroredStrategy(
            [f"/cpu:{i}" for i in range(self.num_replicas)],
            cross_device_ops=tf.distribute.ReductionToOneDevice(),
        )

    def host_device(self, host: int) -> str:
        """The CPU of a host, as a device."""
        del host
        return "/device:CPU:0"

    def configured(self, config: Any) -> Any:
        """The configuration, with a logical CPU for each replica in its sessions."""
        session_config = tf1.ConfigProto()
        session_config.CopyFrom(config.session_config)
        count = max(self.num_replicas, session_config.device_count["CPU"])
        session_config.device_count["CPU"] = count
        return config.replace(session_config=session_config)

    @contextlib.contextmanager
    def running(self, embedding_config: Any) -> Iterator[None]:
        """Around the sessions of a run: nothing to start."""
        del embedding_config
        yield


class TpuSystem:
    """A TPU system, local or behind the address of a session master.

    Args:
        resolver: a `TPUClusterResolver`, or None for a TPU of this machine.
        master: address of its session master; '' is this process.
        cores: device names of the TPU's cores, `/job:worker/replica:0/task:0/device:TPU:0`, ...
        cores_per_replica: cores that share one model; None: each has its own.
    """

    is_tpu = True

    def __init__(
        self, resolver: Any, master: str, cores: Sequence[str], cores_per_replica: int | None = None
    ) -> None:
        self._resolver = resolver
        self.master = master
        self._cores = sorted(cores, key=_place)
        self._cores_per_replica = cores_per_replica
        self.num_cores = len(self._cores)
        self.num_hosts = len({_place(name)[:2] for name in self._cores})
        self.cores_per_host = self.num_cores // self.num_hosts

    @property
    def num_replicas(self) -> int:
        """How many copies of the model the cores hold.

        Raises:
            ValueError: a model needs more cores than there are, or a part of the cores is left.
        """
        wanted = self._cores_per_replica or 1
        if wanted > self.num_cores or self.num_cores % wanted:
            raise ValueError(
                f"TPUConfig.num_cores_per_replica is {wanted}, but the TPU system has "
                f"{self.num_cores} cores. Give a number that divides it."
            )
        return self.num_cores // wanted

    def strategy(self) -> Any:
        """The `TPUStrategy` of the current graph."""
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
        """The CPU of a host, as a device."""
        core = tf.DeviceSpec.from_string(self._cores[host * self.cores_per_host])
        return str(core.replace(device_type="CPU", device_index=0).to_string())

    def configured(self, config: Any) -> Any:
        """The configuration, with the system's address and jobs in its sessions."""
        return config.on_system(self.master, self._session_config(config.session_config))

    @contextlib.contextmanager
    def running(self, embedding_config: Any) -> Iterator[None]:
        """Initializes the system, its embedding core too, and shuts it down afterwards.

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
            except tf.errors.OpError as error:  # what ended the run is what the user must hear of
                tf1.logging.warning("The TPU system didn't shut down: %s", error)

    def _initialize(self, embedding_config: Any) -> bytes:
        topology = self._run(lambda: tf1.tpu.initialize_system(embedding_config, job=self._job()))
        if hasattr(self._resolver, "set_tpu_topology"):
            self._resolver.set_tpu_topology(topology)
        return bytes(topology)

    def _run(self, build: Any) -> Any:
        """Runs one op in a session of its own: before variables are, or when they are gone."""
        with tf.Graph().as_default():
            fetched = build()
            config = self._session_config(tf1.ConfigProto(allow_soft_placement=True))
            with tf1.Session(self.master, config=config) as session:
                return session.run(fetched)

    def _job(self) -> str | None:
        return tf.DeviceSpec.from_string(self._cores[0]).job if self.master else None

    def _session_config(self, given: Any) -> Any:
        return _with_cluster(given, self._resolver)


def find(config: Any, master: str | None) -> TpuSystem | None:
    """Finds the TPU system of a run.

    Args:
        config: the `RunConfig`, whose `cluster` may be the resolver.
        master: the address that the run uses, or '' or None: then the environment or this machine
            may have a TPU.

    Returns:
        The system; None if there are no TPU cores.

    Raises:
        RuntimeError: nobody answers at the address.
    """
    resolver = config.cluster
    if resolver is None or (master and resolver.master() != master):
        resolver = _resolver(master)
    if resolver is None:
        return None
    address = master or resolver.master() or ""
    cores = [name for name in _devices(address, resolver) if "device:TPU:" in name]
    if not cores:
        return None
    return TpuSystem(resolver, address, cores, config.tpu_config.num_cores_per_replica)


def _resolver(master: str | None) -> Any:
    make = tf.distribute.cluster_resolver.TPUClusterResolver
    if master:
        return make(tpu=master)
    if any(os.environ.get(name) for name in _ENVIRONMENT):
        return make()
    return make(tpu="local") if tf.config.list_physical_devices("TPU") else None


def _devices(master: str, resolver: Any) -> list[str]:
    config = _with_cluster(tf1.ConfigProto(operation_timeout_in_ms=_ANSWER_WITHIN_MS), resolver)
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


def _with_cluster(given: Any, resolver: Any) -> Any:
    config = tf1.ConfigProto()
    config.CopyFrom(given)
    config.isolate_session_state = True
    cluster = None if resolver is None else resolver.cluster_spec()
    if cluster:
        config.cluster_def.CopyFrom(cluster.as_cluster_def())
    return config


def _place(device: str) -> tuple[str, int, int]:
    """Job, task and index of a core: the order of replicas."""
    spec = tf.DeviceSpec.from_string(device)
    return spec.job or "", spec.task or 0, spec.device_index or 0
