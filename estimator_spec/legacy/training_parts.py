# SPDX-License-Identifier: Apache-2.0
"""Private classes of the old `train_and_evaluate` and of its hooks, by what does the work here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from estimator_spec.core.cluster import servers
from estimator_spec.core.driver import checkpoint_evaluation, early_stopping_hooks
from estimator_spec.core.driver import train_and_evaluate as driver
from estimator_spec.core.driver.train_spec import EvalSpec


def assert_eval_spec(eval_spec: Any) -> None:
    """Checks the type of an `EvalSpec`.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(eval_spec, EvalSpec):
        raise TypeError(
            f"`eval_spec` must have type `tf.estimator.EvalSpec`. Got: {type(eval_spec)}"
        )


class TrainingExecutor:
    """Runs `train_and_evaluate` with hooks and a listener.

    Args:
        estimator: an `Estimator`.
        train_spec: a `TrainSpec`.
        eval_spec: an `EvalSpec`, or None for a process that only trains.
        train_hooks: further hooks of the training.
        continuous_eval_listener: a `_ContinuousEvalListener`, or None.

    Raises:
        TypeError: an argument has another type.
    """

    def __init__(
        self,
        estimator: Any,
        train_spec: Any,
        eval_spec: Any,
        train_hooks: Any = None,
        continuous_eval_listener: Any = None,
    ) -> None:
        self._job = checkpoint_evaluation.TrainingJob(
            estimator,
            train_spec,
            eval_spec,
            tuple(train_hooks or ()),
            continuous_eval_listener or checkpoint_evaluation.EvaluationObserver(),
        )
        driver.check_job(self._job, eval_spec_needed=eval_spec is not None)

    @property
    def estimator(self) -> Any:
        """The estimator."""
        return self._job.estimator

    def run(self) -> Any:
        """Runs the task that TF_CONFIG gives this process."""
        assert_eval_spec(self._job.eval_spec)
        return driver.run(self._job)

    def run_local(self) -> Any:
        """Trains and evaluates in this process."""
        assert_eval_spec(self._job.eval_spec)
        return driver.train_and_evaluate_locally(self._job)

    def run_master(self) -> None:
        """Trains and evaluates in this process."""
        self.run_local()

    def run_chief(self) -> None:
        """Trains in this process."""
        driver.train(self._job)

    def run_worker(self) -> None:
        """Trains in this process, after the delay of its index."""
        config = self._job.estimator.config
        servers.start(config)
        driver.delay_worker(config)
        driver.train(self._job)

    def run_ps(self) -> None:
        """Serves variables until SIGTERM, which ends the process."""
        servers.serve(self._job.estimator.config)

    def run_evaluator(self) -> None:
        """Evaluates the checkpoints of another process."""
        assert_eval_spec(self._job.eval_spec)
        driver.evaluate_until_trained(self._job)


# early_stopping, hooks


class StopOnPredicateHook(early_stopping_hooks.StopWhen):
    """Stops training when a function returns true.

    Args:
        should_stop_fn: the function.
        run_every_secs: seconds between two calls, or None.
        run_every_steps: steps between two calls, or None.

    Raises:
        TypeError: `should_stop_fn` is not callable.
    """

    def __init__(
        self,
        should_stop_fn: Callable[[], Any],
        run_every_secs: float | None = 60,
        run_every_steps: int | None = None,
    ) -> None:
        if not callable(should_stop_fn):
            raise TypeError("`should_stop_fn` must be callable.")
        super().__init__(should_stop_fn, run_every_secs, run_every_steps, None)


class CheckForStoppingHook(early_stopping_hooks.StopWithChief):
    """Stops a worker when the chief's `_StopOnPredicateHook` has stopped."""

    def __init__(self) -> None:
        super().__init__(None)


StopAtCheckpointStepHook = early_stopping_hooks.StopAtCheckpoint
