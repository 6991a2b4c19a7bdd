# SPDX-License-Identifier: Apache-2.0
"""Run configurations: directories, intervals, sessions, and this process' task in a cluster.

`Estimator` takes a `RunConfig`, `TPUEstimator` its subclass in `tpu_run_config`. The attribute
`_x` stores the property `x`: programs that subclass a configuration or change it in place depend on
these names.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import os
from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

from estimator_spec.core.common import argument_rules
from estimator_spec.core.run_config import rules, strategies
from estimator_spec.core.run_config import tf_config as tf_config_lib
from estimator_spec.core.run_config.task_type import TaskType

_Config = TypeVar("_Config", bound="RunConfig")


def path_to_str(path: Any) -> Any:
    """Returns a path object as a string; returns everything else unchanged."""
    if hasattr(path, "__fspath__"):
        return tf.compat.as_str_any(os.fspath(path))
    return path


def get_default_session_config() -> Any:
    """Returns the session configuration of a run without one of its own.

    It has soft placement, and one pass of the graph optimizers, because more take start-up time.
    """
    config = tf.compat.v1.ConfigProto(allow_soft_placement=True)
    rewrites = config.graph_options.rewrite_options
    rewrites.meta_optimizer_iterations = rewrites.ONE
    return config


def distributed_session_config(task_type: str, task_id: int) -> Any:
    """Returns the default session configuration of a task in between-graph training.

    Its sessions connect to the parameter servers and to the task itself only. None for task types
    that take no part in between-graph training.
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


class _Setting(property):
    """Read-only property that reads the attribute of its name after an underscore."""

    def __init__(self, doc: str) -> None:
        super().__init__()
        self._text = doc

    def __set_name__(self, owner: type, name: str) -> None:
        def read(self: Any) -> Any:
            return getattr(self, "_" + name)

        read.__doc__ = self._text  # which becomes the property's
        super().__init__(read)
        super().__set_name__(owner, name)  # type: ignore[misc]  # unknown to type checkers


def field(doc: str) -> Any:
    """Returns a read-only property that reads the attribute of its name after an underscore."""
    return _Setting(doc)


class RunConfig:
    """Configuration of an `Estimator`'s runs.

    >>> RunConfig(model_dir='/tmp/m', save_checkpoints_steps=500).save_checkpoints_secs is None
    True

    Args:
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
        ValueError: a value is invalid, both checkpoint intervals are given, or TF_CONFIG describes
            no valid cluster.
        TypeError: a value can't be compared with its limit.
    """

    _session_config: Any
    _cluster_spec: Any
    _task_type: str
    _task_id: int
    _master: Any
    _evaluation_master: Any
    _train_distribute: Any
    _eval_distribute: Any
    _experimental_distribute: Any
    _distribute_coordinator_mode: str | None = None

    # Set by the user; see the class' Args.
    model_dir: str | None = field("Directory of checkpoints and summaries, or None.")
    tf_random_seed: int | None = field("Graph-level seed, or None.")
    save_summary_steps: int | None = field("Steps between two summaries.")
    save_checkpoints_steps: int | None = field("Steps between checkpoints, or None.")
    save_checkpoints_secs: float | None = field("Seconds between checkpoints, or None.")
    session_config = field("A `tf.compat.v1.ConfigProto`, or None.")
    keep_checkpoint_max: int | None = field("Number of checkpoints to keep.")
    keep_checkpoint_every_n_hours: float | None = field("Keeps one checkpoint per so many hours.")
    log_step_count_steps: int | None = field("Steps between two lines of the log.")
    train_distribute = field("A `tf.distribute.Strategy` to train with.")
    eval_distribute = field("A `tf.distribute.Strategy` to evaluate with.")
    experimental_distribute = field("Object with both strategies, or None.")
    device_fn: Callable[[Any], Any] | None = field("Function from an op to its device, or None.")
    protocol: str | None = field("Protocol between the servers of a cluster, or None.")
    experimental_max_worker_delay_secs: int | None = field(
        "Greatest delay of a worker's start in seconds."
    )
    session_creation_timeout_secs: float = field(
        "Seconds until a worker stops waiting for the chief."
    )
    checkpoint_save_graph_def: bool = field("Whether the graph is saved beside the checkpoints.")
    # Set by TF_CONFIG; see `estimator_spec.core.run_config.tf_config.ClusterTask`.
    cluster_spec = field("The `tf.train.ClusterSpec`; empty without a cluster.")
    task_type: str = field("One of `TaskType`.")
    task_id: int = field("Index among the tasks of this type.")
    master: str = field("Address of the session master for training; '': this process.")
    evaluation_master: str = field("Address of the session master to evaluate.")
    is_chief: bool = field("Whether this process saves checkpoints and summaries.")
    num_ps_replicas: int = field("Parameter servers in the cluster.")
    num_worker_replicas: int = field("Workers, including the chief.")
    global_id_in_cluster: int | None = field(
        "Index among all tasks (chief: 0); None for an evaluator."
    )
    service = field('The "service" entry of TF_CONFIG, or None.')

    def __init__(
        self,
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
        steps, secs = rules.checkpoint_intervals(save_checkpoints_steps, save_checkpoints_secs)
        for strategy in (train_distribute, eval_distribute):
            rules.check_strategy(strategy)
        tf_config = tf_config_lib.read()
        if tf_config:
            tf.compat.v1.logging.info("TF_CONFIG environment variable: %s", tf_config)
        changed = {
            "model_dir": tf_config_lib.model_dir(tf_config, path_to_str(model_dir)),
            "save_checkpoints_steps": steps,
            "save_checkpoints_secs": secs,
        }
        self._set(**{name: given[name] for name in REPLACEABLE} | changed)
        host = rules.is_host_strategy
        if host(train_distribute) or host(eval_distribute) or experimental_distribute:
            tf.compat.v1.logging.info("Initializing RunConfig with distribution strategies.")
            self.set_strategies(tf_config)
        else:
            self._set_task(tf_config)

    def _set(self, **values: Any) -> None:
        """Sets properties: all of them, or none if one is invalid."""
        for name, value in values.items():
            if name not in REPLACEABLE:
                raise ValueError(
                    f"Replacing {name} is not supported. Allowed properties are "
                    f"{list(REPLACEABLE)}."
                )
            argument_rules.check("RunConfig", {name: value})
        for name, value in values.items():
            setattr(self, "_" + name, value)

    def _set_task(self, tf_config: dict[str, Any], needs_chief: bool = True) -> None:
        """Sets the properties of this process' task in the cluster of TF_CONFIG."""
        task = tf_config_lib.read_task(tf_config, needs_chief)
        for field in dataclasses.fields(task):
            setattr(self, "_" + field.name, getattr(task, field.name))
        self._maybe_overwrite_session_config_for_distributed_training()

    def _maybe_overwrite_session_config_for_distributed_training(self) -> None:
        """Sets the default session configuration of a cluster's task; subclasses override it."""
        if not self._session_config and self._cluster_spec:
            self._session_config = distributed_session_config(self._task_type, self._task_id)

    def set_strategies(self, tf_config: dict[str, Any]) -> None:
        """Sets the strategies, the mode of their coordinator, and the cluster of a TF_CONFIG."""
        strategies.initialize(self, tf_config, self._set_task)

    @property
    def awaits_strategy(self) -> bool:
        """Whether a strategy of several processes gives this process its task later."""
        return self._distribute_coordinator_mode is not None

    def with_task_of_strategy(self: _Config) -> _Config:
        """Returns a copy with this process' task, which TF_CONFIG gives it.

        With a strategy of several processes, a configuration has its task only while
        `train_and_evaluate` runs. Without one, returns the configuration itself. A cluster trains
        with parameter servers by itself, so that the copy has no strategy for them.

        Raises:
            ValueError: TF_CONFIG has no such task.
        """
        if (
            not self.awaits_strategy
            or self._distribute_coordinator_mode == strategies.STANDALONE_CLIENT
        ):
            return self
        new = copy.copy(self)  # with the same strategy, which numbers its collectives
        new._distribute_coordinator_mode = None
        if new._session_config == get_default_session_config():
            new._session_config = None
        new._set_task(tf_config_lib.read(), needs_chief=False)
        if strategies.is_parameter_server(new._train_distribute):
            new._train_distribute = None
        elif new._cluster_spec:
            config = self._session_config or get_default_session_config()
            new._session_config = new._train_distribute.update_config_proto(config)
        new._session_config = new._session_config or get_default_session_config()
        return new

    def replace(self: _Config, **kwargs: Any) -> _Config:
        """Returns a copy with other values.

        One of the two checkpoint intervals sets the other one to None.

        >>> config = RunConfig(save_checkpoints_secs=60).replace(save_checkpoints_steps=5)
        >>> config.save_checkpoints_steps, config.save_checkpoints_secs
        (5, None)

        Args:
            **kwargs: any arguments of `RunConfig`'s constructor.

        Returns:
            A configuration of the same class.

        Raises:
            ValueError: unknown name, invalid value, or both intervals.
        """
        if "model_dir" in kwargs:
            kwargs["model_dir"] = path_to_str(kwargs["model_dir"])
        steps = kwargs.get("save_checkpoints_steps")
        secs = kwargs.get("save_checkpoints_secs")
        if steps is not None and secs is not None:
            raise ValueError(rules.BOTH_INTERVALS)
        if steps is not None:
            kwargs["save_checkpoints_secs"] = None
        elif secs is not None:
            kwargs["save_checkpoints_steps"] = None
        new = copy.deepcopy(self)
        new._set(**kwargs)
        return new

    def in_this_process(self: _Config) -> _Config:
        """Returns a copy whose sessions run in this process, outside of any cluster."""
        new = copy.deepcopy(self)
        new._master = new._evaluation_master = ""
        return new

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, '_' + name)!r}" for name in REPLACEABLE)
        return f"{type(self).__name__}({', '.join(shown)})"


# The properties that a user may set or replace.
REPLACEABLE = tuple(inspect.signature(RunConfig).parameters)
