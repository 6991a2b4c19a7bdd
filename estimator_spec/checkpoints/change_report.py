# SPDX-License-Identifier: Apache-2.0
"""What a conversion did, or would do: plain data that prints as a table."""

from __future__ import annotations

import dataclasses

from estimator_spec.terminal import format_size, format_table


@dataclasses.dataclass(frozen=True)
class Change:
    """What becomes of one variable.

    Attributes:
        source: its name in the source; None for a new one.
        target: its name in the target; None for one that is left out.
        shape_before: in the source, or None.
        shape_after: in the target, or None.
        what: in words: 'copied', 'div × 1 → mod × 4', '10 new rows', …
        num_bytes: in the target.
    """

    source: str | None
    target: str | None
    shape_before: tuple[int, ...] | None
    shape_after: tuple[int, ...] | None
    what: str
    num_bytes: int

    @property
    def is_copy(self) -> bool:
        """Whether nothing changes but perhaps the file it lies in."""
        return self.source == self.target and self.what == COPIED


COPIED = "copied"


@dataclasses.dataclass(frozen=True)
class ConversionReport:
    """What `convert` did, or would do. `str()` makes a table of it.

    Attributes:
        source: prefix of the input.
        target: prefix of the output.
        changes: one for each variable of either.
        notes: what someone who trains on should know, one sentence each.
        dry_run: whether nothing was written.
    """

    source: str
    target: str
    changes: tuple[Change, ...]
    notes: tuple[str, ...]
    dry_run: bool

    @property
    def num_bytes(self) -> int:
        """Size of the output's variables."""
        return sum(change.num_bytes for change in self.changes)

    def __str__(self) -> str:
        would = "would be written" if self.dry_run else "written"
        lines = [f"{self.source} → {self.target}: {format_size(self.num_bytes)} {would}"]
        rows = [
            [
                change.source or "(new)",
                "" if change.target == change.source else change.target or "(left out)",
                _shape(change.shape_before),
                "" if change.shape_after == change.shape_before else _shape(change.shape_after),
                change.what,
            ]
            for change in self.changes
        ]
        head = ["variable", "new name", "shape", "new shape", "what"]
        lines.append(format_table(head, rows))
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)


def _shape(shape: tuple[int, ...] | None) -> str:
    if shape is None:
        return ""
    return "×".join(map(str, shape)) or "scalar"
