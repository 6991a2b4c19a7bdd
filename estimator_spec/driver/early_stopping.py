# SPDX-License-Identifier: Apache-2.0
"""Hooks that end a training early: by a metric of its evaluations, or by any function.

The metrics are read from the event files that `Estimator.evaluate` writes, so those of earlier
processes count as well.
"""

from __future__ import annotations

import collections
import operator
import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_spec.driver import early_stopping_hooks
from estimator_spec.driver.estimator import Estimator
from estimator_spec.evaluation import event_files

tf1 = tf.compat.v1


def read_eval_metrics(eval_dir: str) -> dict[int, dict[str, float]]:
    """Reads the metrics that evaluations have written.

    Args:
        eval_dir: directory of event files, such as `Estimator.eval_dir()`. It need not exist.

    Returns:
        Metrics by name, by global step, in the order of the steps.
    """
    found: dict[int, dict[str, float]] = collections.defaultdict(dict)
    for step, metrics in event_files.read_scalars(os.path.join(eval_dir, "events.out.tfevents.*")):
        found[step].update(metrics)
    return dict(sorted(found.items()))


def make_early_stopping_hook(
    estimator: Any,
    should_stop_fn: Callable[[], Any],
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> Any:
    """Makes a hook that ends training when a function says so.

    Training ends as at its last step: with a checkpoint, and in `train_and_evaluate` with an
    evaluation. The model gets a variable `signal_early_stopping/STOP`, by which a chief tells its
    workers.

    Args:
        estimator: the `Estimator` that will train.
        should_stop_fn: function without arguments; true ends the training.
        run_every_secs: seconds between two calls of it. Default 60; None with `run_every_steps`.
        run_every_steps: steps between two calls.

    Returns:
        A `SessionRunHook` for `Estimator.train` or `TrainSpec`.

    Raises:
        TypeError: `estimator` is something else, or the function can't be called.
        ValueError: both intervals, or none.
    """
    if not isinstance(estimator, Estimator):
        raise TypeError(f"`estimator` must have type `Estimator`. Got: {type(estimator)}")
    if run_every_secs is not None and run_every_steps is not None:
        raise ValueError(
            "Only one of `run_every_secs` and `run_every_steps` must be set. run_every_secs is 60 "
            "unless you say None."
        )
    if run_every_secs is None and run_every_steps is None:
        raise ValueError("One of `run_every_secs` and `run_every_steps` must be set.")
    if not callable(should_stop_fn):
        raise TypeError(f"`should_stop_fn` must be callable. Got: {should_stop_fn!r}")
    model_dir = estimator.model_dir
    if not estimator.config.is_chief:
        return early_stopping_hooks.StopWithChief(model_dir)
    return early_stopping_hooks.StopWhen(should_stop_fn, run_every_secs, run_every_steps, model_dir)


def stop_if_higher_hook(
    estimator: Any,
    metric_name: str,
    threshold: float,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> Any:
    """Makes a hook that ends training when a metric is above a threshold.

    Args:
        estimator: the `Estimator` that will train.
        metric_name: the metric, as `Estimator.evaluate` names it.
        threshold: it must be above this.
        eval_dir: where the evaluations write. None: `estimator.eval_dir()`, which is that of
            evaluations without a name.
        min_steps: evaluations before this global step don't count.
        run_every_secs: seconds between two checks. Default 60; None with `run_every_steps`.
        run_every_steps: steps between two checks.

    Returns:
        A `SessionRunHook` for `Estimator.train` or `TrainSpec`.

    Raises:
        TypeError: as for `make_early_stopping_hook`.
        ValueError: as for `make_early_stopping_hook`; when training, if there are evaluations
            but none has such a metric.
    """
    return _threshold_hook(
        estimator,
        _History(estimator, metric_name, eval_dir, min_steps, higher_is_better=True),
        threshold,
        run_every_secs,
        run_every_steps,
    )


def stop_if_lower_hook(
    estimator: Any,
    metric_name: str,
    threshold: float,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> Any:
    """Makes a hook that ends training when a metric is below a threshold.

    Args:
        estimator: as for `stop_if_higher_hook`.
        metric_name: as for `stop_if_higher_hook`.
        threshold: it must be below this.
        eval_dir: as for `stop_if_higher_hook`.
        min_steps: as for `stop_if_higher_hook`.
        run_every_secs: as for `stop_if_higher_hook`.
        run_every_steps: as for `stop_if_higher_hook`.

    Returns:
        A `SessionRunHook` for `Estimator.train` or `TrainSpec`.

    Raises:
        TypeError: as for `stop_if_higher_hook`.
        ValueError: as for `stop_if_higher_hook`.
    """
    return _threshold_hook(
        estimator,
        _History(estimator, metric_name, eval_dir, min_steps, higher_is_better=False),
        threshold,
        run_every_secs,
        run_every_steps,
    )


def stop_if_no_increase_hook(
    estimator: Any,
    metric_name: str,
    max_steps_without_increase: int,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> Any:
    """Makes a hook that ends training when a metric hasn't grown for a number of steps.

    Args:
        estimator: as for `stop_if_higher_hook`.
        metric_name: as for `stop_if_higher_hook`.
        max_steps_without_increase: global steps since the evaluation with the highest value.
        eval_dir: as for `stop_if_higher_hook`.
        min_steps: as for `stop_if_higher_hook`.
        run_every_secs: as for `stop_if_higher_hook`.
        run_every_steps: as for `stop_if_higher_hook`.

    Returns:
        A `SessionRunHook` for `Estimator.train` or `TrainSpec`.

    Raises:
        TypeError: as for `stop_if_higher_hook`.
        ValueError: as for `stop_if_higher_hook`.
    """
    return _no_improvement_hook(
        estimator,
        _History(estimator, metric_name, eval_dir, min_steps, higher_is_better=True),
        max_steps_without_increase,
        run_every_secs,
        run_every_steps,
    )


def stop_if_no_decrease_hook(
    estimator: Any,
    metric_name: str,
    max_steps_without_decrease: int,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> Any:
    """Makes a hook that ends training when a metric hasn't fallen for a number of steps.

    Args:
        estimator: as for `stop_if_higher_hook`.
        metric_name: as for `stop_if_higher_hook`.
        max_steps_without_decrease: global steps since the evaluation with the lowest value.
        eval_dir: as for `stop_if_higher_hook`.
        min_steps: as for `stop_if_higher_hook`.
        run_every_secs: as for `stop_if_higher_hook`.
        run_every_steps: as for `stop_if_higher_hook`.

    Returns:
        A `SessionRunHook` for `Estimator.train` or `TrainSpec`.

    Raises:
        TypeError: as for `stop_if_higher_hook`.
        ValueError: as for `stop_if_higher_hook`.
    """
    return _no_improvement_hook(
        estimator,
        _History(estimator, metric_name, eval_dir, min_steps, higher_is_better=False),
        max_steps_without_decrease,
        run_every_secs,
        run_every_steps,
    )


def make_stop_at_checkpoint_step_hook(
    estimator: Any, last_step: int, wait_after_file_check_secs: float = 30
) -> Any:
    """Makes a hook that ends training at a global step.

    A worker of a cluster goes on until the chief has saved a checkpoint of that step.

    Args:
        estimator: the `Estimator` that will train.
        last_step: the global step.
        wait_after_file_check_secs: seconds that a worker waits after it looked for the
            checkpoint in vain. Default 30.

    Returns:
        A `SessionRunHook`.

    Raises:
        ValueError: no `last_step`.
    """
    if last_step is None:
        raise ValueError("last_step must be specified.")
    if estimator.config.is_chief:
        return tf1.train.StopAtStepHook(last_step=last_step)
    return early_stopping_hooks.StopAtCheckpoint(
        estimator.model_dir, last_step, wait_after_file_check_secs
    )


class _History:
    """The values of one metric in the evaluations so far."""

    def __init__(
        self,
        estimator: Any,
        metric_name: str,
        eval_dir: str | None,
        min_steps: int,
        higher_is_better: bool,
    ) -> None:
        if eval_dir is None and isinstance(estimator, Estimator):
            eval_dir = estimator.eval_dir()
        self.metric_name = metric_name
        self._eval_dir = eval_dir
        self._min_steps = min_steps
        self.higher_is_better = higher_is_better
        self.beats = operator.gt if higher_is_better else operator.lt

    def values(self) -> dict[int, float]:
        """Value by global step, from the first step that counts."""
        metrics = read_eval_metrics(str(self._eval_dir))
        counted = {step: found for step, found in metrics.items() if step >= self._min_steps}
        # A model's own summaries may be in the same directory, at steps of their own.
        values = {
            step: found[self.metric_name]
            for step, found in counted.items()
            if self.metric_name in found
        }
        if counted and not values:
            names = sorted(set().union(*counted.values()))
            raise ValueError(
                f"Early stopping looks for the metric {self.metric_name!r}, but the evaluations "
                f"in {self._eval_dir!r} have only {names}. Give metric_name one of these, or "
                "another eval_dir."
            )
        return values


def _threshold_hook(
    estimator: Any,
    history: _History,
    threshold: float,
    run_every_secs: float | None,
    run_every_steps: int | None,
) -> Any:
    def should_stop() -> bool:
        for step, value in history.values().items():
            if history.beats(value, threshold):
                tf1.logging.info(
                    'At step %s, metric "%s" has value %s which is %s than the configured '
                    "threshold (%s) for early stopping.",
                    step,
                    history.metric_name,
                    value,
                    "greater" if history.higher_is_better else "less",
                    threshold,
                )
                return True
        return False

    return make_early_stopping_hook(estimator, should_stop, run_every_secs, run_every_steps)


def _no_improvement_hook(
    estimator: Any,
    history: _History,
    max_steps: int,
    run_every_secs: float | None,
    run_every_steps: int | None,
) -> Any:
    def should_stop() -> bool:
        best: float | None = None
        best_step = 0
        for step, value in history.values().items():
            if best is None or history.beats(value, best):
                best, best_step = value, step
            if step - best_step >= max_steps:
                tf1.logging.info(
                    'No %s in metric "%s" for %s steps, which is greater than or equal to max '
                    "steps (%s) configured for early stopping.",
                    "increase" if history.higher_is_better else "decrease",
                    history.metric_name,
                    step - best_step,
                    max_steps,
                )
                return True
        return False

    return make_early_stopping_hook(estimator, should_stop, run_every_secs, run_every_steps)
