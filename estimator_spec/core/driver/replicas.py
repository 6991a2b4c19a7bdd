# SPDX-License-Identifier: Apache-2.0
"""Builds one step of a model on all replicas of a system in the current graph.

    batch 0 ─▶ core ─▶ model_fn ─┐
    batch 1 ─▶ core ─▶ model_fn ─┴─▶ loss, host call ─▶ core

`TPUStrategy` traces the model once for all replicas, a strategy of the host once for each.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core._tensorflow import cross_shard, graph_surgery, private
from estimator_spec.core.common import legacy_keras
from estimator_spec.core.cores import activation_gradients
from estimator_spec.core.cores.interface import EmbeddingCore, distribute_values, replica_id
from estimator_spec.core.driver.batch_rows import pack_present
from estimator_spec.core.driver.embeddings import Model, PlainEmbeddings
from estimator_spec.core.driver.replica_inputs import ReplicaBatch
from estimator_spec.core.user_functions.model_spec import EstimatorSpec, ModeKeys
from tpu_columns import graphs

tf1 = tf.compat.v1


class ReplicaStep(NamedTuple):
    """The outputs of a step on all replicas.

    Attributes:
        loss: the mean of the replicas' losses; None in prediction.
        loss_weight: weight of the loss in the mean over the batches; None: all weigh equally.
        ops: ops to run along with the loss or the predictions.
        spec: the `EstimatorSpec` of the first replica.
        result: the result of `model_fn` for the first replica.
        host_call: function and concatenated tensors of all replicas, or None.
        eval_metrics: function and concatenated tensors of all replicas, or None.
        predictions: the predictions of each replica, or None.
    """

    loss: Any
    loss_weight: Any
    ops: list[Any]
    spec: EstimatorSpec
    result: Any
    host_call: Any
    eval_metrics: Any
    predictions: list[Any] | None


@dataclasses.dataclass(eq=False)
class ReplicatedModel:
    """A model on all replicas of a strategy, which builds its steps.

    Args:
        strategy: the strategy of the current graph.
        core: the embedding core of the current graph.
        embeddings: the embeddings of the run.
        mode: one of `ModeKeys`.
        model: function of the features and labels of one replica; returns its `EstimatorSpec`. It
            calls the model by `call_model`.
        check_inputs: checks the features and labels of a replica; None: they may be any.
    """

    strategy: Any
    core: EmbeddingCore
    embeddings: PlainEmbeddings
    mode: str
    model: Callable[[Any, Any], EstimatorSpec]
    check_inputs: Callable[[Any, Any], None] | None = None

    def __post_init__(self) -> None:
        self.count = self.strategy.num_replicas_in_sync
        self._specs: dict[int, EstimatorSpec] = {}
        self._results: dict[int, Any] = {}  # of `model_fn`
        self._structure: Any = None

    def step(self, parts: list[ReplicaBatch]) -> ReplicaStep:
        """Builds one step.

        Raises:
            RuntimeError: in evaluation, `model_fn` didn't return a `TPUEstimatorSpec`.
            ValueError: a tensor of a host call is a scalar, so the replicas' can't be concatenated.
        """
        if self.check_inputs is not None:
            self.check_inputs(parts[0].features, parts[0].labels)
        fed = self.core.feed([part.features for part in parts])
        values = [(features, part.labels) for features, part in zip(fed, parts, strict=True)]
        outputs = self._run(values)
        if self.mode == ModeKeys.TRAIN:
            self._order_step_count()
        loss = loss_weight = None
        if self.mode != ModeKeys.PREDICT:
            loss, loss_weight = mean_loss([output["loss"] for output in outputs], parts)
        ops = self.core.finish()
        return ReplicaStep(
            loss,
            loss_weight,
            ops,
            self._specs[0],
            self._results[0],
            self._concat_host_call("host_call", outputs, parts),
            self._concat_host_call("eval_metrics", outputs, parts),
            [output["predictions"] for output in outputs] if "predictions" in outputs[0] else None,
        )

    def call_model(self, model: Model, features: Any, mode: str, exporting: bool) -> EstimatorSpec:
        """Calls the model of one replica, whose features the core has looked up."""

        def build(given: Any) -> EstimatorSpec:
            return model(given, self._without_host_functions)

        return self.embeddings.call_on_replica(build, features, mode)

    def _without_host_functions(self, result: Any) -> Any:
        """Removes the functions that run on the host, once for all replicas."""
        self._results[replica_id()] = result
        if not hasattr(result, "host_call"):
            return result
        return result._replace(host_call=None, scaffold_fn=None, eval_metrics=None)

    def _run(self, values: list[Any]) -> list[Any]:
        """Builds the model on the features and labels of each replica; returns its outputs."""
        # The arguments of a TPU's computation must be tensors, so None is taken out.
        structure = values[0]
        flat = [[t for t in tf.nest.flatten(value) if t is not None] for value in values]
        arguments = [
            distribute_values(self.strategy, list(tensors)) for tensors in zip(*flat, strict=True)
        ]
        contexts: list[contextvars.Context] = []

        def replica(*tensors: Any) -> list[Any]:
            number = replica_id()
            if number:
                legacy_keras.reset_layer_names()
            with private.strategy_in_outer_graph():
                return contexts[number].run(self._outputs, number, pack_present(structure, tensors))

        # Variables are created in the graph around the loop, so the strategy's scope is entered
        # there; and only here, since it would mirror the core's tables too.
        body = tf1.get_default_graph()
        with (
            tf.init_scope(),
            self.strategy.scope(),
            body.as_default(),
            private.average_losses(self.strategy),
            activation_gradients.keeping_slots_local(),
            cross_shard.reduced_by_strategy() if self.count > 1 else contextlib.nullcontext(),
        ):
            # A replica may be a new thread, which doesn't inherit this one's context variables.
            contexts += [contextvars.copy_context() for _ in values]
            # Otherwise the strategy would apply AutoGraph to the user's code, and pad batches.
            gathered = self.strategy.run(
                tf.autograph.experimental.do_not_convert(replica),
                args=tuple(arguments),
                options=tf.distribute.RunOptions(experimental_enable_dynamic_batch_size=False),
            )
        by_output = [self.strategy.experimental_local_results(value) for value in gathered]
        return [
            tf.nest.pack_sequence_as(self._structure, [values[number] for values in by_output])
            for number in range(self.count)
        ]

    def _order_step_count(self) -> None:
        """Makes reads of the global step in a loop precede its increment, unless they depend on it.

        So a host call gets the number of this step, as on a TPU, wherever the model reads it.
        """
        graph = tf1.get_default_graph()
        counts = self.strategy.experimental_local_results(tf1.train.get_global_step())
        handles = [count.handle for count in counts]
        for external, internal in getattr(graph, "captures", ()):
            if not any(external is handle for handle in handles):
                continue
            users = list(dict.fromkeys(internal.consumers()))
            increments = [op for op in users if op.type == "AssignAddVariableOp"]
            for read in (op for op in users if op not in increments):
                before = set(graphs.ancestors([read]))
                for increment in increments:
                    if increment not in before:
                        graph_surgery.add_control_input(increment, read)

    def _outputs(self, number: int, value: Any) -> list[Any]:
        """Builds the model of one replica; returns a flat list of its output tensors."""
        features, labels = value
        spec = self.model(self.core.receive(features), labels)
        self._specs[number] = spec
        result = self._results[number]
        outputs: dict[str, Any] = {}
        ops: list[Any] = []
        if self.mode == ModeKeys.TRAIN:
            ops = [spec.train_op, *self.core.send()]
        for name in ("host_call", "eval_metrics"):
            call = getattr(result, name, None)
            if call is not None:
                outputs[name] = tf.nest.map_structure(tf.convert_to_tensor, call[1])
        if self.mode == ModeKeys.EVAL and not hasattr(result, "eval_metrics"):
            raise RuntimeError(
                # The old system's words, without a space.
                "estimator_spec used by TPU evaluation must have type`TPUEstimatorSpec`: metrics "
                f"are computed on the host, from tensors of all replicas. Got {type(result)}."
            )
        if self.mode == ModeKeys.PREDICT:
            outputs["predictions"] = spec.predictions
        else:
            with tf.control_dependencies(ops):
                outputs["loss"] = tf.identity(spec.loss)
        self._structure = outputs
        # Copies: the strategy would take an input that all replicas return for one output.
        return [tf.identity(value) for value in tf.nest.flatten(outputs)]

    def _concat_host_call(
        self, name: str, outputs: list[Any], parts: Sequence[ReplicaBatch]
    ) -> Any:
        """Returns a host function and its tensors, concatenated over the replicas with a batch."""
        if name not in outputs[0]:
            return None
        given = [output[name] for output in outputs]
        function = getattr(self._results[0], name)[0]
        if self.count == 1:
            return function, given[0]
        if any(tensor.shape.rank == 0 for tensor in tf.nest.flatten(given)):
            raise ValueError(
                f"A tensor of {name} is a scalar. The tensors of all replicas are put one after "
                "the other, so each needs a dimension for that: tf.reshape(tensor, [1])."
            )

        def concat(*values: Any) -> Any:
            return tf.concat(
                [_rows_that_count(*pair) for pair in zip(values, parts, strict=True)], 0
            )

        return function, tf.nest.map_structure(concat, *given)


def mean_loss(losses: Sequence[Any], parts: Sequence[ReplicaBatch]) -> tuple[Any, Any]:
    """Returns the mean loss of a step, and its weight in the mean over the steps of an evaluation.

    Args:
        losses: the replicas' losses.
        parts: their inputs, with the weights.
    """
    if parts[0].weight is None:
        return tf.add_n(list(losses)) / len(losses), None
    weights = [tf.cast(part.weight, losses[0].dtype) for part in parts]
    total = tf.add_n(weights)
    weighted = [loss * weight for loss, weight in zip(losses, weights, strict=True)]
    return tf.add_n(weighted) / total, total


def _rows_that_count(tensor: Any, part: ReplicaBatch) -> Any:
    """Returns a replica's output, without rows if its input was a copy of another one's."""
    if part.weight is None:
        return tensor
    return tensor[: tf.where(part.weight > 0, tf.shape(tensor)[0], 0)]
