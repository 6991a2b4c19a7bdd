# SPDX-License-Identifier: Apache-2.0
"""Functions of `tensorflow.python.distribute.estimator_training`.

They configured and ran an Estimator under a strategy of several processes. Programs with copies of
the old Estimator call them.
"""

from __future__ import annotations

from typing import Any, NoReturn

from estimator_spec.core.driver import train_and_evaluate as driver
from estimator_spec.core.run_config import RunConfig, strategies
from estimator_spec.core.run_config import tf_config as tf_config_lib
from estimator_spec.legacy import training_parts

_MODES = (strategies.STANDALONE_CLIENT, strategies.INDEPENDENT_WORKER)


def init_run_config(config: Any, tf_config: dict[str, Any]) -> None:
    """Sets the strategies of a configuration, the mode of their coordinator, and the cluster.

    Args:
        config: a `RunConfig`, or one of a program's copy of the old class.
        tf_config: the content of TF_CONFIG.

    Raises:
        ValueError: a strategy or the cluster is given twice.
    """
    if isinstance(config, RunConfig):
        config.set_strategies(tf_config)
    else:
        strategies.initialize_copy(config, tf_config)


def should_run_distribute_coordinator(config: Any) -> bool:
    """Returns whether a strategy of several processes gives this process its task later."""
    return strategies.mode(config) in _MODES and bool(config.cluster_spec)


def get_global_id(cluster_spec: Any, task_type: str, task_id: int, chief_task_type: str) -> int:
    """Returns the index of a task among all tasks of a cluster.

    Raises:
        RuntimeError: the cluster has no such tasks.
    """
    if not task_type:
        return 0
    if task_type not in cluster_spec.jobs:
        raise RuntimeError(
            f"task_type is {task_type!r}; expected one of the cluster's jobs: {cluster_spec.jobs}."
        )
    return tf_config_lib.global_id(cluster_spec, task_type, task_id, chief_task_type)


def train_and_evaluate(estimator: Any, train_spec: Any, eval_spec: Any, executor_cls: Any) -> Any:
    """Runs the task that TF_CONFIG gives this process; see `estimator_spec.train_and_evaluate`.

    Args:
        estimator: an `estimator_spec.Estimator` with a strategy of several processes.
        train_spec: a `TrainSpec`.
        eval_spec: an `EvalSpec`.
        executor_cls: the restored `_TrainingExecutor`, which the evaluator runs.

    Raises:
        ValueError: the estimator has no such strategy.
        NotImplementedError: it has a `remote_cluster`, or `executor_cls` is another class.
    """
    mode = strategies.mode(estimator.config)
    if not mode:
        raise ValueError(
            "Distribute coordinator mode is not specified in `RunConfig`. It is where TF_CONFIG "
            "has a cluster and RunConfig a train_distribute; without them call "
            "estimator_spec.train_and_evaluate."
        )
    if mode == strategies.STANDALONE_CLIENT:
        _refuse_remote_cluster("train_and_evaluate")
    if executor_cls is not training_parts.TrainingExecutor:
        raise NotImplementedError(
            f"executor_cls is {executor_cls!r}; expected training._TrainingExecutor. The evaluator "
            "of estimator_spec runs no other class: call run_evaluator of yours in its process."
        )
    return driver.train_and_evaluate(estimator, train_spec, eval_spec)


def estimator_train(estimator: Any, train_distributed_fn: Any, hooks: Any) -> NoReturn:
    """Raises an error: it trained in a `remote_cluster`, which isn't supported.

    Raises:
        ValueError: the estimator has no `remote_cluster`.
        NotImplementedError: it has one.
    """
    del train_distributed_fn, hooks
    _refuse(estimator, "Estimator.train")


def estimator_evaluate(estimator: Any, evaluate_distributed_fn: Any, hooks: Any) -> NoReturn:
    """Raises an error: it evaluated in a `remote_cluster`, which isn't supported.

    Raises:
        ValueError: the estimator has no `remote_cluster`.
        NotImplementedError: it has one.
    """
    del evaluate_distributed_fn, hooks
    _refuse(estimator, "Estimator.evaluate")


def _refuse(estimator: Any, method: str) -> NoReturn:
    """Raises an error about a method that only a `remote_cluster` ran by a coordinator."""
    mode = strategies.mode(estimator.config)
    if mode != strategies.STANDALONE_CLIENT:
        raise ValueError(
            f"Only `STANDALONE_CLIENT` mode is supported when you call `{method}`; RunConfig has "
            f"{mode!r}. Call estimator_spec.train_and_evaluate, in each process of the cluster."
        )
    _refuse_remote_cluster(method)


def _refuse_remote_cluster(method: str) -> NoReturn:
    raise NotImplementedError(
        f"{method} can't run in RunConfig's experimental_distribute.remote_cluster, which one "
        "process controls. Start a process for each task, with the cluster in TF_CONFIG, and call "
        "estimator_spec.train_and_evaluate in each."
    )
