# SPDX-License-Identifier: Apache-2.0
"""Builds the graphs of runs with a `MirroredStrategy` or a `MultiWorkerMirroredStrategy`.

A session call makes one step on all replicas. Each replica takes the next batch of its process'
dataset. A last step without a batch for every replica of the process isn't trained on; in an
evaluation the replicas that have one count it. Processes of a `MultiWorkerMirroredStrategy` each
have such a graph, whose collectives wait for the others.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Collection, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import collectives, graph_surgery, private
from estimator_spec.core.cluster import roles
from estimator_spec.core.common import legacy_keras
from estimator_spec.core.cores.interface import replica_id
from estimator_spec.core.driver import graph_builder, patching
from estimator_spec.core.driver.batch_rows import pack_present
from estimator_spec.core.driver.graph_builder import BuiltGraph, RunSetup
from estimator_spec.core.driver.replica_inputs import (
    InputCall,
    InputSharing,
    ReplicaBatch,
    ReplicaInputs,
)
from estimator_spec.core.driver.replicas import mean_loss
from estimator_spec.core.driver.systems import with_cpus
from estimator_spec.core.run_config import RunConfig, strategies
from estimator_spec.core.updates import dependencies
from estimator_spec.core.user_functions.model_spec import EstimatorSpec, ModeKeys
from tpu_columns import graphs, placement
from tpu_columns.kernels import devices

tf1 = tf.compat.v1

_PROPERTIES = {ModeKeys.TRAIN: "train_distribute", ModeKeys.EVAL: "eval_distribute"}


def check_strategies(config: RunConfig) -> None:
    """Checks that this process can run the strategies of a configuration.

    Raises:
        ValueError: names the property and the strategy.
    """
    mirrored = (tf.distribute.MirroredStrategy, tf1.distribute.MirroredStrategy)
    for name in _PROPERTIES.values():
        strategy = getattr(config, name, None)
        if strategy is None:
            continue
        if not isinstance(strategy, (tf.distribute.Strategy, tf1.distribute.Strategy)):
            raise ValueError(f"RunConfig.{name} must be a tf.distribute.Strategy. Got {strategy}.")
        if strategies.is_collective(strategy) and config.cluster_spec:
            if tf1.executing_eagerly_outside_functions():
                raise ValueError(
                    f"RunConfig.{name} is a {type(strategy).__name__} of several processes, made "
                    "while TensorFlow executes eagerly: it has started a server of its own. Call "
                    "tf.compat.v1.disable_eager_execution() at the beginning of the program."
                )
        elif strategy.num_replicas_in_sync == 1:
            tf1.logging.info(
                "RunConfig.%s is a %s of one device: the run needs no strategy, and uses none.",
                *(name, type(strategy).__name__),
            )
        elif not isinstance(strategy, mirrored):
            raise ValueError(
                f"RunConfig.{name} is a {type(strategy).__name__} of "
                f"{strategy.num_replicas_in_sync} replicas. Give a tf.distribute.MirroredStrategy "
                "of this machine's devices, or leave it out."
            )


def find_strategy(config: RunConfig, mode: str) -> Any:
    """Returns the strategy that replicates runs of a mode; None without several replicas.

    Args:
        config: a `RunConfig` that `check_strategies` accepts.
        mode: one of `ModeKeys`.
    """
    strategy = getattr(config, _PROPERTIES.get(mode, ""), None)
    if mode == ModeKeys.EVAL and strategies.is_collective(strategy):
        return None  # evaluations run in one process, on one device
    return strategy if strategy is not None and strategy.num_replicas_in_sync > 1 else None


def check_no_replicas(config: RunConfig) -> None:
    """Checks that no strategy has several replicas: a `TPUEstimator` has its own.

    Args:
        config: a `RunConfig` that `check_strategies` accepts.

    Raises:
        ValueError: names the property, and the argument to give instead.
    """
    for mode, name in _PROPERTIES.items():
        strategy = find_strategy(config, mode)
        if strategy is not None:
            raise ValueError(
                f"RunConfig.{name} is set, but a TPUEstimator makes its replicas itself. Leave it "
                f"out and give TPUEstimator(host_replicas={strategy.num_replicas_in_sync})."
            )


def build(
    setup: RunSetup,
    graph: tf.Graph,
    input_fn: Callable[..., Any],
    mode: str,
    strategy: Any,
) -> BuiltGraph:
    """Builds the global step, the input and the model of each replica, in this order.

    Args:
        setup: creates the global step and calls the user's functions.
        graph: the default graph, empty.
        input_fn: the user's function.
        mode: `ModeKeys.TRAIN` or `ModeKeys.EVAL`.
        strategy: the strategy.
    """
    count = len(strategy.extended.worker_devices)  # of this process
    workers = strategy.num_replicas_in_sync // count
    number = roles.training_index(setup.config) if workers > 1 else 0
    with strategy.scope():
        graph_builder.start(setup, graph)
        devices.record_own_variables()
        step = strategy.extended.read_var(tf1.train.get_global_step(graph))
        tf1.add_to_collection(private.GLOBAL_STEP_READ_KEY, step)
    with graph_builder.user_code(setup, placement.Mode(mode)):
        context = tf.distribute.InputContext(workers, number, strategy.num_replicas_in_sync)
        result = setup.call_input_fn(input_fn, mode, context)
        call = InputCall(0, 0, range(count))
        inputs = ReplicaInputs(
            InputSharing.BATCH_PER_REPLICA,
            [(call, result)],
            input_fn,
            mode,
            size=None,
            host_device=lambda host: "/device:CPU:0",
        )
        batches = inputs.next()
        if mode == ModeKeys.TRAIN:
            batches = _require_all(batches)
        specs = _call_models(setup, strategy, batches, mode, number * count)
        if mode == ModeKeys.EVAL:
            _update_where_present([_update(spec) for spec in specs], batches)
        spec = _combine(specs)
        loss, loss_weight = mean_loss([spec.loss for spec in specs], batches)
        spec = spec._replace(loss=loss)
        if workers > 1:
            with strategy.scope():
                loss = strategy.reduce(tf.distribute.ReduceOp.MEAN, spec.loss, axis=None)
            spec = spec._replace(loss=loss)
    config = _add_devices(setup.config, strategy)
    return BuiltGraph(spec, inputs.hooks, config, loss_weight=loss_weight)


def _call_models(
    setup: RunSetup,
    strategy: Any,
    batches: Sequence[ReplicaBatch],
    mode: str,
    first: int,
) -> list[EstimatorSpec]:
    """Calls `model_fn` on each replica's batch; `first` is the number of this process' first."""
    specs: dict[int, EstimatorSpec] = {}
    # A replica may be a new thread, which doesn't inherit the context variables of this one.
    contexts = [contextvars.copy_context() for _ in batches]

    def replica() -> None:
        number = replica_id() - first
        if number:
            legacy_keras.reset_layer_names()
        batch = batches[number]
        specs[number] = contexts[number].run(
            setup.call_model_fn, batch.features, batch.labels, mode
        )

    with contextlib.ExitStack() as stack:
        if len(batches) < strategy.num_replicas_in_sync:
            for change in collectives.sparse_sums(strategy):
                stack.enter_context(patching.set_temporarily(*change))
        stack.enter_context(strategy.scope())
        stack.enter_context(private.average_losses(strategy))
        # Otherwise the strategy would apply AutoGraph to the user's code.
        strategy.run(tf.autograph.experimental.do_not_convert(replica))
    return [specs[number] for number in range(len(batches))]


def _require_all(batches: list[ReplicaBatch]) -> list[ReplicaBatch]:
    """Returns the batches behind one barrier: without a batch for each replica, all steps fail."""
    values = [(batch.features, batch.labels) for batch in batches]
    gated = tf.tuple([tensor for batch in batches for tensor in batch.tensors])
    both = pack_present(values, gated, expand_composites=True)
    return [ReplicaBatch(features, labels) for features, labels in both]


def _update(spec: EstimatorSpec) -> Any:
    """Returns the op that updates the metrics of a replica."""
    return tf.group(*[update for _, update in (spec.eval_metric_ops or {}).values()])


def _combine(specs: Sequence[EstimatorSpec]) -> EstimatorSpec:
    """Returns the `EstimatorSpec` of a step on all replicas; loss and hooks are the first one's."""
    first = specs[0]
    metrics = {
        # TensorFlow's metrics return the value over all replicas on each.
        name: (value, tf.group(*[spec.eval_metric_ops[name][1] for spec in specs]))
        for name, (value, _) in (first.eval_metric_ops or {}).items()
    }
    return first._replace(
        train_op=None if first.train_op is None else tf.group(*[s.train_op for s in specs]),
        eval_metric_ops=metrics,
        scaffold=_combine_scaffolds([spec.scaffold for spec in specs]),
    )


def _combine_scaffolds(scaffolds: Sequence[Any]) -> Any:
    """Returns the first replica's scaffold with the initializers of all replicas."""
    if scaffolds[0] is None:
        return None
    ops = {}
    for name in ("init_op", "local_init_op"):
        given = [op for op in (getattr(scaffold, name) for scaffold in scaffolds) if op is not None]
        ops[name] = tf.group(*given) if given else None
    return tf1.train.Scaffold(**ops, copy_from_scaffold=scaffolds[0])


def _add_devices(config: RunConfig, strategy: Any) -> RunConfig:
    """Returns the configuration with a logical CPU device for each that the strategy has."""
    specs = map(tf.DeviceSpec.from_string, strategy.extended.worker_devices)
    cpus = [spec.device_index or 0 for spec in specs if spec.device_type == "CPU"]
    return config.replace(session_config=with_cpus(config.session_config, max([0, *cpus]) + 1))


def _update_where_present(updates: Sequence[Any], batches: Sequence[ReplicaBatch]) -> None:
    """Leaves replicas without a batch out of the metrics in the last step of an evaluation.

    The number of a dataset's batches is seldom a multiple of the number of replicas. In the last
    step a replica for which no batch is left computes on a copy of another one's, and the ops that
    would write its metrics don't run: like the ops in a branch of `tf.compat.v1.cond`, each waits
    for an op that runs only if the batch is there. An update that reads other replicas' batches,
    too, needs all of these.

    Args:
        updates: the op that updates the metrics, by replica.
        batches: the inputs of the replicas; if one has a batch, all before it have one.
    """
    tensors = [batch.tensors for batch in batches]
    owners = {tensor.ref(): number for number, flat in enumerate(tensors) for tensor in flat}
    inputs = set(graphs.ancestors([tensor.op for flat in tensors for tensor in flat]))
    gates = [_gate(batch, flat) for batch, flat in zip(batches, tensors, strict=True)]
    seen: set[Any] = set()
    for number, update in enumerate(updates):
        ops = dependencies.collect_ancestors(update, inputs)
        needed = max([number, *_read_batches(ops, owners, len(batches))])
        if needed > number:
            tf1.logging.warning(
                "A metric of replica %d is computed from batches of other replicas: it leaves out "
                "a last step without a batch for each of them.",
                number,
            )
        # Those that an earlier replica needs, too, run for that one.
        for op in sorted(ops - seen, key=lambda op: op.name):
            if dependencies.changes_state(op) and not graph_surgery.is_in_loop(op):
                graph_surgery.add_control_input(op, gates[needed])
        seen |= ops


def _gate(batch: ReplicaBatch, tensors: list[Any]) -> Any:
    """Returns an op that runs after a replica got its batch, and only then."""
    with tf.control_dependencies(tensors):
        present = batch.weight > 0
        switch = tf.raw_ops.Switch(data=present, pred=present)
        return tf.identity(switch.output_true).op


def _read_batches(ops: Collection[Any], owners: dict[Any, int], count: int) -> list[int]:
    """Returns the numbers of the replicas whose batches some ops read."""
    if any(op.type.startswith("Collective") for op in ops):  # no edge of the graph shows of whom
        return list(range(count))
    return [owners[value.ref()] for op in ops for value in op.inputs if value.ref() in owners]
