# SPDX-License-Identifier: Apache-2.0
"""Training: from a built `EstimatorSpec` to the loss of the last step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec._tensorflow import graph_surgery, private
from estimator_spec.cores.interface import TablesListener
from estimator_spec.driver import (
    checkpoint_state,
    errors,
    huge_pages,
    initial_values,
    input_pipeline,
    stored_tables,
)
from estimator_spec.driver import hooks as hooks_lib
from estimator_spec.driver.hookless_steps import Steps

tf1 = tf.compat.v1

_COUNTING = ("AssignAddVariableOp", "AssignAdd")


def check_steps(steps: int | None, max_steps: int | None) -> None:
    """Refuses both at once, and what isn't positive.

    Raises:
        ValueError: names the argument.
    """
    if steps is not None and max_steps is not None:
        raise ValueError("Can not provide both steps and max_steps.")
    for name, value in (("steps", steps), ("max_steps", max_steps)):
        if value is not None and value <= 0:
            raise ValueError(f"Must specify {name} > 0, given: {value}")


def run(
    spec: Any,
    *,
    config: Any,
    checkpoint: str | None,
    input_fn: Callable[..., Any],
    input_hooks: Sequence[Any],
    hooks: Sequence[Any],
    speed_hooks: Sequence[Any],
    saving_listeners: Sequence[Any],
    first_hooks: Sequence[Any] = (),
    loop: bool = False,
) -> Any:
    """Trains in the current graph until a hook stops it or the input ends.

    Args:
        spec: the `EstimatorSpec` of the current graph.
        config: the `RunConfig`, with its `model_dir` and `session_config`.
        checkpoint: the checkpoint that the session will restore, if any.
        input_fn: where the batches come from; named in messages.
        input_hooks: what the input needs.
        hooks: the user's, and those that end the training.
        speed_hooks: what logs steps and examples per second.
        saving_listeners: told of every checkpoint.
        first_hooks: what must come before the hook that saves.
        loop: the train_op makes several steps; hooks are called once for all of them.

    Returns:
        The loss of the last step; None if a hook stopped before the first.

    Raises:
        ValueError: the input yields nothing, or listeners without anything that saves.
        CheckpointError: the checkpoint can't be restored.
        tf.errors.InvalidArgumentError: an id outside its table, among others.
    """
    _add_loss_summary(spec.loss)
    _add_saver(spec, config)
    if not loop:
        _read_before_counting(tf1.get_default_graph())
    stop_at_nan = hooks_lib.StopAtNan(spec.loss)
    all_hooks = [*input_hooks, *hooks, stop_at_nan]
    if config.log_step_count_steps is not None:
        all_hooks.append(hooks_lib.LossLogger(spec.loss, config.log_step_count_steps))
    all_hooks.extend(spec.training_hooks)
    saver_hooks = _saver_hooks(spec, config, [*all_hooks, *spec.training_chief_hooks])
    _listen([*saver_hooks, *all_hooks, *spec.training_chief_hooks], saving_listeners)
    chief_hooks = [*first_hooks, *saver_hooks, *spec.training_chief_hooks, *speed_hooks]
    chief_hooks.extend(_summary_hooks(spec, config))
    steps = Steps([*all_hooks, *chief_hooks], spec.train_op, spec.loss, stop_at_nan)
    with (
        errors.explained(tf1.get_default_graph()),
        _session(
            spec,
            config,
            checkpoint,
            hooks=all_hooks,
            chief_only_hooks=chief_hooks,
        ) as session,
    ):
        _loop(session, steps, input_fn, loop)
    # Here, and not above: the session ends the block where the input ends.
    return steps.last_loss


def _session(spec: Any, config: Any, checkpoint: str | None, **hooks: Any) -> Any:
    stored_tables.fit_session(spec.scaffold, checkpoint)
    graph = tf1.get_default_graph()
    initial_values.with_less_memory(graph)
    with checkpoint_state.restoring(checkpoint), huge_pages.asked_for(graph):
        return tf1.train.MonitoredTrainingSession(
            master=config.master,
            is_chief=config.is_chief,
            checkpoint_dir=config.model_dir,
            scaffold=spec.scaffold,
            save_checkpoint_secs=0,  # A hook of ours saves.
            save_summaries_steps=None,  # So does one for summaries,
            log_step_count_steps=None,  # and one that counts.
            config=config.session_config,
            max_wait_secs=config.session_creation_timeout_secs,
            save_graph_def=config.checkpoint_save_graph_def,
            **hooks,
        )


def _loop(session: Any, steps: Steps, input_fn: Callable[..., Any], loop: bool) -> None:
    """Makes steps until a hook stops, or the input ends."""
    some = False
    while not session.should_stop():
        try:
            steps.run(session)
        except (tf.errors.OutOfRangeError, StopIteration) as end:
            if some:
                raise  # The session takes this for the end of the input.
            raise input_pipeline.nothing_read(input_fn, "train", loop) from end
        some = True
    if not some:
        tf1.logging.warning(
            "Training made no steps: a hook stopped it, or the input is empty or misspecified."
        )


def _read_before_counting(graph: tf.Graph) -> None:
    """Makes what counts the global step up wait for the reading that hooks look at.

    Hooks take the step for the one before this call. Without an order of the two ops they would see
    now this step and now the next, and write a summary a step late, as threads happen to run.
    """
    read = private.get_or_create_global_step_read(graph).op
    for op in tf1.train.get_global_step(graph).op.outputs[0].consumers():
        if op.type in _COUNTING and graph_surgery.control_flow_context(op) is None:
            graph_surgery.add_control_input(op, read)


def _add_loss_summary(loss: Any) -> None:
    """Shows the loss in TensorBoard under this name, unless the model does so itself."""
    if not any(s.op.name == "loss" for s in tf1.get_collection(tf1.GraphKeys.SUMMARIES)):
        tf1.summary.scalar("loss", loss)
    tf1.add_to_collection(tf1.GraphKeys.LOSSES, loss)


def _add_saver(spec: Any, config: Any) -> None:
    """The default saver: shards, and paths that stay right when the directory moves."""
    if spec.scaffold.saver or tf1.get_collection(tf1.GraphKeys.SAVERS):
        return
    saver = tf1.train.Saver(
        sharded=True,
        max_to_keep=config.keep_checkpoint_max,
        keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours,
        defer_build=True,
        save_relative_paths=True,
    )
    tf1.add_to_collection(tf1.GraphKeys.SAVERS, saver)


def _saver_hooks(spec: Any, config: Any, present: Sequence[Any]) -> list[Any]:
    """A hook that saves by steps or seconds, unless the user brought one or wants none."""
    if any(isinstance(hook, tf1.train.CheckpointSaverHook) for hook in present):
        return []
    if not (config.save_checkpoints_secs or config.save_checkpoints_steps):
        return []
    return [
        hooks_lib.CheckpointSaver(
            config.model_dir,
            save_secs=config.save_checkpoints_secs,
            save_steps=config.save_checkpoints_steps,
            scaffold=spec.scaffold,
            save_graph_def=config.checkpoint_save_graph_def,
        )
    ]


def _summary_hooks(spec: Any, config: Any) -> list[Any]:
    every = config.save_summary_steps
    if not every or not config.model_dir:
        return []
    return [hooks_lib.SummarySaver(every, config.model_dir, spec.scaffold)]


def _listen(present: Sequence[Any], saving_listeners: Sequence[Any]) -> None:
    """Hands those of tables to all hooks that save, and the user's to the first."""
    of_tables = [each for each in saving_listeners if isinstance(each, TablesListener)]
    others = [each for each in saving_listeners if each not in of_tables]
    saver_hooks = [hook for hook in present if isinstance(hook, tf1.train.CheckpointSaverHook)]
    if others and not saver_hooks:
        raise ValueError(
            "There should be a CheckpointSaverHook to use saving_listeners. Please set one of "
            "the RunConfig.save_checkpoints_steps or RunConfig.save_checkpoints_secs."
        )
    for number, hook in enumerate(saver_hooks):
        # The constructor takes listeners, but the hook may be the user's.
        told = private.saver_listeners(hook)
        wanted = of_tables if number else saving_listeners
        told.extend(listener for listener in wanted if listener not in told)
