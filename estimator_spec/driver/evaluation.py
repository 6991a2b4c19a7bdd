# SPDX-License-Identifier: Apache-2.0
"""Evaluation: from a built `EstimatorSpec` to a dict of metric values."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.driver import (
    checkpoint_state,
    errors,
    huge_pages,
    input_pipeline,
    stored_tables,
)
from estimator_spec.driver import hooks as hooks_lib
from estimator_spec.driver.hookless_steps import Batches

tf1 = tf.compat.v1

_LOSS = "loss"
_GLOBAL_STEP = tf1.GraphKeys.GLOBAL_STEP


def check_steps(steps: int | None) -> None:
    """Refuses what isn't positive.

    Raises:
        ValueError: names the argument.
    """
    if steps is not None and steps <= 0:
        raise ValueError(f"Must specify steps > 0, given: {steps}")


def metric_ops(spec: Any) -> tuple[Any, dict[str, Any]]:
    """What to run for each batch, and what to read at the end.

    Args:
        spec: the `EstimatorSpec` of the current graph.

    Returns:
        (one op that updates every metric, the metrics' values by name). The mean loss and the
        global step are among them.

    Raises:
        ValueError: a metric of the user's has one of these two names.
    """
    metrics = dict(spec.eval_metric_ops or {})
    _refuse(_LOSS, metrics)
    metrics[_LOSS] = tf1.metrics.mean(spec.loss)
    _refuse(_GLOBAL_STEP, metrics)
    # In order of names, so that the graph is the same every time.
    names = sorted(metrics)
    values = {name: metrics[name][0] for name in names}
    values[_GLOBAL_STEP] = tf1.train.get_global_step()
    return tf.group(*[metrics[name][1] for name in names]), values


def _refuse(name: str, metrics: Mapping[str, Any]) -> None:
    if name in metrics:
        raise ValueError(
            f"Metric with name `{name}` is not allowed, because Estimator already defines a "
            "default metric with the same name. Give yours another name."
        )


def scaffold(given: Any) -> Any:
    """The user's scaffold; metrics are local variables, so a local_init_op must have them too.

    Args:
        given: from the `EstimatorSpec` of the current graph, or None.
    """
    if not (given and given.local_init_op):
        return given
    both = tf.group(given.local_init_op, tf1.train.Scaffold.default_local_init_op())
    return tf1.train.Scaffold(local_init_op=both, copy_from_scaffold=given)


def run(
    session_scaffold: Any,
    update_op: Any,
    values: Mapping[str, Any],
    *,
    config: Any,
    checkpoint: str | None,
    input_fn: Callable[..., Any],
    hooks: Sequence[Any],
) -> dict[str, Any]:
    """Evaluates in the current graph until a hook stops it or the input ends.

    Args:
        session_scaffold: from `scaffold`.
        update_op: runs for each batch.
        values: read once, at the end.
        config: the `RunConfig`.
        checkpoint: what to restore; None starts from fresh variables.
        input_fn: where the batches come from; named in messages.
        hooks: all hooks, in order.

    Returns:
        The values.

    Raises:
        ValueError: the input yields nothing.
        CheckpointError: the checkpoint can't be restored.
        tf.errors.InvalidArgumentError: an id outside its table, among others.
    """
    final = hooks_lib.FinalOps(dict(values))
    each = Batches([*hooks, final], update_op)
    tf1.logging.info("Starting evaluation at %s", time.strftime("%Y-%m-%dT%H:%M:%S"))
    start = time.monotonic()
    with errors.explained(tf1.get_default_graph()):
        stored_tables.fit_session(session_scaffold, checkpoint)
        graph = tf1.get_default_graph()
        with checkpoint_state.restoring(checkpoint), huge_pages.asked_for(graph):
            session = tf1.train.MonitoredSession(
                session_creator=tf1.train.ChiefSessionCreator(
                    checkpoint_filename_with_path=checkpoint,
                    master=config.evaluation_master,
                    scaffold=session_scaffold,
                    config=config.session_config,
                ),
                hooks=[*hooks, final],
            )
        with session:
            _loop(session, each, input_fn)
    tf1.logging.info("Inference Time : %.5fs", time.monotonic() - start)
    tf1.logging.info("Finished evaluation at %s", time.strftime("%Y-%m-%d-%H:%M:%S"))
    return dict(final.final_ops_values)


def _loop(session: Any, each: Batches, input_fn: Callable[..., Any]) -> None:
    while not session.should_stop():
        try:
            each.run_some(session)
        except (tf.errors.OutOfRangeError, StopIteration) as end:
            if each.done:
                raise  # The session takes this for the end of the input.
            raise input_pipeline.nothing_read(input_fn, "evaluate") from end


def write_summaries(output_dir: str, values: Mapping[str, Any], checkpoint: str | None) -> None:
    """Logs the metrics, and writes them where TensorBoard finds them.

    Args:
        output_dir: directory of the event file.
        values: from `run`.
        checkpoint: the checkpoint that they belong to.
    """
    step = int(values[_GLOBAL_STEP])
    shown = (f"{k} = {values[k]}" for k in sorted(values) if not isinstance(values[k], bytes))
    tf1.logging.info("Saving dict for global step %d: %s", step, ", ".join(shown))
    summary = tf1.Summary()
    for name, value in values.items():
        if name != _GLOBAL_STEP and value is not None:
            _add(summary, name, value)
    writer = tf1.summary.FileWriterCache.get(output_dir)
    writer.add_summary(summary, step)
    if checkpoint:
        tf1.logging.info(
            "Saving 'checkpoint_path' summary for global step %d: %s", step, checkpoint
        )
        path = tf.make_tensor_proto(checkpoint, dtype=tf.string)
        writer.add_summary(
            tf1.Summary(value=[tf1.Summary.Value(tag="checkpoint_path", tensor=path)]), step
        )
    writer.flush()


def _add(summary: Any, name: str, value: Any) -> None:
    """Adds one metric: a number, a serialized summary of the user's, or an array."""
    if isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
        summary.value.add(tag=name, simple_value=float(value))
    elif isinstance(value, bytes):
        try:
            parts = tf1.Summary.FromString(value).value
        except Exception:  # protobuf's DecodeError differs between its implementations.
            tf1.logging.warning("Skipping summary for %s, cannot parse string to Summary.", name)
            return
        for number, part in enumerate(parts):
            part.tag = f"{name}/{number}"
        summary.value.extend(parts)
    elif isinstance(value, np.ndarray):
        summary.value.add(tag=name, node_name=name, tensor=tf.make_tensor_proto(value))
        tf1.logging.info(
            "The summary of the array %s is not visible in TensorBoard without a plugin.", name
        )
    else:
        tf1.logging.warning(
            "Skipping summary for %s: it must be a number, an array or a serialized Summary, "
            "not a %s.",
            name,
            type(value).__name__,
        )
