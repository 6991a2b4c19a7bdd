# SPDX-License-Identifier: Apache-2.0
"""Defines the `RunConfig` of `tf.contrib.learn`, which estimators of `tf.estimator` take, too."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

import tensorflow as tf

from estimator_spec.core import run_config
from estimator_spec.core.run_config import rules


class Environment:
    """Values of the entry "environment" of TF_CONFIG."""

    CLOUD = "cloud"
    GOOGLE = "google"
    LOCAL = "local"


class RunConfig(run_config.RunConfig):
    """Configuration of runs.

    Arguments not listed here are as in `estimator_spec.RunConfig`.

    Args:
        master: address of the session master, instead of that of TF_CONFIG.
        num_cores: threads of ops and of graphs; 0 lets TensorFlow choose.
        log_device_placement: whether the devices of ops are logged.
        gpu_memory_fraction: share of a GPU's memory.
        evaluation_master: address of the master of evaluations.

    Raises:
        ValueError: as for `estimator_spec.RunConfig`.
    """

    def __init__(
        self,
        master: str | None = None,
        num_cores: int = 0,
        log_device_placement: bool = False,
        gpu_memory_fraction: float = 1,
        tf_random_seed: int | None = None,
        save_summary_steps: int | None = 100,
        save_checkpoints_secs: float | None = rules.UNSET,
        save_checkpoints_steps: int | None = None,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_every_n_hours: float | None = 10000,
        log_step_count_steps: int | None = 100,
        protocol: str | None = None,
        evaluation_master: str = "",
        model_dir: Any = None,
        session_config: Any = None,
    ) -> None:
        self._tf_config = tf.compat.v1.ConfigProto(
            log_device_placement=log_device_placement,
            inter_op_parallelism_threads=num_cores,
            intra_op_parallelism_threads=num_cores,
            allow_soft_placement=True,
            gpu_options=tf.compat.v1.GPUOptions(
                per_process_gpu_memory_fraction=gpu_memory_fraction
            ),
        )
        is_default = (num_cores, log_device_placement, gpu_memory_fraction) == (0, False, 1)
        if session_config is None and not is_default:
            session_config = self._tf_config
        steps = rules.UNSET if save_checkpoints_steps is None else save_checkpoints_steps
        super().__init__(
            model_dir=model_dir,
            tf_random_seed=tf_random_seed,
            save_summary_steps=save_summary_steps,
            save_checkpoints_steps=steps,
            save_checkpoints_secs=save_checkpoints_secs,
            session_config=session_config,
            keep_checkpoint_max=keep_checkpoint_max,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            log_step_count_steps=log_step_count_steps,
            protocol=protocol,
        )
        if master is not None:
            self._master = master
        if evaluation_master:
            self._evaluation_master = evaluation_master

    @property
    def environment(self) -> str:
        """The entry "environment" of TF_CONFIG; `Environment.LOCAL` without one."""
        try:
            given = json.loads(os.environ.get("TF_CONFIG") or "{}")
        except ValueError:
            given = {}
        return str(given.get("environment", Environment.LOCAL))

    @property
    def tf_config(self) -> Any:
        """The `tf.compat.v1.ConfigProto` of the first four arguments."""
        return self._tf_config

    def get_task_id(self) -> int:
        """Returns the index of this task among those of its type."""
        return self.task_id

    def uid(self, whitelist: Any = None) -> str:
        """Returns a text that is equal for equal configurations.

        Args:
            whitelist: names of properties to leave out. None: `model_dir` is left out.
        """
        left_out = set(["model_dir"] if whitelist is None else whitelist)
        names = sorted(set(run_config.run_config.REPLACEABLE) - left_out)
        text = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return hashlib.sha256(text.encode()).hexdigest()
