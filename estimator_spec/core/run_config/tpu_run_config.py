# SPDX-License-Identifier: Apache-2.0
"""Run configurations of a `TPUEstimator`, with the address of a TPU system and a `TPUConfig`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

from estimator_spec.core.common import argument_rules
from estimator_spec.core.run_config import rules, run_config
from estimator_spec.core.run_config.run_config import field
from estimator_spec.core.run_config.task_type import TaskType
from estimator_spec.core.run_config.tpu_config import TPUConfig

_Config = TypeVar("_Config", bound="RunConfig")


class RunConfig(run_config.RunConfig):
    """Configuration of a `TPUEstimator`'s runs.

    The arguments after `cluster` are passed by keyword.

    >>> RunConfig(tpu_config=TPUConfig(50), model_dir='/tmp/m').tpu_config.iterations_per_loop
    50

    Args:
        tpu_config: a `TPUConfig`; None is `TPUConfig()`.
        evaluation_master: address of the TPU system for evaluation. None: `master`.
        master: address of the TPU system for training; '' is this process. Excludes `cluster`.
        cluster: a `tf.distribute.cluster_resolver.ClusterResolver`, which has the address and the
            jobs. None without a TPU.
        model_dir: directory of checkpoints and summaries, a string or path. None: TF_CONFIG's
            `model_dir`, else the estimator's argument, else a temporary directory.
        tf_random_seed: graph-level seed, an int. None (the default): another one in every run.
        save_summary_steps: steps between two summaries; 0 or None writes none. Default 100.
        save_checkpoints_steps: steps between two checkpoints; excludes `save_checkpoints_secs`.
        save_checkpoints_secs: seconds between two checkpoints; 600 if neither of the two is
            given. Both None: training writes no checkpoint.
        session_config: a `tf.compat.v1.ConfigProto`. None: `get_default_session_config()`.
        keep_checkpoint_max: number of checkpoints to keep; 0 or None keeps all. Default 5.
        keep_checkpoint_every_n_hours: keeps one checkpoint per so many hours beyond that limit.
            Default 10000, which is never.
        log_step_count_steps: steps between two log lines of loss and speed. None logs none.
            Default 100.
        train_distribute: a `tf.distribute.Strategy` to train with, or None.
        device_fn: function of an `op` that returns its device. None: round robin over the
            parameter servers, if there are any.
        protocol: protocol between the servers of a cluster: 'grpc', 'grpc+verbs' or None (grpc).
        eval_distribute: a `tf.distribute.Strategy` to evaluate with, or None.
        experimental_distribute: an object with `train_distribute`, `eval_distribute` and
            `remote_cluster`, in place of the two arguments.
        experimental_max_worker_delay_secs: greatest delay of a worker's start in seconds, an int.
            None: 60.
        session_creation_timeout_secs: seconds until a worker stops waiting for the chief's session,
            and until a process of a cluster whose training stands still ends; None: no limit.
            Default 7200.
        checkpoint_save_graph_def: whether the graph is saved beside the checkpoints.

    Raises:
        ValueError: both `master` and `cluster`, a `cluster` and a `session_config` with a
            `cluster_def`, or as `RunConfig`.
        TypeError: `tpu_config` is no `TPUConfig`.
    """

    tpu_config: TPUConfig = field("The `TPUConfig`.")
    cluster = field("The cluster resolver, or None.")

    def __init__(
        self,
        tpu_config: TPUConfig | None = None,
        evaluation_master: str | None = None,
        master: str | None = None,
        cluster: Any = None,
        *,
        model_dir: Any = None,
        tf_random_seed: int | None = None,
        save_summary_steps: int | None = 100,
        save_checkpoints_steps: int | None = rules.UNSET,
        save_checkpoints_secs: float | None = rules.UNSET,
        session_config: Any = None,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_every_n_hours: float | None = 10000,
        log_step_count_steps: int | None = 100,
        train_distribute: Any = None,
        device_fn: Callable[[Any], Any] | None = None,
        protocol: str | None = None,
        eval_distribute: Any = None,
        experimental_distribute: Any = None,
        experimental_max_worker_delay_secs: int | None = None,
        session_creation_timeout_secs: float | None = 7200,
        checkpoint_save_graph_def: bool = True,
    ) -> None:
        given = locals()
        argument_rules.check("TPURunConfig", given)
        if master is not None and cluster is not None:
            raise ValueError("Both master and cluster are set.")
        super().__init__(**{name: given[name] for name in run_config.REPLACEABLE})
        self._tpu_config = tpu_config or TPUConfig()
        self._cluster = cluster
        self._task_master = self._master
        if master is not None:
            self._master = master
        elif cluster:
            self._master = cluster.master()
        if evaluation_master is not None:
            self._evaluation_master = evaluation_master
        elif not self._evaluation_master and self.task_type != TaskType.EVALUATOR:
            # The cluster manager that started an evaluator sets its master.
            self._evaluation_master = self._master
        if cluster:
            self._cluster_spec = cluster.cluster_spec()
            self._session_config = self._session_config_with(self._cluster_spec)

    def _session_config_with(self, cluster_spec: Any) -> Any:
        """Returns a copy of the session configuration with the jobs of a cluster."""
        config = tf.compat.v1.ConfigProto()
        if self._session_config is None:
            config.allow_soft_placement = True
            config.isolate_session_state = True
        else:
            config.CopyFrom(self._session_config)
        if config.HasField("cluster_def"):
            raise ValueError("You cannot provide a ClusterResolver and session_config.cluster_def.")
        if cluster_spec:
            config.cluster_def.CopyFrom(cluster_spec.as_cluster_def())
        return config

    def _maybe_overwrite_session_config_for_distributed_training(self) -> None:
        """Does nothing: the estimator knows whether its sessions use a TPU."""

    def replace(self: _Config, **kwargs: Any) -> _Config:
        """Returns a copy with other values, also of `tpu_config`. See `RunConfig.replace`."""
        if "tpu_config" not in kwargs:
            return super().replace(**kwargs)
        tpu_config = kwargs.pop("tpu_config")
        argument_rules.check("TPURunConfig", {"tpu_config": tpu_config})
        new = super().replace(**kwargs)
        new._tpu_config = tpu_config or TPUConfig()
        return new

    def on_system(self, master: str, session_config: Any) -> RunConfig:
        """Returns a copy for a TPU system.

        Args:
            master: address of the system, to train and evaluate with.
            session_config: a `tf.compat.v1.ConfigProto` with its jobs, or None.
        """
        new: RunConfig = copy.deepcopy(self)
        new._master = new._evaluation_master = master
        new._session_config = session_config
        return new

    def on_parameter_servers(self) -> RunConfig:
        """Returns a copy for a task in a cluster of parameter servers, without a TPU system.

        Evaluations run in this process.
        """
        new: RunConfig = copy.deepcopy(self)
        new._master, new._evaluation_master = new._task_master, ""
        return new

    def on_host(self) -> RunConfig:
        """Returns a copy for this process alone, without the TPU system's addresses and jobs."""
        new = self.in_this_process()
        if new._cluster is not None:
            new._cluster = None
            new._cluster_spec = tf.train.ClusterSpec({})
            new._session_config.ClearField("cluster_def")
        return new


def _with_arguments_of(doc: str, base: str) -> str:
    """Returns the docstring of a class with the arguments of its base after its own."""
    own, rest = doc.split("\n\n    Raises:\n", 1)
    arguments = base.partition("    Args:\n")[2].partition("\n\n")[0]
    return f"{own}\n{arguments}\n\n    Raises:\n{rest}"


if RunConfig.__doc__ and run_config.RunConfig.__doc__:  # not with python -OO
    RunConfig.__doc__ = _with_arguments_of(RunConfig.__doc__, run_config.RunConfig.__doc__)

TPURunConfig = RunConfig  # its name beside the other class
