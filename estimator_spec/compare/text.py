# SPDX-License-Identifier: Apache-2.0
"""Formats a comparison as text, and as plain data for JSON."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterator
from typing import Any

from estimator_spec.compare import gaps
from estimator_spec.compare.comparison import Comparison, Item
from estimator_spec.compare.stages import Stage
from estimator_spec.core.common.terminal import format_table

_MAX_ROWS = 20
_MAX_BAR = 40


def format_text(result: Comparison) -> str:
    """Returns a comparison as one page of text."""
    lines = [result.headline, "", *(f"{label}  {text}" for label, text in side_rows(result))]
    rows = [stage_row(result, stage) for stage in Stage if result.of(stage)]
    lines += ["", format_table(STAGE_HEADER, rows)]
    differences = [item for item in result.items if not item.agrees]
    if differences:
        lines += ["", *_differences(differences)]
        if differences[0].gap is not None:
            lines += ["", *_histogram(differences[0])]
    lines += [f"note: {note}" for note in result.remarks]
    return "\n".join(lines)


def plain_data(result: Comparison) -> dict[str, Any]:
    """Returns a comparison as dicts, lists and numbers.

    Infinite differences are the text 'inf', which JSON has no number for.
    """
    data: dict[str, Any] = {"agrees": result.agrees, "headline": result.headline}
    data.update(_plain(dataclasses.asdict(result)))
    first = result.first_difference
    data["first_difference"] = None if first is None else result.items.index(first)
    data["histogram_bins"] = list(gaps.BINS)
    return data


def side_rows(result: Comparison) -> list[tuple[str, str]]:
    """Returns the rows of both sides: which one, and what it is."""
    return [("old", result.old.text), ("new", result.new.text)]


def stage_row(result: Comparison, stage: Stage) -> list[str]:
    """Returns a stage's row of the table with the header `STAGE_HEADER`."""
    items = result.of(stage)
    measured = [item.gap for item in items if item.gap is not None]
    row = [stage.title, str(len(items)), str(sum(item.agrees for item in items))]
    for name in ("absolute", "relative"):
        found = [getattr(gap, name) for gap in measured]
        numbers = [number for number in found if number is not None]
        row.append(f"{max(numbers):.2g}" if numbers else "")
    return row


def largest(item: Item) -> list[str]:
    """Returns an item's largest absolute and relative difference; "" without numbers."""
    gap = item.gap
    numbers = [None, None] if gap is None else [gap.absolute, gap.relative]
    return ["" if number is None else f"{number:.3g}" for number in numbers]


STAGE_HEADER = ("stage", "items", "agree", "largest difference", "relative")


def _differences(differences: list[Item]) -> Iterator[str]:
    rows = [
        [item.stage.title, item.name, item.text or item.outcome.value]
        for item in differences[:_MAX_ROWS]
    ]
    yield format_table(["differs in", "item", "difference"], rows)
    if len(differences) > _MAX_ROWS:
        yield f"and {len(differences) - _MAX_ROWS} more; --json and --html have all."


def _histogram(item: Item) -> Iterator[str]:
    """Yields the lines of the first difference's histogram."""
    assert item.gap is not None
    yield f"relative differences of {item.name}, by element:"
    largest = max(item.gap.histogram)
    rows = [
        [label, str(count), "█" * max(1, round(_MAX_BAR * count / largest))]
        for label, count in zip(gaps.BINS, item.gap.histogram, strict=True)
        if count
    ]
    yield format_table(["difference", "elements", ""], rows)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
