# SPDX-License-Identifier: Apache-2.0
"""Replicas of a strategy: which one a call is in, its part of values, and what all of them give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

DEVICE = "/device:CPU:0"
"""Where tables are and their ops run."""


class _Warned:
    """State of the warning of this process."""

    logged = False


def warn_if_installed(name: str, kind: type) -> None:
    """Logs that tables are trained on the host, once in a process, if `install()` is why.

    Args:
        name: name of an embedding object's class in TensorFlow.
        kind: the class.
    """
    installed = getattr(tf.tpu.experimental.embedding, name, None) is kind
    if installed and not _Warned.logged:
        _Warned.logged = True
        tf.compat.v1.logging.warning(
            "%s was created without a TPUStrategy: estimator_spec trains its tables on this host.",
            name,
        )


class LocalReplicas:
    """Replicas of a strategy, all of them in this process.

    Args:
        strategy: the strategy in whose scope an embedding object was made.

    Attributes:
        number: number of replicas.
        devices: their devices.

    Raises:
        RuntimeError: replicas are in several processes, or parameters on servers.
    """

    def __init__(self, strategy: Any) -> None:
        several = (
            tf.distribute.MultiWorkerMirroredStrategy,
            tf.distribute.ParameterServerStrategy,
            tf.compat.v1.distribute.experimental.ParameterServerStrategy,
        )
        if isinstance(strategy, several):
            raise RuntimeError(
                f"An embedding object can't be created under {type(strategy).__name__}: without a "
                "TPU its tables are of one process. Take MirroredStrategy, OneDeviceStrategy or "
                "none."
            )
        self._strategy = strategy
        alone = not tf.distribute.has_strategy()
        self._name = "no strategy" if alone else f"another {type(strategy).__name__}"
        self.number = int(strategy.num_replicas_in_sync)
        # The default strategy has no list of devices.
        self.devices = [DEVICE] if alone else list(strategy.extended.worker_devices)

    def of_enqueue(self, device: str | None) -> list[int]:
        """Returns the numbers of the replicas that a call of `enqueue` is for.

        Raises:
            ValueError: the device is none of the strategy.
            RuntimeError: the call is in another strategy's replica.
        """
        if device is not None:
            wanted = _device(device)
            devices = list(map(_device, self.devices))
            if wanted not in devices:
                raise ValueError(
                    f"Device {device} passed to enqueue is none of the strategy's, which are "
                    f"{self.devices}."
                )
            return [devices.index(wanted)]
        replica = self._current()
        return list(range(self.number)) if replica is None else [replica]

    def current_one(self) -> int:
        """Returns the number of the current replica.

        Raises:
            RuntimeError: the call is for several replicas, or in another strategy's.
        """
        replica = self._current()
        if replica is None:
            raise RuntimeError(
                "dequeue, embedding_lookup and apply_gradients belong to a replica, of which there "
                f"are {self.number}. Call them in a function that strategy.run runs."
            )
        return replica

    def local(self, value: Any, replica: int) -> Any:
        """Returns a replica's part of a value, or the value if all have the same."""
        if not isinstance(value, tf.distribute.DistributedValues):
            return value
        return self._strategy.experimental_local_results(value)[replica]

    def merge(self, function: Callable[[list[Any]], None], tensors: Sequence[Any]) -> None:
        """Calls a function once for all replicas, of the tensors of the first, the second, ….

        Args:
            function: the function.
            tensors: of the current replica; all replicas have as many.
        """
        if self.number == 1:
            function(list(tensors))
            return

        def merged(strategy: Any, values: Any) -> None:
            local = [strategy.experimental_local_results(value) for value in values]
            by_replica = zip(*local, strict=True)
            function([tensor for one in by_replica for tensor in one])

        tf.distribute.get_replica_context().merge_call(merged, args=(list(tensors),))

    def _current(self) -> int | None:
        """Returns the number of the current replica; None if the call is for all replicas."""
        strategy, context = tf.distribute.get_strategy(), tf.distribute.get_replica_context()
        if context is None or self.number == strategy.num_replicas_in_sync == 1:
            return 0 if self.number == 1 else None
        if strategy is self._strategy:
            return int(tf.get_static_value(context.replica_id_in_sync_group))
        if not tf.distribute.has_strategy():
            return None
        raise RuntimeError(
            f"The embedding object was created under {self._name}, and is used in a replica of "
            f"{type(strategy).__name__}. Create it in the scope of the strategy that runs the step."
        )


def _device(name: str) -> tuple[str, int]:
    """Returns type and number of a device."""
    spec = tf.DeviceSpec.from_string(tf.DeviceSpec.from_string(name).to_string())
    return str(spec.device_type).upper(), int(spec.device_index or 0)
