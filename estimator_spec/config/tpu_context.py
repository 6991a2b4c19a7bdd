# SPDX-License-Identifier: Apache-2.0
"""TPUContext: what `params['context']` tells a program about the system that it runs on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

HOST_DEVICE = "/device:CPU:0"


class Deployment(NamedTuple):
    """The numbers of a system, and the call of `input_fn` that is under way.

    Attributes:
        num_replicas: copies of the model in all.
        num_hosts: hosts that feed them.
        invocations: calls of `input_fn` in all.
        invocation: index of this one.
        host: index of the host that this one runs on.
        host_devices: the CPU of each host.
        device_assignment: which cores make up a replica, if several do.
    """

    num_replicas: int = 1
    num_hosts: int = 1
    invocations: int = 1
    invocation: int = 0
    host: int = 0
    host_devices: tuple[str, ...] = (HOST_DEVICE,)
    device_assignment: Any = None


class TPUContext:
    """What a program asks about its system: by default one replica on one host, the CPU.

    >>> TPUContext().current_input_fn_deployment()
    ('/device:CPU:0', 0, 1, 1)

    Args:
        call_from_input_fn: for `input_fn` (True) or for `model_fn`. Each has questions that the
            other one can't ask.
        deployment: the answers.
    """

    def __init__(
        self, call_from_input_fn: bool = True, deployment: Deployment | None = None
    ) -> None:
        self._call_from_input_fn = call_from_input_fn
        self._deployment = deployment or Deployment()

    def current_input_fn_deployment(self) -> tuple[str, int, int, int]:
        """Where this call of `input_fn` runs, and for whom.

        Returns:
            The device of the host; the index of this call; how many calls there are in all; how
            many replicas get the data of this call.

        Raises:
            RuntimeError: asked in a `model_fn`.
        """
        self._only_in("input_fn")
        found = self._deployment
        return (
            found.host_devices[found.host],
            found.invocation,
            found.invocations,
            found.num_replicas // found.invocations,
        )

    @property
    def num_replicas(self) -> int:
        """How many replicas there are in all."""
        return self._deployment.num_replicas

    @property
    def num_hosts(self) -> int:
        """How many hosts there are."""
        return self._deployment.num_hosts

    @property
    def num_of_replicas_per_host(self) -> int:
        """How many replicas each host feeds."""
        return self._deployment.num_replicas // self._deployment.num_hosts

    @property
    def current_host(self) -> int:
        """The index of this host.

        Raises:
            RuntimeError: asked in a `model_fn`.
        """
        self._only_in("input_fn")
        return self._deployment.host

    @property
    def device_assignment(self) -> Any:
        """Which cores make up a replica: None if each core is one, or there are none.

        Raises:
            RuntimeError: asked in an `input_fn`.
        """
        self._only_in("model_fn")
        return self._deployment.device_assignment

    def device_for_replica(self, replica_id: int) -> tuple[str, int]:
        """The host's device of a replica, and the ordinal of its core on that host.

        Args:
            replica_id: from 0 on.
        """
        count = self._deployment.num_replicas
        if not 0 <= replica_id < count:
            there = "is one replica, of id 0" if count == 1 else f"are {count} replicas, from 0 on"
            raise ValueError(f"There {there}; got replica_id={replica_id}.")
        each = self.num_of_replicas_per_host
        return self._deployment.host_devices[replica_id // each], replica_id % each

    @property
    def tpu_host_placement_function(self) -> Callable[[int], str]:
        """A function from the index of a host to its device."""
        return lambda host_id: self._deployment.host_devices[host_id]

    def _only_in(self, function: str) -> None:
        if self._call_from_input_fn != (function == "input_fn"):
            other = "model_fn" if function == "input_fn" else "input_fn"
            raise RuntimeError(f"This TPUContext instance must not be called from {other}.")
