# SPDX-License-Identifier: Apache-2.0
"""Defines `TPUContext`, the `params['context']` of a program: replicas and hosts of its system."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

HOST_DEVICE = "/device:CPU:0"


class Deployment(NamedTuple):
    """Replicas and hosts of a system, and the current call of `input_fn`.

    Attributes:
        num_replicas: number of replicas of the model.
        num_hosts: number of hosts that feed them.
        invocations: number of calls of `input_fn`.
        invocation: index of the current call.
        host: index of the host of the current call.
        host_devices: CPU device of each host.
    """

    num_replicas: int = 1
    num_hosts: int = 1
    invocations: int = 1
    invocation: int = 0
    host: int = 0
    host_devices: tuple[str, ...] = (HOST_DEVICE,)


class TPUContext:
    """Replicas and hosts of a program's system; by default one replica on one host.

    >>> TPUContext().current_input_fn_deployment()
    ('/device:CPU:0', 0, 1, 1)

    Args:
        call_from_input_fn: whether it is passed to `input_fn` (True) or `model_fn`; each has
            properties that the other one may not read.
        deployment: the values.
    """

    def __init__(
        self, call_from_input_fn: bool = True, deployment: Deployment | None = None
    ) -> None:
        self._call_from_input_fn = call_from_input_fn
        self._deployment = deployment or Deployment()

    def current_input_fn_deployment(self) -> tuple[str, int, int, int]:
        """Returns the deployment of this call of `input_fn`.

        Returns:
            Device of the host, index of this call, number of calls, number of replicas that get the
            data of this call.

        Raises:
            RuntimeError: it is called in a `model_fn`.
        """
        self._check_caller("input_fn")
        deployment = self._deployment
        return (
            deployment.host_devices[deployment.host],
            deployment.invocation,
            deployment.invocations,
            deployment.num_replicas // deployment.invocations,
        )

    @property
    def num_replicas(self) -> int:
        """Number of replicas."""
        return self._deployment.num_replicas

    @property
    def num_hosts(self) -> int:
        """Number of hosts."""
        return self._deployment.num_hosts

    @property
    def num_of_replicas_per_host(self) -> int:
        """Number of replicas that each host feeds."""
        return self._deployment.num_replicas // self._deployment.num_hosts

    @property
    def current_host(self) -> int:
        """Index of this host.

        Raises:
            RuntimeError: it is read in a `model_fn`.
        """
        self._check_caller("input_fn")
        return self._deployment.host

    @property
    def device_assignment(self) -> Any:
        """None in place of the `DeviceAssignment` of the replicas, which isn't known here.

        Raises:
            RuntimeError: it is read in an `input_fn`.
        """
        self._check_caller("model_fn")
        return None

    def device_for_replica(self, replica_id: int) -> tuple[str, int]:
        """Returns the host device of a replica and the ordinal of its core on that host.

        Args:
            replica_id: index of the replica.

        Raises:
            ValueError: there is no such replica.
        """
        count = self._deployment.num_replicas
        if not 0 <= replica_id < count:
            there = "is one replica, of id 0" if count == 1 else f"are {count} replicas, from 0 on"
            raise ValueError(f"There {there}; got replica_id={replica_id}.")
        each = self.num_of_replicas_per_host
        device = self._deployment.host_devices[replica_id // each]
        return device.replace("/replica:0/task:", "/task:"), replica_id % each

    @property
    def tpu_host_placement_function(self) -> Callable[[int], str]:
        """Function from the index of a host to its device."""
        return lambda host_id: self._deployment.host_devices[host_id]

    def _check_caller(self, function: str) -> None:
        if self._call_from_input_fn != (function == "input_fn"):
            other = "model_fn" if function == "input_fn" else "input_fn"
            raise RuntimeError(f"This TPUContext instance must not be called from {other}.")
