# SPDX-License-Identifier: Apache-2.0
"""How a run goes: directories, intervals, sessions, and this process' place in a cluster.

`RunConfig` is what `Estimator` takes, `TPURunConfig` (exported as `estimator_spec.RunConfig`)
what `TPUEstimator` takes. Each property `x` is held in the attribute `_x`, as programs that
subclass them or change one in place expect.
"""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

from estimator_spec.config import run_config_rules
from estimator_spec.config import tf_config as tf_config_lib
from estimator_spec.config.tf_config import TaskType
from estimator_spec.config.tpu_config import InputPipelineConfig, TPUConfig

__all__ = [
    "InputPipelineConfig",
    "RunConfig",
    "TPUConfig",
    "TPURunConfig",
    "TaskType",
    "get_default_session_config",
    "path_to_str",
]

_Config = TypeVar("_Config", bound="RunConfig")
_TPUConfig = TypeVar("_TPUConfig", bound="TPURunConfig")


def path_to_str(path: Any) -> Any:
    """A path object as a string; everything else as it is."""
    if hasattr(path, "__fspath__"):
        return tf.compat.as_str_any(os.fspath(path))
    return path


def get_default_session_config() -> Any:
    """The session configuration of a run that was given none.

    Soft placement, and one pass of the graph optimizers: more passes cost start-up time.
    """
    config = tf.compat.v1.ConfigProto(allow_soft_placement=True)
    rewrites = config.graph_options.rewrite_options
    rewrites.meta_optimizer_iterations = rewrites.ONE
    return config


def _distributed_session_config(task_type: str, task_id: int) -> Any:
    """The same for one task of a cluster: it talks to parameter servers and to itself only.

    None for the other task types, which are not part of between-graph training.
    """
    filters = {
        TaskType.MASTER: ["/job:ps", "/job:master"],
        TaskType.CHIEF: ["/job:ps", "/job:chief"],
        TaskType.WORKER: ["/job:ps", f"/job:worker/task:{task_id}"],
        TaskType.PS: ["/job:ps", "/job:worker", "/job:chief", "/job:master"],
    }.get(task_type)
    if filters is None:
        return None
    config = get_default_session_config()
    config.device_filters.extend(filters)
    return config


def _held(name: str, doc: str) -> Any:
    """A read-only property `name`, held in `_name`."""
    return property(lambda self: getattr(self, "_" + name), doc=doc)


class RunConfig:
    """The configuration of an `Estimator`'s runs.

    >>> RunConfig(model_dir='/tmp/m', save_checkpoints_steps=500).save_checkpoints_secs is None
    True

    Args:
        model_dir: directory of checkpoints and summaries, a string or path. None: TF_CONFIG's
            `model_dir`, or what the estimator is given, or a temporary directory.
        tf_random_seed: graph-level seed, an int. None (the default) differs in every run.
        save_summary_steps: steps between two summaries; 0 or None writes none. Default 100.
        save_checkpoints_steps: steps between two checkpoints; excludes the next one.
        save_checkpoints_secs: seconds between two checkpoints, 600 if neither of the two is
            given. Both None: no checkpoint is written while training.
        session_config: a `tf.compat.v1.ConfigProto`. None: `get_default_session_config()`.
        keep_checkpoint_max: how many checkpoints stay; 0 or None keeps all. Default 5.
        keep_checkpoint_every_n_hours: one checkpoint in so many hours stays beyond that limit.
            Default 10000, which is never.
        log_step_count_steps: steps between two lines of loss and speed. None logs none.
            Default 100.
        train_distribute: a `tf.distribute.Strategy` to train with, or None.
        device_fn: function of an `op` that returns its device. None: round robin over the
            parameter servers, if there are any.
        protocol: 'grpc', 'grpc+verbs' or None (grpc), between the servers of a cluster.
        eval_distribute: a `tf.distribute.Strategy` to evaluate with, or None.
        experimental_distribute: an object with `train_distribute`, `eval_distribute` and
            `remote_cluster`, in place of the two arguments.
        experimental_max_worker_delay_secs: at most so many seconds a worker waits before it
            starts, an int. None: 60.
        session_creation_timeout_secs: seconds a worker waits for the chief's session. Default
            7200.
        checkpoint_save_graph_def: whether the graph is saved beside the checkpoints.

    Raises:
        ValueError: a value that breaks its rule, both checkpoint intervals, or a TF_CONFIG that
            describes no usable cluster.
        TypeError: a value that can't be compared with its limit.
    """

    _session_config: Any
    _cluster_spec: Any
    _task_type: str
    _task_id: int
    _master: Any
    _evaluation_master: Any
    _train_distribute: Any
    _experimental_distribute: Any
    _distribute_coordinator_mode: str | None

    # What the user sets; see the class' Args.
    model_dir: str | None = _held("model_dir", "Directory of checkpoints and summaries, or None.")
    tf_random_seed: int | None = _held("tf_random_seed", "Graph-level seed, or None.")
    save_summary_steps: int | None = _held("save_summary_steps", "Steps between two summaries.")
    save_checkpoints_steps: int | None = _held(
        "save_checkpoints_steps", "Steps between checkpoints, or None."
    )
    save_checkpoints_secs: float | None = _held(
        "save_checkpoints_secs", "Seconds between them, or None."
    )
    session_config = _held("session_config", "A `tf.compat.v1.ConfigProto`, or None.")
    keep_checkpoint_max: int | None = _held("keep_checkpoint_max", "How many checkpoints stay.")
    keep_checkpoint_every_n_hours: float | None = _held(
        "keep_checkpoint_every_n_hours", "One checkpoint in so many hours stays for good."
    )
    log_step_count_steps: int | None = _held(
        "log_step_count_steps", "Steps between two lines of the log."
    )
    train_distribute = _held("train_distribute", "A `tf.distribute.Strategy` to train with.")
    eval_distribute = _held("eval_distribute", "A `tf.distribute.Strategy` to evaluate with.")
    experimental_distribute = _held("experimental_distribute", "The object with both, or None.")
    device_fn: Callable[[Any], Any] | None = _held(
        "device_fn", "Function from an op to its device, or None."
    )
    protocol: str | None = _held("protocol", "Protocol between the servers of a cluster, or None.")
    experimental_max_worker_delay_secs: int | None = _held(
        "experimental_max_worker_delay_secs", "Longest wait of a worker before it starts."
    )
    session_creation_timeout_secs: float = _held(
        "session_creation_timeout_secs", "Longest wait of a worker for the chief's session."
    )
    checkpoint_save_graph_def: bool = _held(
        "checkpoint_save_graph_def", "Whether the graph is saved beside the checkpoints."
    )
    # What TF_CONFIG says; see `estimator_spec.config.tf_config.Place`.
    cluster_spec = _held("cluster_spec", "The `tf.train.ClusterSpec`; empty when alone.")
    task_type: str = _held("task_type", "One of `TaskType`.")
    task_id: int = _held("task_id", "Index among the tasks of this type.")
    master: str = _held("master", "Address of the session master to train with; '' is here.")
    evaluation_master: str = _held("evaluation_master", "The same, to evaluate with.")
    is_chief: bool = _held("is_chief", "Whether this process saves checkpoints and summaries.")
    num_ps_replicas: int = _held("num_ps_replicas", "Parameter servers in the cluster.")
    num_worker_replicas: int = _held("num_worker_replicas", "Workers, the chief counted.")
    global_id_in_cluster: int | None = _held(
        "global_id_in_cluster", "Index among all tasks, the chief's is 0; None for an evaluator."
    )
    service = _held("service", 'What a platform put under "service" in TF_CONFIG, or None.')

    def __init__(
        self,
        model_dir: Any = None,
        tf_random_seed: int | None = None,
        save_summary_steps: int | None = 100,
        save_checkpoints_steps: int | None = run_config_rules.UNSET,
        save_checkpoints_secs: float | None = run_config_rules.UNSET,
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
        steps, secs = run_config_rules.checkpoint_intervals(
            save_checkpoints_steps, save_checkpoints_secs
        )
        for strategy in (train_distribute, eval_distribute):
            run_config_rules.refuse_v2_parameter_server(strategy)
        tf_config = tf_config_lib.read()
        if tf_config:
            tf.compat.v1.logging.info("TF_CONFIG environment variable: %s", tf_config)
        self._set(
            model_dir=tf_config_lib.model_dir(tf_config, path_to_str(model_dir)),
            tf_random_seed=tf_random_seed,
            save_summary_steps=save_summary_steps,
            save_checkpoints_steps=steps,
            save_checkpoints_secs=secs,
            session_config=session_config,
            keep_checkpoint_max=keep_checkpoint_max,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            log_step_count_steps=log_step_count_steps,
            train_distribute=train_distribute,
            device_fn=device_fn,
            protocol=protocol,
            eval_distribute=eval_distribute,
            experimental_distribute=experimental_distribute,
            experimental_max_worker_delay_secs=experimental_max_worker_delay_secs,
            session_creation_timeout_secs=session_creation_timeout_secs,
            checkpoint_save_graph_def=checkpoint_save_graph_def,
        )
        host = run_config_rules.is_host_strategy
        if host(train_distribute) or host(eval_distribute) or experimental_distribute:
            self._init_with_strategies(tf_config)
        else:
            self._take_place(tf_config)

    def _set(self, **values: Any) -> None:
        """Sets properties, all of them or none."""
        for name, value in values.items():
            if name not in run_config_rules.REPLACEABLE:
                raise ValueError(
                    f"Replacing {name} is not supported. Allowed properties are "
                    f"{list(run_config_rules.REPLACEABLE)}."
                )
            run_config_rules.check(name, value)
        for name, value in values.items():
            setattr(self, "_" + name, value)

    def _take_place(self, tf_config: dict[str, Any]) -> None:
        """Finds this process in the cluster of TF_CONFIG, and its default session."""
        here = tf_config_lib.place(tf_config)
        for field in dataclasses.fields(here):
            setattr(self, "_" + field.name, getattr(here, field.name))
        self._maybe_overwrite_session_config_for_distributed_training()

    def _maybe_overwrite_session_config_for_distributed_training(self) -> None:
        """Gives a task of a cluster a session of its own kind; subclasses may override it."""
        if not self._session_config and self._cluster_spec:
            self._session_config = _distributed_session_config(self._task_type, self._task_id)

    def _init_with_strategies(self, tf_config: dict[str, Any]) -> None:
        """Where the strategies come from, and who starts the workers."""
        tf.compat.v1.logging.info("Initializing RunConfig with distribution strategies.")
        given = self._experimental_distribute
        for name in ("train_distribute", "eval_distribute"):
            inner = getattr(given, name, None)
            if not inner:
                continue
            if getattr(self, "_" + name):
                raise ValueError(f"Either `{name}` or `experimental_distribute.{name}` can be set.")
            setattr(self, "_" + name, inner)
        cluster = tf.train.ClusterSpec(tf_config.get("cluster", {}))
        remote = getattr(given, "remote_cluster", None)
        if self._train_distribute and remote:
            if cluster:
                raise ValueError(
                    'Cannot set both "cluster_spec" of TF_CONFIG and '
                    "`experimental_distribute.remote_cluster`"
                )
            self._take_place({})
            self._distribute_coordinator_mode = "standalone_client"
            self._cluster_spec = remote
        elif self._train_distribute and cluster and TaskType.MASTER not in cluster.jobs:
            # The strategy's coordinator fills in the rest when it starts.
            self._take_place({})
            self._distribute_coordinator_mode = "independent_worker"
            self._cluster_spec = cluster
        else:
            self._distribute_coordinator_mode = None
            self._take_place(tf_config)

    def replace(self: _Config, **kwargs: Any) -> _Config:
        """A copy with other values.

        Giving one of the two checkpoint intervals sets the other to None.

        >>> config = RunConfig(save_checkpoints_secs=60).replace(save_checkpoints_steps=5)
        >>> config.save_checkpoints_steps, config.save_checkpoints_secs
        (5, None)

        Args:
            **kwargs: any arguments of `RunConfig`'s constructor.

        Returns:
            A configuration of the same class.

        Raises:
            ValueError: another name, a value that breaks its rule, or both intervals.
        """
        if "model_dir" in kwargs:
            kwargs["model_dir"] = path_to_str(kwargs["model_dir"])
        steps = kwargs.get("save_checkpoints_steps")
        secs = kwargs.get("save_checkpoints_secs")
        if steps is not None and secs is not None:
            raise ValueError(run_config_rules.BOTH_INTERVALS)
        if steps is not None:
            kwargs["save_checkpoints_secs"] = None
        elif secs is not None:
            kwargs["save_checkpoints_steps"] = None
        new = copy.deepcopy(self)
        new._set(**kwargs)
        return new

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, '_' + name)!r}" for name in run_config_rules.REPLACEABLE)
        return f"{type(self).__name__}({', '.join(shown)})"


class TPURunConfig(RunConfig):
    """The configuration of a `TPUEstimator`'s runs; exported as `estimator_spec.RunConfig`.

    >>> TPURunConfig(tpu_config=TPUConfig(50), model_dir='/tmp/m').tpu_config.iterations_per_loop
    50

    Args:
        tpu_config: a `TPUConfig`; None is `TPUConfig()`.
        evaluation_master: address of the TPU system to evaluate with. None: the one to train
            with.
        master: address of the TPU system to train with; '' is this process. Excludes `cluster`.
        cluster: a `tf.distribute.cluster_resolver.ClusterResolver`, which knows the address and
            the jobs. None without a TPU.
        **kwargs: the arguments of `RunConfig`, by keyword.

    Raises:
        ValueError: both `master` and `cluster`, a `cluster` beside a `session_config` that has a
            `cluster_def`, or what `RunConfig` refuses.
        TypeError: `tpu_config` is something else.
    """

    tpu_config: TPUConfig = _held("tpu_config", "The `TPUConfig`.")
    cluster = _held("cluster", "The cluster resolver, or None.")

    def __init__(
        self,
        tpu_config: TPUConfig | None = None,
        evaluation_master: str | None = None,
        master: str | None = None,
        cluster: Any = None,
        **kwargs: Any,
    ) -> None:
        _check_tpu_config(tpu_config)
        if master is not None and cluster is not None:
            raise ValueError("Both master and cluster are set.")
        super().__init__(**kwargs)
        self._tpu_config = tpu_config or TPUConfig()
        self._cluster = cluster
        if master is not None:
            self._master = master
        elif cluster:
            self._master = cluster.master()
        if evaluation_master is not None:
            self._evaluation_master = evaluation_master
        elif not self._evaluation_master and self.task_type != TaskType.EVALUATOR:
            # An evaluator was placed by a cluster manager, which knows its master.
            self._evaluation_master = self._master
        if cluster:
            self._cluster_spec = cluster.cluster_spec()
            self._session_config = self._session_config_with(self._cluster_spec)

    def _session_config_with(self, cluster_spec: Any) -> Any:
        """The session configuration that knows the jobs of the cluster; the user's is copied."""
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
        """Does nothing: one TPU program spans the cluster, device filters would cut it apart."""

    def replace(self: _TPUConfig, **kwargs: Any) -> _TPUConfig:
        """A copy with other values; `tpu_config` too. See `RunConfig.replace`."""
        if "tpu_config" not in kwargs:
            return super().replace(**kwargs)
        tpu_config = kwargs.pop("tpu_config")
        _check_tpu_config(tpu_config)
        new = super().replace(**kwargs)
        new._tpu_config = tpu_config or TPUConfig()
        return new

    def on_host(self) -> TPURunConfig:
        """A copy for this process alone: without the addresses and the jobs of a TPU system."""
        new: TPURunConfig = copy.deepcopy(self)
        new._master = new._evaluation_master = ""
        if new._cluster is not None:
            new._cluster = None
            new._cluster_spec = tf.train.ClusterSpec({})
            new._session_config.ClearField("cluster_def")
        return new


def _check_tpu_config(tpu_config: Any) -> None:
    # Another library's TPUConfig will do; a model_dir in first place will not.
    if tpu_config is not None and not hasattr(tpu_config, "iterations_per_loop"):
        raise TypeError(
            f"tpu_config must be a TPUConfig, got {tpu_config!r}. The first positional argument "
            "of this RunConfig is tpu_config; pass the others by keyword."
        )
