# SPDX-License-Identifier: Apache-2.0
"""Builds the graph of one mode on the replicas of a system."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.core.driver import device_loop, graph_builder, replica_inputs, tpu_inputs
from estimator_spec.core.driver.embeddings import PlainEmbeddings, TpuEmbeddings
from estimator_spec.core.driver.graph_builder import BuiltGraph, RunSetup
from estimator_spec.core.driver.replica_inputs import InputCall, ReplicaInputs
from estimator_spec.core.driver.replicas import ReplicatedModel
from estimator_spec.core.driver.run_context import BuildArguments, RunContext
from estimator_spec.core.driver.systems import System
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec
from estimator_spec.core.run_config import TPURunConfig
from estimator_spec.core.user_functions.model_spec import EstimatorSpec, ModeKeys
from tpu_columns import optimizations, placement
from tpu_columns.optimizations import Optimization


def build(
    setup: RunSetup,
    graph: tf.Graph,
    input_fn: Callable[..., Any],
    ctx: RunContext,
    system: System,
    batch_axis: Sequence[int] | None,
) -> BuiltGraph:
    """Builds the global step, the inputs, the embedding core and the model, in this order.

    Args:
        setup: creates the global step and calls the user's functions.
        graph: the default graph, empty.
        input_fn: the user's function.
        ctx: the run settings of the mode.
        system: the system of the replicas.
        batch_axis: the batch dimension of each input tensor, or None.
    """
    mode = ctx.mode
    strategy = system.strategy()
    with strategy.scope():
        graph_builder.start(setup, graph, mode)
    found = _embeddings_on(system, setup.embeddings, ctx.embedding_config_spec)
    kind = placement.Mode(mode)
    chosen = graph_builder.usable_optimizations(setup, kind)
    if system.is_tpu:  # whose tables aren't on this machine
        chosen -= {Optimization.NATIVE_KERNELS, Optimization.UPDATES}
    with (
        graph_builder.user_code(setup, kind, found.hardware(kind)),
        optimizations.using(chosen),
    ):
        sources = _call_input_fn(setup, input_fn, ctx, system)
        inputs = ReplicaInputs(
            ctx.sharing,
            sources,
            input_fn,
            mode,
            ctx.batch_size_for_input_fn,
            system.host_device,
            # Batches of a prediction are padded by rows.
            None if mode == ModeKeys.PREDICT else batch_axis,
            static_sizes=system.checks_as_tpu,
        )
        with strategy.scope():
            core = found.make_core(mode, ctx.batch_size_for_model_fn)

        def model(features: Any, labels: Any) -> EstimatorSpec:
            labels = None if mode == ModeKeys.PREDICT else labels
            return setup.call_model_fn(features, labels, mode)

        def check_inputs(features: Any, labels: Any) -> None:
            tpu_inputs.check_static(features, labels)
            tpu_inputs.check_partition(ctx.config.tpu_config, features, labels)

        replicas = ReplicatedModel(
            *(strategy, core, found, mode, model), check_inputs if system.checks_as_tpu else None
        )
        device = tf.device(system.host_device(0)) if system.is_tpu else contextlib.nullcontext()
        with ctx.building(BuildArguments(replicas=replicas)), device:
            built, loss_weight = _build_steps(replicas, inputs, ctx)
    assert isinstance(setup.config, TPURunConfig)  # a TPUEstimator's
    config = system.session_run_config(setup.config)
    running = functools.partial(system.running, core.configuration)
    if mode != ModeKeys.TRAIN:
        hooks = [*inputs.hooks, *core.hooks()]
        return BuiltGraph(built, hooks, config, running, loss_weight=loss_weight)
    first, listeners = tuple(core.hooks()), tuple(core.listeners())
    return BuiltGraph(built, inputs.hooks, config, running, first, listeners, loop=True)


def _embeddings_on(
    system: System, of_host: PlainEmbeddings, spec: EmbeddingConfigSpec | None
) -> PlainEmbeddings:
    """Returns the embeddings of a system: a TPU has a core of its own, other systems `of_host`."""
    if not system.is_tpu:
        return of_host
    if spec is None:
        return PlainEmbeddings(None)
    devices = [system.host_device(host) for host in range(system.num_hosts)]
    return TpuEmbeddings(spec, host_devices=devices)


def _call_input_fn(
    setup: RunSetup, input_fn: Callable[..., Any], ctx: RunContext, system: System
) -> list[tuple[InputCall, Any]]:
    """Calls `input_fn` for all replicas, as often as the configuration says."""
    sources = []
    for call in replica_inputs.input_calls(ctx.sharing, system.num_replicas, system.num_hosts):
        with (
            ctx.building(BuildArguments(input_call=call)),
            tf.device(system.host_device(call.host)),
        ):
            sources.append((call, setup.call_input_fn(input_fn, ctx.mode)))
    return sources


def _build_steps(
    replicas: ReplicatedModel, inputs: ReplicaInputs, ctx: RunContext
) -> tuple[EstimatorSpec, Any]:
    """Builds the training loop, or the evaluation or prediction of a batch.

    Returns:
        The `EstimatorSpec`, and the weight of a batch's loss in an evaluation.
    """
    if ctx.mode == ModeKeys.TRAIN:
        tpu_config = ctx.config.tpu_config
        limit = device_loop.parse_loop_limit(tpu_config)
        every = tpu_config.experimental_host_call_every_n_steps
        return device_loop.train(replicas, inputs, limit, every), None
    if ctx.mode == ModeKeys.EVAL:
        return device_loop.evaluate(replicas, inputs)
    return device_loop.predict(replicas, inputs), None
