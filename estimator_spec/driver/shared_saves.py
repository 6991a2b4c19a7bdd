# SPDX-License-Identifier: Apache-2.0
"""Saves of one of several training processes, while the others go on."""

from __future__ import annotations

import contextlib
import numbers
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from estimator_spec import updates
from estimator_spec._tensorflow import graph_surgery
from estimator_spec.driver import patching

tf1 = tf.compat.v1


@contextlib.contextmanager
def saving_one_moment(graph: tf.Graph, saver: Any) -> Iterator[None]:
    """Makes saves read each table with its slots at one moment, and the step be the file's.

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
    build = saver.build
    with contextlib.ExitStack() as stack:

        def build_and_lock() -> None:
            build()
            if graph.finalized:  # for a session after the first
                return
            updates.lock_reads(graph)
            number = _number_of_checkpoint(graph)
            if number is not None:
                stack.enter_context(_numbering_saves(saver, number))

        stack.enter_context(patching.set_temporarily(saver, "build", build_and_lock))
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


@contextlib.contextmanager
def _numbering_saves(saver: tf1.train.Saver, number: Any) -> Iterator[None]:
    """Makes `saver.save` write the step that it is given, until the block ends."""
    save = saver.save

    def save_number(session: Any, save_path: Any, global_step: Any = None, **kw: Any) -> Any:
        if not isinstance(global_step, numbers.Integral):
            return save(session, save_path, global_step, **kw)
        run = session.run

        def run_with_number(fetches: Any, feed_dict: Any = None, *more: Any, **kw: Any) -> Any:
            return run(fetches, {**(feed_dict or {}), number: global_step}, *more, **kw)

        with patching.set_temporarily(session, "run", run_with_number):
            return save(session, save_path, global_step, **kw)

    with patching.set_temporarily(saver, "save", save_number):
        yield
