# SPDX-License-Identifier: Apache-2.0
"""The driver's own session hooks, and the checks of the user's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from estimator_spec._tensorflow import private
from estimator_spec.driver.hookless_steps import Regular, Sparing, next_of

tf1 = tf.compat.v1


def checked(hooks: Iterable[Any] | None) -> list[Any]:
    """A new list of `hooks`.

    Raises:
        TypeError: one isn't a `tf.compat.v1.train.SessionRunHook`.
    """
    found = list(hooks or [])
    for hook in found:
        if not isinstance(hook, tf1.train.SessionRunHook):
            raise TypeError(f"Hooks must be a SessionRunHook, given: {hook}")
    return found


def checked_listeners(saving_listeners: Iterable[Any] | None) -> list[Any]:
    """A new list of `saving_listeners`.

    Raises:
        TypeError: one isn't a `tf.compat.v1.train.CheckpointSaverListener`.
    """
    found = list(saving_listeners or [])
    for listener in found:
        if not isinstance(listener, tf1.train.CheckpointSaverListener):
            raise TypeError(
                f"saving_listeners must be a list of CheckpointSaverListener, given: {listener}"
            )
    return found


class IteratorInitializer(Sparing, tf1.train.SessionRunHook):
    """Starts a dataset's iterator in each new session."""

    def __init__(self, iterator: Any) -> None:
        self._initializer = iterator.initializer

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Runs the initializer."""
        del coord
        session.run(self._initializer)


class FinalOps(Sparing, tf1.train.FinalOpsHook):
    """Reads values at the end; the arguments are TensorFlow's."""


class StopAfterBatches(Sparing, tf1.train.SessionRunHook):
    """Ends an evaluation after a number of batches, and logs how far it is.

    Args:
        batches: how many.
    """

    def __init__(self, batches: int) -> None:
        self._batches = batches
        self._done = 0
        self._log_every = 1 if batches < 20 else batches // 10

    def after_create_session(self, session: Any, coord: Any) -> None:
        """A new session counts anew, as its metrics do."""
        del session, coord
        self._done = 0

    def needed_at(self, step: int, first: int) -> float:
        """At a line of progress, and at the end."""
        return min(next_of(step, self._log_every, self._log_every), self._batches)

    def skipped(self, count: int) -> None:
        """Counts batches that were run without it."""
        self._done += count

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts one batch."""
        del run_values
        self._done += 1
        if self._done % self._log_every == 0 or self._done == self._batches:
            tf1.logging.info("Evaluation [%d/%d]", self._done, self._batches)
        if self._done >= self._batches:
            run_context.request_stop()


class StopAtStep(Sparing, tf1.train.StopAtStepHook):
    """Ends a training; the arguments are TensorFlow's."""

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        super().__init__(num_steps, last_step)
        self._num = num_steps
        self._last = last_step

    def needed_at(self, step: int, first: int) -> float:
        """At the end."""
        if self._last is None:
            assert self._num is not None  # TensorFlow wants one of them
            self._last = first - 1 + self._num
        return self._last


class StopAtNan(Sparing, tf1.train.NanTensorHook):
    """Ends a training whose loss isn't a number. Quiet steps show it their loss, too."""


class LossLogger(Regular, tf1.train.SessionRunHook):
    """Logs loss and global step, in the line of TensorFlow's `LoggingTensorHook`.

    Args:
        loss: a scalar.
        every_n_steps: steps between two lines; the first step has one.
    """

    def __init__(self, loss: Any, every_n_steps: int) -> None:
        self._loss = loss
        self._every = every_n_steps

    def begin(self) -> None:
        """Starts to count."""
        self._timer = tf1.train.SecondOrStepTimer(every_steps=self._every)
        self._made = 0
        self._global_step = private.get_or_create_global_step_read()

    def skipped(self, count: int) -> None:
        """Counts steps that were made without it."""
        self._made += count

    def before_run(self, run_context: Any) -> Any:
        """Asks for loss and step when it is time."""
        del run_context
        if not self._timer.should_trigger_for_step(self._made):
            return None
        return tf1.train.SessionRunArgs([self._loss, self._global_step])

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Logs them."""
        del run_context
        if run_values.results is not None:
            seconds, _ = self._timer.update_last_triggered_step(self._made)
            took = "" if seconds is None else f" ({seconds:.3f} sec)"
            tf1.logging.info("loss = %s, step = %s%s", *run_values.results, took)
        self._made += 1


class SummarySaver(Regular, tf1.train.SummarySaverHook):
    """Writes summaries; the arguments are TensorFlow's."""

    def __init__(self, save_steps: int, output_dir: str, scaffold: Any) -> None:
        super().__init__(save_steps=save_steps, output_dir=output_dir, scaffold=scaffold)
        self._every = save_steps


class CheckpointSaver(Sparing, tf1.train.CheckpointSaverHook):
    """Writes checkpoints; the arguments are TensorFlow's."""

    def __init__(self, checkpoint_dir: str, *, save_steps: int | None = None, **kw: Any) -> None:
        super().__init__(checkpoint_dir, save_steps=save_steps, **kw)
        self._every = save_steps

    def needed_at(self, step: int, first: int) -> float:
        """Every so many steps from the one that the session began with."""
        return next_of(step, first - 1, self._every)


class StepsPerSecond(Regular, tf1.train.StepCounterHook):
    """Logs and writes `global_step/sec`; the arguments are TensorFlow's."""

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: str | None = None,
    ) -> None:
        super().__init__(every_n_steps, every_n_secs, output_dir)
        self._every = every_n_steps


class ExamplesPerSecond(StepsPerSecond):
    """Logs and writes `global_step/sec` and `examples/sec`.

    Args:
        batch_size: examples in one step.
        every_n_steps: steps between two lines; None if `every_n_secs` is given.
        every_n_secs: seconds between two lines.
        output_dir: where summaries go; None writes none.
    """

    def __init__(
        self,
        batch_size: int,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: str | None = None,
    ) -> None:
        super().__init__(every_n_steps, every_n_secs, output_dir)
        self._batch_size = batch_size

    def _log_and_record(self, elapsed_steps: int, elapsed_time: float, global_step: int) -> None:
        steps_per_second = elapsed_steps / elapsed_time
        speeds = {
            "global_step/sec": steps_per_second,
            "examples/sec": self._batch_size * steps_per_second,
        }
        for tag, value in speeds.items():
            tf1.logging.info("%s: %g", tag, value)
            if self._summary_writer is not None:
                summary = tf1.Summary(value=[tf1.Summary.Value(tag=tag, simple_value=value)])
                self._summary_writer.add_summary(summary, global_step)
