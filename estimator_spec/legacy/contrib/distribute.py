# SPDX-License-Identifier: Apache-2.0
"""Reimplements the strategies of `tensorflow.contrib.distribute` by TensorFlow's own."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

tf1 = tf.compat.v1


class DistributeConfig(NamedTuple):
    """Value of `RunConfig(experimental_distribute=…)`.

    Attributes:
        train_distribute: a `tf.distribute.Strategy` to train with, or None.
        eval_distribute: a `tf.distribute.Strategy` to evaluate with, or None.
        remote_cluster: a cluster that one process controls, or None; such a training is refused.
    """

    train_distribute: Any = None
    eval_distribute: Any = None
    remote_cluster: Any = None


class MirroredStrategy(tf1.distribute.MirroredStrategy):
    """A strategy of several devices of this machine.

    Args:
        devices: their names; None: as many GPUs as the next arguments say, by default all.
        num_gpus: number of GPUs.
        num_gpus_per_worker: another name of `num_gpus`.
        cross_device_ops: as in `tf.distribute.MirroredStrategy`.
        auto_shard_dataset: ignored: all devices share one dataset.
        cross_tower_ops: another name of `cross_device_ops`.

    Raises:
        ValueError: devices and a number of GPUs are given.
    """

    def __init__(
        self,
        devices: Any = None,
        num_gpus: int | None = None,
        num_gpus_per_worker: int | None = None,
        cross_device_ops: Any = None,
        auto_shard_dataset: bool = False,
        cross_tower_ops: Any = None,
    ) -> None:
        del auto_shard_dataset
        count = num_gpus or num_gpus_per_worker
        if devices is not None and count:
            raise ValueError(f"MirroredStrategy takes devices={devices} or {count} GPUs, not both.")
        if count:
            devices = [f"/gpu:{number}" for number in range(count)]
        super().__init__(devices, cross_device_ops or cross_tower_ops)


class CollectiveAllReduceStrategy(tf1.distribute.experimental.MultiWorkerMirroredStrategy):
    """A strategy of the processes in TF_CONFIG, which add their gradients by collectives.

    Args:
        num_gpus_per_worker: ignored: TensorFlow's strategy takes all GPUs that it sees.
        communication: as in TensorFlow's own; None: TensorFlow chooses.
    """

    def __init__(self, num_gpus_per_worker: int = 0, communication: Any = None) -> None:
        del num_gpus_per_worker
        super().__init__(**({} if communication is None else {"communication": communication}))


class ParameterServerStrategy(tf1.distribute.experimental.ParameterServerStrategy):
    """A strategy of the parameter servers in TF_CONFIG.

    Args:
        num_gpus_per_worker: ignored: a worker takes the GPUs that it sees.
    """

    def __init__(self, num_gpus_per_worker: int = 0) -> None:
        del num_gpus_per_worker
        super().__init__()
