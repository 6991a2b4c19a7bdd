# SPDX-License-Identifier: Apache-2.0
"""Creates hooks that stop training early, by a metric of its evaluations or by a function.

The metrics are read from the event files that `Estimator.evaluate` writes, so they include those of
earlier processes.
"""

from __future__ import annotations

import collections
import functools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core.common import argument_rules
from estimator_spec.core.driver import early_stopping_hooks
from estimator_spec.core.driver.estimator import Estimator
from estimator_spec.core.export import event_files

tf1 = tf.compat.v1


def read_eval_metrics(eval_dir: str) -> dict[int, dict[str, float]]:
    """Reads the metrics of earlier evaluations.

    Args:
        eval_dir: directory of event files, such as `Estimator.eval_dir()`. It need not exist.

    Returns:
        {global step: {metric name: value}}, sorted by step.
    """
    found: dict[int, dict[str, float]] = collections.defaultdict(dict)
    for step, metrics in event_files.read_scalars(os.path.join(eval_dir, "events.out.tfevents.*")):
        found[step].update(metrics)
    return dict(sorted(found.items()))


def make_early_stopping_hook(
    estimator: Estimator,
    should_stop_fn: Callable[[], Any],
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> Any:
    """Creates a hook that stops training when a function returns true.

    Training ends as at its last step: with a checkpoint, and in `train_and_evaluate` with an
    evaluation. The model gets a variable `signal_early_stopping/STOP`, by which a chief stops its
    workers.

    Args:
        estimator: the `Estimator` that will train.
        should_stop_fn: function without arguments; true stops training.
        run_every_secs: seconds between two calls of it. Default 60; None with `run_every_steps`.
        run_every_steps: steps between two calls.

    Returns:
        A `SessionRunHook` for `Estimator.train` or `TrainSpec`.

    Raises:
        TypeError: `estimator` is no `Estimator`, or the function is not callable.
        ValueError: both intervals are given, or none.
    """
    if not isinstance(estimator, Estimator):
        raise TypeError(f"`estimator` must have type `Estimator`. Got: {type(estimator)}")
    argument_rules.check("early_stopping_hook", locals())
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
    estimator: Estimator,
    metric_name: str,
    threshold: float,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> Any:
    """Creates a hook that stops training when a metric is above a threshold.

    Args:
        estimator: the `Estimator` that will train.
        metric_name: a key of the result of `Estimator.evaluate`.
        threshold: training stops if the metric is greater.
        eval_dir: directory of the evaluations' event files. None: `estimator.eval_dir()`, the
            directory of evaluations without a name.
        min_steps: evaluations before this global step don't count.
        run_every_secs: seconds between two checks. Default 60; None with `run_every_steps`.
        run_every_steps: steps between two checks.

    Returns:
        A `SessionRunHook` for `Estimator.train` or `TrainSpec`.

    Raises:
        TypeError: as for `make_early_stopping_hook`.
        ValueError: as for `make_early_stopping_hook`; in training, if there are evaluations
            but none has this metric.
    """
    argument_rules.check("early_stopping_hook", locals())
    metric = _Metric(estimator, metric_name, eval_dir, min_steps, higher_is_better=True)
    should_stop = functools.partial(metric.passes_threshold, threshold)
    return make_early_stopping_hook(estimator, should_stop, run_every_secs, run_every_steps)


def stop_if_lower_hook(
    estimator: Estimator,
    metric_name: str,
    threshold: float,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> Any:
    """Creates a hook that stops training when a metric is below a threshold.

    Training stops if the metric is less than `threshold`. The other arguments, the result and the
    errors are those of `stop_if_higher_hook`.
    """
    argument_rules.check("early_stopping_hook", locals())
    metric = _Metric(estimator, metric_name, eval_dir, min_steps, higher_is_better=False)
    should_stop = functools.partial(metric.passes_threshold, threshold)
    return make_early_stopping_hook(estimator, should_stop, run_every_secs, run_every_steps)


def stop_if_no_increase_hook(
    estimator: Estimator,
    metric_name: str,
    max_steps_without_increase: int,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> Any:
    """Creates a hook that stops training when a metric hasn't increased for a number of steps.

    `max_steps_without_increase` counts global steps since the evaluation with the highest value.
    The other arguments, the result and the errors are those of `stop_if_higher_hook`.
    """
    argument_rules.check("early_stopping_hook", locals())
    metric = _Metric(estimator, metric_name, eval_dir, min_steps, higher_is_better=True)
    should_stop = functools.partial(metric.has_no_improvement, max_steps_without_increase)
    return make_early_stopping_hook(estimator, should_stop, run_every_secs, run_every_steps)


def stop_if_no_decrease_hook(
    estimator: Estimator,
    metric_name: str,
    max_steps_without_decrease: int,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> Any:
    """Creates a hook that stops training when a metric hasn't decreased for a number of steps.

    `max_steps_without_decrease` counts global steps since the evaluation with the lowest value. The
    other arguments, the result and the errors are those of `stop_if_higher_hook`.
    """
    argument_rules.check("early_stopping_hook", locals())
    metric = _Metric(estimator, metric_name, eval_dir, min_steps, higher_is_better=False)
    should_stop = functools.partial(metric.has_no_improvement, max_steps_without_decrease)
    return make_early_stopping_hook(estimator, should_stop, run_every_secs, run_every_steps)


def make_stop_at_checkpoint_step_hook(
    estimator: Estimator, last_step: int, wait_after_file_check_secs: float = 30
) -> Any:
    """Creates a hook that stops training at a global step.

    A worker of a cluster continues until the chief has saved a checkpoint of that step.

    Args:
        estimator: the `Estimator` that will train.
        last_step: the global step.
        wait_after_file_check_secs: seconds that a worker sleeps if that checkpoint doesn't exist
            yet. Default 30.

    Returns:
        A `SessionRunHook`.

    Raises:
        ValueError: `last_step` is None.
    """
    if last_step is None:
        raise ValueError("last_step must be specified.")
    if estimator.config.is_chief:
        return tf1.train.StopAtStepHook(last_step=last_step)
    return early_stopping_hooks.StopAtCheckpoint(
        estimator.model_dir, last_step, wait_after_file_check_secs
    )


class _Metric(NamedTuple):
    """Metric of the evaluations so far, and whether an increase of it is an improvement."""

    estimator: Estimator
    name: str
    eval_dir: str | None
    min_steps: int
    higher_is_better: bool

    def passes_threshold(self, threshold: float) -> bool:
        """Returns whether a value is better than the threshold, and logs the first one."""
        for step, value in self._values().items():
            if self._is_better(value, threshold):
                tf1.logging.info(
                    'At step %s, metric "%s" has value %s which is %s than the configured '
                    "threshold (%s) for early stopping.",
                    step,
                    self.name,
                    value,
                    "greater" if self.higher_is_better else "less",
                    threshold,
                )
                return True
        return False

    def has_no_improvement(self, max_steps: int) -> bool:
        """Returns whether `max_steps` passed after a best value without a better one; logs it."""
        best: float | None = None
        best_step = 0
        for step, value in self._values().items():
            if best is None or self._is_better(value, best):
                best, best_step = value, step
            if step - best_step >= max_steps:
                tf1.logging.info(
                    'No %s in metric "%s" for %s steps, which is greater than or equal to max '
                    "steps (%s) configured for early stopping.",
                    "increase" if self.higher_is_better else "decrease",
                    self.name,
                    step - best_step,
                    max_steps,
                )
                return True
        return False

    def _is_better(self, value: float, other: float) -> bool:
        return value > other if self.higher_is_better else value < other

    def _values(self) -> dict[int, float]:
        """Returns {global step: value} from `min_steps` on, sorted by step."""
        eval_dir = self.estimator.eval_dir() if self.eval_dir is None else str(self.eval_dir)
        metrics = read_eval_metrics(eval_dir)
        counted = {step: found for step, found in metrics.items() if step >= self.min_steps}
        # The directory may have the model's own summaries, at other steps.
        values = {step: found[self.name] for step, found in counted.items() if self.name in found}
        if counted and not values:
            names = sorted(set().union(*counted.values()))
            raise ValueError(
                f"Early stopping looks for the metric {self.name!r}, but the evaluations "
                f"in {eval_dir!r} have only {names}. Give metric_name one of these, or "
                "another eval_dir."
            )
        return values
