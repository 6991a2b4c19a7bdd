# SPDX-License-Identifier: Apache-2.0
"""Results as a page in Markdown, and as a plot."""

from __future__ import annotations

from pathlib import Path

from training_time.results import Results
from training_time.sides import SIDES, Side
from training_time.workloads import WORKLOADS, Workload

BASE = "reference"


def cell(results: Results, workload: str, side: str) -> str:
    """Milliseconds, and the ratio to the reference with its spread."""
    median = results.median(workload, side)
    if median is None:
        return "failed" if results.error(workload, side) else "–"
    text = f"{median:.1f}" if median >= 10 else f"{median:.2f}"
    ratio = results.ratio(workload, side, BASE) if side != BASE else None
    return f"{text} · {ratio}" if ratio else text


def grid(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table, numbers to the right."""
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def table(results: Results, chosen: list[Workload], who: list[Side]) -> str:
    """Milliseconds and ratios of workloads by sides, those that have any."""
    present = [s for s in who if any(results.of(w.name, s.name) for w in chosen)]
    rows = [
        [workload.name, *(cell(results, workload.name, side.name) for side in present)]
        for workload in chosen
        if any(results.of(workload.name, side.name) for side in present)
    ]
    return grid(["workload", *(side.title for side in present)], rows)


def write(results: Results, path: Path) -> None:
    """Writes the page."""
    chosen = list(WORKLOADS.values())
    path.write_text(table(results, chosen, list(SIDES.values())) + "\n", encoding="utf-8")
