# SPDX-License-Identifier: Apache-2.0
"""Host core for a `TPUEmbeddingV2`: lookups and updates of stacked tables.

Nothing is kept between the calls: a lookup returns what its update needs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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

    def set_variables(self, variables: Any) -> None:
        """Sets the variables and slots of the stacks, by name of the stack and of the slot."""
        self._tables = [
            tables.from_config(
                stack.configs[0], variables[stack.name], optimizers.sparse_core_parameters
            )
            for stack in self.stacks
        ]

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
        native = self.replicas.number == 1 and tables.is_native(self._tables)
        ids = self._entries(batch)
        numbers, names = range(len(ids)), [stack.name for stack in self.stacks]
        sums, rows = tables.look_up(self._tables, numbers, names, ids, native)
        found = {stack.name: value for stack, value in zip(self.stacks, sums, strict=True)}
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
        batch = [preserved[stack.name] for stack in self.stacks]
        rows = batch[0][-1]
        native = rows.dtype == tf.variant
        tensors = [tensor for each in batch for tensor in each[:4]]
        tensors += [tf.concat(parts[stack.name], 0) for stack in self.stacks]
        tensors += [rows] * native
        configs = [stack.configs[0] for stack in self.stacks]
        self.replicas.merge(lambda every: self._update(native, every, configs), tensors)

    def _entries(self, batch: Mapping[str, Sequence[Any]]) -> list[Entries]:
        """Returns the ids of each stack."""
        found = []
        for stack in self.stacks:
            samples_of_ids, ids, gains, count = batch[stack.name][:4]
            count = tf.cast(count, tf.int64)
            found.append(Entries(ids, samples_of_ids, count, gains, "sum", weights_from_user=True))
        return found

    def _gradient(self, path: str, gradient: Any, feature: Any) -> Any:
        """Returns the gradient of a feature as a matrix."""
        shape = feature.output_shape.concatenate([feature.table.dim])
        if not self._check_gradient(path, gradient, shape):
            gradient = tf.zeros(shape)
        return tf.reshape(gradient, [-1, feature.table.dim])

    def _train(self, known: bool, tensors: Sequence[Any]) -> None:
        """Trains the tables by the tensors of all replicas, and the learning rates behind them."""
        count = len(self.stacks)
        size = 5 * count + known
        replicas, gradients = [], []
        for begin in range(0, size * self.replicas.number, size):
            mine = tensors[begin : begin + size]
            batch = {}
            for place, stack in enumerate(self.stacks):
                *ids, sample_count = mine[4 * place : 4 * place + 4]
                batch[stack.name] = [*(of_shape(each, [None]) for each in ids), sample_count]
            replicas.append(self._entries(batch))
            gradients.append(
                [
                    of_shape(each, [None, stack.shape[1]])
                    for each, stack in zip(mine[4 * count : 5 * count], self.stacks, strict=True)
                ]
            )
        rows = of_shape(tensors[5 * count], []) if known else None
        tables.train(self._tables, range(count), replicas, gradients, tensors[-count:], rows)


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
