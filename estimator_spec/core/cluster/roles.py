# SPDX-License-Identifier: Apache-2.0
"""Checks the cluster of TF_CONFIG and the task of this process in it."""

from __future__ import annotations

from typing import Any

from estimator_spec.core.run_config import RunConfig, TaskType, strategies

_TRAINING_TASKS = (TaskType.CHIEF, TaskType.MASTER, TaskType.PS, TaskType.WORKER)


def check_task(config: RunConfig) -> None:
    """Checks that TF_CONFIG gives this process a known task.

    Args:
        config: a `RunConfig` with a cluster.

    Raises:
        ValueError: names the task.
    """
    task_type = config.task_type
    if not task_type:
        raise ValueError(
            "`estimator.config` must have task_type set. This usually means TF_CONFIG "
            "environment is not set correctly."
        )
    if task_type == "local":
        raise ValueError(
            "`task.type` in TF_CONFIG cannot be `local`. Leave `cluster` and `task` out of "
            "TF_CONFIG to train and evaluate locally (non-distributed)."
        )
    if task_type not in _TRAINING_TASKS:
        raise ValueError(
            f"Task type {task_type} is not supported. Supported task types are "
            f"{sorted((*_TRAINING_TASKS, TaskType.EVALUATOR))}."
        )


def is_distributed(config: RunConfig) -> bool:
    """Returns whether this process is one of several that train a model or serve its variables.

    Clusters of TPU workers aren't meant: their address is in `TPURunConfig.cluster`.
    """
    return len(_addresses(config)) > 1


def trains_alone(config: RunConfig) -> bool:
    """Returns whether no other process updates the variables that this one trains."""
    alone = not is_distributed(config) or config.num_worker_replicas <= 1
    return alone or is_collective(config)


def is_collective(config: RunConfig) -> bool:
    """Returns whether each process trains a copy of the variables, and gradients are averaged."""
    return is_distributed(config) and strategies.is_collective(config.train_distribute)


def training_index(config: RunConfig) -> int:
    """Returns the index of this process among those that train: the chief, then the workers."""
    has_chief = TaskType.CHIEF in config.cluster_spec.jobs
    return 0 if config.is_chief else int(has_chief) + config.task_id


def has_variables(config: RunConfig) -> bool:
    """Returns whether this process initializes or restores the variables that it trains."""
    return config.is_chief or is_collective(config)


def own_address(config: RunConfig) -> str:
    """Returns the address of this task, 'host:port'.

    Args:
        config: a `RunConfig` for which `is_distributed` holds.
    """
    return _addresses(config)[config.task_type, config.task_id]


def training_jobs(config: RunConfig) -> dict[str, dict[int, str]]:
    """Returns the addresses by job and index, without evaluators.

    Some platforms list evaluators in the cluster, but no session connects to one.
    """
    jobs: dict[str, dict[int, str]] = {}
    for (job, index), address in _addresses(config).items():
        jobs.setdefault(job, {})[index] = address
    return jobs


def check_cluster(config: RunConfig) -> None:
    """Checks that the processes of TF_CONFIG's cluster can train one model.

    Args:
        config: the `RunConfig`; nothing is checked in a process without a cluster.

    Raises:
        ValueError: an address is invalid or given twice, or there are workers but no parameter
            servers; names the tasks. Or the cluster is that of a strategy, and the call isn't part
            of `train_and_evaluate`.
        NotImplementedError: there is a `tf.distribute` strategy of one process, too.
    """
    if not is_distributed(config):
        return
    seen: dict[str, str] = {}
    for (job, index), address in _addresses(config).items():
        task = f"{job} {index}"
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise ValueError(
                f"TF_CONFIG has the address {address!r} for {task}. Expected 'host:port', with a "
                "port from 1 to 65535."
            )
        if address in seen:
            raise ValueError(
                f"TF_CONFIG has the address {address!r} twice, for {seen[address]} and {task}. "
                "Give each task of the cluster an address of its own."
            )
        seen[address] = task
    strategy = config.train_distribute
    if strategy is not None:
        _check_strategy(config, type(strategy).__name__, ", ".join(seen.values()))
        return
    if not config.num_ps_replicas and config.device_fn is None:
        raise ValueError(
            f"TF_CONFIG describes a cluster of {', '.join(seen.values())} without a parameter "
            "server, so its processes would have no variables in common. Add a job `ps` to the "
            "cluster, or give RunConfig a device_fn that places the variables."
        )


def _check_strategy(config: RunConfig, name: str, tasks: str) -> None:
    """Checks the strategy of a cluster's training; `name` is that of its class."""
    strategy = config.train_distribute
    collective = strategies.is_collective(strategy)
    if not collective and not strategies.is_parameter_server(strategy):
        raise NotImplementedError(
            f"TF_CONFIG describes a cluster of several processes ({tasks}), and train_distribute "
            f"is {name}. Give a MultiWorkerMirroredStrategy, or leave train_distribute out and "
            "give the cluster parameter servers (`ps`), or unset TF_CONFIG to train on the devices "
            "of one machine."
        )
    if config.awaits_strategy:
        raise ValueError(
            f"`train` can't run train_distribute={name} in a cluster ({tasks}). Call "
            "`train_and_evaluate`, in each process."
        )
    if collective and strategy.num_replicas_in_sync % config.num_worker_replicas:
        raise ValueError(
            f"train_distribute={name} has {strategy.num_replicas_in_sync} replicas, and TF_CONFIG "
            f"{config.num_worker_replicas} training processes ({tasks}). Set TF_CONFIG before the "
            "strategy is created."
        )


def check_resolver(config: RunConfig) -> None:
    """Checks that a cluster resolver doesn't hide TF_CONFIG's cluster from its tasks.

    One without addresses is accepted: each process then trains alone, as in the reference.

    Args:
        config: the configuration of a process without a TPU.

    Raises:
        ValueError: names the resolver and the task.
    """
    resolver = getattr(config, "cluster", None)
    if resolver is None or not config.cluster_spec:
        return
    if config.num_ps_replicas or config.num_worker_replicas > 1:
        raise ValueError(
            f"RunConfig's `cluster`, a {type(resolver).__name__}, has the jobs "
            f"{', '.join(sorted(config.cluster_spec.jobs))}, but TF_CONFIG makes this process "
            f"{config.task_type} {config.task_id} of another cluster, and use_tpu is False. Leave "
            "`cluster` out of RunConfig to train on the parameter servers of TF_CONFIG, or unset "
            "TF_CONFIG."
        )


def _addresses(config: RunConfig) -> dict[tuple[str, int], str]:
    """Returns the addresses of the training processes by job and index."""
    if not config.cluster_spec or getattr(config, "cluster", None) is not None:
        return {}
    spec: Any = config.cluster_spec
    return {
        (job, index): spec.task_address(job, index)
        for job in spec.jobs
        if job != TaskType.EVALUATOR
        for index in spec.task_indices(job)
    }
