# SPDX-License-Identifier: Apache-2.0
"""Builds the graphs of runs on replicas: a training loop of several steps per session call.

    iterator ─▶ batches of the replicas ─▶ one step on all replicas ─▶ host call
    └──────────────────── a while loop of n steps ──────────────────┘

Evaluation and prediction run one batch on all replicas per session call; metrics and host calls
run on the host.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core import updates
from estimator_spec.core._tensorflow import private
from estimator_spec.core.driver import tpu_inputs
from estimator_spec.core.driver.replica_inputs import ReplicaInputs
from estimator_spec.core.driver.replicas import ReplicaStep, ReplicatedModel
from estimator_spec.core.run_config.tpu_config import TPUConfig, parse_iterations_per_loop
from estimator_spec.core.user_functions import host_call as host_call_lib
from estimator_spec.core.user_functions.model_spec import EstimatorSpec, ModeKeys
from tpu_columns import engine, optimizations, shared_state

tf1 = tf.compat.v1

_LENGTH = "steps_of_this_loop"
_MOST_STEPS = 100_000  # of a loop whose duration is given


class LoopLimit(NamedTuple):
    """The length of one session call of training.

    Attributes:
        steps: maximum number of steps.
        seconds: target duration; None: only the number of steps counts.
    """

    steps: int
    seconds: int | None = None


def parse_loop_limit(tpu_config: TPUConfig) -> LoopLimit:
    """Returns the loop length that `TPUConfig.iterations_per_loop` sets."""
    given = parse_iterations_per_loop(tpu_config.iterations_per_loop)
    return LoopLimit(given.value) if given.unit == "count" else LoopLimit(_MOST_STEPS, given.value)


def train(
    replicas: ReplicatedModel, batches: ReplicaInputs, limit: LoopLimit, every: int
) -> EstimatorSpec:
    """Builds a loop of training steps in the current graph.

    Args:
        replicas: the replicas of the current graph.
        batches: the inputs of the replicas.
        limit: length of the loop.
        every: steps between two host calls.

    Returns:
        The `EstimatorSpec` of a whole loop. Its loss is the last step's mean loss of all replicas.
    """
    length = tf1.placeholder_with_default(limit.steps, [], _LENGTH)
    sites: list[Any] = []
    steps: list[ReplicaStep] = []

    def body(done: Any, loss: Any) -> tuple[Any, Any]:
        engine.record_loop_body()
        step = replicas.step(batches.next())
        steps.append(step)
        ops = [*step.ops, *_host_call_in_loop(step, done, every)]
        sites.extend(tf1.get_collection(shared_state.LOOKUP_SITES))
        with tf.control_dependencies([*ops, step.loss]):
            ends = done + 1, tf.identity(step.loss)
        chosen = optimizations.current()
        updates.optimize_training_graph(ends[0].graph, ends[0].op, chosen)
        return ends

    # A functional loop: others can't contain a TPU's computation.
    done, loss = private.while_v2.while_loop(
        lambda done, loss: done < length,
        body,
        [tf.constant(0), tf.constant(0.0)],
        parallel_iterations=1,
        name="training_loop",
    )
    # The loop's body is a graph of its own, but errors are explained from the outer graph.
    tf1.get_default_graph().get_collection_ref(shared_state.LOOKUP_SITES).extend(sites)
    (step,) = steps
    hooks = [*step.spec.training_hooks]
    if step.host_call is not None:
        hooks.append(host_call_lib.HostCallHook(None))
    return EstimatorSpec(
        mode=ModeKeys.TRAIN,
        loss=loss,
        train_op=tf.group(done),
        scaffold=_scaffold(step),
        training_hooks=hooks,
        training_chief_hooks=[*step.spec.training_chief_hooks],
    )


def evaluate(replicas: ReplicatedModel, batches: ReplicaInputs) -> tuple[EstimatorSpec, Any]:
    """Builds the evaluation of a batch on all replicas; metrics are computed on the host.

    Returns:
        The `EstimatorSpec`, and the weight of its loss in the mean over the batches.
    """
    step = replicas.step(batches.next())
    with tf.control_dependencies(step.ops):
        loss = tf.identity(step.loss)
    metrics = host_call_lib.run("eval_metrics", step.eval_metrics)
    hooks = [*step.spec.evaluation_hooks, *_host_call_hooks(step)]
    spec = EstimatorSpec(
        mode=ModeKeys.EVAL,
        loss=loss,
        eval_metric_ops=metrics,
        scaffold=_scaffold(step),
        evaluation_hooks=hooks,
    )
    return spec, step.loss_weight


def predict(replicas: ReplicatedModel, batches: ReplicaInputs) -> EstimatorSpec:
    """Builds the predictions of a batch on all replicas, without those of its padding.

    Raises:
        ValueError: a prediction is a scalar, so the replicas' can't be concatenated.
    """
    parts = batches.next()
    step = replicas.step(parts)
    assert step.predictions is not None
    _check_batch_dimension(step.predictions[0])
    if replicas.check_inputs is not None:
        tpu_inputs.check_static_predictions(step.predictions[0])
    real = [
        outputs
        if part.examples is None
        else tf.nest.map_structure(lambda t, part=part: t[: part.examples], outputs)
        for part, outputs in zip(parts, step.predictions, strict=True)
    ]
    with tf.control_dependencies(step.ops):
        predictions = tf.nest.map_structure(lambda *values: tf.concat(values, 0), *real)
    hooks = [*step.spec.prediction_hooks, *_host_call_hooks(step)]
    return EstimatorSpec(
        mode=ModeKeys.PREDICT,
        predictions=predictions,
        scaffold=_scaffold(step),
        prediction_hooks=hooks,
    )


def _check_batch_dimension(predictions: Any) -> None:
    """Checks that the predictions of a replica can be put after those of another one."""
    named = isinstance(predictions, Mapping)
    for name, tensor in predictions.items() if named else [("", predictions)]:
        if tensor.shape.rank == 0:
            raise ValueError(
                f"The prediction{f' {name!r}' if named else ''} has no batch dimension, and the "
                "predictions of several replicas are put one after the other: give it a value for "
                "each example. Without replicas (host_replicas=None, use_tpu=False), "
                "yield_single_examples=False gets each batch as it is."
            )


class LoopLengthHook(tf1.train.SessionRunHook):
    """Ends the training at a step, and sets the length of each loop.

    Args:
        limit: length of one loop.
        steps: number of steps of the training, or None.
        max_steps: global step to stop at, or None.

    Raises:
        ValueError: neither `steps` nor `max_steps` is given.
    """

    def __init__(self, limit: LoopLimit, steps: int | None, max_steps: int | None) -> None:
        if steps is None and max_steps is None:
            raise ValueError(
                "For TPU training, one of `steps` or `max_steps` must be set. Cannot be both "
                "`None`: a loop must know how many steps it makes."
            )
        self._limit = limit
        # The first loop has one step, whose duration gives the length of the next loop.
        self._next = limit.steps if limit.seconds is None else 1
        self._steps = steps
        self._last = max_steps

    def begin(self) -> None:
        """Finds the global step and the loop length in the graph."""
        self._step = tf1.train.get_global_step()
        self._length = tf1.get_default_graph().get_tensor_by_name(f"{_LENGTH}:0")

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Reads the global step that the training starts from."""
        self._now = int(session.run(self._step))
        if self._last is None:
            assert self._steps is not None
            self._last = self._now + self._steps

    def before_run(self, run_context: Any) -> Any:
        """Sets the length of the next loop."""
        assert self._last is not None
        # Numbers of steps may be floats, which end like the next integer.
        length = math.ceil(max(0, min(self._next, self._last - self._now)))
        self._began = time.monotonic()
        return tf1.train.SessionRunArgs(self._step, feed_dict={self._length: length})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Stops at the last step; adapts the loop length to its duration."""
        before, self._now = self._now, int(run_context.session.run(self._step))
        if self._last is not None and self._now >= self._last:
            run_context.request_stop()
        if self._limit.seconds is not None and self._now > before:
            each = (time.monotonic() - self._began) / (self._now - before)
            # The first steps are slow: a loop may be too short, but must not be much too long.
            wanted = min(int(self._limit.seconds / max(each, 1e-6)), 10 * (self._now - before))
            self._next = max(1, min(wanted, self._limit.steps))


def _host_call_in_loop(step: ReplicaStep, done: Any, every: int) -> list[Any]:
    """Returns the op of the host call, which runs in every n-th step, in a list."""
    if step.host_call is None:
        return []

    def call() -> Any:
        fetches = host_call_lib.run("host_call", step.host_call)
        ops = [] if fetches is None else tf.nest.flatten(fetches)
        with tf.control_dependencies(ops):
            return tf.constant(True)

    return [call() if every == 1 else tf.cond(tf.equal(done % every, 0), call, lambda: False)]


def _host_call_hooks(step: ReplicaStep) -> list[Any]:
    """Returns the hook that runs the host call of an evaluation or prediction, in a list."""
    if step.host_call is None:
        return []
    return [host_call_lib.HostCallHook(host_call_lib.run("host_call", step.host_call))]


def _scaffold(step: ReplicaStep) -> Any:
    """Returns the scaffold of the first replica's result, or None."""
    scaffold_fn = getattr(step.result, "scaffold_fn", None)
    return scaffold_fn() if scaffold_fn else getattr(step.spec, "scaffold", None)
