# SPDX-License-Identifier: Apache-2.0
"""The interfaces of an embedding core, as the driver uses them."""

from __future__ import annotations

from typing import Any, Protocol

import tensorflow as tf

# The graph's collection of what the host core's `update` makes between the loss and its gradients:
# a second way back through the model, beside the one of the model's own optimizer. A tuple, so that
# TensorFlow leaves it out of exported graphs.
GRADIENT_OPS = ("estimator_spec", "gradient_ops")


class TablesListener(tf.compat.v1.train.CheckpointSaverListener):
    """A listener that tables need: each hook that writes checkpoints tells it, whoever's it is."""


def replica_id() -> int:
    """Which replica is being built; 0 where one trace is for all, or there is only one."""
    context = tf.distribute.get_replica_context()
    number = 0 if context is None else context.replica_id_in_sync_group
    if not isinstance(number, int):
        number = tf.get_static_value(number)
    return int(number or 0)


def distribute_values(strategy: Any, values: list[Any]) -> Any:
    """Values of the replicas as one, for a function that the strategy runs on all of them."""
    if len(values) == 1:
        return values[0]
    return strategy.experimental_distribute_values_from_function(
        lambda context: values[context.replica_id_in_sync_group]
    )


class EmbeddingCore(Protocol):
    """Owns the tables of a spec and their slots in one graph.

    In the order of calls: `look_up` once for the features of each replica, the models, `attach`,
    and in training `update`.
    """

    def look_up(self, features: Any, global_step: Any) -> dict[str, Any]:
        """Replaces ids by activations.

        Args:
            features: tensors by key; left as they are.
            global_step: the step counter, scalar.

        Returns:
            A new dict: float32 [B, D] under each feature's key ([B, L, D] for a sequence, with
            lengths [B] under `<key>_seq_length_`); weights are gone.
        """

    def attach(self) -> None:
        """Makes the tables under the names that the models' columns gave them."""

    def update(self, loss: Any) -> Any:
        """Returns the op that trains all tables once.

        Args:
            loss: what the models minimize together, a scalar.
        """


class LoopCore:
    """What a loop over replicas asks of a core; this one has no tables, and does nothing.

    In each step: `feed` on the hosts; in each replica `receive`, the model, and in training `send`;
    `finish` on the hosts again. A TPU trains its tables in `send`, the host in `finish`.
    """

    def feed(self, features: list[Any]) -> list[Any]:
        """Takes ids out of the features.

        Args:
            features: of each replica.

        Returns:
            What goes to the replicas in their place.
        """
        return features

    def receive(self, features: Any) -> Any:
        """What a replica's model finds in its features.

        Args:
            features: from `feed`.
        """
        return features

    def send(self, loss: Any) -> list[Any]:
        """Returns the ops that train the tables within a replica.

        Args:
            loss: the replica's part of what the models minimize together, a scalar.
        """
        del loss
        return []

    def finish(self, loss: Any) -> list[Any]:
        """Makes the tables, if that is still to do, and returns the ops that train them.

        Args:
            loss: gives what the models minimize together; None where nothing is trained.
        """
        del loss
        return []

    @property
    def configuration(self) -> Any:
        """The message that configures a TPU's embedding core; None: there is none."""
        return None

    def hooks(self) -> list[Any]:
        """Hooks of the session; after `finish`."""
        return []

    def listeners(self) -> list[Any]:
        """Listeners of checkpoints; after `finish`."""
        return []
