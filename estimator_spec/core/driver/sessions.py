# SPDX-License-Identifier: Apache-2.0
"""Opens the monitored sessions of training, evaluation and prediction."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from estimator_spec.core.checkpoints import state_file
from estimator_spec.core.cluster import roles
from estimator_spec.core.driver import checkpoint_state, errors, table_restore
from estimator_spec.core.run_config import RunConfig

tf1 = tf.compat.v1

# Between two attempts of a worker to find the variables initialized.
_SECONDS_BETWEEN_ATTEMPTS = 1


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
        stack.enter_context(errors.explain_batch_errors(graph))
        with graph.as_default():
            stack.enter_context(table_restore.relayout_in_session(graph, scaffold, checkpoint))
            with checkpoint_state.explain_damage(checkpoint):
                session = create()

        def close(*exc_info: Any) -> bool:
            with graph.as_default():
                return bool(session.__exit__(*exc_info))

        stack.push(close)
        yield session


def create_training_session(
    scaffold: tf1.train.Scaffold,
    config: RunConfig,
    hooks: Sequence[tf1.train.SessionRunHook],
    run_first: Callable[[tf1.Session], None] | None,
) -> Any:
    """Creates the training session of a process.

    Args:
        scaffold: the scaffold of the default graph.
        config: the `RunConfig`.
        hooks: the hooks of this process.
        run_first: called with each new session whose variables this process initializes or
            restores, before hooks and other threads use it; or None.

    Raises:
        tf.errors.DeadlineExceededError: this is a worker, and the chief didn't initialize the
            variables within `session_creation_timeout_secs`.
    """
    creator: tf1.train.SessionCreator = _WaitingSessionCreator(scaffold, config)
    if roles.has_variables(config):
        creator = _RestoringSessionCreator(scaffold, config, run_first)
    # How long the end of training waits for threads, such as those of queue runners. In a cluster
    # the thread of `SyncReplicasOptimizer` would wait in vain for gradients of processes that have
    # ended; closing the session ends it. 120 is TensorFlow's default.
    seconds = 10 if roles.is_distributed(config) else 120
    return tf1.train.MonitoredSession(creator, hooks, stop_grace_period_secs=seconds)


@dataclasses.dataclass(eq=False)
class _RestoringSessionCreator(tf1.train.SessionCreator):
    """Creator of a chief's sessions, which restores the latest checkpoint.

    TensorFlow's own would initialize the variables anew if it couldn't read the state file. And it
    would restore them also if only the connection was lost: the servers have them still, so workers
    train them meanwhile, and what they add would be lost in some variables and kept in others.

    Attributes:
        scaffold: the scaffold of the graph.
        config: the `RunConfig`.
        run_first: called with each new session of restored variables, or None.
        is_created: whether it has created a session.
        has_values: whether this process has given all variables values.
    """

    scaffold: tf1.train.Scaffold
    config: RunConfig
    run_first: Callable[[tf1.Session], None] | None
    is_created: bool = False
    has_values: bool = False

    def create_session(self) -> Any:
        """Returns a session whose variables are restored or, without a checkpoint, initialized.

        In one that replaces a lost one they stay as they are, if there are workers and no server
        has lost a variable.

        Raises:
            CheckpointError: the state file is missing or damaged.
            OSError: it can't be read.
            RuntimeError: the session replaces a lost one, and the processes of a strategy, which
                make each step together, can't go on from different steps.
        """
        if self.is_created and roles.is_collective(self.config):
            raise RuntimeError(
                "Training lost the connection to another process of its strategy: that process has "
                "ended, or can't be reached. So this one ends, too. Start all processes again: "
                f"they go on from the latest checkpoint in {self.config.model_dir}."
            )
        self.is_created = True
        has_workers = self.config.num_worker_replicas > 1
        session = self._go_on() if self.has_values and has_workers else None
        if session is None:
            self.has_values = False  # until all are restored
            session = self._restore()
            self.has_values = True
        return session

    def _go_on(self) -> Any:
        """Returns a session if all variables have values, or None."""
        scaffold = self.scaffold
        session = tf1.Session(self.config.master, config=self.config.session_config)
        with contextlib.ExitStack() as stack:
            stack.callback(session.close)
            if session.run(scaffold.ready_for_local_init_op).size:
                return None
            session.run(scaffold.local_init_op)
            if session.run(scaffold.ready_op).size:
                return None
            stack.pop_all()
        return session

    def _restore(self) -> Any:
        """Returns a session with variables of the latest checkpoint, or initialized ones."""
        directory = self.config.model_dir
        assert directory is not None  # set by the estimator
        latest = state_file.find_latest(directory)
        creator = tf1.train.ChiefSessionCreator(
            self.scaffold,
            self.config.master,
            self.config.session_config,
            checkpoint_filename_with_path=latest,
        )
        session = creator.create_session()
        if self.run_first is not None:
            self.run_first(session)
        if latest is not None:
            # The saver deletes the oldest of these.
            state = state_file.read(directory)
            self.scaffold.saver.recover_last_checkpoints(state.all_model_checkpoint_paths)
        return session


@dataclasses.dataclass(eq=False)
class _WaitingSessionCreator(tf1.train.SessionCreator):
    """Creator of a worker's sessions, which waits for initialized variables.

    TensorFlow's `WorkerSessionCreator` looks for them every 30 seconds only.
    """

    scaffold: tf1.train.Scaffold
    config: RunConfig

    def create_session(self) -> Any:
        """Returns a session whose variables are initialized."""
        scaffold = self.scaffold
        scaffold.finalize()
        manager = tf1.train.SessionManager(
            local_init_op=scaffold.local_init_op,
            ready_op=scaffold.ready_op,
            ready_for_local_init_op=scaffold.ready_for_local_init_op,
            graph=tf1.get_default_graph(),
            recovery_wait_secs=_SECONDS_BETWEEN_ATTEMPTS,
        )
        return manager.wait_for_session(
            self.config.master,
            config=self.config.session_config,
            max_wait_secs=self.config.session_creation_timeout_secs,
        )


def open_non_training_session(
    graph: tf.Graph,
    scaffold: tf1.train.Scaffold | None,
    checkpoint: str | None,
    master: str,
    session_config: Any,
    hooks: Sequence[tf1.train.SessionRunHook],
) -> AbstractContextManager[Any]:
    """Opens a session that evaluates or predicts; see `open_session`.

    Args:
        graph: the finished graph.
        scaffold: the scaffold of the session, or None.
        checkpoint: the checkpoint to restore; None initializes the variables.
        master: address of the TensorFlow master.
        session_config: the session's `ConfigProto`.
        hooks: all hooks, in order.
    """

    def create() -> Any:
        creator = tf1.train.ChiefSessionCreator(
            scaffold, master, session_config, checkpoint_filename_with_path=checkpoint
        )
        return tf1.train.MonitoredSession(creator, hooks)

    return open_session(graph, scaffold, checkpoint, create)
