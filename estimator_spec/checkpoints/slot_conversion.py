# SPDX-License-Identifier: Apache-2.0
"""Converts slot variables between the embedding core's optimizers and TF1's."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np

from estimator_spec.core.checkpoints import slots, variable_roles
from estimator_spec.core.checkpoints.bundle import Checkpoint


class SlotConversion:
    """Names, factors and notes of the slots' conversion to a target system.

    Args:
        system: 'tpu', 'cpu', or None to leave slots unchanged.

    Attributes:
        notes: differences between the systems that matter when training continues.
    """

    def __init__(self, system: str | None) -> None:
        self._system = system
        self.notes: list[str] = []
        self._with_adam: variable_roles.CheckpointTable | None = None

    def naming(
        self, table: variable_roles.CheckpointTable, before: slots.SlotNaming | None, suffix: str
    ) -> tuple[slots.SlotNaming | None, str]:
        """Returns the naming and the suffix of a slot in the target.

        Args:
            table: the slot's table.
            before: the naming that the slot belongs to in the source.
            suffix: the slot's suffix in the source.

        Raises:
            ValueError: the target system has no such optimizer, or a slot is missing.
        """
        system = self._system
        if system is None or before is None or before.optimizer == "moving average":
            return before, suffix
        if system in before.system:
            return before, suffix
        if before.system == slots.KERAS:
            raise ValueError(
                f"{table.name!r} has slots of Keras' {before.optimizer}, which are converted to no "
                f"other system. Leave them out by drop=[{re.escape(suffix) + '$'!r}], and train on "
                "with new ones."
            )
        after = slots.find_naming(before.optimizer, system)
        if after is None:
            who = "An embedding core" if system == slots.TPU else "TF1"
            raise ValueError(
                f"{table.name!r} has slots of {before.optimizer}. {who} has no such optimizer. "
                f"Leave the slots out by drop=[{re.escape(suffix) + '$'!r}], and train on with new "
                "ones."
            )
        if table.missing:
            raise ValueError(
                f"{table.name!r} lacks {', '.join(table.missing)} of {before.optimizer}, so its "
                "slots can't become those of another system. Leave them out by `drop`."
            )
        self.note_difference(before.optimizer, system)
        if before.optimizer == "Adam":
            self._with_adam = table
        slot = next(slot for slot, known in before.suffixes.items() if known == suffix)
        return after, after.suffixes[slot]

    def factor(
        self, table: variable_roles.CheckpointTable, before: slots.SlotNaming | None, suffix: str
    ) -> float:
        """Returns the factor that a slot's values are multiplied by.

        Ftrl's linear slot may hold linear·lr on an embedding core, but never in TF1.

        Raises:
            ValueError: the learning rate isn't constant.
        """
        parameters: Any = table.in_spec.optimizer if table.in_spec else None
        if (
            self._system is None
            or before is None
            or before.optimizer != "Ftrl"
            or suffix != before.suffixes["linear"]
            or not getattr(parameters, "multiply_linear_by_learning_rate", False)
        ):
            return 1.0
        rate = parameters.learning_rate
        if not rate or (table.in_spec and table.in_spec.learning_rate_fn):
            raise ValueError(
                f"{table.name!r}: the spec's Ftrl has multiply_linear_by_learning_rate, and no "
                "constant learning rate to convert by. Leave the slots out by `drop`."
            )
        to_core = self._system == slots.TPU
        self._note(
            f"Ftrl: an embedding core's linear slot holds linear·lr by this spec; it was "
            f"{'multiplied' if to_core else 'divided'} by the learning rate {rate}."
        )
        return float(rate) if to_core else 1 / float(rate)

    def without_beta_powers(
        self, found: variable_roles.VariableRoles, names: Collection[str]
    ) -> tuple[str, ...]:
        """Returns the names of TF1 Adam's beta powers, if no variable is left that it trains.

        Call it after `naming`.

        Args:
            found: roles of the source's variables.
            names: all names in the source.
        """
        if self._system != slots.TPU or self._with_adam is None:
            return ()
        own = set(slots.find_naming("Adam", slots.CPU).suffixes.values())  # type: ignore[union-attr]
        if any(own <= set(beside.values()) for beside in found.slots_of.values()):
            return ()
        return tuple(name for name in slots.BETA_POWERS if name in names)

    def beta_powers(self, checkpoint: Checkpoint) -> dict[str, tuple[np.ndarray, str]]:
        """Returns the beta powers that TF1's Adam needs, if the source lacks them.

        Call it after `naming`.

        Returns:
            (value, description) by name: the values after the checkpoint's number of steps.
        """
        table = self._with_adam
        if self._system != slots.CPU or table is None:
            return {}
        if any(name in checkpoint.variables for name in slots.BETA_POWERS):
            return {}
        parameters = table.in_spec.optimizer if table.in_spec else None
        step = checkpoint.read_global_step() or 0
        values = {}
        for name, argument, default in zip(
            slots.BETA_POWERS, ("beta1", "beta2"), (0.9, 0.999), strict=True
        ):
            beta = getattr(parameters, argument, default)
            value = np.asarray(beta ** (step + 1), np.float32)
            values[name] = value, f"{beta} to the power of {step + 1}"
        return values

    def note_difference(self, optimizer: str, system: str) -> None:
        """Adds a note if an optimizer works differently in the target system."""
        self._note(_NOTES.get((optimizer, system)))

    def _note(self, note: str | None) -> None:
        if note and note not in self.notes:
            self.notes.append(note)


_NOTES = {
    ("Adam", slots.CPU): (
        "Adam: an embedding core doesn't correct the bias of m and v, and moves a row only when "
        "it is looked up. TF1's Adam corrects the bias by beta1_power and beta2_power (written as "
        "of the checkpoint's step if there were none), and moves m, v and every row in each step."
    ),
    ("Adam", slots.TPU): (
        "Adam: TF1's Adam corrects the bias of m and v, an embedding core doesn't. For the same "
        "steps give the table a learning_rate_fn that returns lr·√(1-beta2^t)/(1-beta1^t). A core "
        "moves a row only when it is looked up, unless lazy_adam is False."
    ),
    ("RMSProp", slots.CPU): (
        "RMSProp: rows that were never looked up have ms = 0 here. TF1's RMSProp begins at 1, so "
        "their first steps will be larger."
    ),
    ("RMSProp", slots.TPU): (
        "RMSProp: rows that were never looked up have ms = 1 here. An embedding core begins at 0, "
        "so their first steps will be smaller."
    ),
}
