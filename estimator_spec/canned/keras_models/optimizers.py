# SPDX-License-Identifier: Apache-2.0
"""Copies the optimizer of a compiled Keras model into a TF1 graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Arguments of today's optimizers that mean "off" by these values, and that legacy ones lack.
_OFF: dict[str, tuple[Any, ...]] = {
    "weight_decay": (None, False, 0, 0.0),
    "use_ema": (False, None),
    "clipnorm": (None,),
    "clipvalue": (None,),
    "global_clipnorm": (None,),
}
_CLIPPING = ("clipnorm", "clipvalue", "global_clipnorm")


def copies(package: Any, optimizer: Any) -> Callable[[Any], Any]:
    """Returns the function that makes copies of a model's optimizer, each for one graph.

    It takes the global step. A `WideDeepModel` has a list of two optimizers; each of them counts
    its updates in the global step, as in TensorFlow 2.15.1: a step of training counts twice.

    Args:
        package: the model's Keras.
        optimizer: an optimizer, or a list of them.

    Raises:
        ValueError: as for `OptimizerCopies`.
    """
    if not isinstance(optimizer, (list, tuple)):
        return OptimizerCopies(package, optimizer).make
    each = [OptimizerCopies(package, one) for one in optimizer]
    return lambda step: [one.make(step) for one in each]


class OptimizerCopies:
    """Copies of an optimizer, each for one graph.

    Optimizers of tf_keras that aren't legacy ones have no ops for TF1 graphs; a copy is then the
    class of the same name in `tf.keras.optimizers.legacy`, with the same hyperparameters.

    Args:
        package: the model's Keras.
        optimizer: of Keras, or a `tf.compat.v1.train.Optimizer` that Keras has wrapped.

    Raises:
        ValueError: there is no legacy optimizer with these hyperparameters.
    """

    def __init__(self, package: Any, optimizer: Any) -> None:
        self._wrapped = getattr(optimizer, "optimizer", None)
        self._class = type(optimizer)
        # Read here: hyperparameters are variables of the user's graph or of eager mode.
        self._config = None if self._wrapped is not None else optimizer.get_config()
        legacy = package.optimizers.legacy
        if self._wrapped is None and not isinstance(optimizer, legacy.Optimizer):
            self._class, self._config = _as_legacy(legacy, optimizer)

    def make(self, step: Any) -> Any:
        """Returns a new optimizer that counts its steps in the global step.

        Args:
            step: the global step.
        """
        if self._wrapped is not None:
            return self._class(self._wrapped, step)
        copy = self._class.from_config(self._config)
        copy.iterations = step
        return copy


def _as_legacy(legacy: Any, optimizer: Any) -> tuple[Any, dict[str, Any]]:
    """Returns the legacy class of an optimizer's name, and its configuration."""
    name = type(optimizer).__name__
    found = getattr(legacy, name, None)
    if found is None:
        raise ValueError(
            f"The optimizer {name} of the Keras model can't train in a TF1 graph, as an Estimator "
            "does. Compile the model with an optimizer of tf.keras.optimizers.legacy or "
            "tf.compat.v1.train."
        )
    config = optimizer.get_config()
    on = {key: config[key] for key, off in _OFF.items() if config.get(key) not in off}
    unknown = sorted(set(on) - set(_CLIPPING))
    if unknown:
        raise ValueError(
            f"The Keras model's optimizer {name} has {unknown[0]}={on[unknown[0]]!r}, which legacy "
            "optimizers, the only ones for TF1 graphs, lack. Leave it out, or compile the model "
            "with an optimizer of tf.keras.optimizers.legacy."
        )
    kept = {key: config[key] for key in found().get_config() if key in config}
    return found, {**kept, **on}
