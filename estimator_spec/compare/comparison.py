# SPDX-License-Identifier: Apache-2.0
"""Results of a comparison: items, and whether the two sides agree."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence

from estimator_spec.compare.gaps import Gap
from estimator_spec.compare.stages import Stage, Tolerance

# Items that a note or an error lists.
_MAX_LISTED = 5


# The values of both sides.
Series = tuple[tuple[float, ...], tuple[float, ...]]


def listed(texts: Sequence[str]) -> str:
    """Returns the first texts, and the number of the others."""
    more = len(texts) - _MAX_LISTED
    return "; ".join(texts[:_MAX_LISTED]) + (f"; and {more} more" if more > 0 else "")


class Outcome(enum.Enum):
    """Result of one item."""

    AGREES = "agrees"
    DIFFERS = "differs"
    ONLY_OLD = "only in the old"
    ONLY_NEW = "only in the new"


@dataclasses.dataclass(frozen=True)
class Item:
    """Comparison of one thing that both sides have, or that one of them lacks.

    Attributes:
        stage: the stage that it belongs to.
        name: name of the variable, metric, prediction or signature, after the call it is from.
        outcome: whether it agrees.
        text: description of the difference; '' if there is none.
        gap: differences of the elements; None if they weren't compared.
        tolerance: bounds of the elements that agree; None if they weren't compared.
        series: the values of both sides, if they are few numbers; None otherwise.
    """

    stage: Stage
    name: str
    outcome: Outcome
    text: str = ""
    gap: Gap | None = None
    tolerance: Tolerance | None = None
    series: Series | None = None

    @property
    def agrees(self) -> bool:
        """Whether both sides have it, and agree."""
        return self.outcome is Outcome.AGREES


@dataclasses.dataclass(frozen=True)
class Side:
    """One of the two sides.

    Attributes:
        name: path of the program or checkpoint.
        environment: versions that it ran with; '' for a checkpoint.
    """

    name: str
    environment: str = ""

    @property
    def text(self) -> str:
        """Path and versions."""
        return f"{self.name} ({self.environment})" if self.environment else self.name


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The result of a comparison.

    Attributes:
        old: the old side.
        new: the new side.
        items: all items, by stage; within a stage in the order of the program.
        notes: what a reader must know, one sentence each.
    """

    old: Side
    new: Side
    items: tuple[Item, ...]
    notes: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether there is something that was compared, and all items agree."""
        return bool(self.items) and self.first_difference is None

    @property
    def remarks(self) -> tuple[str, ...]:
        """The notes, and which items show nothing: they have no element, or only NaN."""
        empty = [
            f"{item.stage.title}: {item.name}"
            for item in self.items
            if item.gap is not None and item.gap.shows_nothing
        ]
        if not empty:
            return self.notes
        text = "Equal, but without a number to compare (no element, or NaN on both sides)"
        return (*self.notes, f"{text}: {listed(empty)}.")

    @property
    def first_difference(self) -> Item | None:
        """The first item that doesn't agree, or None."""
        return next((item for item in self.items if not item.agrees), None)

    def of(self, stage: Stage) -> tuple[Item, ...]:
        """Returns the items of a stage."""
        return tuple(item for item in self.items if item.stage is stage)

    @property
    def headline(self) -> str:
        """Whether they agree, and where they first part."""
        first = self.first_difference
        if not self.items:
            return "Nothing was compared."
        if first is None:
            return f"The two agree in all {len(self.items)} items."
        text = first.text or first.outcome.value
        return f"The two differ, first in {first.stage.title}: {first.name}: {text}"
