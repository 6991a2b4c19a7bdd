# SPDX-License-Identifier: Apache-2.0
"""Defines `TPUConfig`: training steps per TPU program, replicas, and the input pipeline's hosts.

Without a TPU most fields have no effect. They are checked nevertheless, so that a program that runs
on a CPU is accepted on a TPU.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from estimator_spec.core.common import argument_rules
from estimator_spec.core.run_config import tf_config

_ITERATIONS = re.compile(r"(?P<value>[1-9][0-9]*)(?P<unit>[smh]?)")
_SECONDS = {"s": 1, "m": 60, "h": 3600}


class InputPipelineConfig:
    """Values of `per_host_input_for_training`: the calls of `input_fn`.

    PER_SHARD_V1: one for each core. PER_HOST_V1: one for each host, whose batch is split among the
    host's cores. PER_HOST_V2: one for each host, whose dataset has a batch for each core.
    BROADCAST: one; every core gets the whole batch. SLICED: one; every core gets a slice
    (evaluation only).
    """

    PER_SHARD_V1 = 1
    PER_HOST_V1 = 2
    PER_HOST_V2 = 3
    BROADCAST = 4
    SLICED = 5


class IterationsPerLoop(NamedTuple):
    """Length of a loop on the device: `value` in `unit`, 'count' (of steps) or 'seconds'."""

    value: int
    unit: str


def parse_iterations_per_loop(iterations_per_loop: int | str) -> IterationsPerLoop:
    """Parses a number of steps, or a duration in seconds, minutes or hours.

    >>> parse_iterations_per_loop(100)
    IterationsPerLoop(value=100, unit='count')
    >>> parse_iterations_per_loop('2m')
    IterationsPerLoop(value=120, unit='seconds')

    Raises:
        ValueError: it is neither.
    """
    match = _ITERATIONS.fullmatch(str(iterations_per_loop))
    if match is None:
        raise ValueError(
            "Invalid TPUConfig `iterations_per_loop` value. Value must be positive integer value, "
            "a number of steps, or time-based value `<N><s|m|h>`, N seconds, minutes or hours: "
            f"`3600s`, `60m`, `1h`. Got {iterations_per_loop!r}."
        )
    value, unit = int(match["value"]), match["unit"]
    if not unit:
        return IterationsPerLoop(value, "count")
    return IterationsPerLoop(value * _SECONDS[unit], "seconds")


def check_positive_integer(value: Any, name: str) -> None:
    """Checks that a value is an integer of at least 1.

    TensorFlow's function of this name accepts bools too.

    Raises:
        TypeError: it is not an integer.
        ValueError: it is 0 or less.
    """
    if not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be int, got {type(value)}")
    if value <= 0:
        raise ValueError(f"{name} must be positive, got {value}")


class _TPUConfigFields(NamedTuple):
    iterations_per_loop: int | str
    num_shards: int | None
    num_cores_per_replica: int | None
    per_host_input_for_training: int
    tpu_job_name: str | None
    initial_infeed_sleep_secs: int | None
    input_partition_dims: Any
    eval_training_input_configuration: int
    experimental_host_call_every_n_steps: int
    experimental_allow_per_host_v2_parallel_get_next: bool
    experimental_feed_hook: Any


class TPUConfig(_TPUConfigFields):
    """TPU configuration of a run, a named tuple.

    >>> TPUConfig(100, num_shards=8).iterations_per_loop
    100

    Args:
        iterations_per_loop: training steps in one TPU program, an int, or its duration ('30s',
            '5m', '1h'). Hooks, checkpoints and the global step see only the ends of these loops,
            so a checkpoint interval should be a multiple of it. Default 2. No effect on a CPU,
            where each step is a loop of its own.
        num_shards: number of replicas that the program expects. Another number in the TPU system
            is an error. None (the default): any number.
        num_cores_per_replica: cores of one replica (model parallelism): 1, 2, 4, 8, 16, 32, 64 or
            128. None (the default): each core is a replica.
        per_host_input_for_training: one of `InputPipelineConfig`; True means PER_HOST_V1 (the
            default), False means PER_SHARD_V1. Determines the `params['batch_size']` of `input_fn`
            on a TPU.
        tpu_job_name: job of the TPU workers. None: from TF_CONFIG or the cluster.
        initial_infeed_sleep_secs: seconds to wait before the first batch is sent, for programs
            with a long compilation.
        input_partition_dims: for each tensor of features (and labels), the number of parts of each
            dimension among a replica's cores; a list or tuple of one or two elements. Needs
            PER_HOST_V2 and `num_cores_per_replica`.
        eval_training_input_configuration: PER_HOST_V1 (the default: evaluation reads as training
            does) or SLICED.
        experimental_host_call_every_n_steps: steps between two host calls. Default 1.
        experimental_allow_per_host_v2_parallel_get_next: whether PER_HOST_V2 may fetch batches in
            parallel, which changes their order.
        experimental_feed_hook: class that replaces the infeed and outfeed hook.

    Raises:
        ValueError: a value is out of range, or `input_partition_dims` lacks what it needs.
        TypeError: `num_shards`, `initial_infeed_sleep_secs` or
            `experimental_host_call_every_n_steps` is not an integer.
    """

    __slots__ = ()

    def __new__(
        cls,
        iterations_per_loop: int | str = 2,
        num_shards: int | None = None,
        num_cores_per_replica: int | None = None,
        per_host_input_for_training: bool | int = True,
        tpu_job_name: str | None = None,
        initial_infeed_sleep_secs: int | None = None,
        input_partition_dims: Any = None,
        eval_training_input_configuration: int = InputPipelineConfig.PER_HOST_V1,
        experimental_host_call_every_n_steps: int = 1,
        experimental_allow_per_host_v2_parallel_get_next: bool = False,
        experimental_feed_hook: Any = None,
    ) -> TPUConfig:
        """Checks the values; see the class."""
        given = locals()
        parse_iterations_per_loop(iterations_per_loop)
        argument_rules.check("TPUConfig", given)
        if input_partition_dims is not None:
            _check_partition_dims(
                input_partition_dims, per_host_input_for_training, num_cores_per_replica
            )
        if per_host_input_for_training is True:
            per_host_input_for_training = InputPipelineConfig.PER_HOST_V1
        elif per_host_input_for_training is False:
            per_host_input_for_training = InputPipelineConfig.PER_SHARD_V1
        changed = {
            "per_host_input_for_training": per_host_input_for_training,
            "tpu_job_name": tpu_job_name or tf_config.tpu_job_name(tf_config.read()),
        }
        return super().__new__(cls, **{name: given[name] for name in cls._fields} | changed)

    def _replace(self, **changes: Any) -> TPUConfig:  # type: ignore[override]
        """Returns a copy with other values, with the same checks."""
        return type(self)(**{**self._asdict(), **changes})


def _check_partition_dims(dims: Any, per_host: bool | int, cores: int | None) -> None:
    """Checks `input_partition_dims` and the arguments that it needs."""
    if not isinstance(dims, (list, tuple)) or len(dims) not in (1, 2):
        raise ValueError("input_partition_dims must be a list/tuple with one or two elements.")
    if per_host != InputPipelineConfig.PER_HOST_V2:
        raise ValueError("input_partition_dims is only supported in PER_HOST_V2 mode.")
    if cores is None:
        raise ValueError("input_partition_dims requires setting num_cores_per_replica.")
