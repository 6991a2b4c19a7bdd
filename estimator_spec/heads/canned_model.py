# SPDX-License-Identifier: Apache-2.0
"""Head, columns and optimizers of a canned estimator, for conversions to other systems."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, NamedTuple

OPTIMIZERS = {
    "Adagrad": ("AdagradOptimizer", "Adagrad"),
    "Adam": ("AdamOptimizer", "Adam"),
    "Ftrl": ("FtrlOptimizer", "Ftrl"),
    "RMSProp": ("RMSPropOptimizer", "RMSprop"),
    "SGD": ("GradientDescentOptimizer", "SGD"),
}
"""By an optimizer's name, its class in `tf.compat.v1.train` and in `tf.keras.optimizers.legacy`."""


@dataclasses.dataclass(frozen=True)
class ModelPart:
    """A part of a model; the parts' logits are added.

    Attributes:
        scope: 'linear', 'dnn' or 'baseline'; the names of the part's variables start with it.
        optimizer: as the estimator takes it.
        learning_rate: that of an optimizer given by name; None: its class' default.
        columns: feature columns.
        sparse_combiner: of a linear part.
        layers: the hidden layers of a deep part, a `HiddenLayers`.
        optimizer_config: configuration of a Keras optimizer before it trains, or None.
    """

    scope: str
    optimizer: Any
    learning_rate: float | None
    columns: Any = ()
    sparse_combiner: str = "sum"
    layers: Any = None
    optimizer_config: dict[str, Any] | None = dataclasses.field(init=False, default=None)

    def __post_init__(self) -> None:
        get_config = getattr(self.optimizer, "get_config", None)
        if get_config is None or isinstance(self.optimizer, type):
            return
        # Once it has trained, its settings are variables of a graph.
        with contextlib.suppress(TypeError, ValueError, RuntimeError):
            object.__setattr__(self, "optimizer_config", get_config())


class CannedModel(NamedTuple):
    """The model of a canned estimator; each has it as the attribute `canned_model`.

    Attributes:
        head: its head, of either generation.
        parts: the parts whose logits are added.
        generation: 2 for `tf.estimator`, 1 for `tf.compat.v1.estimator`.
    """

    head: Any
    parts: tuple[ModelPart, ...]
    generation: int
