# SPDX-License-Identifier: Apache-2.0
"""Builds the graph of a training, and runs it in a monitored session."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core import updates
from estimator_spec.core._tensorflow import graph_surgery, private
from estimator_spec.core.cluster import devices, roles
from estimator_spec.core.cores import activation_gradients
from estimator_spec.core.cores.interface import TablesListener
from estimator_spec.core.driver import (
    checkpoint_state,
    graph_builder,
    huge_pages,
    initial_values,
    input_pipeline,
    replica_inputs,
    saving,
    sessions,
    shared_saves,
)
from estimator_spec.core.driver import hooks as hooks_lib
from estimator_spec.core.driver.graph_builder import BuiltGraph, RunSetup
from estimator_spec.core.driver.hookless_steps import StepRunner
from estimator_spec.core.driver.standstill import StepWatch
from estimator_spec.core.run_config import RunConfig
from estimator_spec.core.user_functions.model_spec import EstimatorSpec, ModeKeys
from tpu_columns import environment, placement
from tpu_columns.optimizations import Optimization

tf1 = tf.compat.v1

# A loop of steps is one op.
_INCREMENT_OPS = ("AssignAddVariableOp", "AssignAdd", "While", "StatelessWhile")


# With other trainers the global step advances by more than one between two steps of this process;
# processes of a strategy save at the same step.
_SINGLE_TRAINER_ONLY = frozenset({Optimization.SKIPPED_HOOKS})


class _Hooks(NamedTuple):
    """Hooks of a training, in order.

    Attributes:
        of_user: the user's, and those that stop training.
        of_process: the hooks of this process, with these.
        may_save: those that may save checkpoints, in any process.
        stop_at_nan: the one among `of_process` that reads the loss.
        listeners: listeners for every checkpoint.
    """

    of_user: Sequence[Any]
    of_process: list[Any]
    may_save: list[Any]
    stop_at_nan: hooks_lib.StopAtNan
    listeners: list[Any]


def train(
    setup: RunSetup,
    input_fn: Callable[..., Any],
    hooks: Sequence[tf1.train.SessionRunHook],
    speed_hooks: Sequence[tf1.train.SessionRunHook],
    saving_listeners: Sequence[tf1.train.CheckpointSaverListener],
) -> Any:
    """Builds the graph of a training, and trains until a hook requests a stop or the input ends.

    Args:
        setup: the estimator's.
        input_fn: the user's function.
        hooks: the user's hooks, and those that stop training.
        speed_hooks: hooks that log steps and examples per second.
        saving_listeners: listeners for every checkpoint.

    Returns:
        The loss of the last step; None if a hook requested the stop before the first.

    Raises:
        ValueError: the input is empty, or there are listeners but no hook that saves.
        CheckpointError: the checkpoint can't be restored.
        OSError: a checkpoint can't be written.
        tf.errors.InvalidArgumentError: an id outside its table, among others.
    """
    config = setup.config
    checkpoint = checkpoint_to_continue(setup)
    chosen = graph_builder.usable_optimizations(setup, placement.Mode.TRAIN)
    if not roles.trains_alone(config) or roles.is_collective(config):
        chosen -= _SINGLE_TRAINER_ONLY
    device_function = devices.device_function(config)
    locks = not roles.trains_alone(config) and environment.is_on(environment.LOCKED_UPDATES)
    with tf.Graph().as_default() as graph, graph.device(device_function):
        built = setup.build(graph, input_fn, ModeKeys.TRAIN)
        if not built.loop:
            train_op = updates.optimize_training_graph(graph, built.spec.train_op, chosen)
            if device_function is not None and Optimization.UPDATES in chosen:
                updates.join_transfers(graph, train_op)
            if locks:
                train_op = updates.lock_updates(graph, train_op)
            built = built._replace(spec=built.spec._replace(train_op=train_op))
        if roles.has_variables(config):
            graph_builder.warm_start(setup.warm_start, checkpoint)
        with built.running():
            scaffold = activation_gradients.add_initializers(built.spec.scaffold)
            built = built._replace(spec=built.spec._replace(scaffold=scaffold))
            _add_loss_summary(built.spec.loss)
            _add_saver(built)
            _read_global_step_before_increment(graph)
            found = _collect_hooks(built, hooks, speed_hooks, saving_listeners, checkpoint)
            return _run(built, found, chosen, checkpoint, input_fn)


def checkpoint_to_continue(setup: RunSetup) -> str | None:
    """Returns the prefix of the checkpoint that training starts from; None in a worker.

    A worker restores nothing, and may look while the chief writes; one of a strategy does.
    """
    has_variables = roles.has_variables(setup.config)
    return checkpoint_state.find_latest(setup.model_dir) if has_variables else None


def _collect_hooks(
    built: BuiltGraph,
    hooks: Sequence[tf1.train.SessionRunHook],
    speed_hooks: Sequence[tf1.train.SessionRunHook],
    saving_listeners: Sequence[tf1.train.CheckpointSaverListener],
    checkpoint: str | None,
) -> _Hooks:
    """Returns the hooks of the user, the model, the graph and the configuration."""
    spec, config = built.spec, built.config
    stop_at_nan = hooks_lib.StopAtNan(spec.loss)
    of_all = [*built.hooks, *hooks, stop_at_nan]
    if config.log_step_count_steps is not None:
        of_all.append(hooks_lib.LossLogger(spec.loss, config.log_step_count_steps))
    if roles.is_distributed(config):
        of_all.append(hooks_lib.LostSessionLogger())
    of_all.extend(spec.training_hooks)
    savers = _saver_hooks(spec, config, [*of_all, *spec.training_chief_hooks], checkpoint)
    of_chief = [*built.first_hooks, *savers, *spec.training_chief_hooks, *speed_hooks]
    if config.save_summary_steps and config.model_dir:
        summaries = (config.save_summary_steps, config.model_dir, spec.scaffold)
        of_chief.append(hooks_lib.SummarySaver(*summaries))
    if not config.is_chief:
        of_chief = list(built.first_hooks) if roles.has_variables(config) else []
    if roles.is_collective(config) and savers:
        of_chief.extend(_hooks_of_shared_saves(spec, config, bool(checkpoint)))
    may_save = [*savers, *of_all, *spec.training_chief_hooks]
    listeners = [*built.listeners, *saving_listeners]
    return _Hooks(hooks, [*of_chief, *of_all], may_save, stop_at_nan, listeners)


def _hooks_of_shared_saves(spec: EstimatorSpec, config: RunConfig, restores: bool) -> list[Any]:
    """Returns the hook by which a process takes part in the saves of its chief."""
    averaged = shared_saves.averaged_variables()
    shared_saves.check_interval(config, averaged)
    if not averaged or config.is_chief:
        return []
    every = config.save_checkpoints_steps
    assert every is not None  # check_interval
    return [shared_saves.SaveWithChief(spec.scaffold, every, restores)]


def _run(
    built: BuiltGraph,
    hooks: _Hooks,
    chosen: frozenset[Optimization],
    checkpoint: str | None,
    input_fn: Callable[..., Any],
) -> Any:
    """Runs the steps in a session of the default graph; returns the last loss."""
    graph, spec, config = tf1.get_default_graph(), built.spec, built.config
    watch = StepWatch(config)
    skip_hooks = Optimization.SKIPPED_HOOKS in chosen
    steps = StepRunner(
        hooks.of_process, spec.train_op, spec.loss, hooks.stop_at_nan, watch, skip_hooks
    )
    if Optimization.MEMORY in chosen:
        initial_values.replace_large_constants(graph)
    # In a cluster other processes may update variables during a save.
    allowed = frozenset() if roles.is_distributed(config) else chosen
    before_saves = saving.disable_copy_on_read(graph) if Optimization.MEMORY in allowed else None
    move = huge_pages.build(graph, hooks.of_user) if Optimization.HUGE_PAGES in allowed else None

    shared = config.is_chief and not roles.trains_alone(config)
    saver = spec.scaffold.saver or tf1.get_collection(tf1.GraphKeys.SAVERS)[0]

    def create_session() -> Any:
        # Explained here, because errors of restoring are of the same classes.
        with saving.explain_write_errors(), saving.keep_checkpoint(saver, checkpoint):
            return sessions.create_training_session(
                spec.scaffold, config, hooks.of_process, move and move.run
            )

    with (
        watch,
        saving.explain_write_errors(),
        shared_saves.saving_one_moment(graph, saver) if shared else contextlib.nullcontext(),
        saving.guard_saves(spec.scaffold, saver, config.model_dir or "", before_saves),
        _listeners_added(hooks.may_save, hooks.listeners),
        sessions.open_session(graph, spec.scaffold, checkpoint, create_session) as session,
    ):
        try:
            _run_steps(session, steps, input_fn, built)
        finally:
            watch.closing()
    # Not inside the block: the end of the input leaves it by an exception.
    return steps.last_loss


def _run_steps(
    session: tf1.train.MonitoredSession,
    steps: StepRunner,
    input_fn: Callable[..., Any],
    built: BuiltGraph,
) -> None:
    """Runs steps until a hook requests a stop or the input ends."""
    some = False
    while not session.should_stop():
        try:
            steps.run(session)
        except (tf.errors.OutOfRangeError, StopIteration) as end:
            takers = [h for h in built.first_hooks if isinstance(h, hooks_lib.BatchTaker)]
            few = replica_inputs.has_too_few_batches(end)
            if some or few or any(hook.took_batches for hook in takers):
                if few and not some:
                    tf1.logging.warning(
                        "Training made no steps: a step takes a batch for each replica, and the "
                        "input has fewer."
                    )
                raise  # The session treats this as the end of the input.
            raise input_pipeline.empty_input_error(input_fn, "train", built.loop) from end
        some = True
    if not some:
        tf1.logging.warning(
            "Training made no steps: a hook stopped it, or the input is empty or misspecified."
        )


def _read_global_step_before_increment(graph: tf.Graph) -> None:
    """Adds control dependencies from the reads of the global step to the ops that increment it.

    Hooks expect the value before this step, or before this loop of steps, from the tensor that
    TensorFlow's hooks share and from the variable itself; host calls, from any read by the model.
    If the ops ran in any order, they would see this step or the next at random (or one within the
    loop), and could write a summary one step late.
    """
    step = tf1.train.get_global_step(graph)
    reads = {private.get_or_create_global_step_read(graph).op, graph.as_graph_element(step).op}
    users = [
        op
        for op in step.op.outputs[0].consumers()
        if graph_surgery.control_flow_context(op) is None
    ]
    # A read with control inputs may come after the increment, or run what isn't part of a step.
    reads.update(op for op in users if op.type == "ReadVariableOp" and not op.control_inputs)
    for op in users:
        if op.type in _INCREMENT_OPS:
            for read in sorted(reads, key=lambda read: read.name):
                graph_surgery.add_control_input(op, read)


def _add_loss_summary(loss: Any) -> None:
    """Adds a summary `loss`, unless the model has one of that name."""
    if not any(s.op.name == "loss" for s in tf1.get_collection(tf1.GraphKeys.SUMMARIES)):
        tf1.summary.scalar("loss", loss)
    tf1.add_to_collection(tf1.GraphKeys.LOSSES, loss)


def _add_saver(built: BuiltGraph) -> None:
    """Adds a sharded saver with relative paths, unless the model has a saver."""
    config = built.config
    if built.spec.scaffold.saver or tf1.get_collection(tf1.GraphKeys.SAVERS):
        return
    saver = tf1.train.Saver(
        sharded=True,
        max_to_keep=config.keep_checkpoint_max and int(config.keep_checkpoint_max),
        keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours,
        defer_build=True,
        save_relative_paths=True,
    )
    tf1.add_to_collection(tf1.GraphKeys.SAVERS, saver)


def _saver_hooks(
    spec: EstimatorSpec,
    config: RunConfig,
    present: Sequence[tf1.train.SessionRunHook],
    checkpoint: str | None,
) -> list[Any]:
    """Returns the hook that saves checkpoints, unless one is present or the user wants none."""
    if any(isinstance(hook, tf1.train.CheckpointSaverHook) for hook in present):
        return []
    if not (config.save_checkpoints_secs or config.save_checkpoints_steps):
        return []
    assert config.model_dir is not None  # set by the estimator
    has_index = checkpoint is not None and tf.io.gfile.exists(f"{checkpoint}.index")
    return [
        hooks_lib.CheckpointSaver(
            config.model_dir,
            save_secs=config.save_checkpoints_secs,
            save_steps=config.save_checkpoints_steps,
            scaffold=spec.scaffold,
            save_graph_def=config.checkpoint_save_graph_def,
            restored=checkpoint if has_index else None,
        )
    ]


@contextlib.contextmanager
def _listeners_added(
    present: Sequence[tf1.train.SessionRunHook],
    saving_listeners: Sequence[tf1.train.CheckpointSaverListener],
) -> Iterator[None]:
    """Adds table listeners to all hooks that save, others to the first, until the block ends."""
    of_tables = [each for each in saving_listeners if isinstance(each, TablesListener)]
    saver_hooks = [hook for hook in present if isinstance(hook, tf1.train.CheckpointSaverHook)]
    if len(of_tables) < len(saving_listeners) and not saver_hooks:
        raise ValueError(
            "There should be a CheckpointSaverHook to use saving_listeners. Please set one of "
            "the RunConfig.save_checkpoints_steps or RunConfig.save_checkpoints_secs."
        )
    with contextlib.ExitStack() as stack:
        for number, hook in enumerate(saver_hooks):
            # The constructor takes listeners, but the hook may be the user's.
            listeners = private.saver_listeners(hook)
            stack.callback(listeners.__setitem__, slice(None), list(listeners))
            added = of_tables if number else saving_listeners
            listeners.extend(each for each in added if each not in listeners)
        yield
