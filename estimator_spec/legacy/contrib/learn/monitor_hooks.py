# SPDX-License-Identifier: Apache-2.0
"""Runs the monitors of `tf.contrib.learn` as session hooks."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1


class RunHookAdapterForMonitors(tf1.train.SessionRunHook):
    """Calls monitors as a session hook.

    Args:
        monitors: the monitors.
    """

    def __init__(self, monitors: Iterable[Any]) -> None:
        self._monitors = list(monitors)
        self._step: int | None = None

    def begin(self) -> None:
        """Begins all monitors."""
        self._step = None
        self._global_step = tf1.train.get_global_step()
        for monitor in self._monitors:
            monitor.begin(max_steps=None)

    def before_run(self, run_context: Any) -> Any:
        """Fetches the tensors that monitors ask for."""
        if self._step is None:
            self._step = self._next_step(run_context)
        wanted: list[Any] = []
        for monitor in self._monitors:
            asked = monitor.step_begin(self._step) or []
            if not isinstance(asked, list):
                raise ValueError(f"step_begin of {monitor} should return a list. It was {asked}.")
            wanted += asked
        graph = run_context.session.graph
        fetched = {name: graph.as_graph_element(name) for name in wanted}
        return tf1.train.SessionRunArgs(fetched)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Passes the values on, and stops if a monitor wants that."""
        values = run_values.results
        for monitor in self._monitors:
            if monitor.step_end(self._step, values):
                run_context.request_stop()
        for monitor in self._monitors:
            monitor.post_step(self._step, run_context.session)
        self._step = self._next_step(run_context)

    def _next_step(self, run_context: Any) -> int:
        # Not fetched in the step, which may count before or after that.
        return int(run_context.session.run(self._global_step)) + 1

    def end(self, session: Any) -> None:
        """Ends all monitors."""
        for monitor in self._monitors:
            if "session" in inspect.signature(monitor.end).parameters:
                monitor.end(session=session)
            else:
                monitor.end()


def replace_monitors_with_hooks(monitors_or_hooks: Any, estimator: Any) -> list[Any]:
    """Returns session hooks that do what monitors and hooks do.

    Args:
        monitors_or_hooks: a monitor or hook, several, or None.
        estimator: the estimator that trains.
    """
    given = monitors_or_hooks or []
    if not isinstance(given, (list, tuple)):
        given = [given]
    hooks = [each for each in given if isinstance(each, tf1.train.SessionRunHook)]
    found = [each for each in given if each not in hooks]
    if not estimator.config.is_chief:
        found = [monitor for monitor in found if monitor.run_on_all_workers]
    for monitor in found:
        monitor.set_estimator(estimator)
    return [*hooks, RunHookAdapterForMonitors(found)] if found else hooks
