# SPDX-License-Identifier: Apache-2.0
"""TPUContext: what `params['context']` tells a program about the system that it runs on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

HOST_DEVICE = "/device:CPU:0"


class TPUContext:
    """The deployment of one replica on one host: a TPU's program, running on the CPU.

    >>> TPUContext().current_input_fn_deployment()
    ('/device:CPU:0', 0, 1, 1)

    Args:
        call_from_input_fn: for `input_fn` (True) or for `model_fn`. Each has questions that the
            other one can't ask.
    """

    def __init__(self, call_from_input_fn: bool = True) -> None:
        self._call_from_input_fn = call_from_input_fn

    def current_input_fn_deployment(self) -> tuple[str, int, int, int]:
        """Where this call of `input_fn` runs, and for whom.

        Returns:
            The device of the host; the index of this call; how many calls there are in all; how
            many replicas get the data of this call.

        Raises:
            RuntimeError: asked in a `model_fn`.
        """
        self._only_in("input_fn")
        return HOST_DEVICE, 0, 1, 1

    @property
    def num_replicas(self) -> int:
        """How many replicas there are in all."""
        return 1

    @property
    def num_hosts(self) -> int:
        """How many hosts there are."""
        return 1

    @property
    def num_of_replicas_per_host(self) -> int:
        """How many replicas each host feeds."""
        return 1

    @property
    def current_host(self) -> int:
        """The index of this host.

        Raises:
            RuntimeError: asked in a `model_fn`.
        """
        self._only_in("input_fn")
        return 0

    @property
    def device_assignment(self) -> Any:
        """Which cores make up a replica: None, since there are no cores.

        Raises:
            RuntimeError: asked in an `input_fn`.
        """
        self._only_in("model_fn")

    def device_for_replica(self, replica_id: int) -> tuple[str, int]:
        """The host's device of a replica, and the ordinal of its core.

        Args:
            replica_id: 0.
        """
        if replica_id != 0:
            raise ValueError(f"There is one replica, of id 0; got replica_id={replica_id}.")
        return HOST_DEVICE, 0

    @property
    def tpu_host_placement_function(self) -> Callable[[int], str]:
        """A function from the index of a host to its device."""
        return lambda host_id: HOST_DEVICE

    def _only_in(self, function: str) -> None:
        if self._call_from_input_fn != (function == "input_fn"):
            other = "model_fn" if function == "input_fn" else "input_fn"
            raise RuntimeError(f"This TPUContext instance must not be called from {other}.")
