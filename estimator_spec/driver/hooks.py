# SPDX-License-Identifier: Apache-2.0
"""The driver's own session hooks, and the checks of the user's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

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


class IteratorInitializer(tf1.train.SessionRunHook):
    """Starts a dataset's iterator in each new session."""

    def __init__(self, iterator: Any) -> None:
        self._initializer = iterator.initializer

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Runs the initializer."""
        del coord
        session.run(self._initializer)


class StopAfterBatches(tf1.train.SessionRunHook):
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

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts one batch."""
        del run_values
        self._done += 1
        if self._done % self._log_every == 0 or self._done == self._batches:
            tf1.logging.info("Evaluation [%d/%d]", self._done, self._batches)
        if self._done >= self._batches:
            run_context.request_stop()


class ExamplesPerSecond(tf1.train.StepCounterHook):
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
        super().__init__(
            every_n_steps=every_n_steps, every_n_secs=every_n_secs, output_dir=output_dir
        )
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
