# SPDX-License-Identifier: Apache-2.0
"""Host core for a `TPUEmbeddingV2`: lookups and updates of stacked tables.

Nothing is kept between the calls: a lookup returns what its update needs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.mid_level import optimizers, samples, stacking, tables
from estimator_spec.mid_level.core import MidLevelCore
from estimator_spec.mid_level.replicas import DEVICE, LocalReplicas
from estimator_spec.mid_level.state import of_shape
from tpu_columns.combining import Entries

CORES_PER_CHIP = 4
"""SparseCores of a chip, of which TensorFlow takes four if it doesn't know them."""


# What a lookup hands to the update, by name of the stack, of the ids of its features: all tensors,
# as a function or a strategy may pass them on.
# - int64, [N]: number of each id's sample among those of all features.
# - int64, [N]: row of the stacked variable.
# - float32, [N]: factor of the row in its sample, by weight and combiner.
# - int64: number of samples.
# - what the lookup of all stacks has read; empty before it, and without native ops.
_Batch = dict[str, tuple[Any, Any, Any, Any, Any]]


class StackedEmbedding(MidLevelCore):
    """Host core for stacked tables.

    Args:
        feature_config: the structure of `FeatureConfig`s.
        configs: the `TableConfig`s.
        replicas: the replicas.
        pipelined: whether a step's lookup lacks the update of the step before.
        disable_stacking: whether each table has a variable of its own.

    Attributes:
        layouts: layout of each table, by its name.
        stacks: the stacks.

    Raises:
        ValueError: a feature has no `output_shape`, or its samples can't be divided among the
            SparseCores.
        NotImplementedError: an optimizer has weight decay.
    """

    _parameters_of = staticmethod(optimizers.sparse_core_parameters)

    def __init__(
        self,
        feature_config: Any,
        configs: Sequence[Any],
        replicas: LocalReplicas,
        pipelined: bool,
        disable_stacking: bool,
    ) -> None:
        super().__init__(feature_config, replicas, pipelined)
        for path, feature in zip(self.paths, self.features, strict=True):
            _check_shape(path, feature, CORES_PER_CHIP)
        for config in configs:
            if config.optimizer is not None:
                optimizers.sparse_core_parameters(config.name, config.optimizer)
        self.layouts = stacking.layouts(
            configs, self.features, replicas.number, CORES_PER_CHIP, disable_stacking
        )
        self.stacks = stacking.stacks(configs, self.layouts)
        self._configs = {stack.name: stack.configs[0] for stack in self.stacks}
        self._names = list(self._configs)
        self._numbers = range(len(self.stacks))

    def prepare(self, inputs: Sequence[Any], weights: Sequence[Any]) -> _Batch:
        """Returns the ids of a replica."""
        parts: dict[str, list[tuple[Any, Any, Any]]] = {stack.name: [] for stack in self.stacks}
        counts = dict.fromkeys(parts, 0)
        with tf.device(DEVICE):
            for path, ids, own, feature in zip(
                self.paths, inputs, weights, self.features, strict=True
            ):
                layout = self.layouts[feature.table.name]
                found, gains = _with_gains(path, ids, own, feature)
                samples.check_ids(path, found.ids, feature.table)
                name = layout.stacked_table_name
                rows = stacking.positions(layout, found.ids)
                parts[name].append((found.segments + counts[name], rows, gains))
                counts[name] += math.prod(feature.output_shape.as_list())
            return {
                name: (
                    *(tf.concat(each, 0) for each in zip(*found, strict=True)),
                    tf.constant(counts[name], tf.int64),
                    tf.zeros([0], tf.int32),
                )
                for name, found in parts.items()
            }

    def look_up(self, batch: _Batch) -> tuple[list[Any], Any]:
        """Returns the activations of the features of a replica, and the batch for the update."""
        native = self._is_native
        sums, rows = self._tables.look_up(self._unflatten(None, self._tensors(batch)), native)
        found = dict(zip(self._configs, sums, strict=True))
        begins = dict.fromkeys(found, 0)
        activations = []
        with tf.device(DEVICE):
            for feature in self.features:
                name = self.layouts[feature.table.name].stacked_table_name
                shape = [*feature.output_shape.as_list(), feature.table.dim]
                count = math.prod(shape[:-1])
                part = tf.slice(found[name], [begins[name], 0], [count, feature.table.dim])
                activations.append(tf.stop_gradient(tf.reshape(part, shape)))
                begins[name] += count
        if native:
            batch = {name: (*each[:4], rows) for name, each in batch.items()}
        return activations, dict(batch)

    def apply_gradients(self, gradients: Sequence[Any], preserved: _Batch) -> None:
        """Trains the tables by the gradients of the current replica's activations."""
        for stack in self.stacks:
            for config in stack.configs:
                optimizers.parameters_of(config.name, config.optimizer)
        parts: dict[str, list[Any]] = {stack.name: [] for stack in self.stacks}
        for path, gradient, feature in zip(self.paths, gradients, self.features, strict=True):
            layout = self.layouts[feature.table.name]
            found = self._gradient(path, gradient, feature)
            padding = layout.unsharded_padded_shape[1] - feature.table.dim
            if padding:
                found = tf.pad(found, [[0, 0], [0, padding]])
            parts[layout.stacked_table_name].append(found)
        joined = [tf.concat(parts[name], 0) for name in self._configs]
        rows = preserved[self.stacks[0].name][-1]
        native = rows.dtype == tf.variant
        self._update(None, list(self._tensors(preserved)), rows if native else None, joined)

    def _tensors(self, batch: _Batch) -> Iterator[Any]:
        """Yields the tensors of the ids of each stack."""
        return (tensor for name in self._configs for tensor in batch[name][:4])

    def _unflatten(self, kind: None, tensors: Iterator[Any]) -> list[Entries]:
        """Returns the ids of each stack from the tensors of `_tensors`."""
        found = []
        for _ in self.stacks:
            samples_of_ids, ids, gains = (of_shape(next(tensors), [None]) for _ in range(3))
            count = tf.cast(next(tensors), tf.int64)
            found.append(Entries(ids, samples_of_ids, count, gains, "sum", weights_from_user=True))
        return found

    def _gradient(self, path: str, gradient: Any, feature: Any) -> Any:
        """Returns the gradient of a feature as a matrix."""
        shape = feature.output_shape.concatenate([feature.table.dim])
        if not self._check_gradient(path, gradient, shape):
            gradient = tf.zeros(shape)
        return tf.reshape(gradient, [-1, feature.table.dim])


def count_ids(
    feature_config: Any, features: Any, layouts: Mapping[str, Any], cores_per_chip: int
) -> tuple[dict[str, int], dict[str, int]]:
    """Returns how many ids, and different ids, one SparseCore needs of another at most, by stack.

    Args:
        feature_config: the structure of `FeatureConfig`s.
        features: the ids of one chip's batch, eager tensors.
        layouts: layout of each table.
        cores_per_chip: SparseCores of a chip, which share the samples of each feature.
    """
    found: dict[str, list[Any]] = {}
    for path, ids, feature in zip(
        samples.paths(feature_config),
        tf.nest.flatten(features),
        tf.nest.flatten(feature_config),
        strict=True,
    ):
        _check_shape(path, feature, cores_per_chip)
        layout = layouts[feature.table.name]
        own, _ = samples.from_ids(path, ids, None, feature, feature.output_shape)
        rows = stacking.positions(layout, own.ids).numpy()
        size = math.prod(feature.output_shape.as_list()) // cores_per_chip
        source, place = divmod(own.segments.numpy(), size)
        target = rows // layout.total_rows_per_sparse_core_shard
        triples = np.stack([source, target, rows, place + 0 * rows], 1)
        name = layout.stacked_table_name
        number = np.full([len(rows), 1], len(found.setdefault(name, [])))
        found[name].append(np.concatenate([triples, number], 1))
    ids_of, unique_of = {}, {}
    for name, parts in found.items():
        every = np.unique(np.concatenate(parts), axis=0)
        ids_of[name] = _most(every[:, :2])
        unique_of[name] = _most(np.unique(every[:, :3], axis=0)[:, :2])
    return ids_of, unique_of


def _most(pairs: Any) -> int:
    """Returns how often the most frequent row of a matrix is there."""
    return int(np.unique(pairs, axis=0, return_counts=True)[1].max(initial=0))


def _with_gains(path: str, ids: Any, weights: Any, feature: Any) -> tuple[Entries, Any]:
    """Returns the ids of a feature, and each id's factor in its sample."""
    dense = isinstance(ids, tf.Tensor)
    own = None if dense else weights
    found, _ = samples.from_ids(path, ids, own, feature, feature.output_shape)
    if dense and weights is not None:
        if not isinstance(weights, tf.Tensor):
            raise ValueError(f"Expect weight of {path} to be Tensor type but got {type(weights)}.")
        numbers = tf.reshape(tf.cast(weights, tf.float32), [-1])
        found = found._replace(weights=numbers, weights_from_user=True)
    tables.check_combiner(feature.table)
    return found, tables.gains(found)


def _check_shape(path: str, feature: Any, cores_per_chip: int) -> None:
    shape = feature.output_shape
    if not shape.is_fully_defined():
        raise ValueError(
            f"Feature {path}: TPUEmbeddingV2 needs a FeatureConfig with an output_shape of known "
            f"size, that of a replica's activation without the table's dimension; got {shape}."
        )
    if math.prod(shape.as_list()) % cores_per_chip:
        raise ValueError(
            f"Feature {path}: the samples of output_shape {shape} can't be divided among the "
            f"{cores_per_chip} SparseCores of a chip. Take a batch size that is a multiple."
        )
