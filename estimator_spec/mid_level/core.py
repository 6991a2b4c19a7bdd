# SPDX-License-Identifier: Apache-2.0
"""Base of the embedding cores of both APIs: features, tables, gradients, delayed updates."""

from __future__ import annotations

import abc
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.mid_level import optimizers, samples, tables
from estimator_spec.mid_level.replicas import DEVICE, LocalReplicas
from estimator_spec.mid_level.state import DelayedCall, of_shape
from tpu_columns.combining import Entries


class _KnownOfUpdate(NamedTuple):
    """Static properties of an update, known when a function is traced.

    Attributes:
        kind: of the batches; see `MidLevelCore._unflatten`.
        native: whether native ops have looked them up.
        has_gradient: whether each feature has a gradient.
    """

    kind: Hashable
    native: bool
    has_gradient: tuple[bool, ...]


class MidLevelCore(abc.ABC):
    """Base of the embedding cores on the host.

    Args:
        feature_config: the structure of `FeatureConfig`s.
        replicas: the replicas.
        pipelined: whether a step's lookup lacks the update of the step before.

    Attributes:
        replicas: the replicas.
        structure: the structure of `FeatureConfig`s.
        features: the `FeatureConfig`s.
        paths: their names in errors.
    """

    _parameters_of: Callable[[str, Any], Any] = staticmethod(optimizers.parameters_of)
    _configs: Mapping[str, Any]  # the `TableConfig` of each variable, by the variable's name
    _numbers: Sequence[int]  # as in `LookupTables`
    _names: Sequence[str]
    _tables: tables.LookupTables

    def __init__(self, feature_config: Any, replicas: LocalReplicas, pipelined: bool) -> None:
        self.replicas = replicas
        self.structure = feature_config
        self.features = tf.nest.flatten(feature_config)
        self.paths = samples.paths(feature_config)
        self._delayed = DelayedCall(self._train) if pipelined else None
        self._warned: set[str] = set()

    def set_variables(self, variables: Any) -> None:
        """Sets the variables and slots, by name of the variable and of the slot."""
        own = [
            tables.from_config(config, variables[name], self._parameters_of)
            for name, config in self._configs.items()
        ]
        self._tables = tables.LookupTables(own, self._numbers, self._names)

    @property
    def _is_native(self) -> bool:
        return self.replicas.number == 1 and self._tables.is_native

    def flush(self) -> None:
        """Applies the update that pipelining has delayed, if there is one."""
        if self._delayed is not None:
            self._delayed.make()

    def forget_delayed(self) -> None:
        """Drops the update that pipelining has delayed."""
        if self._delayed is not None:
            self._delayed.forget()

    def _update(
        self, kind: Hashable, batch: Sequence[Any], rows: Any, gradients: Sequence[Any]
    ) -> None:
        """Updates the tables once for all replicas, or delays it to the next step.

        Args:
            kind: what is known of the batch.
            batch: tensors of the current replica's batch.
            rows: what the native lookup of the batch has read, or None.
            gradients: matrix of each feature's sums, or None.
        """
        has_gradient = tuple(gradient is not None for gradient in gradients)
        known = _KnownOfUpdate(kind, rows is not None, has_gradient)

        def update(tensors: list[Any]) -> None:
            with tf.device(DEVICE):
                rates = optimizers.rates([each.optimizer for each in self._configs.values()])
            if self._delayed is None:
                self._train(known, [*tensors, *rates])
            else:
                self._delayed.replace(known, [*tensors, *rates])

        given = [each for each in (rows, *gradients) if each is not None]
        self.replicas.merge(update, [*batch, *given])

    def _train(self, known: _KnownOfUpdate, tensors: Sequence[Any]) -> None:
        """Trains the tables by the tensors of all replicas, and the learning rates behind them."""
        end = len(tensors) - len(self._configs)
        rest = iter(tensors)
        replicas, gradients, rows = [], [], None
        for _ in range(self.replicas.number):
            replicas.append(self._unflatten(known.kind, rest))
            if known.native:
                rows = of_shape(next(rest), [])
            gradients.append(
                [
                    of_shape(next(rest), [None, width]) if has else None
                    for has, width in zip(known.has_gradient, self._tables.widths, strict=True)
                ]
            )
        self._tables.train(replicas, gradients, tensors[end:], rows)

    @abc.abstractmethod
    def _unflatten(self, kind: Any, tensors: Iterator[Any]) -> list[Entries]:
        """Takes the tensors of a replica's batch, and returns the ids in them by feature."""

    def _check_gradient(self, path: str, gradient: Any, shape: Any) -> bool:
        """Checks kind and shape of a gradient, and warns once if it is None.

        Returns:
            Whether it isn't None.

        Raises:
            ValueError: it isn't a tensor, or of another shape.
        """
        if gradient is None:
            if path not in self._warned:
                self._warned.add(path)
                tf.compat.v1.logging.warning(
                    "No gradient passed for feature %s, sending zero gradient. This may not be "
                    "correct behavior for certain optimizers like Adam.",
                    path,
                )
            return False
        if not isinstance(gradient, tf.Tensor):
            raise ValueError(f"found non-tensor type: {type(gradient)} at path {path}.")
        if not gradient.shape.is_compatible_with(shape):
            raise ValueError(
                f"Found gradient of shape {gradient.shape} at path {path}. Expected shape {shape}."
            )
        return True
