# SPDX-License-Identifier: Apache-2.0
"""Builds the graph of one mode on the replicas of a system."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.driver import device_loop, embeddings, replica_inputs
from estimator_spec.driver.embeddings import PlainEmbeddings
from estimator_spec.driver.graph_builder import BuiltGraph, EstimatorMethods, GraphBuilder
from estimator_spec.driver.replica_inputs import ReplicaInputs
from estimator_spec.driver.replicas import ReplicaEmbeddings, Replicas
from estimator_spec.driver.run_context import BuildArguments, RunContext
from estimator_spec.driver.systems import System
from estimator_spec.model.model_spec import EstimatorSpec, ModeKeys
from tpu_columns import placement


class ReplicaGraphBuilder:
    """Builds the graphs of an estimator on replicas.

    Args:
        estimator: creates the global step and calls the user's functions.
        graphs: builds the parts that don't depend on replicas.
        embeddings: the embeddings of a system without TPU.
        batch_axis: the batch dimension of each input tensor, or None.
    """

    def __init__(
        self,
        estimator: EstimatorMethods,
        graphs: GraphBuilder,
        embeddings: PlainEmbeddings,
        batch_axis: Sequence[int] | None,
    ) -> None:
        self._estimator = estimator
        self._graphs = graphs
        self._embeddings = embeddings
        self._batch_axis = batch_axis

    def build(
        self, graph: tf.Graph, input_fn: Callable[..., Any], ctx: RunContext, system: System
    ) -> BuiltGraph:
        """Builds the global step, the inputs, the embedding core and the model, in this order.

        Args:
            graph: the default graph, empty.
            input_fn: the user's function.
            ctx: the run settings of the mode.
            system: the system of the replicas.
        """
        estimator, mode = self._estimator, ctx.mode
        strategy = system.strategy()
        with strategy.scope():
            self._graphs.start(graph, mode)
        found = self._embeddings
        device: Any = contextlib.nullcontext()
        if system.is_tpu:
            devices = [system.host_device(host) for host in range(system.num_hosts)]
            found = embeddings.tpu_embeddings(ctx.embedding_config_spec, devices)
            device = tf.device(devices[0])
        kind = placement.Mode(mode)
        with self._graphs.user_code(kind, found.hardware(kind)):
            inputs = self._call_input_fn(input_fn, ctx, system)
            with strategy.scope():
                core = found.make_loop_core(mode, ctx.batch_size_for_model_fn)
            replica_embeddings = ReplicaEmbeddings(found)

            def model(features: Any, labels: Any) -> EstimatorSpec:
                labels = None if mode == ModeKeys.PREDICT else labels
                return estimator._call_model_fn(features, labels, mode, estimator.config)

            replicas = Replicas(strategy, core, replica_embeddings.results, mode, model)
            with ctx.building(BuildArguments(embeddings=replica_embeddings)), device:
                spec = _build_steps(replicas, inputs, ctx)
        config = system.session_run_config(estimator._config)

        def running() -> contextlib.AbstractContextManager[None]:
            return system.running(core.configuration)

        if mode != ModeKeys.TRAIN:
            return BuiltGraph(spec, [*inputs.hooks, *core.hooks()], config, running)
        first, listeners = tuple(core.hooks()), tuple(core.listeners())
        return BuiltGraph(spec, inputs.hooks, config, running, first, listeners, loop=True)

    def _call_input_fn(
        self, input_fn: Callable[..., Any], ctx: RunContext, system: System
    ) -> ReplicaInputs:
        """Calls `input_fn` for all replicas, as often as the configuration says."""
        sources = []
        for call in replica_inputs.input_calls(ctx.sharing, system.num_replicas, system.num_hosts):
            with (
                ctx.building(BuildArguments(input_call=call)),
                tf.device(system.host_device(call.host)),
            ):
                sources.append((call, self._estimator._call_input_fn(input_fn, ctx.mode)))
        return ReplicaInputs(
            ctx.sharing,
            sources,
            input_fn,
            ctx.mode,
            ctx.batch_size_for_input_fn,
            system.host_device,
            # Batches of a prediction are padded by rows.
            None if ctx.mode == ModeKeys.PREDICT else self._batch_axis,
        )


def _build_steps(replicas: Replicas, inputs: ReplicaInputs, ctx: RunContext) -> EstimatorSpec:
    """Builds the training loop, or the evaluation or prediction of a batch."""
    if ctx.mode == ModeKeys.TRAIN:
        tpu_config = ctx.config.tpu_config
        limit = device_loop.parse_loop_limit(tpu_config)
        every = tpu_config.experimental_host_call_every_n_steps
        return device_loop.train(replicas, inputs, limit, every)
    if ctx.mode == ModeKeys.EVAL:
        return device_loop.evaluate(replicas, inputs)
    return device_loop.predict(replicas, inputs)
