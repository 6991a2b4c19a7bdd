# SPDX-License-Identifier: Apache-2.0
"""Checks the task of this process in the cluster of TF_CONFIG."""

from __future__ import annotations

from estimator_spec.config.run_config import RunConfig, TaskType

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


def check_single_process(config: RunConfig) -> None:
    """Checks that TF_CONFIG has no cluster of several training processes.

    A process of such a cluster would wait for the others forever, or train a model of its own.

    Args:
        config: the `RunConfig`.

    Raises:
        NotImplementedError: lists the processes, and says what to do.
    """
    if not config.cluster_spec or getattr(config, "cluster", None) is not None:
        return  # a single process, or a cluster of TPU workers
    tasks = {job: len(addresses) for job, addresses in config.cluster_spec.as_dict().items()}
    if sum(tasks.values()) == 1:
        return
    raise NotImplementedError(
        "TF_CONFIG describes a cluster of several training processes "
        f"({', '.join(f'{count} {job}' for job, count in sorted(tasks.items()))}), and this one "
        f"is {config.task_type} {config.task_id}. Distributed training isn't supported yet: "
        "unset TF_CONFIG to train in one process, or leave only the chief in its `cluster`. A "
        "process of task type `evaluator` can evaluate the checkpoints."
    )
