# SPDX-License-Identifier: Apache-2.0
"""Reads the TF_CONFIG environment variable: the cluster, and this process' task in it.

A `RunConfig` reads it once, when it is built. `read_task` is a pure function of the parsed JSON, so
it can be tested without the environment.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.core.run_config.task_type import TaskType

_FROM_ENVIRONMENT = "Note that these values may come from the TF_CONFIG environment variable."


@dataclasses.dataclass(frozen=True)
class ClusterTask:
    """Task of this process in a cluster; `RunConfig` has a property for each field.

    Attributes:
        cluster_spec: the `tf.train.ClusterSpec`; empty without a cluster and for an evaluator,
            which is no part of the training cluster.
        task_type: one of `TaskType`.
        task_id: index among the tasks of the same type, from 0.
        service: the "service" entry of TF_CONFIG, set by some platforms, or None.
        master: address of the session master for training; '' is this process.
        evaluation_master: address of the session master for evaluation.
        is_chief: whether this process saves checkpoints and summaries.
        num_ps_replicas: parameter servers in the cluster.
        num_worker_replicas: workers in the cluster, including the chief (or master).
        global_id_in_cluster: index among all tasks: the chief is 0, then the other jobs by name,
            parameter servers last. None for an evaluator.
    """

    cluster_spec: Any
    task_type: str
    task_id: int
    service: dict[str, Any] | None
    master: str = ""
    evaluation_master: str = ""
    is_chief: bool = False
    num_ps_replicas: int = 0
    num_worker_replicas: int = 0
    global_id_in_cluster: int | None = None


def read() -> dict[str, Any]:
    """Returns the JSON object of TF_CONFIG; an empty one if the variable isn't set.

    Raises:
        ValueError: the variable is not a JSON object.
    """
    text = os.environ.get("TF_CONFIG", "{}")
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"The TF_CONFIG environment variable is not valid JSON ({error}). Expected an object "
            f"with `cluster` and `task`, or the variable unset; got {text!r}."
        ) from error
    if not isinstance(config, dict):
        raise ValueError(
            "The TF_CONFIG environment variable must be a JSON object with `cluster` and `task`; "
            f"got {text!r}."
        )
    return config


def model_dir(tf_config: Mapping[str, Any], from_user: str | None) -> str | None:
    """Returns the model directory of the program or of TF_CONFIG, or None.

    Raises:
        ValueError: one of them is an empty string, or they differ.
    """
    if from_user == "":
        raise ValueError("model_dir should be non-empty.")
    from_environment = tf_config.get("model_dir")
    if from_environment == "":
        raise ValueError("model_dir in TF_CONFIG should be non-empty.")
    if from_environment:
        if from_user and from_user != from_environment:
            raise ValueError(
                "`model_dir` provided in RunConfig construct, if set, must have the same value as "
                f"the model_dir in TF_CONFIG. model_dir: {from_user}\n"
                f'TF_CONFIG["model_dir"]: {from_environment}.\n'
            )
        tf.compat.v1.logging.info("Using model_dir in TF_CONFIG: %s", from_environment)
    return from_user or from_environment


def tpu_job_name(tf_config: Mapping[str, Any]) -> str | None:
    """Returns the job name of the TPU workers in TF_CONFIG, or None."""
    name = (_service(tf_config) or {}).get("tpu_worker_job_name")
    if name:
        tf.compat.v1.logging.info("Load TPU job name from TF_CONFIG: %s", name)
    return name


def read_task(tf_config: Mapping[str, Any], needs_chief: bool = True) -> ClusterTask:
    """Returns this process' task in the cluster that `tf_config` describes.

    >>> cluster = {'chief': ['a:1'], 'ps': ['b:1'], 'worker': ['c:1', 'd:1']}
    >>> task = read_task({'cluster': cluster, 'task': {'type': 'worker', 'index': 1}})
    >>> task.master, task.is_chief, task.num_worker_replicas, task.global_id_in_cluster
    ('grpc://d:1', False, 3, 2)

    Args:
        tf_config: the content of TF_CONFIG.
        needs_chief: whether a cluster must have a chief. Otherwise, as with the strategies of
            `tf.distribute`, worker 0 does the work of a missing one.

    Raises:
        ValueError: the cluster has no chief, several chiefs, or not this task.
        TypeError: "cluster", "task" or "service" has another type.
    """
    service = _service(tf_config)
    cluster = _cluster(tf_config)
    task = tf_config.get("task", {})
    if not isinstance(task, Mapping):
        raise TypeError(
            '`task` in TF_CONFIG must be an object such as {"type": "worker", "index": 0}; got '
            f"{task!r}."
        )
    if not cluster:
        return _task_without_cluster(tf_config, task, cluster, service)
    legacy = TaskType.MASTER in cluster.jobs
    if legacy and TaskType.CHIEF in cluster.jobs:
        # Both would save checkpoints.
        raise ValueError("If `master` node exists in `cluster`, job `chief` is not supported.")
    chief = TaskType.MASTER if legacy else TaskType.CHIEF
    if not needs_chief and chief not in cluster.jobs and TaskType.WORKER in cluster.jobs:
        chief = TaskType.WORKER
    task_type, task_id = _type_and_index(cluster, task, chief)
    if task_type == TaskType.EVALUATOR:
        if legacy:
            raise ValueError(
                "If `master` node exists in `cluster`, task_type `evaluator` is not supported."
            )
        # It has no connection to the training cluster.
        return ClusterTask(
            cluster_spec=tf.train.ClusterSpec({}),
            task_type=TaskType.EVALUATOR,
            task_id=task_id,
            evaluation_master=tf_config.get("eval_session_master", ""),
            service=service,
        )
    jobs = cluster.as_dict()
    return ClusterTask(
        cluster_spec=cluster,
        task_type=task_type,
        task_id=task_id,
        master=_session_master(cluster, task_type, task_id, tf_config),
        is_chief=task_type == chief and task_id == 0,
        num_ps_replicas=len(jobs.get(TaskType.PS, [])),
        num_worker_replicas=sum(len(jobs.get(job, [])) for job in {TaskType.WORKER, chief}),
        global_id_in_cluster=global_id(cluster, task_type, task_id, chief),
        service=service,
    )


def _cluster(tf_config: Mapping[str, Any]) -> Any:
    """Returns the "cluster" entry of TF_CONFIG as a `tf.train.ClusterSpec`."""
    jobs = tf_config.get("cluster", {})
    try:
        return tf.train.ClusterSpec(jobs)
    except (AttributeError, TypeError, ValueError) as error:
        raise TypeError(
            "`cluster` in TF_CONFIG must be an object with a list of addresses for each job, such "
            f'as {{"chief": ["a:2222"], "ps": ["b:2222"]}}; got {jobs!r} ({error}).'
        ) from error


def _service(tf_config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the "service" entry of TF_CONFIG, or None."""
    service = tf_config.get("service")
    if service is not None and not isinstance(service, dict):
        raise TypeError(
            f'If "service" is set in TF_CONFIG, it must be a dict. Given {type(service)}'
        )
    return service


def _task_without_cluster(
    tf_config: Mapping[str, Any], task: Mapping[str, Any], cluster: Any, service: Any
) -> ClusterTask:
    """Returns the task of a process without a cluster."""
    if task.get("type", TaskType.WORKER) != TaskType.WORKER:
        raise ValueError('If "cluster" is not set in TF_CONFIG, task type must be WORKER.')
    if _task_index(task.get("index", 0)) != 0:
        raise ValueError('If "cluster" is not set in TF_CONFIG, task index must be 0.')
    return ClusterTask(
        cluster_spec=cluster,
        task_type=TaskType.WORKER,
        task_id=0,
        master=tf_config.get("session_master", ""),
        evaluation_master=tf_config.get("eval_session_master", ""),
        is_chief=True,
        num_worker_replicas=1,
        global_id_in_cluster=0,
        service=service,
    )


def _task_index(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Task index in TF_CONFIG must be an integer; got {value!r}.") from error


def _type_and_index(cluster: Any, task: Mapping[str, Any], chief: str) -> tuple[str, int]:
    """Returns the type and index of this task after a check that the cluster has it."""
    if chief not in cluster.jobs:
        raise ValueError(f'If "cluster" is set in TF_CONFIG, it must have one "{chief}" node.')
    if len(cluster.job_tasks(chief)) > 1 and chief != TaskType.WORKER:
        raise ValueError(f'The "cluster" in TF_CONFIG must have only one "{chief}" node.')
    task_type = task.get("type")
    if not task_type:
        raise ValueError('If "cluster" is set in TF_CONFIG, task type must be set.')
    if task.get("index") is None:
        raise ValueError('If "cluster" is set in TF_CONFIG, task index must be set.')
    task_id = _task_index(task["index"])
    if task_id < 0:
        raise ValueError("Task index must be non-negative number.")
    if task_type == TaskType.EVALUATOR:
        return task_type, task_id
    if task_type not in cluster.jobs:
        raise ValueError(
            f"{task_type} is not a valid task_type in the cluster_spec:\n{cluster}\n\n"
            f"{_FROM_ENVIRONMENT}"
        )
    if task_id >= len(cluster.job_tasks(task_type)):
        raise ValueError(
            f"{task_id} is not a valid task_id for task_type {task_type} in the cluster_spec:\n"
            f"{cluster}\n\n{_FROM_ENVIRONMENT}"
        )
    return task_type, task_id


def _session_master(
    cluster: Any, task_type: str, task_id: int, tf_config: Mapping[str, Any]
) -> str:
    """Returns the address of the session master: the platform's, '' or this task's server."""
    if "session_master" in tf_config:
        return tf_config["session_master"]
    if sum(map(cluster.num_tasks, cluster.jobs)) == 1:
        # The chief alone: no RPC is needed.
        return ""
    return "grpc://" + cluster.job_tasks(task_type)[task_id]


def global_id(cluster: Any, task_type: str, task_id: int, chief: str) -> int:
    """Returns the index among all tasks: chief first, parameter servers last, others by name."""

    def order(job: str) -> tuple[bool, bool, str]:
        return job != chief, job == TaskType.PS, job

    before = [job for job in cluster.jobs if order(job) < order(task_type)]
    return sum(len(cluster.job_tasks(job)) for job in before) + task_id
