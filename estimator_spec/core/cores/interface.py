# SPDX-License-Identifier: Apache-2.0
"""Interfaces of embedding cores for the driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


class TablesListener(tf.compat.v1.train.CheckpointSaverListener):
    """Base class of the tables' checkpoint listeners.

    The driver adds them to each `CheckpointSaverHook`, also to those of the program.
    """


def replica_id() -> int:
    """Returns the id of the current replica; 0 outside of replicas, or if all share a trace."""
    context = tf.distribute.get_replica_context()
    number = 0 if context is None else context.replica_id_in_sync_group
    if not isinstance(number, int):
        number = tf.get_static_value(number)
    return int(number or 0)


def distribute_values(strategy: Any, values: list[Any]) -> Any:
    """Returns values as one distributed value, for a function that the strategy runs.

    Args:
        strategy: a `tf.distribute.Strategy`.
        values: one value per replica.
    """
    if len(values) == 1:
        return values[0]
    return strategy.experimental_distribute_values_from_function(
        lambda context: values[context.replica_id_in_sync_group]
    )


class EmbeddingCore:
    """Owner of a spec's tables and slot variables in one graph; this base class has no tables.

    In each step: `feed` on the hosts; in each replica `receive`, the model, and in training `send`;
    then `finish` on the hosts. A TPU trains its tables in `send`, the host in `finish`.

    Args:
        pad: returns a replica's features with the ids of the tensor core's columns padded.
    """

    def __init__(self, pad: Callable[[Any], Any] = lambda features: features) -> None:
        self._pad = pad

    def feed(self, features: list[Any]) -> list[Any]:
        """Takes ids out of the features.

        Args:
            features: features of each replica.

        Returns:
            The inputs of `receive` for each replica.
        """
        return [self._pad(part) for part in features]

    def receive(self, features: Any) -> Any:
        """Returns the features of a replica's model.

        Args:
            features: the replica's element of `feed`.
        """
        return features

    def send(self) -> list[Any]:
        """Returns the ops that train the tables within a replica."""
        return []

    def finish(self) -> list[Any]:
        """Creates the tables that don't exist yet, and returns the ops that train them."""
        return []

    @property
    def configuration(self) -> Any:
        """The proto that configures a TPU's embedding core, or None."""
        return None

    def hooks(self) -> list[tf.compat.v1.train.SessionRunHook]:
        """Returns hooks of the session; call it after `finish`."""
        return []

    def listeners(self) -> list[TablesListener]:
        """Returns checkpoint listeners; call it after `finish`."""
        return []
