# SPDX-License-Identifier: Apache-2.0
"""Defines the driver's session hooks, and checks a user's hooks and step counts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import private
from estimator_spec.core.common.checks import check_instances, check_positive
from estimator_spec.core.user_functions.skippable_hooks import (
    PeriodicHook,
    SkippableHook,
    next_periodic_step,
)

tf1 = tf.compat.v1


def check_steps(steps: int | None, max_steps: int | None = None) -> None:
    """Checks that at most one step count is given, and that it is positive.

    Raises:
        ValueError: names the argument.
        TypeError: the value isn't a number; names the argument.
    """
    if steps is not None and max_steps is not None:
        raise ValueError("Can not provide both steps and max_steps.")
    check_positive("steps", steps)
    check_positive("max_steps", max_steps)


def check_batches(steps: int | None) -> None:
    """Checks the number of batches of an evaluation: whole and positive, or None.

    Raises:
        ValueError: it isn't positive.
        TypeError: it isn't a whole number.
    """
    check_steps(steps)
    if steps is not None and steps != int(steps):
        raise TypeError(f"steps must be int, a whole number of batches, got {steps!r}.")


def check_hooks(hooks: Iterable[tf1.train.SessionRunHook] | None) -> list[Any]:
    """Checks the class of hooks, and returns them as a new list.

    Raises:
        TypeError: one isn't a `tf.compat.v1.train.SessionRunHook`.
    """
    return check_instances(hooks, tf1.train.SessionRunHook, "Hooks must be a SessionRunHook")


def check_listeners(
    saving_listeners: Iterable[tf1.train.CheckpointSaverListener] | None,
) -> list[Any]:
    """Checks the class of listeners, and returns them as a new list.

    Raises:
        TypeError: one isn't a `tf.compat.v1.train.CheckpointSaverListener`.
    """
    return check_instances(
        saving_listeners,
        tf1.train.CheckpointSaverListener,
        "saving_listeners must be a list of CheckpointSaverListener",
    )


class FetchingHook(tf1.train.SessionRunHook):
    """A hook that fetches a tensor in every step.

    Attributes:
        _fetched: the tensor, which `begin` sets.
    """

    _fetched: Any

    def before_run(self, run_context: tf1.train.SessionRunContext) -> Any:
        """Fetches the tensor."""
        return tf1.train.SessionRunArgs(self._fetched)


class IteratorInitializer(SkippableHook):
    """Initializes a dataset's iterator in each new session."""

    def __init__(self, iterator: Any) -> None:
        self._initializer = iterator.initializer

    def after_create_session(self, session: tf1.Session, coord: tf.train.Coordinator) -> None:
        """Runs the initializer."""
        session.run(self._initializer)


class BatchTaker(SkippableHook):
    """Hook that may take batches from the input before the first step.

    Attributes:
        took_batches: whether it did: then it is no error if there is none left for a step.
    """

    took_batches = False


class FinalOps(SkippableHook, tf1.train.FinalOpsHook):
    """Fetches values at the end of a session; takes TensorFlow's arguments."""


class StopAfterBatches(SkippableHook):
    """Stops an evaluation after a number of batches, and logs its progress."""

    def __init__(self, batches: int) -> None:
        self._batches = batches
        self._done = 0
        self._log_every = 1 if batches < 20 else batches // 10

    def after_create_session(self, session: tf1.Session, coord: tf.train.Coordinator) -> None:
        """Counts from zero, because a new session resets the metrics."""
        self._done = 0

    def next_needed_step(self, step: int, first: int) -> float:
        """Returns the batch of the next progress line, or the last one."""
        return min(next_periodic_step(step, self._log_every, self._log_every), self._batches)

    def after_skipped_steps(self, count: int) -> None:
        """Adds `count` to the number of batches."""
        self._done += count

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts a batch, and requests the stop after the last one."""
        self._done += 1
        if self._done % self._log_every == 0 or self._done == self._batches:
            tf1.logging.info("Evaluation [%d/%d]", self._done, self._batches)
        if self._done >= self._batches:
            run_context.request_stop()


class StopAtStep(SkippableHook, tf1.train.StopAtStepHook):
    """Stops training at a step; takes TensorFlow's arguments."""

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        super().__init__(num_steps, last_step)
        self._num = num_steps
        self._last = last_step

    def steps_after(self, step: int) -> int:
        """Returns how many steps a session makes that begins after a global step."""
        if self._last is not None:
            return self._last - step
        assert self._num is not None  # TensorFlow requires one of them
        return self._num

    def next_needed_step(self, step: int, first: int) -> float:
        """Returns the last step."""
        if self._last is None:
            assert self._num is not None  # TensorFlow requires one of them
            self._last = first - 1 + self._num
        return self._last


class StopAtNan(SkippableHook, tf1.train.NanTensorHook):
    """Raises an error if the loss is NaN; steps without hooks pass their loss to it, too."""


class LossLogger(PeriodicHook, tf1.train.LoggingTensorHook):
    """Logs loss and global step.

    Args:
        loss: a scalar.
        every_n_steps: steps between two lines; the first step is logged.
    """

    def __init__(self, loss: Any, every_n_steps: int) -> None:
        step = private.get_or_create_global_step_read()
        super().__init__({"loss": loss, "step": step}, every_n_iter=every_n_steps)
        self._every = every_n_steps

    def after_skipped_steps(self, count: int) -> None:
        """Adds `count` to the number of steps."""
        self._iter_count += count


class LostSessionLogger(FetchingHook, SkippableHook):
    """Logs the step at which training goes on after its session was lost, as by a server's end."""

    def begin(self) -> None:
        """Gets the tensor of the global step."""
        self._fetched = private.get_or_create_global_step_read()
        self._last: int | None = None

    def after_create_session(self, session: tf1.Session, coord: tf.train.Coordinator) -> None:
        """Compares the global step with the last one of the lost session."""
        if self._last is None:
            return
        step = int(session.run(self._fetched))
        tf1.logging.warning(
            "A parameter server was lost, or the connection to it: the session of global step %d "
            "ended. Training goes on from global step %d%s.",
            self._last,
            step,
            f", and repeats {self._last - step} steps" if step < self._last else "",
        )

    def after_skipped_steps(self, count: int) -> None:
        """Adds `count` to the global step."""
        self._last = (self._last or 0) + count

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Keeps the global step after this one."""
        self._last = int(run_values.results) + 1


class SummarySaver(PeriodicHook, tf1.train.SummarySaverHook):
    """Writes summaries; takes TensorFlow's arguments."""

    def __init__(
        self, save_steps: int, output_dir: str, scaffold: tf1.train.Scaffold | None
    ) -> None:
        super().__init__(save_steps=save_steps, output_dir=output_dir, scaffold=scaffold)
        self._every = save_steps


class CheckpointSaver(SkippableHook, tf1.train.CheckpointSaverHook):
    """Writes checkpoints; takes TensorFlow's arguments.

    Args:
        checkpoint_dir: the directory.
        save_steps: steps between two checkpoints, or None.
        restored: prefix of the checkpoint that the first session restores, which isn't written
            again; or None.
        **kw: TensorFlow's.
    """

    def __init__(
        self,
        checkpoint_dir: str,
        *,
        save_steps: int | None = None,
        restored: str | None = None,
        **kw: Any,
    ) -> None:
        super().__init__(checkpoint_dir, save_steps=save_steps, **kw)
        self._every = save_steps
        self._restored = restored

    def _save(self, session: Any, step: int) -> Any:
        """Saves, unless the checkpoint of this step was restored; returns whether to stop."""
        restored, self._restored = self._restored, None
        if not restored or os.path.normpath(f"{self._save_path}-{step}") != os.path.normpath(
            restored
        ):
            return super()._save(session, step)
        listeners = private.saver_listeners(self)
        for listener in listeners:
            listener.before_save(session, step)
        tf1.logging.info("The checkpoint %s was restored, and is kept as it is.", restored)
        stops = [listener.after_save(session, step) for listener in listeners]
        return any(stops)

    def next_needed_step(self, step: int, first: int) -> float:
        """Returns the next step of the period that starts where the session did."""
        return next_periodic_step(step, first - 1, self._every)


class StepsPerSecond(PeriodicHook, tf1.train.StepCounterHook):
    """Logs and writes `global_step/sec` and, if it is told the batch size, `examples/sec`.

    Args:
        every_n_steps: steps between two lines; None if `every_n_secs` is given.
        every_n_secs: seconds between two lines.
        output_dir: directory of the summaries; None writes none.
        batch_size: examples per step, or None.
    """

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: str | None = None,
        batch_size: int | None = None,
    ) -> None:
        super().__init__(every_n_steps, every_n_secs, output_dir)
        self._every = every_n_steps
        self._batch_size = batch_size

    def _log_and_record(self, elapsed_steps: int, elapsed_time: float, global_step: int) -> None:
        super()._log_and_record(elapsed_steps, elapsed_time, global_step)
        if self._batch_size is None:
            return
        speed = self._batch_size * (elapsed_steps / elapsed_time)
        tf1.logging.info("examples/sec: %g", speed)
        if self._summary_writer is not None:
            summary = tf1.Summary()
            summary.value.add(tag="examples/sec", simple_value=speed)
            self._summary_writer.add_summary(summary, global_step)
