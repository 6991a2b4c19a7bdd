# SPDX-License-Identifier: Apache-2.0
"""Host core for a `TPUEmbedding`: batches, lookups and updates.

    enqueue ─▶ queue of batches ─▶ dequeue ─▶ activations ─▶ the program
                                      │                         │
                                 batch looked up ────▶ apply_gradients ─▶ tables, slots

A batch passes through resources, as it passes through a TPU's queues: the three calls may be in
different functions, and run eagerly or not.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.mid_level import optimizers, samples, tables
from estimator_spec.mid_level.core import MidLevelCore
from estimator_spec.mid_level.replicas import DEVICE, LocalReplicas
from estimator_spec.mid_level.state import HeldTensors, TensorQueue, of_shape
from tpu_columns.combining import Entries

_MOST_WAITING = 1000

# Ids of each feature, and the shape of their samples.
_Batch = list[tuple[Entries, Any]]

_NO_BATCH = (
    "dequeue: no batch is enqueued. Each dequeue needs an enqueue before it; a TPU would wait "
    "without end."
)
_NO_LOOKUP = (
    "apply_gradients: no batch was dequeued before, or it was enqueued with training=False. Each "
    "call of apply_gradients needs an enqueue with training=True and a dequeue of its own."
)


@dataclasses.dataclass(frozen=True)
class _Form:
    """Static properties of a feature's samples, known when a function is traced.

    Attributes:
        weighted: whether they have weights.
        shape: that of the activation without the table's dimension, if it is known.
        one_id: whether id i is all of sample i, and there is one for each element of `shape`.
    """

    weighted: bool
    shape: tuple[int, ...] | None
    one_id: bool

    @property
    def dtypes(self) -> list[Any]:
        """Types of the tensors of `flatten`."""
        parts = 1 + (not self.one_id) + (self.shape is None)
        return [*[tf.int64] * parts, *[tf.float32] * self.weighted]

    def flatten(self, found: Entries, shape: Any) -> list[Any]:
        """Returns the tensors that aren't constants."""
        tensors = [found.ids]
        tensors += [] if self.one_id else [found.segments]
        tensors += [shape] if self.shape is None else []
        return [*tensors, *([found.weights] if self.weighted else [])]

    def unflatten(self, tensors: Iterator[Any], feature: Any) -> tuple[Entries, Any]:
        """Returns the ids and the shape of such tensors."""
        ids, *rest = (of_shape(next(tensors), [None]) for _ in self.dtypes)
        weights = rest.pop() if self.weighted else None
        shape = rest.pop() if self.shape is None else tf.constant(self.shape, tf.int64)
        if self.one_id:
            assert self.shape is not None
            rest = [tf.range(math.prod(self.shape), dtype=tf.int64)]
        (places,) = rest
        return samples.entries_of(ids, places, shape, weights, feature)


def _form(ids: Any, found: Entries, shape: Any) -> _Form:
    """Returns the form of the samples of a feature, whose activations have a shape."""
    known = tuple(shape.as_list()) if shape.is_fully_defined() else None
    one_id = (
        known is not None
        and isinstance(ids, tf.Tensor)
        and ids.shape.num_elements() == math.prod(known)
    )
    return _Form(found.weights is not None, known, one_id)


@dataclasses.dataclass(frozen=True)
class _Kind:
    """Static properties of a batch, known when a function is traced.

    Attributes:
        training: whether its gradients are applied.
        forms: those of the features.
    """

    training: bool
    forms: tuple[_Form, ...]

    @property
    def dtypes(self) -> list[Any]:
        """Types of the tensors of `flatten`."""
        return [dtype for form in self.forms for dtype in form.dtypes]

    def flatten(self, batch: _Batch) -> list[Any]:
        """Returns the tensors of a batch that aren't constants."""
        pairs = zip(self.forms, batch, strict=True)
        return [tensor for form, found in pairs for tensor in form.flatten(*found)]

    def unflatten(self, tensors: Iterator[Any], features: Sequence[Any]) -> _Batch:
        """Returns the batch of such tensors."""
        pairs = zip(self.forms, features, strict=True)
        with tf.device(DEVICE):
            return [form.unflatten(tensors, feature) for form, feature in pairs]


_Place = tuple[int, Any]  # replica and name of a call


class HostEmbedding(MidLevelCore):
    """Host core for one embedding object.

    Args:
        feature_config: the structure of `FeatureConfig`s.
        configs: the `TableConfig`s.
        strategy: the strategy in whose scope the object was made.
        pipelined: whether a step's lookup lacks the update of the step before.
    """

    def __init__(
        self, feature_config: Any, configs: Sequence[Any], strategy: Any, pipelined: bool
    ) -> None:
        super().__init__(feature_config, LocalReplicas(strategy), pipelined)
        self.any_batch_size = False
        self.shapes = [feature.output_shape for feature in self.features]
        self._configs = {config.name: config for config in configs}
        self._names = self.paths
        self._numbers = [
            next(i for i, config in enumerate(configs) if config is feature.table)
            for feature in self.features
        ]
        self._queues: dict[tuple[_Place, _Kind], TensorQueue] = {}
        self._looked_up: dict[tuple[_Place, _Kind, bool], HeldTensors] = {}
        # The kinds of the last calls, and the shapes of their samples.
        self._enqueued: dict[_Place, tuple[_Kind, list[Any]]] = {}
        self._dequeued: dict[_Place, tuple[_Kind, bool]] = {}
        # Kinds of batches that were enqueued eagerly; functions may have dequeued some.
        self._waiting: dict[_Place, collections.deque[tuple[_Kind, list[Any]]]] = {}

    # Shapes.

    def set_shapes(self, found: Sequence[Any]) -> None:
        """Checks shapes of activations, and keeps those that weren't known.

        Raises:
            ValueError: one differs from what is known.
        """
        if self.any_batch_size:
            return
        for path, known, incoming in zip(self.paths, self.shapes, found, strict=True):
            samples.check_shapes(path, known, incoming)
        self.shapes = [
            incoming if known.rank is None else known
            for known, incoming in zip(self.shapes, found, strict=True)
        ]

    def shapes_of_inputs(self, shapes: Any, batch_size: int | None) -> list[Any] | None:
        """Returns the shapes of activations for the arguments of `build`; None without any."""
        if shapes is None:
            shapes = batch_size
        if shapes is None or self.any_batch_size:
            return None
        if isinstance(shapes, int):
            return [
                tf.TensorShape([shapes, *([length] if length and rank is None else [])])
                for length, rank in (
                    (each.max_sequence_length, each.output_shape.rank) for each in self.features
                )
            ]
        flat = _flat_shapes(shapes)
        if len(flat) != len(self.features):
            raise ValueError(
                f"per_replica_input_shapes has {len(flat)} shapes for {len(self.features)} "
                "features."
            )
        return [
            samples.shape_of_input(path, shape, feature)
            for path, shape, feature in zip(self.paths, flat, self.features, strict=True)
        ]

    def detect_shapes(self, inputs: Sequence[Any]) -> None:
        """Takes the shapes of activations from the ids of a replica."""
        found = map(samples.incoming_shape, self.paths, inputs, self.features)
        self.set_shapes(list(found))

    # The calls of a step.

    def enqueue(
        self, inputs: Sequence[Any], weights: Sequence[Any], training: bool, name: Any, replica: int
    ) -> None:
        """Adds a batch of one replica."""
        for feature in self.features:
            tables.check_combiner(feature.table)
        if training:
            self._check_trainable()
        shapes = self.shapes
        if self.any_batch_size:
            incoming = map(samples.incoming_shape, self.paths, inputs, self.features)
            shapes = [
                found if feature.output_shape.rank is None else feature.output_shape
                for found, feature in zip(incoming, self.features, strict=True)
            ]
        with tf.device(DEVICE):
            batch = [
                samples.from_ids(*each)
                for each in zip(self.paths, inputs, weights, self.features, shapes, strict=True)
            ]
        found = [entries for entries, _ in batch]
        kind = _Kind(training, tuple(map(_form, inputs, found, shapes)))
        place = replica, name
        if (place, kind) not in self._queues:
            self._queues[place, kind] = TensorQueue(kind.dtypes, _NO_BATCH)
        self._enqueued[place] = kind, shapes
        if tf.executing_eagerly():
            waiting = self._waiting.setdefault(place, collections.deque(maxlen=_MOST_WAITING))
            waiting.append((kind, shapes))
        self._queues[place, kind].put(kind.flatten(batch))

    def dequeue(self, name: Any) -> list[Any]:
        """Returns the activations of the current replica's next batch."""
        place = self._place(self._enqueued, name)
        if place not in self._enqueued:
            raise RuntimeError(_NO_BATCH)
        kind, shapes = self._next(place)
        batch = kind.unflatten(iter(self._queues[place, kind].take()), self.features)
        ids = [entries for entries, _ in batch]
        if not kind.training:
            self.flush()
        native = self._is_native
        try:
            sums, rows = self._tables.look_up(ids, native)
        except tf.errors.InvalidArgumentError:
            self._explain(ids)
            raise
        if kind.training:
            if (place, kind, native) not in self._looked_up:
                dtypes = [*kind.dtypes, *([tf.variant] * native)]
                self._looked_up[place, kind, native] = HeldTensors(dtypes, _NO_LOOKUP)
            tensors = [*kind.flatten(batch), *([rows] if native else [])]
            self._looked_up[place, kind, native].put(tensors)
        self._dequeued[place] = kind, native
        found = []
        with tf.device(DEVICE):
            for feature, (_, size), shape, value in zip(
                self.features, batch, shapes, sums, strict=True
            ):
                value = tf.stop_gradient(value)
                found.append(_reshaped(value, shape, size, feature.table.dim))
        return found

    def apply_gradients(self, gradients: Sequence[Any], name: Any) -> None:
        """Trains the tables of the batch that the current replica dequeued last."""
        found = []
        for path, gradient, width, shape in zip(
            self.paths, gradients, self._tables.widths, self.shapes, strict=True
        ):
            self._check_gradient(path, gradient, shape.concatenate([width]))
            is_matrix = gradient is None or gradient.shape.rank == 2
            found.append(gradient if is_matrix else tf.reshape(gradient, [-1, width]))
        place = self._place(self._dequeued, name)
        kind, native = self._dequeued.get(place, (None, False))
        if kind is None or not kind.training:
            raise RuntimeError(_NO_LOOKUP)
        held = self._looked_up[place, kind, native].take()
        rows = held.pop() if native else None
        self._update(kind, held, rows, found)

    def _next(self, place: _Place) -> tuple[_Kind, list[Any]]:
        """Returns the kind of the batch that is dequeued next, and its shapes.

        A function that is traced dequeues the kind that was enqueued last: its own.
        """
        waiting = self._waiting.get(place)
        while tf.executing_eagerly() and waiting:
            found = waiting.popleft()
            if not self._queues[place, found[0]].is_empty():
                return found
        return self._enqueued[place]

    def _place(self, known: Any, name: Any) -> _Place:
        """Returns where a replica's batch is; a call without batches of its name has any."""
        replica = self.replicas.current_one()
        if (replica, name) in known:
            return replica, name
        others = [place for place in known if place[0] == replica]
        return others[-1] if others else (replica, name)

    def _unflatten(self, kind: _Kind, tensors: Iterator[Any]) -> list[Entries]:
        return [entries for entries, _ in kind.unflatten(tensors, self.features)]

    def _check_trainable(self) -> None:
        for name, config in self._configs.items():
            optimizers.parameters_of(name, config.optimizer)

    def _explain(self, batch: Sequence[Entries]) -> None:
        """Raises an error that names the feature of an id out of range, when run eagerly."""
        for path, feature, entries in zip(self.paths, self.features, batch, strict=True):
            samples.check_ids(path, entries.ids, feature.table)


def _reshaped(sums: Any, shape: Any, size: Any, width: int) -> Any:
    """Returns the activations of sums [S, D].

    Args:
        sums: the sums.
        shape: static shape of their samples.
        size: that shape as a tensor.
        width: D.
    """
    if shape.rank == 1:
        return of_shape(sums, [shape[0], width])
    if shape.is_fully_defined():
        return tf.reshape(sums, [*shape.as_list(), width])
    found = tf.reshape(sums, tf.concat([size, [width]], 0))
    return tf.ensure_shape(found, shape.concatenate([width]))


def _flat_shapes(shapes: Any) -> list[Any]:
    """Returns the shapes in a structure; a list or tuple of numbers is one shape."""
    if isinstance(shapes, dict):
        return [each for key in sorted(shapes) for each in _flat_shapes(shapes[key])]
    if isinstance(shapes, tf.TensorShape) or all(
        each is None or isinstance(each, int) for each in shapes
    ):
        return [tf.TensorShape(shapes)]
    return [each for value in shapes for each in _flat_shapes(value)]
