# SPDX-License-Identifier: Apache-2.0
"""Base class of the embedding core's optimizers: common parameters, checks and slot variables."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tpu_columns.checks import is_flag, is_number


class Slot(NamedTuple):
    """One slot variable of a table, of the table's shape.

    Attributes:
        name: its name in the optimizer.
        suffix: its variable's name is the table variable's name plus this.
        initial: initial value of every element, or the name of the parameter that has it.
    """

    name: str
    suffix: str
    initial: float | str = 0.0


class OptimizationParameters:
    """Common parameters of the embedding core's optimizers; an abstract base class.

    Attributes:
        learning_rate: lr, for every table without its own. May be None if each table has a
            `learning_rate_fn`.
        use_gradient_accumulation: True (the default) sums the gradients of a row's occurrences in
            a step and updates the row once. False sums them on each replica, and applies the sums
            of the replicas one after the other; it allows no gradient clipping. On one replica both
            are the same.
        clip_weight_min: lower bound of an element of w after an update. None: no limit.
        clip_weight_max: upper bound of an element of w after an update. None: no limit.
        weight_decay_factor: fraction of each looked-up row that is subtracted in an update, apart
            from the gradient (decoupled decay). None or 0: none.
        multiply_weight_decay_factor_by_learning_rate: whether that fraction is multiplied by lr.
            None means False.
        clip_gradient_min: lower bound of an element of g. None: no limit.
        clip_gradient_max: upper bound of an element of g. None: no limit. Either limit needs
            `use_gradient_accumulation`, because only the sum is clipped.

    Raises:
        ValueError: a value is out of range.
        TypeError: a value has another type.
    """

    SLOTS: ClassVar[tuple[Slot, ...]] = ()

    # Each subclass declares them again, because their positions among its arguments differ.
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
            value = _plain_value(self, field.name, str(field.type))
            object.__setattr__(self, field.name, value)
        check_learning_rate(f"{type(self).__name__}: learning_rate", self.learning_rate)
        clips_gradient = self.clip_gradient_min is not None or self.clip_gradient_max is not None
        if clips_gradient and not self.use_gradient_accumulation:
            raise ValueError(
                "When using gradient clipping limits, gradient accumulation must be enabled. "
                "Leave use_gradient_accumulation at True, or both clip_gradient limits at None."
            )
        for kind in ("weight", "gradient"):
            low, high = getattr(self, f"clip_{kind}_min"), getattr(self, f"clip_{kind}_max")
            if low is not None and high is not None and low > high:
                raise ValueError(
                    f"clip_{kind}_min must not be greater than clip_{kind}_max; got {low} and "
                    f"{high}."
                )
        self._check()

    def _check(self) -> None:
        """Checks the ranges of the optimizer's own parameters; subclasses override it."""

    def _check_not_negative(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) < 0:
                raise ValueError(
                    f"{name} must be greater than or equal to 0. got {getattr(self, name)}."
                )

    def _check_betas_and_epsilon(self) -> None:
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be between 0. and 1; got {getattr(self, name)}.")
        epsilon = self.epsilon  # type: ignore[attr-defined]
        if epsilon <= 0:
            raise ValueError(f"epsilon must be positive; got {epsilon}.")


def check_learning_rate(name: str, value: Any) -> None:
    """Checks that a constant learning rate is a finite number of at least 0, or None.

    Args:
        name: name of the argument, for the message.
        value: the learning rate.

    Raises:
        TypeError: it isn't a number.
        ValueError: it is negative or infinite.
    """
    if value is None:
        return
    if not is_number(value):
        raise TypeError(f"{name} must be a number; got {value!r}, a {type(value).__name__}.")
    if not 0 <= value < math.inf:
        raise ValueError(
            f"{name} must be finite and greater than or equal to 0; got {value!r}. A rate that "
            "changes with the global step belongs in a learning_rate_fn."
        )


def _plain_value(parameters: Any, name: str, annotation: str) -> Any:
    """Returns a parameter as a plain Python value, after a check of its type."""
    value = getattr(parameters, name)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None and annotation.endswith("| None"):
        return value
    if annotation.startswith("bool"):
        # TensorFlow accepts 0 and 1 as flags too.
        accepted, expected = is_flag(value), "True or False"
        value = bool(value) if accepted else value
    else:
        accepted, expected = is_number(value), "a number"
    if not accepted:
        raise TypeError(
            f"{type(parameters).__name__}: {name} must be {expected}; got {value!r}, a "
            f"{type(value).__name__}."
        )
    return value


def slot_names(parameters: OptimizationParameters, variable_name: str) -> dict[str, str]:
    """Returns the full names of a table's slot variables.

    Checkpoints of TPU runs have these names. TF1's own optimizers differ for Adam
    (`/Adam`, `/Adam_1`) and RMSProp (`/RMSProp`, `/RMSProp_1`).

    >>> from estimator_spec.core.embedding.optimizers import AdamParameters
    >>> slot_names(AdamParameters(0.1), 'input_layer/word_embedding/embedding_weights')['m']
    'input_layer/word_embedding/embedding_weights/Adam/m'

    Args:
        parameters: the optimizer.
        variable_name: full name of the table's variable.

    Returns:
        Full variable names by slot; empty for SGD.
    """
    return {slot.name: variable_name + slot.suffix for slot in _slots(parameters)}


def slot_initial_values(parameters: OptimizationParameters) -> dict[str, float]:
    """Returns the initial values of an optimizer's slot variables.

    >>> from estimator_spec.core.embedding.optimizers import FtrlParameters
    >>> slot_initial_values(FtrlParameters(0.1))
    {'accumulator': 0.1, 'linear': 0.0}

    Args:
        parameters: the optimizer.

    Returns:
        The value of every element by slot, in the order of `slot_names`.
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
