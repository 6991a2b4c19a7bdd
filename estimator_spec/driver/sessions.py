# SPDX-License-Identifier: Apache-2.0
"""Opens the monitored sessions of training, evaluation and prediction."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.driver import checkpoint_state, errors, huge_pages, table_restore

tf1 = tf.compat.v1


@contextlib.contextmanager
def open_session(
    graph: tf.Graph,
    scaffold: tf1.train.Scaffold | None,
    checkpoint: str | None,
    create: Callable[[], Any],
) -> Iterator[Any]:
    """Creates a monitored session, and closes it when the block ends.

    `graph` is the default graph while the session is created and closed. The end of the input ends
    the block without an error, as in a `MonitoredSession`'s own block.

    Args:
        graph: the finished graph.
        scaffold: the scaffold of the session, or None.
        checkpoint: the checkpoint that the session restores, if any.
        create: creates the session.

    Raises:
        CheckpointError: the checkpoint can't be restored.
        tf.errors.InvalidArgumentError: an id outside its table, among others.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(errors.explain_lookup_errors(graph))
        with graph.as_default():
            stack.enter_context(table_restore.relayout_in_session(graph, scaffold, checkpoint))
            with checkpoint_state.explain_damage(checkpoint), huge_pages.advise(graph):
                session = create()

        def close(*exc_info: Any) -> bool:
            with graph.as_default():
                return bool(session.__exit__(*exc_info))

        stack.push(close)
        yield session


@contextlib.contextmanager
def open_non_training_session(
    graph: tf.Graph,
    scaffold: tf1.train.Scaffold | None,
    checkpoint: str | None,
    *,
    master: str,
    config: Any,
    hooks: Sequence[tf1.train.SessionRunHook],
) -> Iterator[Any]:
    """Opens a session that evaluates or predicts; see `open_session`.

    Args:
        graph: the finished graph.
        scaffold: the scaffold of the session, or None.
        checkpoint: the checkpoint to restore; None initializes the variables.
        master: address of the TensorFlow master.
        config: the session's `ConfigProto`.
        hooks: all hooks, in order.
    """

    def create() -> Any:
        creator = tf1.train.ChiefSessionCreator(
            checkpoint_filename_with_path=checkpoint,
            master=master,
            scaffold=scaffold,
            config=config,
        )
        return tf1.train.MonitoredSession(session_creator=creator, hooks=hooks)

    with open_session(graph, scaffold, checkpoint, create) as session:
        yield session
