# SPDX-License-Identifier: Apache-2.0
"""Defines the monitors of `tf.contrib.learn`, which came before session hooks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1

CheckpointSaver = tf1.train.CheckpointSaverHook
StepCounter = tf1.train.StepCounterHook
StopAtStep = tf1.train.StopAtStepHook


def NanLoss(loss_tensor: Any, every_n_steps: int = 100, fail_on_nan_loss: bool = True) -> Any:
    """Returns the hook that ends training when the loss is NaN.

    Args:
        loss_tensor: the loss.
        every_n_steps: ignored; the loss of every step is looked at.
        fail_on_nan_loss: whether the end is an error.
    """
    del every_n_steps
    return tf1.train.NanTensorHook(loss_tensor, fail_on_nan_loss)


def SummarySaver(
    summary_op: Any,
    save_steps: int = 100,
    output_dir: str | None = None,
    summary_writer: Any = None,
    scaffold: Any = None,
) -> Any:
    """Returns the hook that writes summaries; its arguments are those of `SummarySaverHook`."""
    return tf1.train.SummarySaverHook(
        save_steps=save_steps,
        output_dir=output_dir,
        summary_writer=summary_writer,
        scaffold=scaffold,
        summary_op=summary_op,
    )


class BaseMonitor:
    """Base class of monitors: methods that training calls in every step."""

    def __init__(self) -> None:
        self._estimator: Any = None
        self._max_steps: int | None = None

    @property
    def run_on_all_workers(self) -> bool:
        """Whether the monitor runs on workers that aren't the chief, too."""
        return False

    def set_estimator(self, estimator: Any) -> None:
        """Sets the estimator that trains.

        Args:
            estimator: the estimator.
        """
        self._estimator = estimator

    def begin(self, max_steps: int | None = None) -> None:
        """Called before training.

        Args:
            max_steps: global step of the end, or None.
        """
        self._max_steps = max_steps

    def end(self, session: Any = None) -> None:
        """Called after training.

        Args:
            session: the session.
        """

    def step_begin(self, step: int) -> list[Any]:
        """Called before a step; returns names of tensors, or tensors, to fetch in it.

        Args:
            step: the step.
        """
        del step
        return []

    def step_end(self, step: int, output: Mapping[Any, Any]) -> bool:
        """Called after a step; returns whether training shall end.

        Args:
            step: the step.
            output: values by what `step_begin` returned.
        """
        del step, output
        return False

    def post_step(self, step: int, session: Any) -> None:
        """Called after `step_end` of all monitors.

        Args:
            step: the step.
            session: the session.
        """


class EveryN(BaseMonitor):
    """Base class of monitors that do something in some steps.

    Args:
        every_n_steps: steps between two of these.
        first_n_steps: number of first steps that are all of these.
    """

    def __init__(self, every_n_steps: int = 100, first_n_steps: int = 1) -> None:
        super().__init__()
        self._every_n_steps = every_n_steps
        self._first_n_steps = first_n_steps
        self._last_active_step = 0
        self._last_successful_step: int | None = None

    def every_n_step_begin(self, step: int) -> list[Any]:
        """Called before such a step; see `step_begin`."""
        del step
        return []

    def every_n_step_end(self, step: int, outputs: Mapping[Any, Any]) -> bool:
        """Called after such a step; see `step_end`."""
        del step, outputs
        return False

    def every_n_post_step(self, step: int, session: Any) -> None:
        """Called after such a step; see `post_step`."""

    def step_begin(self, step: int) -> list[Any]:
        """See the base class."""
        is_active = (
            step <= self._first_n_steps
            or step >= self._every_n_steps + self._last_active_step
            or step == self._max_steps
        )
        if not is_active:
            return []
        self._last_active_step = step
        return self.every_n_step_begin(step)

    def step_end(self, step: int, output: Mapping[Any, Any]) -> bool:
        """See the base class."""
        self._last_successful_step = step
        return self._last_active_step == step and bool(self.every_n_step_end(step, output))

    def post_step(self, step: int, session: Any) -> None:
        """See the base class."""
        if self._last_active_step == step:
            self.every_n_post_step(step, session)

    def end(self, session: Any = None) -> None:
        """Calls `every_n_post_step` for a last step that isn't one of these."""
        last = self._last_successful_step
        if last is not None and last != self._last_active_step:
            self.every_n_post_step(last, session)


class PrintTensor(EveryN):
    """Logs values of tensors.

    Args:
        tensor_names: names of tensors: a list, or by the text to log before the value.
        every_n: as for `EveryN`.
        first_n: as for `EveryN`.
    """

    def __init__(self, tensor_names: Any, every_n: int = 100, first_n: int = 1) -> None:
        super().__init__(every_n, first_n)
        if not isinstance(tensor_names, Mapping):
            tensor_names = {name: name for name in tensor_names}
        self._tensor_names = dict(tensor_names)

    def every_n_step_begin(self, step: int) -> list[Any]:
        """See the base class."""
        del step
        return list(self._tensor_names.values())

    def every_n_step_end(self, step: int, outputs: Mapping[Any, Any]) -> bool:
        """See the base class."""
        shown = (f"{tag} = {outputs[name]}" for tag, name in self._tensor_names.items())
        tf1.logging.info("Step %d: %s", step, ", ".join(shown))
        return False


class LoggingTrainable(PrintTensor):
    """Logs values of trainable variables.

    Args:
        scope: scope of the variables. None: all.
        every_n: as for `EveryN`.
        first_n: as for `EveryN`.
    """

    def __init__(self, scope: str | None = None, every_n: int = 100, first_n: int = 1) -> None:
        super().__init__([], every_n, first_n)
        self._scope = scope

    def every_n_step_begin(self, step: int) -> list[Any]:
        """See the base class."""
        variables = tf1.get_collection(tf1.GraphKeys.TRAINABLE_VARIABLES, self._scope)
        self._tensor_names = {
            variable.op.name: variable.graph.as_graph_element(variable).name
            for variable in variables
        }
        return super().every_n_step_begin(step)


class CaptureVariable(EveryN):
    """Keeps the values of a tensor by step, in `values`.

    Args:
        var_name: name of the tensor.
        every_n: as for `EveryN`.
        first_n: as for `EveryN`.
    """

    def __init__(self, var_name: str, every_n: int = 100, first_n: int = 1) -> None:
        super().__init__(every_n, first_n)
        self._var_name = var_name
        self.values: dict[int, Any] = {}

    def every_n_step_begin(self, step: int) -> list[Any]:
        """See the base class."""
        del step
        return [self._var_name]

    def every_n_step_end(self, step: int, outputs: Mapping[Any, Any]) -> bool:
        """See the base class."""
        self.values[step] = outputs[self._var_name]
        return False


class ValidationMonitor(EveryN):
    """Evaluates new checkpoints while the model trains, and ends training that gets no better.

    Args:
        x: features of the evaluation, as for `Estimator.evaluate`, as the six arguments below.
        y: labels.
        input_fn: function that returns (features, labels).
        batch_size: examples of a batch, of arrays.
        eval_steps: number of batches.
        every_n_steps: steps between two looks for a checkpoint.
        metrics: further metrics.
        hooks: `SessionRunHook`s.
        early_stopping_rounds: steps without a better value after which training ends, or None.
        early_stopping_metric: name of the metric of that value.
        early_stopping_metric_minimize: whether less is better.
        name: suffix of the summaries' directory.
        check_interval_secs: ignored.

    Raises:
        ValueError: there is neither x nor an input_fn.
    """

    def __init__(
        self,
        x: Any = None,
        y: Any = None,
        input_fn: Callable[..., Any] | None = None,
        batch_size: int | None = None,
        eval_steps: int | None = None,
        every_n_steps: int = 100,
        metrics: Any = None,
        hooks: Any = None,
        early_stopping_rounds: int | None = None,
        early_stopping_metric: str = "loss",
        early_stopping_metric_minimize: bool = True,
        name: str | None = None,
        check_interval_secs: float | None = 5,
    ) -> None:
        del check_interval_secs
        super().__init__(every_n_steps, first_n_steps=-1)
        if x is None and input_fn is None:
            raise ValueError("Either x or input_fn should be provided.")
        self._arrays = {} if x is None else {"x": x, "y": y, "batch_size": batch_size}
        self._options = {"input_fn": input_fn, "steps": eval_steps, "hooks": hooks, "name": name}
        self._metrics = metrics
        self.early_stopping_rounds = early_stopping_rounds
        self.early_stopping_metric = early_stopping_metric
        self.early_stopping_metric_minimize = early_stopping_metric_minimize
        self._checkpoint: str | None = None
        self.early_stopped = False
        self.best_step: int | None = None
        self.best_value: Any = None
        self.best_metrics: Any = None

    def every_n_step_end(self, step: int, outputs: Mapping[Any, Any]) -> bool:
        """Evaluates a new checkpoint; see the base class."""
        del outputs
        if self._estimator is None:
            raise ValueError("Missing call to set_estimator: pass the monitor to fit.")
        checkpoint = tf.train.latest_checkpoint(self._estimator.model_dir)
        if checkpoint in (None, self._checkpoint):
            return False
        self._checkpoint = checkpoint
        options = {**self._options, **self._arrays}
        if self._metrics is not None:  # Estimators of tf.estimator take none.
            options["metrics"] = self._metrics
        found = self._estimator.evaluate(**options)
        shown = ", ".join(f"{name} = {value}" for name, value in found.items())
        tf1.logging.info("Validation (step %d): %s", step, shown)
        return self.early_stopping_rounds is not None and self._is_over(step, found)

    def _is_over(self, step: int, found: Mapping[str, Any]) -> bool:
        """Returns whether the metric has got no better for too long."""
        if self.early_stopping_metric not in found:
            raise ValueError(
                f"early_stopping_metric={self.early_stopping_metric!r} is none of the metrics "
                f"{sorted(found)}."
            )
        value = found[self.early_stopping_metric]
        sign = 1 if self.early_stopping_metric_minimize else -1
        if self.best_step is None or sign * value < sign * self.best_value:
            self.best_step, self.best_value = step, value
            self.best_metrics = copy.deepcopy(dict(found))
        if step - self.best_step < (self.early_stopping_rounds or 0):
            return False
        tf1.logging.info(
            "Stopping. Best step: %d with %s = %s.",
            *(self.best_step, self.early_stopping_metric, self.best_value),
        )
        self.early_stopped = True
        return True
