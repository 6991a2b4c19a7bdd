# SPDX-License-Identifier: Apache-2.0
"""What a `TPUEstimator` knows about its run: batch sizes, and whether a TPU is meant."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from estimator_spec import off_tpu
from estimator_spec.model_spec import ModeKeys
from estimator_spec.run_config import InputPipelineConfig


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
        train_replicas: replicas among which a batch of training is cut.
    """

    num_replicas = 1
    num_hosts = 1

    def __init__(
        self,
        config: Any,
        train_batch_size: int | None,
        eval_batch_size: int | None,
        predict_batch_size: int | None,
        use_tpu: bool,
        eval_on_tpu: bool = True,
        embedding_config_spec: Any = None,
        train_replicas: int = 1,
    ) -> None:
        self._train_replicas = train_replicas
        self.config = config
        self.use_tpu = use_tpu
        self.eval_on_tpu = eval_on_tpu
        self.embedding_config_spec = embedding_config_spec
        self._batch_sizes = {
            ModeKeys.TRAIN: train_batch_size,
            ModeKeys.EVAL: eval_batch_size,
            ModeKeys.PREDICT: predict_batch_size,
        }
        self._mode: str | None = None

    @contextlib.contextmanager
    def with_mode(self, mode: str) -> Iterator[RunContext]:
        """Gives this context as it is in `mode`, one of `ModeKeys`."""
        seen = copy.copy(self)
        seen._mode = mode
        yield seen

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
    def global_batch_size(self) -> int | None:
        """Examples in one step over all replicas, or None if the user didn't say."""
        return self._batch_sizes.get(self.mode)

    @property
    def batch_size_for_input_fn(self) -> int | None:
        """What `params['batch_size']` is in `input_fn`."""
        return self.global_batch_size

    @property
    def batch_size_for_model_fn(self) -> int | None:
        """What `params['batch_size']` is in `model_fn`: the size of one replica's part."""
        whole = self.global_batch_size
        if whole is None or self.mode != ModeKeys.TRAIN:
            return whole
        return whole // self._train_replicas

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
        """
        if not self.is_meant_for_tpu() or is_export_mode:
            return True
        if off_tpu.host_instead_of_tpu():
            off_tpu.warn_once(has_tables=self.embedding_config_spec is not None)
            return True
        raise _no_tpu()

    def is_meant_for_tpu(self) -> bool:
        """Whether the user asked for a TPU in this mode; the host may stand in for it."""
        return self.use_tpu and (self.mode != ModeKeys.EVAL or self.eval_on_tpu)


def _no_tpu() -> RuntimeError:
    if tf.config.list_physical_devices("TPU"):
        return RuntimeError(
            "use_tpu=True: this version can't run on the TPU of this machine yet. Set "
            "use_tpu=False to run on its CPU."
        )
    devices = [device.name for device in tf.config.list_physical_devices()]
    return RuntimeError(
        "Cannot find any TPU cores in the system. To run on the CPU, give TPUEstimator "
        "use_tpu=False, or run the program by `python -m estimator_spec run --cpu`. If there "
        "should be a TPU, double check the Tensorflow master address and TPU worker(s). "
        f"Available devices are {devices}."
    )
