# SPDX-License-Identifier: Apache-2.0
"""A TPU's way of running: several steps in one session call, on one or more replicas.

    iterator ─▶ parts of a batch ─▶ one step on all replicas ─▶ host call
    └──────────────── a while loop of n steps ────────────────┘

Evaluation and prediction run a batch on all replicas in one session call, and what is for the host
there.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.config.tpu_config import check_positive_integer, parse_iterations_per_loop
from estimator_spec.driver.replica_inputs import ReplicaInputs
from estimator_spec.driver.replicas import Replicas, Step
from estimator_spec.model import host_call as host_call_lib
from estimator_spec.model.model_spec import EstimatorSpec, ModeKeys
from tpu_columns import lookup_errors

tf1 = tf.compat.v1

_LENGTH = "steps_of_this_loop"
_LONGEST = 100_000  # steps of a loop that lasts a given time


def check(replicas: Any, use_tpu: bool, batch_sizes: dict[str, int | None]) -> None:
    """Refuses replicas on the host that can't be.

    Args:
        replicas: how many.
        use_tpu: whether the program runs on a TPU.
        batch_sizes: examples of a step, by 'train', 'eval' and 'predict'.

    Raises:
        TypeError: a number of replicas that is none.
        ValueError: the message says what.
    """
    check_positive_integer(replicas, "host_replicas")
    if use_tpu:
        raise ValueError("host_replicas runs a TPU's loop on the host. Set use_tpu=False.")
    for name, size in batch_sizes.items():
        if size is not None and size % replicas:
            raise ValueError(
                f"{name} batch size {size} must be divisible by number of replicas {replicas}."
            )


class LoopLimit(NamedTuple):
    """How long one session call of training may last.

    Attributes:
        steps: most steps of it.
        seconds: how long it should last; None: the number of steps decides.
    """

    steps: int
    seconds: int | None = None


def limit_of(tpu_config: Any) -> LoopLimit:
    """What `TPUConfig.iterations_per_loop` says.

    Args:
        tpu_config: the `TPUConfig`.
    """
    given = parse_iterations_per_loop(tpu_config.iterations_per_loop)
    return LoopLimit(given.value) if given.unit == "count" else LoopLimit(_LONGEST, given.value)


def train(replicas: Replicas, batches: ReplicaInputs, limit: LoopLimit, every: int) -> Any:
    """Builds a loop of training steps in the current graph.

    Args:
        replicas: of this graph.
        batches: their inputs.
        limit: most steps of the loop.
        every: steps between two host calls.

    Returns:
        The `EstimatorSpec` of a whole loop. Its loss is the last step's, the mean over replicas.
    """
    length = tf1.placeholder_with_default(limit.steps, [], _LENGTH)
    sites: list[Any] = []
    steps: list[Step] = []

    def body(done: Any, loss: Any) -> tuple[Any, Any]:
        del loss
        step = replicas.step(batches.next())
        steps.append(step)
        ops = [*step.ops, *_host_call(step, done, every)]
        sites.extend(tf1.get_collection(lookup_errors.LOOKUP_SITES))
        with tf.control_dependencies([*ops, step.loss]):
            return done + 1, tf.identity(step.loss)

    with _functional_loops():
        done, loss = tf.while_loop(
            lambda done, loss: done < length,
            body,
            [tf.constant(0), tf.constant(0.0)],
            parallel_iterations=1,
            name="training_loop",
        )
    # A loop's body is a graph of its own; errors are explained by the one around it.
    tf1.get_default_graph().get_collection_ref(lookup_errors.LOOKUP_SITES).extend(sites)
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


def evaluate(replicas: Replicas, batches: ReplicaInputs) -> Any:
    """Builds the evaluation of a batch on all replicas; metrics are computed on the host.

    Args:
        replicas: of this graph.
        batches: their inputs.

    Returns:
        The `EstimatorSpec`.
    """
    step = replicas.step(batches.next())
    with tf.control_dependencies(step.ops):
        loss = tf.identity(step.loss)
    metrics = host_call_lib.run("eval_metrics", step.eval_metrics)
    hooks = [*step.spec.evaluation_hooks]
    if step.host_call is not None:
        hooks.append(host_call_lib.HostCallHook(host_call_lib.run("host_call", step.host_call)))
    return EstimatorSpec(
        mode=ModeKeys.EVAL,
        loss=loss,
        eval_metric_ops=metrics,
        scaffold=_scaffold(step),
        evaluation_hooks=hooks,
    )


def predict(replicas: Replicas, batches: ReplicaInputs) -> Any:
    """Builds the predictions of a batch on all replicas, less those of its padding.

    Args:
        replicas: of this graph.
        batches: their inputs.

    Returns:
        The `EstimatorSpec`.
    """
    parts = batches.next()
    step = replicas.step(parts)
    assert step.predictions is not None
    real = [
        predictions
        if part.examples is None
        else tf.nest.map_structure(lambda t, part=part: t[: part.examples], predictions)
        for part, predictions in zip(parts, step.predictions, strict=True)
    ]
    with tf.control_dependencies(step.ops):
        together = tf.nest.map_structure(lambda *values: tf.concat(values, 0), *real)
    hooks = [*step.spec.prediction_hooks]
    if step.host_call is not None:
        hooks.append(host_call_lib.HostCallHook(host_call_lib.run("host_call", step.host_call)))
    return EstimatorSpec(
        mode=ModeKeys.PREDICT,
        predictions=together,
        scaffold=_scaffold(step),
        prediction_hooks=hooks,
    )


class LoopLength(tf1.train.SessionRunHook):
    """Ends the training at a step, and sets the length of each loop.

    Args:
        limit: most steps of one loop.
        steps: how many steps to make, or None.
        max_steps: the global step to stop at, or None.

    Raises:
        ValueError: neither is given.
    """

    def __init__(self, limit: LoopLimit, steps: int | None, max_steps: int | None) -> None:
        if steps is None and max_steps is None:
            raise ValueError(
                "For TPU training, one of `steps` or `max_steps` must be set. Cannot be both "
                "`None`: a loop must know how many steps it makes."
            )
        self._limit = limit
        # What takes how long isn't known yet: a first loop of one step tells.
        self._next = limit.steps if limit.seconds is None else 1
        self._steps = steps
        self._last = max_steps

    def begin(self) -> None:
        """Finds the tensors."""
        self._step = tf1.train.get_global_step()
        self._length = tf1.get_default_graph().get_tensor_by_name(f"{_LENGTH}:0")

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Finds out where the training begins."""
        del coord
        self._now = int(session.run(self._step))
        if self._last is None:
            assert self._steps is not None
            self._last = self._now + self._steps

    def before_run(self, run_context: Any) -> Any:
        """Sets the length of the loop."""
        del run_context
        assert self._last is not None
        length = max(0, min(self._next, self._last - self._now))
        self._began = time.monotonic()
        return tf1.train.SessionRunArgs(self._step, feed_dict={self._length: length})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Stops at the last step."""
        del run_values
        before, self._now = self._now, int(run_context.session.run(self._step))
        if self._last is not None and self._now >= self._last:
            run_context.request_stop()
        if self._limit.seconds is not None and self._now > before:
            each = (time.monotonic() - self._began) / (self._now - before)
            # The first steps are slow, so that a loop may be too short, but never far too long.
            wanted = min(int(self._limit.seconds / max(each, 1e-6)), 10 * (self._now - before))
            self._next = max(1, min(wanted, self._limit.steps))


def _host_call(step: Step, done: Any, every: int) -> list[Any]:
    """Calls the host's function on the tensors of all replicas, in every n-th step."""
    if step.host_call is None:
        return []

    def call() -> Any:
        fetches = host_call_lib.run("host_call", step.host_call)
        ops = [] if fetches is None else tf.nest.flatten(fetches)
        with tf.control_dependencies(ops):
            return tf.constant(True)

    return [call() if every == 1 else tf.cond(tf.equal(done % every, 0), call, lambda: False)]


def _scaffold(step: Step) -> Any:
    scaffold_fn = getattr(step.returned, "scaffold_fn", None)
    return scaffold_fn() if scaffold_fn else getattr(step.spec, "scaffold", None)


class _functional_loops:
    """Within, `tf.while_loop` makes a loop whose body is a function, also in programs of TF1.

    The other kind can't hold a TPU's computation.
    """

    def __enter__(self) -> None:
        self._was = tf1.control_flow_v2_enabled()
        if not self._was:
            tf1.enable_control_flow_v2()

    def __exit__(self, *exc_info: object) -> None:
        if not self._was:
            tf1.disable_control_flow_v2()
