# SPDX-License-Identifier: Apache-2.0
"""Trains, and evaluates and exports the checkpoints: `train_and_evaluate`.

A single process interrupts training for each evaluation. In a cluster of TF_CONFIG, the chief and
the workers train, parameter servers hold the variables, and the evaluator evaluates the checkpoints
that appear in `model_dir`.
"""

from __future__ import annotations

import time
from typing import Any

import tensorflow as tf

from estimator_spec.core.cluster import roles, servers, termination
from estimator_spec.core.driver.checkpoint_evaluation import (
    EvaluationListener,
    EvaluationObserver,
    EvaluationResult,
    EvaluationStatus,
    Evaluator,
    TrainingJob,
)
from estimator_spec.core.driver.estimator import Estimator
from estimator_spec.core.driver.estimator_base import copy_with
from estimator_spec.core.driver.hooks import check_hooks
from estimator_spec.core.driver.train_spec import EvalSpec, TrainSpec
from estimator_spec.core.run_config import RunConfig, TaskType

tf1 = tf.compat.v1

_GLOBAL_STEP = tf1.GraphKeys.GLOBAL_STEP
_SHORTEST_WAIT = 1.0
# Worker i starts i + 1 times as long after the chief: training may diverge if all begin at once.
_WORKER_DELAY_SECS = 5
_MAX_WORKER_DELAY_SECS = 60


def train_and_evaluate(
    estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec
) -> tuple[dict[str, Any] | None, list[Any] | None] | None:
    """Trains, and evaluates and exports the checkpoints.

    The `RunConfig` sets how often a checkpoint is saved, `EvalSpec.throttle_secs` the least time
    between two evaluations. The last checkpoint is always evaluated. Training ends at
    `TrainSpec.max_steps`, at the end of the input, or when a hook requests a stop.

    Args:
        estimator: an `Estimator`.
        train_spec: a `TrainSpec`.
        eval_spec: an `EvalSpec`.

    Returns:
        (metrics of the last evaluation, result of each exporter for it); (None, None) if the
        model had `max_steps` already. None in a process that only trains: the chief or a worker of
        a cluster.

    Raises:
        TypeError: an argument has another type.
        ValueError: TF_CONFIG gives this process no known task or describes no cluster that can
            train, or the configuration saves no checkpoints.
        RuntimeError: the server of this task can't start.
        NotImplementedError: the cluster can't train this estimator.
        SystemExit: in a parameter server, at SIGTERM; it serves until then.
    """
    job = TrainingJob(estimator, train_spec, eval_spec)
    check_job(job)
    return run(job)


def check_job(job: TrainingJob, eval_spec_needed: bool = True) -> None:
    """Checks the types of a job's attributes.

    Args:
        job: the job.
        eval_spec_needed: whether `eval_spec` must not be None.

    Raises:
        TypeError: an attribute has another type.
    """
    for name, kind in (
        *([("eval_spec", EvalSpec)] if eval_spec_needed else []),
        ("estimator", Estimator),
        ("train_spec", TrainSpec),
        ("observer", EvaluationObserver),
    ):
        value = getattr(job, name)
        if not isinstance(value, kind):
            raise TypeError(
                f"`{name}` must have type `tf.estimator.{kind.__name__}`, which is "
                f"estimator_spec.{kind.__name__}. Got: {type(value)}"
            )
    check_hooks(job.train_hooks)


def run(job: TrainingJob) -> Any:
    """Runs the task that TF_CONFIG gives this process; see `train_and_evaluate`."""
    here = job.estimator.config
    if here.task_type == TaskType.EVALUATOR and here.task_id > 0:
        raise ValueError(
            "For distributed training, there can only be one `evaluator` task (with task id "
            f"0). Given task id {here.task_id}."
        )
    config = here.with_task_of_strategy()
    if config is not here:
        job = job._replace(estimator=copy_with(job.estimator, config=config))
    if config.task_type == TaskType.EVALUATOR:
        return evaluate_until_trained(job)
    if not config.cluster_spec:
        tf1.logging.info("Running training and evaluation locally (non-distributed).")
        return train_and_evaluate_locally(job)
    roles.check_task(config)
    roles.check_cluster(config)
    if config.task_type == TaskType.PS:
        servers.serve(config)
    servers.start(config)
    if config.task_type == TaskType.MASTER:
        return train_and_evaluate_locally(job)
    if not roles.has_variables(config):
        delay_worker(config)
    train(job)
    return None


def delay_worker(config: RunConfig) -> None:
    """Sleeps before a worker's training, the longer the higher its index."""
    limit = config.experimental_max_worker_delay_secs
    seconds = min(
        _MAX_WORKER_DELAY_SECS if limit is None else limit,
        (config.task_id + 1) * _WORKER_DELAY_SECS,
    )
    if seconds > 0:
        tf1.logging.info("Waiting %d secs before starting training.", seconds)
        time.sleep(seconds)


def train(job: TrainingJob, listeners: tuple[Any, ...] = ()) -> None:
    """Trains with the arguments of the `TrainSpec`, and further listeners."""
    spec = job.train_spec
    job.estimator.train(
        input_fn=spec.input_fn,
        max_steps=spec.max_steps,
        hooks=[*spec.hooks, *job.train_hooks],
        saving_listeners=(*spec.saving_listeners, *listeners),
    )


def train_and_evaluate_locally(job: TrainingJob) -> tuple[Any, Any]:
    """Trains in this process, and interrupts training for each evaluation."""
    tf1.logging.info(
        "Start train and evaluate loop. The evaluate will happen after every checkpoint. "
        "Checkpoint frequency is determined based on RunConfig arguments: save_checkpoints_steps "
        "%s or save_checkpoints_secs %s.",
        job.estimator.config.save_checkpoints_steps,
        job.estimator.config.save_checkpoints_secs,
    )
    listener = EvaluationListener(job)
    train(job, (listener,))
    last = listener.last
    return (last.metrics, last.exports) if last else (None, None)


def evaluate_until_trained(job: TrainingJob) -> tuple[Any, Any]:
    """Evaluates the checkpoints of another process until one has `max_steps`.

    At SIGTERM it evaluates the latest checkpoint, if that is new, and ends.
    """
    with termination.requested_by_sigterm() as end:
        return _evaluate_until(job, end)


def _evaluate_until(job: TrainingJob, end: termination.EndRequest) -> tuple[Any, Any]:
    """Evaluates the checkpoints until one has `max_steps`, or the request is made."""
    if job.eval_spec.start_delay_secs:
        _wait(job.eval_spec.start_delay_secs, "starting eval", end)
    evaluator = Evaluator(job)
    last = EvaluationResult(EvaluationStatus.MISSING_CHECKPOINT)
    while job.observer.before_eval():
        start = time.monotonic()
        is_final = end.is_made
        found = evaluator.evaluate_latest()
        is_new = found.status == EvaluationStatus.EVALUATED
        last = found if is_new else last
        if not job.observer.after_eval(found):
            break
        if is_new and evaluator.is_last(found.metrics):
            tf1.logging.info(
                "Exiting evaluation, global_step=%s >= train max_steps=%s",
                found.metrics[_GLOBAL_STEP],
                job.train_spec.max_steps,
            )
            break
        if is_final:
            tf1.logging.info("Exiting evaluation: the process got SIGTERM.")
            break
        seconds = job.eval_spec.throttle_secs - (time.monotonic() - start)
        if not is_new:
            seconds = max(seconds, _SHORTEST_WAIT)
        if seconds > 0:
            _wait(seconds, "starting next eval run", end)
    return last.metrics, last.exports


def _wait(seconds: float, before: str, end: termination.EndRequest) -> None:
    """Logs the delay, and waits for its end or the request."""
    tf1.logging.info("Waiting %f secs before %s.", seconds, before)
    end.wait(seconds)
