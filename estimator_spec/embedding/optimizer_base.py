# SPDX-License-Identifier: Apache-2.0
"""What the optimizers of the embedding core share: their checks, and the names of their slots."""

from __future__ import annotations

import dataclasses
import math
import numbers
from typing import Any, ClassVar, NamedTuple

import numpy as np


class Slot(NamedTuple):
    """A variable beside a table, of the same shape.

    Attributes:
        name: what the optimizer calls it.
        suffix: what follows the table variable's name in its own.
        initial: first value of every element, or the parameter that holds it.
    """

    name: str
    suffix: str
    initial: float | str = 0.0


class OptimizationParameters:
    """What all optimizers of the embedding core have in common. Not made itself.

    Attributes:
        learning_rate: the step size lr of every table that has none of its own. Unused, and may
            be None, where each table has a `learning_rate_fn`.
        use_gradient_accumulation: True (the default) sums the gradients of a row's occurrences in
            a step, and updates it once. False applies one occurrence after the other: faster,
            less exact, and without gradient clipping.
        clip_weight_min: least value of an element of w after an update. None: no limit.
        clip_weight_max: greatest value of an element of w after an update. None: no limit.
        weight_decay_factor: each step, the rows it looked up lose this part of themselves, apart
            from the gradient (decoupled decay). None or 0: none.
        multiply_weight_decay_factor_by_learning_rate: whether that part is multiplied by lr. None
            means False.
        clip_gradient_min: least value of an element of g. None: no limit.
        clip_gradient_max: greatest value of an element of g. None: no limit. Either limit needs
            `use_gradient_accumulation`, as only the sum is clipped.
    """

    SLOTS: ClassVar[tuple[Slot, ...]] = ()

    # Declared anew by each subclass, because their place among the arguments differs.
    learning_rate: float | None
    use_gradient_accumulation: bool
    clip_weight_min: float | None
    clip_weight_max: float | None
    weight_decay_factor: float | None
    multiply_weight_decay_factor_by_learning_rate: bool | None
    clip_gradient_min: float | None
    clip_gradient_max: float | None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # its subclasses are
            value = _checked(self, field.name, str(field.type))
            object.__setattr__(self, field.name, value)
        clips_gradient = self.clip_gradient_min is not None or self.clip_gradient_max is not None
        if clips_gradient and not self.use_gradient_accumulation:
            raise ValueError(
                "When using gradient clipping limits, gradient accumulation must be enabled. "
                "Leave use_gradient_accumulation at True, or both clip_gradient limits at None."
            )
        for what in ("weight", "gradient"):
            low, high = getattr(self, f"clip_{what}_min"), getattr(self, f"clip_{what}_max")
            if low is not None and high is not None and low > high:
                raise ValueError(
                    f"clip_{what}_min must not be greater than clip_{what}_max; got {low} and "
                    f"{high}."
                )
        self._check()

    def _check(self) -> None:
        """Refuses values out of range; each optimizer has its own."""

    def _at_least_zero(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) < 0:
                raise ValueError(
                    f"{name} must be greater than or equal to 0. got {getattr(self, name)}."
                )

    def _betas_and_epsilon(self) -> None:
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be between 0. and 1; got {getattr(self, name)}.")
        epsilon = self.epsilon  # type: ignore[attr-defined]
        if epsilon <= 0:
            raise ValueError(f"epsilon must be positive; got {epsilon}.")


def _checked(parameters: Any, name: str, kind: str) -> Any:
    """A parameter as a plain Python value, if it is of the kind that its annotation says."""
    value = getattr(parameters, name)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None and kind.endswith("| None"):
        return value
    if kind.startswith("bool"):
        # 0 and 1 have always served as flags.
        accepted, expected = isinstance(value, int) and value in (0, 1), "True or False"
        value = bool(value) if accepted else value
    else:
        accepted = isinstance(value, numbers.Real) and not isinstance(value, bool)
        accepted, expected = accepted and not math.isnan(value), "a number"
    if not accepted:
        raise TypeError(
            f"{type(parameters).__name__}: {name} must be {expected}; got {value!r}, a "
            f"{type(value).__name__}."
        )
    return value


def slot_names(parameters: OptimizationParameters, variable_name: str) -> dict[str, str]:
    """The full names of the variables that an optimizer keeps beside a table.

    These are the names in a checkpoint of a TPU run. TF1's own optimizers differ for Adam
    (`/Adam`, `/Adam_1`) and RMSProp (`/RMSProp`, `/RMSProp_1`).

    >>> from estimator_spec.embedding.optimizers import AdamParameters
    >>> slot_names(AdamParameters(0.1), 'input_layer/word_embedding/embedding_weights')['m']
    'input_layer/word_embedding/embedding_weights/Adam/m'

    Args:
        parameters: the optimizer.
        variable_name: full name of the table's variable.

    Returns:
        Full variable names by slot; empty for gradient descent.
    """
    return {slot.name: variable_name + slot.suffix for slot in _slots(parameters)}


def slot_initial_values(parameters: OptimizationParameters) -> dict[str, float]:
    """The value with which every element of a slot begins.

    >>> from estimator_spec.embedding.optimizers import FtrlParameters
    >>> slot_initial_values(FtrlParameters(0.1))
    {'accumulator': 0.1, 'linear': 0.0}

    Args:
        parameters: the optimizer.

    Returns:
        Values by slot, in the order of `slot_names`.
    """
    return {
        slot.name: float(
            getattr(parameters, slot.initial) if isinstance(slot.initial, str) else slot.initial
        )
        for slot in _slots(parameters)
    }


def _slots(parameters: Any) -> tuple[Slot, ...]:
    if not isinstance(parameters, OptimizationParameters):
        raise TypeError(
            "optimization_parameters must be one of estimator_spec's parameter classes, such as "
            f"AdagradParameters; got {type(parameters)}."
        )
    return parameters.SLOTS
