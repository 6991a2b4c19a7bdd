# SPDX-License-Identifier: Apache-2.0
"""Defines the problems that a plan finds, and the fixes that it proposes."""

from __future__ import annotations

import dataclasses
import enum

from estimator_spec.planning.memory import Place


class ProblemKind(enum.Enum):
    """Kind of a problem. IMBALANCE costs speed only; a training or export fails with the others."""

    CORE_MEMORY = "core memory"
    HOST_MEMORY = "host memory"
    SERVING_MEMORY = "serving memory"
    LOOKUP_DEVICE = "lookup device"
    OPTIMIZER = "optimizer"
    INT32_IDS = "int32 ids"
    IDS_OUT_OF_RANGE = "ids out of range"
    IMBALANCE = "imbalance"


MEMORY_KINDS = {
    Place.CORES: ProblemKind.CORE_MEMORY,
    Place.HOSTS: ProblemKind.HOST_MEMORY,
    Place.SERVING: ProblemKind.SERVING_MEMORY,
}


@dataclasses.dataclass(frozen=True)
class Fix:
    """A change that solves a problem, or makes it smaller.

    Attributes:
        text: the change and its result, in sentences.
        solves: whether this change alone is enough.
    """

    text: str
    solves: bool = True

    def __str__(self) -> str:
        return self.text if self.solves else f"{self.text} That alone is not enough."


@dataclasses.dataclass(frozen=True)
class Problem:
    """A reason why a training or an export fails, or is slow.

    Attributes:
        kind: the kind.
        text: description, in sentences.
        tables: keys of the tables concerned.
        fixes: changes, those that solve it first.
    """

    kind: ProblemKind
    text: str
    tables: tuple[str, ...]
    fixes: tuple[Fix, ...] = ()

    @property
    def is_error(self) -> bool:
        """Whether a training or an export would fail."""
        return self.kind is not ProblemKind.IMBALANCE

    def __str__(self) -> str:
        lines = [f"{self.kind.value}: {self.text}"]
        lines += [f"  {number}. {fix}" for number, fix in enumerate(self.fixes, 1)]
        return "\n".join(lines)
