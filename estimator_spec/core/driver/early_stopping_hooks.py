# SPDX-License-Identifier: Apache-2.0
"""Defines the hooks of early stopping, which `early_stopping` creates."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import private
from estimator_spec.core.checkpoints.errors import MissingStateFileError
from estimator_spec.core.driver import checkpoint_state
from estimator_spec.core.driver.hooks import FetchingHook

tf1 = tf.compat.v1

_SCOPE = "signal_early_stopping"


def _latest_checkpoint(model_dir: str) -> str | None:
    """Returns the latest checkpoint; None while another process saves its first one."""
    try:
        return checkpoint_state.find_latest(model_dir)
    except MissingStateFileError:
        return None


def _stop_variable(model_dir: str | None) -> Any:
    """Returns the variable by which the chief stops its workers.

    It is saved in checkpoints, as it was by TensorFlow's hook, unless the checkpoint to restore
    lacks it, because the program got early stopping after training had begun.

    Args:
        model_dir: directory of the checkpoints; None if it isn't known.
    """
    collection = tf1.GraphKeys.GLOBAL_VARIABLES
    checkpoint = None if model_dir is None else _latest_checkpoint(model_dir)
    if checkpoint and f"{_SCOPE}/STOP" not in checkpoint_state.list_variables(checkpoint):
        collection = tf1.GraphKeys.LOCAL_VARIABLES
    with tf1.variable_scope(_SCOPE, reuse=tf1.AUTO_REUSE):
        return tf1.get_variable(
            "STOP",
            shape=[],
            dtype=tf.bool,
            initializer=tf1.zeros_initializer(),
            collections=[collection],
            trainable=False,
        )


class StopWhen(FetchingHook):
    """Calls a function periodically, and stops training when it returns true.

    Args:
        should_stop_fn: the function.
        run_every_secs: seconds between two calls, or None.
        run_every_steps: steps between two calls, or None.
        model_dir: directory of the checkpoints; None if it isn't known.
    """

    def __init__(
        self,
        should_stop_fn: Callable[[], Any],
        run_every_secs: float | None,
        run_every_steps: int | None,
        model_dir: str | None,
    ) -> None:
        self._should_stop_fn = should_stop_fn
        self._timer = tf1.train.SecondOrStepTimer(
            every_secs=run_every_secs, every_steps=run_every_steps
        )
        self._model_dir = model_dir

    def begin(self) -> None:
        """Creates the variable, and the op that sets it."""
        self._fetched = private.get_or_create_global_step_read()
        self._stop = tf1.assign(_stop_variable(self._model_dir), True)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Calls the function if its interval has passed."""
        step = run_values.results
        if not self._timer.should_trigger_for_step(step):
            return
        self._timer.update_last_triggered_step(step)
        if self._should_stop_fn():
            tf1.logging.info("Requesting early stopping at global step %d", step)
            run_context.session.run(self._stop)
            run_context.request_stop()


class StopWithChief(FetchingHook):
    """Stops a worker when the chief has set the variable.

    Args:
        model_dir: directory of the checkpoints; None if it isn't known.
    """

    def __init__(self, model_dir: str | None) -> None:
        self._model_dir = model_dir

    def begin(self) -> None:
        """Gets the variable."""
        self._fetched = _stop_variable(self._model_dir)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Requests the stop if the variable is true."""
        if run_values.results:
            tf1.logging.info("Early stopping requested, suspending run.")
            run_context.request_stop()


class StopAtCheckpoint(FetchingHook):
    """Stops a worker when the latest checkpoint has reached a global step.

    Args:
        model_dir: directory of the checkpoints.
        last_step: the global step.
        wait_after_file_check_secs: seconds to sleep if the checkpoint isn't there yet.

    Raises:
        ValueError: an argument is None.
    """

    def __init__(
        self, model_dir: str, last_step: int, wait_after_file_check_secs: float = 30
    ) -> None:
        if last_step is None:
            raise ValueError("last_step must be specified.")
        if model_dir is None:
            raise ValueError("model_dir must be specified.")
        self._model_dir = model_dir
        self._last_step = last_step
        self._wait_secs = wait_after_file_check_secs

    def begin(self) -> None:
        """Gets the tensor of the global step."""
        self._fetched = private.get_or_create_global_step_read()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Checks the latest checkpoint from the last step on."""
        if run_values.results + 1 < self._last_step:
            return
        checkpoint = _latest_checkpoint(self._model_dir)
        if checkpoint_state.read_global_step(checkpoint) >= self._last_step:
            run_context.request_stop()
        else:  # The chief hasn't written the checkpoint of the last step yet.
            time.sleep(self._wait_secs)
