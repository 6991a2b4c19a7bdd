# SPDX-License-Identifier: Apache-2.0
"""One step of a model on all replicas of a system, as a part of the current graph.

    part 0 ─▶ core ─▶ model_fn ─┐
    part 1 ─▶ core ─▶ model_fn ─┴─▶ loss, and what is for the host ─▶ core

A TPU traces the model once for all its replicas, a strategy of the host once for each.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec import legacy_keras
from estimator_spec._tensorflow import private
from estimator_spec.cores.interface import LoopCore, distribute_values, replica_id
from estimator_spec.driver.embeddings import HostEmbeddings, PlainEmbeddings
from estimator_spec.driver.replica_inputs import Part
from estimator_spec.model.model_spec import ModeKeys

tf1 = tf.compat.v1


class Step(NamedTuple):
    """What a step gives.

    Attributes:
        loss: the mean of the replicas' losses; None in prediction.
        ops: to be run beside the loss or the predictions.
        spec: what `model_fn` returned for the first replica, as an `EstimatorSpec`.
        returned: the same, as it was returned.
        host_call: function and tensors of all replicas, or None.
        eval_metrics: the same.
        predictions: tensors of each replica, or None.
    """

    loss: Any
    ops: list[Any]
    spec: Any
    returned: Any
    host_call: Any
    eval_metrics: Any
    predictions: list[Any] | None


class ReplicaEmbeddings(PlainEmbeddings):
    """What happens around the `model_fn` of one replica: the lookups have been prepared before.

    Args:
        embeddings: those of the run.
    """

    def __init__(self, embeddings: PlainEmbeddings) -> None:
        self._whole = embeddings
        self.results: dict[int, Any] = {}

    def call_model(self, model: Any, features: Any, mode: str, exporting: bool) -> Any:
        """Builds the model where columns look up as they should."""
        if isinstance(self._whole, HostEmbeddings):
            return self._whole.on_cores(model, features, mode)
        return self._whole.call_model(model, features, mode, exporting)

    def hardware(self, mode: Any) -> Any:
        """The estimator's."""
        return self._whole.hardware(mode)

    def returned(self, result: Any) -> Any:
        """Keeps what is for the host: it is called once for all replicas."""
        self.results[replica_id()] = result
        if not hasattr(result, "host_call"):
            return result
        return result._replace(host_call=None, scaffold_fn=None, eval_metrics=None)


class Replicas:
    """Runs a model on all replicas.

    Args:
        strategy: of the current graph.
        core: of this graph.
        embeddings: what the model's columns are told, and who keeps what `model_fn` returns.
        mode: one of `ModeKeys`.
        model: function of the features and labels of one replica; returns its `EstimatorSpec`.
    """

    def __init__(
        self,
        strategy: Any,
        core: LoopCore,
        embeddings: ReplicaEmbeddings,
        mode: str,
        model: Callable[..., Any],
    ) -> None:
        self._strategy = strategy
        self._core = core
        self._embeddings = embeddings
        self._mode = mode
        self._model = model
        self.count = strategy.num_replicas_in_sync
        self._specs: dict[int, Any] = {}
        self._structure: Any = None

    def step(self, parts: list[Part]) -> Step:
        """Builds one step.

        Args:
            parts: what each replica gets.

        Raises:
            RuntimeError: an evaluation without a `TPUEstimatorSpec`.
            ValueError: what the replicas return can't be put together.
        """
        fed = self._core.feed([part.features for part in parts])
        values = [(features, part.labels) for features, part in zip(fed, parts, strict=True)]
        outputs = self._run(values)
        spec, returned = self._specs[0], self._embeddings.results[0]
        loss = None
        if self._mode != ModeKeys.PREDICT:
            loss = tf.add_n([output["loss"] for output in outputs]) / self.count
        ops = self._core.finish(self._whole_loss if self._mode == ModeKeys.TRAIN else None)
        return Step(
            loss,
            ops,
            spec,
            returned,
            self._together("host_call", outputs),
            self._together("eval_metrics", outputs),
            [output["predictions"] for output in outputs] if "predictions" in outputs[0] else None,
        )

    def _whole_loss(self) -> Any:
        """What the models minimize together; out of reach on a TPU, within the replicas."""
        return tf.add_n([spec.loss for spec in self._specs.values()]) / self.count

    def _run(self, values: list[Any]) -> list[Any]:
        """Runs the model on the values of each replica; returns its outputs for each."""
        # Only tensors may go into a TPU's computation: None, say, stays here.
        structure = values[0]
        flat = [[t for t in tf.nest.flatten(value) if t is not None] for value in values]
        arguments = [
            distribute_values(self._strategy, list(tensors)) for tensors in zip(*flat, strict=True)
        ]
        # A replica may be a thread, which doesn't inherit what this one runs for.
        contexts = [contextvars.copy_context() for _ in values]

        def replica(*tensors: Any) -> list[Any]:
            number = replica_id()
            if number:
                legacy_keras.reset_layer_names()
            return contexts[number].run(self._outputs, number, _filled_in(structure, tensors))

        # Variables are made in the graph around a loop, so that is where the strategy must be in
        # force; but only meanwhile, since it would mirror the core's tables too.
        body = tf1.get_default_graph()
        with (
            tf.init_scope(),
            self._strategy.scope(),
            body.as_default(),
            private.average_losses(self._strategy),
        ):
            # A strategy would otherwise rewrite the user's Python, or pad batches.
            gathered = self._strategy.run(
                tf.autograph.experimental.do_not_convert(replica),
                args=tuple(arguments),
                options=tf.distribute.RunOptions(experimental_enable_dynamic_batch_size=False),
            )
        by_place = [self._strategy.experimental_local_results(value) for value in gathered]
        return [
            tf.nest.pack_sequence_as(self._structure, [values[number] for values in by_place])
            for number in range(self.count)
        ]

    def _outputs(self, number: int, value: Any) -> list[Any]:
        """Builds one replica's model; returns its tensors, flat."""
        features, labels = value
        spec = self._model(self._core.receive(features), labels)
        self._specs[number] = spec
        result = self._embeddings.results[number]
        outputs: dict[str, Any] = {}
        ops: list[Any] = []
        if self._mode == ModeKeys.TRAIN:
            ops = [spec.train_op, *self._core.send(spec.loss / self.count)]
        for name in ("host_call", "eval_metrics"):
            call = getattr(result, name, None)
            if call is not None:
                outputs[name] = tf.nest.map_structure(tf.convert_to_tensor, call[1])
        if self._mode == ModeKeys.EVAL and not hasattr(result, "eval_metrics"):
            raise RuntimeError(
                "estimator_spec used by TPU evaluation must have type `TPUEstimatorSpec`: metrics "
                f"are computed on the host, from tensors of all replicas. Got {type(result)}."
            )
        if self._mode == ModeKeys.PREDICT:
            outputs["predictions"] = spec.predictions
        else:
            with tf.control_dependencies(ops):
                outputs["loss"] = tf.identity(spec.loss)
        self._structure = outputs
        return list(tf.nest.flatten(outputs))

    def _together(self, name: str, outputs: list[Any]) -> Any:
        """A host function and its tensors: those of the replicas, one after the other."""
        if name not in outputs[0]:
            return None
        given = [output[name] for output in outputs]
        function = getattr(self._embeddings.results[0], name)[0]
        if self.count == 1:
            return function, given[0]
        if any(tensor.shape.rank == 0 for tensor in tf.nest.flatten(given)):
            raise ValueError(
                f"A tensor of {name} is a scalar. The tensors of all replicas are put one after "
                "the other, so each needs a dimension for that: tf.reshape(tensor, [1])."
            )
        return function, tf.nest.map_structure(lambda *values: tf.concat(values, 0), *given)


def _filled_in(structure: Any, tensors: Any) -> Any:
    """`structure` with other tensors in the place of its own."""
    found = iter(tensors)
    places = tf.nest.flatten(structure)
    return tf.nest.pack_sequence_as(
        structure, [None if place is None else next(found) for place in places]
    )
