# SPDX-License-Identifier: Apache-2.0
"""Evaluates the model of an `EstimatorSpec` in a monitored session."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.core import updates
from estimator_spec.core.driver import checkpoint_state, input_pipeline, saving, sessions
from estimator_spec.core.driver import hooks as hooks_lib
from estimator_spec.core.driver.graph_builder import BuiltGraph, RunSetup, warm_start
from estimator_spec.core.driver.hookless_steps import BatchRunner
from estimator_spec.core.updates import dependencies
from estimator_spec.core.user_functions.model_spec import ModeKeys
from tpu_columns.optimizations import Optimization

tf1 = tf.compat.v1

_LOSS = "loss"
_GLOBAL_STEP = tf1.GraphKeys.GLOBAL_STEP


def evaluate(
    setup: RunSetup,
    input_fn: Callable[..., Any],
    hooks: Sequence[tf1.train.SessionRunHook],
    checkpoint_path: str | None,
    output_dir: str,
) -> dict[str, Any]:
    """Builds the graph of an evaluation, runs it and writes its summaries; returns the metrics.

    Args:
        setup: the estimator's.
        input_fn: the user's function.
        hooks: the user's hooks, and those that end the evaluation.
        checkpoint_path: prefix of the checkpoint. None: the latest.
        output_dir: directory of the summaries.
    """
    checkpoint = setup.find_checkpoint("evaluate", checkpoint_path)
    with tf.Graph().as_default() as graph:
        checkpoint_state.record_for_graph(checkpoint)
        evaluation = EvaluationGraph(setup, input_fn, hooks)
        updates.optimize_inference_graph(graph, setup.optimizations)
        warm_start(setup.warm_start, checkpoint)
        with evaluation.built.running():
            scaffold = add_default_local_init(evaluation.built.spec.scaffold)
            results = evaluation.run(scaffold, checkpoint)
        write_summaries(output_dir, results, checkpoint)
    return results


@dataclasses.dataclass(eq=False)
class EvaluationGraph:
    """Model and metrics of an evaluation, built in the default graph.

    Args:
        setup: the estimator's.
        input_fn: the user's function.
        hooks: the user's hooks, and those that end the evaluation.
        one_device: whether the model has no replicas.

    Attributes:
        built: what the estimator has built.

    Raises:
        ValueError: a metric of the model is called `loss` or `global_step`.
    """

    setup: RunSetup
    input_fn: Callable[..., Any]
    hooks: Sequence[tf1.train.SessionRunHook]
    one_device: bool = False

    def __post_init__(self) -> None:
        graph = tf1.get_default_graph()
        self.built = self.setup.build(graph, self.input_fn, ModeKeys.EVAL, self.one_device)
        self._update_op, self._values = _metric_ops(self.built)

    def run(
        self, scaffold: tf1.train.Scaffold | None, checkpoint: str | None = None
    ) -> dict[str, Any]:
        """Evaluates until a hook requests a stop or the input ends; returns the metrics.

        Args:
            scaffold: the scaffold from `add_default_local_init`.
            checkpoint: the checkpoint to restore; None initializes the variables.

        Raises:
            ValueError: the input is empty.
            CheckpointError: the checkpoint can't be restored.
            tf.errors.InvalidArgumentError: an id outside its table, among others.
        """
        config, final = self.built.config, hooks_lib.FinalOps(self._values)
        hooks = [*self.built.hooks, *self.hooks, *self.built.spec.evaluation_hooks, final]
        skip_hooks = Optimization.SKIPPED_HOOKS in self.setup.optimizations
        batches = BatchRunner(hooks, self._update_op, skip_hooks)
        tf1.logging.info("Starting evaluation at %s", time.strftime("%Y-%m-%dT%H:%M:%S"))
        start = time.monotonic()
        with sessions.open_non_training_session(
            tf1.get_default_graph(),
            scaffold,
            checkpoint,
            config.evaluation_master,
            config.session_config,
            hooks,
        ) as session:
            while not session.should_stop():
                try:
                    batches.run_batches(session)
                except (tf.errors.OutOfRangeError, StopIteration) as end:
                    if batches.done:
                        raise  # The session treats this as the end of the input.
                    raise input_pipeline.empty_input_error(self.input_fn, "evaluate") from end
        tf1.logging.info("Inference Time : %.5fs", time.monotonic() - start)
        tf1.logging.info("Finished evaluation at %s", time.strftime("%Y-%m-%d-%H:%M:%S"))
        return dict(final.final_ops_values)


def _metric_ops(built: BuiltGraph) -> tuple[Any, dict[str, Any]]:
    """Returns the op that updates all metrics, and the tensors of their values by name.

    The names include `loss`, the mean over the batches, and `global_step`.
    """
    metrics = dict(built.spec.eval_metric_ops or {})
    _check_unused(_LOSS, metrics)
    metrics[_LOSS] = tf1.metrics.mean(built.spec.loss, built.loss_weight)
    _check_unused(_GLOBAL_STEP, metrics)
    # Sorted, so that every build of the graph is the same.
    names = sorted(metrics)
    values = {name: metrics[name][0] for name in names}
    values[_GLOBAL_STEP] = tf1.train.get_global_step()
    count = _batch_counter().assign_add(1)
    return tf.group(*[metrics[name][1] for name in names], count), values


def _batch_counter() -> Any:
    """Returns TensorFlow's count of evaluated batches, which hooks read; the model may have it."""
    for counter in tf1.get_collection(tf1.GraphKeys.EVAL_STEP):
        return counter
    return tf1.get_variable(
        "eval_step",
        shape=[],
        dtype=tf.int64,
        initializer=tf1.zeros_initializer(),
        trainable=False,
        collections=[tf1.GraphKeys.LOCAL_VARIABLES, tf1.GraphKeys.EVAL_STEP],
    )


def _check_unused(name: str, metrics: Mapping[str, Any]) -> None:
    """Checks that no metric has this name."""
    if name in metrics:
        raise ValueError(
            f"Metric with name `{name}` is not allowed, because Estimator already defines a "
            "default metric with the same name. Give yours another name."
        )


def add_default_local_init(scaffold: tf1.train.Scaffold | None) -> Any:
    """Returns a scaffold whose local_init_op initializes the metrics, too.

    The ops of one run have no order, so a variable that the model's local_init_op assigns isn't
    also given its initial value.

    Args:
        scaffold: the scaffold of the `EstimatorSpec` of the default graph, or None.

    Returns:
        `scaffold` itself if it has no local_init_op, because metrics are local variables, which a
        session then initializes.
    """
    if not (scaffold and scaffold.local_init_op):
        return scaffold
    own = dependencies.collect_ancestors(scaffold.local_init_op)
    assigned = {op.inputs[0].op for op in own if op.type in dependencies.ASSIGNMENTS}
    others = [variable for variable in tf1.local_variables() if variable.op not in assigned]
    resources = tf1.get_collection(tf1.GraphKeys.LOCAL_RESOURCES)
    both = tf.group(
        scaffold.local_init_op,
        tf1.variables_initializer(others),
        tf1.tables_initializer(),
        *[resource.create for resource in resources],
    )
    return tf1.train.Scaffold(local_init_op=both, copy_from_scaffold=scaffold)


def write_summaries(output_dir: str, values: Mapping[str, Any], checkpoint: str | None) -> None:
    """Logs the metrics, and writes them to an event file.

    Args:
        output_dir: directory of the event file.
        values: the metrics.
        checkpoint: the evaluated checkpoint, or None.

    Raises:
        OSError: the event file can't be written.
    """
    step = int(values[_GLOBAL_STEP])
    tf1.logging.info("Saving dict for global step %d: %s", step, as_text(values))
    summary = tf1.Summary()
    for name, value in values.items():
        if name != _GLOBAL_STEP and value is not None:
            _add_value(summary, name, value)
    _write(output_dir, summary, step)
    if checkpoint:
        write_checkpoint_path(output_dir, checkpoint, step)


def _write(output_dir: str, summary: Any, step: int) -> None:
    """Writes a summary to the event file of a directory."""
    with saving.explain_write_errors():
        writer = tf1.summary.FileWriterCache.get(output_dir)
        writer.add_summary(summary, step)
        writer.flush()


def as_text(dictionary: Mapping[str, Any]) -> str:
    """Returns metrics as text, sorted by name, without serialized summaries.

    >>> as_text({'loss': 0.5, 'accuracy': 1.0, 'images': b''})
    'accuracy = 1.0, loss = 0.5'
    """
    return ", ".join(
        f"{k} = {dictionary[k]}" for k in sorted(dictionary) if not isinstance(dictionary[k], bytes)
    )


def write_checkpoint_path(output_dir: str, checkpoint_path: str, current_global_step: int) -> None:
    """Logs the path of an evaluated checkpoint, and writes it to an event file.

    Args:
        output_dir: directory of the event file.
        checkpoint_path: the path.
        current_global_step: the checkpoint's global step.
    """
    tf1.logging.info(
        "Saving 'checkpoint_path' summary for global step %d: %s",
        current_global_step,
        checkpoint_path,
    )
    value = tf1.Summary.Value(
        tag="checkpoint_path", tensor=tf.make_tensor_proto(checkpoint_path, dtype=tf.string)
    )
    _write(output_dir, tf1.Summary(value=[value]), current_global_step)


def _add_value(summary: Any, name: str, value: Any) -> None:
    """Adds a metric to a summary: a number, a serialized summary, or an array."""
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
