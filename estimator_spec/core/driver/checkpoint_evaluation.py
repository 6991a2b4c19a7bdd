# SPDX-License-Identifier: Apache-2.0
"""Evaluates and exports the checkpoints of `train_and_evaluate`."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core.checkpoints.errors import CheckpointError, MissingStateFileError
from estimator_spec.core.driver.estimator import Estimator
from estimator_spec.core.driver.train_spec import EvalSpec, TrainSpec
from estimator_spec.core.export.exporters import Exporter
from estimator_spec.core.run_config import TaskType

tf1 = tf.compat.v1

_GLOBAL_STEP = tf1.GraphKeys.GLOBAL_STEP
_SECONDS_BETWEEN_WARNINGS = 600


class EvaluationStatus:
    """Outcome of an attempt to evaluate the latest checkpoint."""

    EVALUATED = "evaluated"
    MISSING_CHECKPOINT = "missing checkpoint"
    NO_NEW_CHECKPOINT = "no new checkpoint"


class EvaluationResult(NamedTuple):
    """Result of an attempt to evaluate the latest checkpoint.

    Attributes:
        status: a value of `EvaluationStatus`; the rest is set if it is EVALUATED.
        metrics: the metrics, or None.
        checkpoint_path: the evaluated checkpoint, or None.
        exports: the result of each exporter.
    """

    status: str
    metrics: Any = None
    checkpoint_path: str | None = None
    exports: Any = None


class EvaluationObserver:
    """Base class of observers that may end `train_and_evaluate` before or after an evaluation."""

    def before_eval(self) -> bool:
        """Returns whether to go on; called before an evaluation."""
        return True

    def after_eval(self, eval_result: EvaluationResult) -> bool:
        """Returns whether to go on; called after an evaluation."""
        return True


class TrainingJob(NamedTuple):
    """Arguments of `train_and_evaluate`, and those of its older, private class.

    Attributes:
        estimator: an `Estimator`.
        train_spec: a `TrainSpec`.
        eval_spec: an `EvalSpec`.
        train_hooks: further hooks of the training.
        observer: called before and after each evaluation.
    """

    estimator: Estimator
    train_spec: TrainSpec
    eval_spec: EvalSpec
    train_hooks: tuple[Any, ...] = ()
    observer: EvaluationObserver = EvaluationObserver()


class Evaluator:
    """Evaluates and exports the checkpoints of a job, each once."""

    def __init__(self, job: TrainingJob) -> None:
        self._estimator = job.estimator
        self._spec = job.eval_spec
        self._max_steps = job.train_spec.max_steps
        self._evaluated: str | None = None
        self._warned = float("-inf")

    def evaluate_latest(self) -> EvaluationResult:
        """Evaluates and exports the latest checkpoint, if it is new."""
        try:
            checkpoint = self._estimator.latest_checkpoint()
        except MissingStateFileError as error:  # while another process saves its first checkpoint
            return self._skip(str(error))
        except CheckpointError as error:
            if self._estimator.config.task_type != TaskType.EVALUATOR:
                raise
            # The files of another machine needn't appear in the order in which it wrote them.
            return self._skip(
                f"The evaluation waits until this or another checkpoint is whole. {error}"
            )
        if not checkpoint:
            return self._skip(
                "Estimator is not trained yet. Will start an evaluation when a checkpoint is ready."
            )
        if checkpoint == self._evaluated:
            return self._skip(
                "No new checkpoint ready for evaluation. Skip the current evaluation pass.",
                EvaluationStatus.NO_NEW_CHECKPOINT,
            )
        try:
            metrics, exports = self._evaluate(checkpoint)
        except (ValueError, CheckpointError, OSError, tf.errors.OpError):
            is_evaluator = self._estimator.config.task_type == TaskType.EVALUATOR
            if not is_evaluator or tf.io.gfile.exists(f"{checkpoint}.index"):
                raise
            return self._skip(
                f"Training has deleted {checkpoint} before its evaluation ended: it keeps "
                f"{self._estimator.config.keep_checkpoint_max} checkpoints "
                "(RunConfig.keep_checkpoint_max). The evaluation goes on with a later one."
            )
        self._evaluated = checkpoint
        self._warned = float("-inf")
        return EvaluationResult(EvaluationStatus.EVALUATED, metrics, checkpoint, exports)

    def _evaluate(self, checkpoint: str) -> tuple[dict[str, Any], list[Any]]:
        """Returns the metrics of a checkpoint, and the results of the exporters."""
        metrics = self._estimator.evaluate(
            input_fn=self._spec.input_fn,
            steps=self._spec.steps,
            name=self._spec.name,
            checkpoint_path=checkpoint,
            hooks=self._spec.hooks,
        )
        _check_metrics(metrics)
        return metrics, [self._export(each, checkpoint, metrics) for each in self._spec.exporters]

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

    def _skip(
        self, message: str, status: str = EvaluationStatus.MISSING_CHECKPOINT
    ) -> EvaluationResult:
        """Returns a result without metrics; logs why, at most once in ten minutes."""
        now = time.monotonic()
        if now - self._warned > _SECONDS_BETWEEN_WARNINGS:
            tf1.logging.warning(message)
            self._warned = now
        return EvaluationResult(status)


def _check_metrics(metrics: Any) -> None:
    """Checks the result of `Estimator.evaluate`, which a subclass may override."""
    if not isinstance(metrics, dict):
        raise TypeError(f"`Estimator.evaluate` should return dict. Given {type(metrics)}.")
    if _GLOBAL_STEP not in metrics:
        raise ValueError(
            "`Estimator.evaluate` should never return empty metrics, and they should have "
            f"`global_step`. Given {metrics}."
        )


class EvaluationListener(tf1.train.CheckpointSaverListener):
    """Listener that evaluates a checkpoint after it was saved.

    Args:
        job: `EvalSpec.throttle_secs` is the minimum of seconds between the starts of two
            evaluations; the observer may end the training.

    Attributes:
        last: the last evaluation, or None.
    """

    def __init__(self, job: TrainingJob) -> None:
        self._evaluator = Evaluator(job)
        self._throttle_secs = job.eval_spec.throttle_secs
        self._observer = job.observer
        self.last: EvaluationResult | None = None

    def begin(self) -> None:
        """Starts the timer."""
        self._timer = tf1.train.SecondOrStepTimer(every_secs=self._throttle_secs)
        self._first = True

    def after_save(self, session: tf1.Session, global_step_value: int) -> bool:
        """Evaluates, unless the last evaluation was less than `throttle_secs` ago.

        Returns:
            Whether to stop training.
        """
        if self._first:  # The checkpoint before the first step isn't evaluated.
            self._first = False
            return False
        if not self._observer.before_eval():
            tf1.logging.info("Ending training: `before_eval` of the listener requested it.")
            return True
        if self._timer.should_trigger_for_step(global_step_value):
            return not self._evaluate(global_step_value)
        tf1.logging.info(
            "Skip the current checkpoint eval due to throttle secs (%s secs).", self._throttle_secs
        )
        return False

    def end(self, session: tf1.Session, global_step_value: int) -> None:
        """Evaluates the last checkpoint, whatever `throttle_secs` is."""
        last_step = self._timer.last_triggered_step()
        if global_step_value != last_step and self._observer.before_eval():
            self._evaluate(global_step_value)

    def _evaluate(self, global_step: int) -> bool:
        """Evaluates; returns what the observer's `after_eval` returns."""
        self._timer.update_last_triggered_step(global_step)
        self.last = self._evaluator.evaluate_latest()
        if self.last.status != EvaluationStatus.EVALUATED:
            raise RuntimeError(
                "There was no new checkpoint after the training: a hook or another process "
                "deleted it, or changed which one is the latest."
            )
        return self._observer.after_eval(self.last)
