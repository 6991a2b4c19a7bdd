# SPDX-License-Identifier: Apache-2.0
"""Reports what a conversion did or would do: plain data that prints as a table."""

from __future__ import annotations

import dataclasses

from estimator_spec.core.checkpoints.spec_tables import TableNames
from estimator_spec.core.common.terminal import format_size, format_table


@dataclasses.dataclass(frozen=True)
class Change:
    """The change of one variable.

    Attributes:
        source: name in the source; None for a new variable.
        target: name in the target; None for a variable that is left out.
        shape_before: shape in the source, or None.
        shape_after: shape in the target, or None.
        what: description, such as 'copied', 'div × 1 → mod × 4' or '10 new rows'.
        num_bytes: size in the target.
        names: a table's names in the source; None for other variables.
    """

    source: str | None
    target: str | None
    shape_before: tuple[int, ...] | None
    shape_after: tuple[int, ...] | None
    what: str
    num_bytes: int
    names: TableNames | None = None

    @property
    def is_copy(self) -> bool:
        """Whether name and contents stay the same."""
        return self.source == self.target and self.what == COPIED


COPIED = "copied"


@dataclasses.dataclass(frozen=True)
class ConversionReport:
    """The result of `convert`; `str()` formats it as a table.

    Attributes:
        source: checkpoint prefix of the input.
        target: checkpoint prefix of the output.
        changes: one `Change` for each variable of input or output.
        notes: differences that matter when training continues, one sentence each.
        dry_run: whether nothing was written.
    """

    source: str
    target: str
    changes: tuple[Change, ...]
    notes: tuple[str, ...]
    dry_run: bool

    @property
    def is_copy(self) -> bool:
        """Whether all variables keep their names and contents, and none is new or left out."""
        return all(change.is_copy for change in self.changes)

    @property
    def num_bytes(self) -> int:
        """Number of bytes of the output's variables."""
        return sum(change.num_bytes for change in self.changes)

    def __str__(self) -> str:
        would = "would be written" if self.dry_run else "written"
        lines = [f"{self.source} → {self.target}: {format_size(self.num_bytes)} {would}"]
        rows = [
            [
                change.source or "(new)",
                "" if change.target == change.source else change.target or "(left out)",
                format_shape(change.shape_before),
                ""
                if change.shape_after == change.shape_before
                else format_shape(change.shape_after),
                change.what,
                change.names.key if change.names else "",
                ", ".join(change.names.features) if change.names else "",
            ]
            for change in self.changes
        ]
        head = ["variable", "new name", "shape", "new shape", "what", "table", "features"]
        lines.append(format_table(head, rows))
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)


def format_shape(shape: tuple[int, ...] | None) -> str:
    """Returns a shape as text, such as '7×2' or 'scalar'; '' for None."""
    if shape is None:
        return ""
    return "×".join(map(str, shape)) or "scalar"
