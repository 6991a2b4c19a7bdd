# SPDX-License-Identifier: Apache-2.0
"""The interface of an embedding core, as the driver uses it."""

from __future__ import annotations

from typing import Any, Protocol


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
