# SPDX-License-Identifier: Apache-2.0
"""Base of the embedding cores of both APIs: features, tables, gradients, delayed updates."""

from __future__ import annotations

import abc
from collections.abc import Hashable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.mid_level import optimizers, samples
from estimator_spec.mid_level.replicas import DEVICE, LocalReplicas
from estimator_spec.mid_level.state import DelayedCall
from estimator_spec.mid_level.tables import TableVariables


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

    def __init__(self, feature_config: Any, replicas: LocalReplicas, pipelined: bool) -> None:
        self.replicas = replicas
        self.structure = feature_config
        self.features = tf.nest.flatten(feature_config)
        self.paths = samples.paths(feature_config)
        self._delayed = DelayedCall(self._train) if pipelined else None
        self._tables: list[TableVariables] = []
        self._warned: set[str] = set()

    def flush(self) -> None:
        """Applies the update that pipelining has delayed, if there is one."""
        if self._delayed is not None:
            self._delayed.make()

    def forget_delayed(self) -> None:
        """Drops the update that pipelining has delayed."""
        if self._delayed is not None:
            self._delayed.forget()

    def _update(self, known: Hashable, tensors: Sequence[Any], configs: Sequence[Any]) -> None:
        """Updates the tables, or delays it to the next step.

        Args:
            known: what is known of the update when a function is traced.
            tensors: of all replicas.
            configs: `TableConfig` of each variable, whose learning rates are appended.
        """
        with tf.device(DEVICE):
            rates = optimizers.rates([config.optimizer for config in configs])
        tensors = [*tensors, *rates]
        if self._delayed is None:
            self._train(known, tensors)
        else:
            self._delayed.replace(known, tensors)

    @abc.abstractmethod
    def _train(self, known: Any, tensors: Sequence[Any]) -> None:
        """Trains the tables by the tensors of `_update`."""

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
