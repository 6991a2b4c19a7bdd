# SPDX-License-Identifier: Apache-2.0
"""Defines `Experiment`, an estimator with its input functions and intervals."""

from __future__ import annotations

import copy
import dataclasses
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.core.cluster import roles, servers
from estimator_spec.core.driver.estimator import Estimator as CoreEstimator
from estimator_spec.legacy.contrib.learn import monitor_hooks, monitors
from estimator_spec.legacy.contrib.learn.estimator import Estimator
from estimator_spec.legacy.contrib.learn.exports import ExportStrategy

tf1 = tf.compat.v1

_SECONDS_BETWEEN_WORKERS = 5
_GREATEST_DELAY = 60


@dataclasses.dataclass(eq=False, repr=False)
class Experiment:
    """An estimator with what it trains and is evaluated on.

    Args:
        estimator: an `Estimator` of `tf.contrib.learn` or of `tf.estimator`.
        train_input_fn: function that returns (features, labels) of training.
        eval_input_fn: function that returns those of evaluations.
        eval_metrics: further metrics of an estimator of `tf.contrib.learn`, or None.
        train_steps: global step at which training ends. None: at the input's end.
        eval_steps: number of batches of an evaluation. None: until the input ends.
        train_monitors: monitors and hooks of training.
        eval_hooks: hooks of evaluations.
        local_eval_frequency: older name of `min_eval_frequency`.
        eval_delay_secs: seconds until the first of several evaluations by a process of their own.
        continuous_eval_throttle_secs: least seconds between two of these.
        min_eval_frequency: least number of steps between two evaluations during training; 0: none.
            None: 1, so that each checkpoint is evaluated.
        delay_workers_by_global_step: whether workers wait for the global step, not for a time.
        export_strategies: an `ExportStrategy`, several, or a function that returns them.
        train_steps_per_iteration: steps between evaluations of `continuous_train_and_eval`.
        checkpoint_and_export: whether each checkpoint is evaluated and exported when it is saved.
        saving_listeners: `CheckpointSaverListener`s.
        check_interval_secs: ignored.

    Raises:
        ValueError: an argument has the wrong type, or an estimator of `tf.estimator` has
            `eval_metrics`.
    """

    estimator: Any
    train_input_fn: Callable[..., Any]
    eval_input_fn: Callable[..., Any]
    eval_metrics: Mapping[Any, Any] | None = None
    train_steps: int | None = None
    eval_steps: int | None = 100
    train_monitors: Any = None
    eval_hooks: Any = None
    local_eval_frequency: int | None = None
    eval_delay_secs: float = 120
    continuous_eval_throttle_secs: float = 60
    min_eval_frequency: int | None = None
    delay_workers_by_global_step: bool = False
    export_strategies: Any = None
    train_steps_per_iteration: int | None = None
    checkpoint_and_export: bool = False
    saving_listeners: Any = None
    check_interval_secs: float | None = 5

    def __post_init__(self) -> None:
        if not isinstance(self.estimator, (Estimator, CoreEstimator)):
            raise ValueError(
                "`estimator` must implement `tf.contrib.learn.Estimator` or `tf.estimator."
                f"Estimator`. Got {self.estimator!r}. TensorFlow 2.15 has an Estimator of its own: "
                "call estimator_spec.install(replace=True) there, or use estimator_spec run."
            )
        if isinstance(self.estimator, CoreEstimator) and self.eval_metrics is not None:
            raise ValueError(
                "`eval_metrics` must be `None` with `tf.estimator.Estimator`. Use `eval_metric_ops`"
                " in `tf.estimator.EstimatorSpec` instead."
            )
        self.train_monitors = list(self.train_monitors or ())
        self.eval_hooks = list(self.eval_hooks or ())
        self.saving_listeners = list(self.saving_listeners or ())
        if self.min_eval_frequency is None:
            self.min_eval_frequency = self.local_eval_frequency
        if self.min_eval_frequency is None:
            self.min_eval_frequency = 1
        self.reset_export_strategies(self.export_strategies)

    def reset_export_strategies(self, new_export_strategies: Any = None) -> list[ExportStrategy]:
        """Replaces the export strategies, and returns the old ones.

        Args:
            new_export_strategies: as for the class.

        Raises:
            ValueError: one is no `ExportStrategy`, or two have the same name.
        """
        given = new_export_strategies
        if callable(given):
            given = given()
        strategies = [given] if isinstance(given, ExportStrategy) else list(given or ())
        for strategy in strategies:
            if not isinstance(strategy, ExportStrategy):
                raise ValueError(
                    f"`export_strategies` must be an ExportStrategy. Got {strategy!r}."
                )
        names = [strategy.name for strategy in strategies]
        if len(set(names)) < len(names):
            raise ValueError(f"`export_strategies` must have unique names. Got {names}.")
        old, self.export_strategies = self.export_strategies, strategies
        return old  # type: ignore[no-any-return]

    def extend_train_hooks(self, additional_hooks: Iterable[Any]) -> None:
        """Adds hooks to those of training.

        Args:
            additional_hooks: monitors and hooks.
        """
        self.train_monitors.extend(additional_hooks)

    def train(self, delay_secs: float | None = None) -> Any:
        """Trains, and returns the estimator.

        Args:
            delay_secs: seconds to wait first. None: 5 for each worker before this one, 60 at most.
        """
        hooks = list(self.train_monitors)
        config = self.estimator.config
        if delay_secs is None:
            task = config.task_id or 0
            delay_secs = min(_GREATEST_DELAY, task * _SECONDS_BETWEEN_WORKERS)
            if self.delay_workers_by_global_step:
                delay_secs = 0
                step = int(8000.0 * math.log(task + 1))
                hooks.append(tf1.train.GlobalStepWaiterHook(step))
        if delay_secs > 0:
            tf1.logging.info("Waiting %d secs before starting training.", delay_secs)
            time.sleep(delay_secs)
        return self._train(hooks, self.train_steps)

    def evaluate(self, delay_secs: float | None = None, name: str | None = None) -> dict[str, Any]:
        """Evaluates the latest checkpoint, and returns the metrics.

        Args:
            delay_secs: seconds to wait first. None: `eval_delay_secs`.
            name: suffix of the summaries' directory.
        """
        delay = self.eval_delay_secs if delay_secs is None else delay_secs
        if delay:
            tf1.logging.info("Waiting %d secs before starting eval.", delay)
            time.sleep(delay)
        return self._evaluate(self.eval_input_fn, name)

    def train_and_evaluate(self) -> tuple[dict[str, Any], list[Any]]:
        """Trains, with evaluations of checkpoints in between; then evaluates and exports.

        Returns:
            (metrics, results of the export strategies).
        """
        added: list[Any] = []
        listeners: list[Any] = []
        if self.checkpoint_and_export:
            listeners.append(_EvaluateAndExport(self))
        elif self.min_eval_frequency:
            added.append(
                monitors.ValidationMonitor(
                    input_fn=self.eval_input_fn,
                    eval_steps=self.eval_steps,
                    metrics=self.eval_metrics,
                    every_n_steps=self.min_eval_frequency,
                    hooks=self.eval_hooks,
                )
            )
        self._train([*self.train_monitors, *added], self.train_steps, listeners)
        if listeners and listeners[0].results is not None:
            return listeners[0].results  # type: ignore[no-any-return]
        return self._evaluate_and_export()

    def local_run(self) -> tuple[dict[str, Any], list[Any]]:
        """Calls `train_and_evaluate`, under its older name."""
        return self.train_and_evaluate()

    def continuous_train_and_eval(
        self, continuous_eval_predicate_fn: Callable[[Any], bool] | None = None
    ) -> tuple[dict[str, Any], list[Any]]:
        """Trains and evaluates by turns in this process.

        Args:
            continuous_eval_predicate_fn: function of the last metrics (None before the first
                turn) that returns whether to go on. None: until `train_steps`.

        Returns:
            (metrics, results of the export strategies).
        """
        found: tuple[Any, list[Any]] = (None, [])
        steps = self.train_steps_per_iteration or max((self.train_steps or 1000) // 10, 1)
        goes_on = continuous_eval_predicate_fn
        while goes_on is None or goes_on(found[0]):
            done = int(found[0][tf1.GraphKeys.GLOBAL_STEP]) if found[0] else 0
            if self.train_steps is not None and done >= self.train_steps:
                break
            until = done + steps
            if self.train_steps is not None:
                until = min(until, self.train_steps)
            self._train(self.train_monitors, until)
            found = self._evaluate_and_export()
            if self.train_steps is None and int(found[0][tf1.GraphKeys.GLOBAL_STEP]) < until:
                break  # The input has ended.
        return found

    def continuous_eval(
        self,
        delay_secs: float | None = None,
        throttle_delay_secs: float | None = None,
        evaluate_checkpoint_only_once: bool = True,
        continuous_eval_predicate_fn: Callable[[Any], bool] | None = None,
        name: str = "continuous",
    ) -> None:
        """Evaluates new checkpoints of another process until `train_steps`, and exports them.

        Args:
            delay_secs: seconds to wait first. None: `eval_delay_secs`.
            throttle_delay_secs: least seconds between two evaluations. None:
                `continuous_eval_throttle_secs`.
            evaluate_checkpoint_only_once: whether a checkpoint is evaluated once only.
            continuous_eval_predicate_fn: function of the last metrics (None before the first) that
                returns whether to go on.
            name: suffix of the summaries' directory.
        """
        time.sleep(self.eval_delay_secs if delay_secs is None else delay_secs)
        throttle = throttle_delay_secs
        if throttle is None:
            throttle = self.continuous_eval_throttle_secs
        goes_on = continuous_eval_predicate_fn
        found: Any = None
        previous: str | None = None
        while goes_on is None or goes_on(found):
            start = time.monotonic()
            checkpoint = tf.train.latest_checkpoint(self.estimator.model_dir)
            is_known = evaluate_checkpoint_only_once and checkpoint == previous
            if checkpoint is not None and not is_known:
                found = self._evaluate(self.eval_input_fn, name, checkpoint)
                self._export(found, checkpoint)
                previous = checkpoint
                step = int(found[tf1.GraphKeys.GLOBAL_STEP])
                if self.train_steps is not None and step >= self.train_steps:
                    return
            time.sleep(max(throttle - (time.monotonic() - start), 0))

    def continuous_eval_on_train_data(
        self,
        delay_secs: float | None = None,
        throttle_delay_secs: float | None = None,
        continuous_eval_predicate_fn: Callable[[Any], bool] | None = None,
        name: str = "continuous_on_train_data",
    ) -> None:
        """Does what `continuous_eval` does, on the input of training."""
        on_train_data = copy.copy(self)
        on_train_data.eval_input_fn = self.train_input_fn
        on_train_data.continuous_eval(
            delay_secs, throttle_delay_secs, True, continuous_eval_predicate_fn, name
        )

    def run_std_server(self) -> None:
        """Serves variables as a parameter server; ends at SIGTERM.

        Raises:
            ValueError: TF_CONFIG has no cluster.
        """
        config = self.estimator.config
        if not roles.is_distributed(config):
            raise ValueError(
                "Could not start server; TF_CONFIG must have a cluster and this process' task."
            )
        servers.serve(config)

    def test(self) -> Any:
        """Trains one step, evaluates one batch and exports; returns metrics and exports."""
        self._train(self.train_monitors, 1)
        found = self._evaluate(self.eval_input_fn, "one_pass", steps=1)
        return found, self._export(found)

    def _train(
        self, hooks: list[Any], max_steps: int | None, saving_listeners: Iterable[Any] = ()
    ) -> Any:
        listeners = [*self.saving_listeners, *saving_listeners]
        if isinstance(self.estimator, Estimator):
            self.estimator.train_with(self.train_input_fn, hooks, None, max_steps, listeners)
            return self.estimator
        return self.estimator.train(
            self.train_input_fn,
            monitor_hooks.replace_monitors_with_hooks(hooks, self.estimator),
            max_steps=max_steps,
            saving_listeners=listeners,
        )

    def _evaluate(
        self,
        input_fn: Callable[..., Any],
        name: str | None = None,
        checkpoint_path: str | None = None,
        steps: int | None = None,
    ) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if isinstance(self.estimator, Estimator):
            options["metrics"] = self.eval_metrics
        return self.estimator.evaluate(  # type: ignore[no-any-return]
            input_fn=input_fn,
            steps=steps or self.eval_steps,
            hooks=self.eval_hooks,
            name=name,
            checkpoint_path=checkpoint_path,
            **options,
        )

    def _evaluate_and_export(self, checkpoint_path: str | None = None) -> Any:
        found = self._evaluate(self.eval_input_fn, checkpoint_path=checkpoint_path)
        return found, self._export(found, checkpoint_path)

    def _export(self, eval_result: Any, checkpoint_path: str | None = None) -> list[Any]:
        """Returns the results of all export strategies."""
        folder = os.path.join(self.estimator.model_dir, "export")
        return [
            strategy.export(
                self.estimator, os.path.join(folder, strategy.name), checkpoint_path, eval_result
            )
            for strategy in self.export_strategies
        ]


class _EvaluateAndExport(tf1.train.CheckpointSaverListener):
    """Evaluates and exports each checkpoint when it is saved.

    Attributes:
        results: the last metrics and exports, or None.
    """

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self.results: Any = None
        self._checkpoint: str | None = None

    def after_save(self, session: Any, global_step_value: Any) -> None:
        """Evaluates and exports."""
        del session, global_step_value
        checkpoint = tf.train.latest_checkpoint(self._experiment.estimator.model_dir)
        if checkpoint != self._checkpoint:
            self._checkpoint = checkpoint
            self.results = self._experiment._evaluate_and_export(checkpoint)
