# SPDX-License-Identifier: Apache-2.0
"""Random models: drawn by a seed, built as a graph with or without optimizations, and trained."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import lookups
import optimizers
from estimator_spec.core import updates
from tpu_columns import optimizations, placement

tf1 = tf.compat.v1

BATCH, STEPS = 5, 4


@dataclasses.dataclass(frozen=True)
class Model:
    """A model; every field is drawn from the seed.

    Attributes:
        seed: seed of the model and of its batches.
        lookups: what is looked up, and how.
        optimizer: key of `optimizers.OPTIMIZERS`.
        second_optimizer: that of the variables that aren't tables; None for the same one.
        clipping: key of `optimizers.CLIPPINGS`.
        accumulates: whether gradients are added up, and applied in every second step.
        decays: whether the learning rate depends on the global step.
        averages: whether moving averages of all variables are updated.
        use_resource: resource variables, or else reference variables.
        control_flow_v2: whether `tf.cond` and `tf.while_loop` create functions.
        dtype: name of the dtype of all variables.
        known_batch: whether the batch size is static.
    """

    seed: int
    lookups: tuple[lookups.Lookup, ...]
    optimizer: str
    second_optimizer: str | None
    clipping: str
    accumulates: bool
    decays: bool
    averages: bool
    use_resource: bool
    control_flow_v2: bool
    dtype: str
    known_batch: bool

    def __str__(self) -> str:
        both = f" and {self.second_optimizer}" if self.second_optimizer else ""
        flags = ("accumulates", "decays", "averages", "control_flow_v2", "known_batch")
        parts = [
            *(f"{self.optimizer}{both}", f"clipping {self.clipping}", self.dtype),
            "resource variables" if self.use_resource else "reference variables",
            *(flag for flag in flags if getattr(self, flag)),
            *map(str, self.lookups),
        ]
        return f"seed {self.seed}: " + ", ".join(parts)

    @property
    def tolerance(self) -> float:
        """Largest difference, relative and absolute: rounding alone.

        Roots of small sums enlarge it.
        """
        if self.dtype != "float32":
            return {"bfloat16": 0.0, "float64": 1e-12}[self.dtype]
        chosen = f"{self.optimizer} {self.second_optimizer}"
        return 1e-5 if any(name in chosen for name in ("Adam", "Nadam", "Ftrl", "RMS")) else 1e-6


def draw(seed: int) -> Model:
    """Returns the model of a seed."""
    rng = np.random.default_rng([17, seed])
    dtype = str(rng.choice(["float32"] * 6 + ["bfloat16", "float64"]))
    use_resource = bool(rng.random() < 0.6)

    def some_optimizer() -> str:
        return str(rng.choice(optimizers.names(dtype, use_resource)))

    # Norms have no kernel for bfloat16.
    clippings = list(optimizers.CLIPPINGS) if dtype != "bfloat16" else ["none"]
    return Model(
        seed=seed,
        lookups=tuple(lookups.draw(rng, dtype, use_resource, i) for i in range(rng.integers(1, 4))),
        optimizer=some_optimizer(),
        second_optimizer=some_optimizer() if rng.random() < 0.25 else None,
        clipping=str(rng.choice(clippings)) if rng.random() < 0.5 else "none",
        accumulates=bool(rng.random() < 0.2),
        decays=bool(rng.random() < 0.3),
        averages=bool(rng.random() < 0.2),
        use_resource=use_resource,
        # Functions can't assign reference variables.
        control_flow_v2=bool(rng.random() < 0.5 and use_resource),
        dtype=dtype,
        known_batch=bool(rng.random() < 0.5),
    )


class Trained(NamedTuple):
    """What a training gives.

    Attributes:
        variables: all variables, by name.
        losses: loss of each step.
        kinds: types of the graph's ops.
    """

    variables: dict[str, np.ndarray]
    losses: list[float]
    kinds: set[str]


def train(model: Model, fast: bool) -> Trained:
    """Trains a model.

    Args:
        model: the model.
        fast: whether all optimizations are used, or none.
    """
    chosen = optimizations.choose(plain=not fast)
    with _building(model, placement.Mode.TRAIN, chosen) as graph:
        loss, feeds = _loss(model)
        train_op = _train_op(model, loss)
        if fast:
            train_op = updates.optimize_training_graph(graph, train_op, chosen=chosen)
        with tf1.Session() as session:
            _initialize(model, session)
            losses = []
            for step in range(STEPS):
                losses.append(float(session.run([loss, train_op], feeds(step))[0]))
            variables = tf1.global_variables()
            values = session.run({v.op.name: v for v in variables})
    return Trained(values, losses, {op.type for op in graph.get_operations()})


def evaluate(model: Model, fast: bool) -> float:
    """Returns the loss of a batch in a graph without training; arguments as for `train`."""
    chosen = optimizations.choose(plain=not fast)
    with _building(model, placement.Mode.EVAL, chosen) as graph:
        loss, feeds = _loss(model)
        if fast:
            updates.optimize_inference_graph(graph, chosen)
        with tf1.Session() as session:
            _initialize(model, session)
            return float(session.run(loss, feeds(0)))


@contextlib.contextmanager
def _building(model: Model, mode: placement.Mode, chosen: Any) -> Iterator[tf.Graph]:
    """Enters a new graph and the settings of a model."""
    was_v2 = tf1.control_flow_v2_enabled()
    (tf1.enable_control_flow_v2 if model.control_flow_v2 else tf1.disable_control_flow_v2)()
    try:
        with (
            tf.Graph().as_default() as graph,
            optimizations.using(chosen),
            placement.running(mode, placement.Hardware.CPU),
            tf1.variable_scope("", use_resource=model.use_resource),
        ):
            yield graph
    finally:
        (tf1.enable_control_flow_v2 if was_v2 else tf1.disable_control_flow_v2)()


def _loss(model: Model) -> tuple[Any, Callable[[int], dict[Any, Any]]]:
    """Builds a model; returns its loss and a function that returns a step's feeds."""
    tf1.train.get_or_create_global_step()
    size = BATCH if model.known_batch else None
    inputs = [each.inputs(size) for each in model.lookups]
    outputs = [each.look_up(given) for each, given in zip(model.lookups, inputs, strict=True)]
    x = tf.concat([output for output in outputs if output is not None], 1)
    x.set_shape([None, sum(each.output_width for each in model.lookups)])
    kernel, bias = (
        tf1.get_variable(name, shape, model.dtype, tf1.zeros_initializer())
        for name, shape in (("kernel", [x.shape[1], 2]), ("bias", [2]))
    )
    logits = tf.matmul(x, kernel) + bias
    loss = tf.reduce_mean(tf.square(tf.tanh(logits) - tf.constant(0.3, model.dtype)))

    def feeds(step: int) -> dict[Any, Any]:
        found = {}
        for i, (each, given) in enumerate(zip(model.lookups, inputs, strict=True)):
            rng = np.random.default_rng([17, model.seed, step, i])
            found |= each.feeds(given, rng, BATCH)
        return found

    return loss, feeds


def _train_op(model: Model, loss: Any) -> Any:
    """Builds the updates of a model."""
    global_step = tf1.train.get_global_step()
    rate: Any = 0.1
    if model.decays:
        rate = tf1.train.exponential_decay(0.1, global_step, 2, 0.9)
    variables = tf1.trainable_variables()
    tables = [v for v in variables if v.op.name not in ("kernel", "bias")]
    if model.second_optimizer is None:
        groups = [(model.optimizer, variables)]
    else:
        others = [v for v in variables if v.op.name in ("kernel", "bias")]
        groups = [(model.optimizer, tables), (model.second_optimizer, others)]
    gradients = tf.gradients(loss, variables)
    gradients = optimizers.clip(model.clipping, gradients)
    named = {v.op.name: g for v, g in zip(variables, gradients, strict=True)}
    # A reference variable's update must not run before all gradients that read it.
    with tf.control_dependencies([part for g in gradients for part in _tensors(g)]):
        if model.accumulates:
            train_op = optimizers.apply_every_second_step(groups, named, rate, global_step)
        else:
            train_op = optimizers.apply(groups, named, rate)
    with tf.control_dependencies([train_op]):
        ops = [tf1.assign_add(global_step, 1).op]
        if model.averages:
            ops.append(tf1.train.ExponentialMovingAverage(0.9).apply(variables))
        return tf.group(*ops)


def _tensors(gradient: Any) -> list[Any]:
    if isinstance(gradient, tf.IndexedSlices):
        return [gradient.values, gradient.indices]
    return [gradient]


def _initialize(model: Model, session: Any) -> None:
    """Initializes all variables; the trainable ones with random numbers."""
    rng = np.random.default_rng([17, model.seed])
    values = {}
    for variable in tf1.trainable_variables():
        value = rng.uniform(-1, 1, variable.shape.as_list())
        initial = variable.initializer.inputs[1]
        values[initial] = value.astype(variable.dtype.base_dtype.as_numpy_dtype)
    session.run([tf1.global_variables_initializer(), tf1.tables_initializer()], values)
