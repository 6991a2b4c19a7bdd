# SPDX-License-Identifier: Apache-2.0
"""Trains, and evaluates and exports the checkpoints: `train_and_evaluate`.

A single process interrupts training for each evaluation. A process that is the evaluator by
TF_CONFIG only evaluates the checkpoints that appear in `model_dir`; its cluster may have any size.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.config.run_config import TaskType
from estimator_spec.driver import cluster_roles
from estimator_spec.driver.estimator import Estimator
from estimator_spec.evaluation.exporters import Exporter
from estimator_spec.evaluation.train_spec import EvalSpec, TrainSpec

tf1 = tf.compat.v1

_GLOBAL_STEP = tf1.GraphKeys.GLOBAL_STEP
_SECONDS_BETWEEN_WARNINGS = 600
_SHORTEST_WAIT = 1.0


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
        model had `max_steps` already. None in a process that only trains: the chief of a cluster.

    Raises:
        TypeError: an argument has another type.
        ValueError: TF_CONFIG gives this process no known task, or the configuration saves no
            checkpoints.
        NotImplementedError: TF_CONFIG describes several training processes.
    """
    _check_types(estimator, train_spec, eval_spec)
    config = estimator.config
    if config.task_type == TaskType.EVALUATOR:
        if config.task_id > 0:
            raise ValueError(
                "For distributed training, there can only be one `evaluator` task (with task id "
                f"0). Given task id {config.task_id}."
            )
        return _evaluate_until_trained(estimator, train_spec, eval_spec)
    if not config.cluster_spec:
        tf1.logging.info("Running training and evaluation locally (non-distributed).")
        return _train_and_evaluate_locally(estimator, train_spec, eval_spec)
    cluster_roles.check_task(config)
    cluster_roles.check_single_process(config)
    if config.task_type == TaskType.MASTER:
        return _train_and_evaluate_locally(estimator, train_spec, eval_spec)
    _train(estimator, train_spec, train_spec.saving_listeners)
    return None


def _check_types(estimator: Any, train_spec: Any, eval_spec: Any) -> None:
    """Checks the types of the arguments of `train_and_evaluate`."""
    for name, value, kind in (
        ("eval_spec", eval_spec, EvalSpec),
        ("estimator", estimator, Estimator),
        ("train_spec", train_spec, TrainSpec),
    ):
        if not isinstance(value, kind):
            raise TypeError(
                f"`{name}` must have type `{kind.__name__}` of estimator_spec. Got: {type(value)}"
            )


def _train(estimator: Estimator, train_spec: TrainSpec, saving_listeners: Any) -> None:
    """Trains with the arguments of a `TrainSpec` and other listeners."""
    estimator.train(
        input_fn=train_spec.input_fn,
        max_steps=train_spec.max_steps,
        hooks=list(train_spec.hooks),
        saving_listeners=saving_listeners,
    )


def _train_and_evaluate_locally(
    estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec
) -> tuple[Any, Any]:
    """Trains in this process, and interrupts training for each evaluation."""
    tf1.logging.info(
        "Start train and evaluate loop. The evaluate will happen after every checkpoint. "
        "Checkpoint frequency is determined based on RunConfig arguments: save_checkpoints_steps "
        "%s or save_checkpoints_secs %s.",
        estimator.config.save_checkpoints_steps,
        estimator.config.save_checkpoints_secs,
    )
    evaluator = _Evaluator(estimator, eval_spec, train_spec.max_steps)
    listener = _EvaluationListener(evaluator, eval_spec.throttle_secs)
    _train(estimator, train_spec, (*train_spec.saving_listeners, listener))
    last = listener.last
    return (last.metrics, last.exports) if last else (None, None)


class _Evaluation(NamedTuple):
    """Results of one evaluation: the metrics, and the result of each exporter."""

    metrics: dict[str, Any]
    exports: list[Any]


class _Evaluator:
    """Evaluates and exports checkpoints, each once.

    Args:
        estimator: the `Estimator`.
        eval_spec: the `EvalSpec`.
        max_steps: the global step of the final export, or None.
    """

    def __init__(self, estimator: Estimator, eval_spec: EvalSpec, max_steps: int | None) -> None:
        self._estimator = estimator
        self._spec = eval_spec
        self._max_steps = max_steps
        self._evaluated: str | None = None
        self._warned = float("-inf")

    def evaluate_latest(self) -> _Evaluation | None:
        """Evaluates and exports the latest checkpoint; returns None if it isn't new."""
        checkpoint = self._estimator.latest_checkpoint()
        if not checkpoint:
            self._warn(
                "Estimator is not trained yet. Will start an evaluation when a checkpoint is ready."
            )
            return None
        if checkpoint == self._evaluated:
            self._warn("No new checkpoint ready for evaluation. Skip the current evaluation pass.")
            return None
        metrics = self._estimator.evaluate(
            input_fn=self._spec.input_fn,
            steps=self._spec.steps,
            name=self._spec.name,
            checkpoint_path=checkpoint,
            hooks=self._spec.hooks,
        )
        _check_metrics(metrics)
        exports = [self._export(exporter, checkpoint, metrics) for exporter in self._spec.exporters]
        self._evaluated = checkpoint
        self._warned = float("-inf")
        return _Evaluation(metrics, exports)

    def is_last(self, metrics: Mapping[str, Any]) -> bool:
        """Returns whether these metrics are of the last step of training."""
        return bool(self._max_steps and metrics[_GLOBAL_STEP] >= self._max_steps)

    def _export(self, exporter: Exporter, checkpoint: str, metrics: dict[str, Any]) -> Any:
        """Returns the result of an exporter for a checkpoint."""
        return exporter.export(
            estimator=self._estimator,
            export_path=os.path.join(self._estimator.model_dir, "export", exporter.name),
            checkpoint_path=checkpoint,
            eval_result=metrics,
            is_the_final_export=self.is_last(metrics),
        )

    def _warn(self, message: str) -> None:
        """Logs a warning, unless one was logged in the last ten minutes."""
        now = time.monotonic()
        if now - self._warned > _SECONDS_BETWEEN_WARNINGS:
            tf1.logging.warning(message)
            self._warned = now


def _check_metrics(metrics: Any) -> None:
    """Checks the result of `Estimator.evaluate`, which a subclass may override."""
    if not isinstance(metrics, dict):
        raise TypeError(f"`Estimator.evaluate` should return dict. Given {type(metrics)}.")
    if _GLOBAL_STEP not in metrics:
        raise ValueError(
            "`Estimator.evaluate` should never return empty metrics, and they should have "
            f"`global_step`. Given {metrics}."
        )


class _EvaluationListener(tf1.train.CheckpointSaverListener):
    """Listener that evaluates a checkpoint after it was saved.

    Args:
        evaluator: evaluates the checkpoints.
        throttle_secs: minimum of seconds between the starts of two evaluations.

    Attributes:
        last: the last evaluation, or None.
    """

    def __init__(self, evaluator: _Evaluator, throttle_secs: float) -> None:
        self._evaluator = evaluator
        self._throttle_secs = throttle_secs
        self.last: _Evaluation | None = None

    def begin(self) -> None:
        """Starts the timer."""
        self._timer = tf1.train.SecondOrStepTimer(every_secs=self._throttle_secs)
        self._first = True

    def after_save(self, session: tf1.Session, global_step_value: int) -> None:
        """Evaluates, unless the last evaluation was less than `throttle_secs` ago."""
        del session
        if self._first:  # The checkpoint before the first step isn't evaluated.
            self._first = False
        elif self._timer.should_trigger_for_step(global_step_value):
            self._evaluate(global_step_value)
        else:
            tf1.logging.info(
                "Skip the current checkpoint eval due to throttle secs (%s secs).",
                self._throttle_secs,
            )

    def end(self, session: tf1.Session, global_step_value: int) -> None:
        """Evaluates the last checkpoint, whatever `throttle_secs` is."""
        del session
        if global_step_value != self._timer.last_triggered_step():
            self._evaluate(global_step_value)

    def _evaluate(self, global_step: int) -> None:
        self._timer.update_last_triggered_step(global_step)
        self.last = self._evaluator.evaluate_latest()
        if self.last is None:
            raise RuntimeError(
                "There was no new checkpoint after the training: a hook or another process "
                "deleted it, or changed which one is the latest."
            )


def _evaluate_until_trained(
    estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec
) -> tuple[Any, Any]:
    """Evaluates the checkpoints of another process until one has `max_steps`."""
    if eval_spec.start_delay_secs:
        _wait(eval_spec.start_delay_secs, "starting eval")
    evaluator = _Evaluator(estimator, eval_spec, train_spec.max_steps)
    while True:
        start = time.monotonic()
        found = evaluator.evaluate_latest()
        if found and evaluator.is_last(found.metrics):
            tf1.logging.info(
                "Exiting evaluation, global_step=%s >= train max_steps=%s",
                found.metrics[_GLOBAL_STEP],
                train_spec.max_steps,
            )
            return found.metrics, found.exports
        seconds = eval_spec.throttle_secs - (time.monotonic() - start)
        if not found:
            seconds = max(seconds, _SHORTEST_WAIT)
        if seconds > 0:
            _wait(seconds, "starting next eval run")


def _wait(seconds: float, before: str) -> None:
    """Logs the delay, and sleeps."""
    tf1.logging.info("Waiting %f secs before %s.", seconds, before)
    time.sleep(seconds)
