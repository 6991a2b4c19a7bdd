# SPDX-License-Identifier: Apache-2.0
"""Saves checkpoints in one of several training processes, while the others go on."""

from __future__ import annotations

import contextlib
import numbers
import os
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from estimator_spec.core import updates
from estimator_spec.core._tensorflow import graph_surgery
from estimator_spec.core.driver import patching
from estimator_spec.core.run_config import RunConfig

tf1 = tf.compat.v1


def averaged_variables() -> list[str]:
    """Returns the names of the variables that a save averages over the processes of a strategy.

    Such are the moments of batch normalization. All processes take part in each save.
    """
    on_read = tf.VariableSynchronization.ON_READ
    return [each.name for each in tf1.global_variables() if each.synchronization == on_read]


def check_interval(config: RunConfig, averaged: list[str]) -> None:
    """Checks that the processes of a strategy save at the same steps.

    Args:
        config: the `RunConfig`.
        averaged: names of variables, as from `averaged_variables`.

    Raises:
        ValueError: checkpoints are saved by the clock.
    """
    if averaged and config.save_checkpoints_secs:
        raise ValueError(
            f"Saves of {averaged[0]} ({len(averaged)} such variables) average it over all "
            "processes, whose clocks differ. Give RunConfig save_checkpoints_steps in place of "
            f"save_checkpoints_secs={config.save_checkpoints_secs}."
        )


class SaveWithChief(tf1.train.SessionRunHook):
    """Hook by which another process of a strategy takes part in its chief's saves, without a file.

    Args:
        scaffold: has the saver.
        every: steps between two saves.
        is_restored: whether sessions begin at a checkpoint, which isn't saved again.
    """

    def __init__(self, scaffold: Any, every: int, is_restored: bool) -> None:
        self._scaffold = scaffold
        self._is_restored = is_restored
        self._timer = tf1.train.SecondOrStepTimer(every_steps=every)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Saves the first values."""
        step = session.run(tf1.train.get_global_step())
        self._timer.update_last_triggered_step(step)
        if not self._is_restored:
            self._save(session)

    def before_run(self, run_context: Any) -> Any:
        """Fetches the global step."""
        return tf1.train.SessionRunArgs(tf1.train.get_global_step())

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Saves when a period has ended."""
        # The step may have been fetched before it was counted.
        if not self._timer.should_trigger_for_step(run_values.results + 1):
            return
        step = run_context.session.run(tf1.train.get_global_step())
        if self._timer.should_trigger_for_step(step):
            self._timer.update_last_triggered_step(step)
            self._save(run_context.session)

    def end(self, session: Any) -> None:
        """Saves the last values."""
        if session.run(tf1.train.get_global_step()) != self._timer.last_triggered_step():
            self._save(session)

    def _save(self, session: Any) -> None:
        with tempfile.TemporaryDirectory(prefix="tpu_columns_") as home:
            path = os.path.join(home, "model.ckpt")
            self._scaffold.saver.save(session, path, write_meta_graph=False, write_state=False)


@contextlib.contextmanager
def saving_one_moment(graph: tf.Graph, saver: Any) -> Iterator[None]:
    """Makes saves read a table and its slots at one moment, and write the step of the file's name.

    TensorFlow's hook names a checkpoint by the step that it reads first; when the save reads the
    step again, other processes have moved it.

    Args:
        graph: the finished graph, with locked updates. Ops are added when a session builds the
            saver, as hooks may add variables before.
        saver: the training's. A `tf.train.Checkpoint` is left alone: the graph is final before it
            becomes a saver.
    """
    if not isinstance(saver, tf1.train.Saver):
        yield
        return
    with contextlib.ExitStack() as stack:

        def build_and_lock(build: Any) -> None:
            build()
            if graph.finalized:  # for a session after the first
                return
            updates.lock_reads(graph)
            number = _number_of_checkpoint(graph)
            if number is not None:
                stack.enter_context(_numbering_saves(saver, number))

        stack.enter_context(patching.wrap_method(saver, "build", build_and_lock))
        yield


def _number_of_checkpoint(graph: tf.Graph) -> Any:
    """Returns a tensor that saves write as the global step; None if there are no saves."""
    name = tf1.train.get_global_step(graph).op.name
    number = None
    for op, position, variable in updates.saved_variables(graph):
        if variable.name == name:
            if number is None:
                with graph.as_default(), tf1.device(op.device):
                    value = op.inputs[position]
                    number = tf1.placeholder_with_default(value, [], "number_of_checkpoint")
            graph_surgery.replace_input(op, number, position)
    return number


def _numbering_saves(saver: tf1.train.Saver, number: Any) -> AbstractContextManager[None]:
    """Makes `saver.save` write the step that it is given, until the block ends."""

    def save_number(
        save: Any, session: Any, save_path: Any, global_step: Any = None, **kw: Any
    ) -> Any:
        if not isinstance(global_step, numbers.Integral):
            return save(session, save_path, global_step, **kw)

        def run_numbered(run: Any, fetches: Any, feeds: Any = None, *more: Any, **kw: Any) -> Any:
            return run(fetches, {**(feeds or {}), number: global_step}, *more, **kw)

        with patching.wrap_method(session, "run", run_numbered):
            return save(session, save_path, global_step, **kw)

    return patching.wrap_method(saver, "save", save_number)
