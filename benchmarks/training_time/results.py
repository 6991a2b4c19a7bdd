# SPDX-License-Identifier: Apache-2.0
"""Stores measurements of processes as JSON, and computes medians and ratios."""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

BASE = "reference"  # the side to which others are compared


@dataclasses.dataclass(frozen=True)
class Run:
    """Measurements of one process.

    Attributes:
        workload: its name.
        side: its name.
        batch: when the command was started that this is of; its rounds belong together.
        round: which turn of the sides.
        figures: what the process wrote; `ms` is a list of milliseconds a step.
        error: why there are no figures.
    """

    workload: str
    side: str
    batch: str
    round: int
    figures: dict[str, Any]
    error: str | None = None

    def value(self, figure: str = "ms") -> float | None:
        """Returns one number of the process, the median of several."""
        found = self.figures.get(figure)
        return statistics.median(found) if isinstance(found, list) and found else found or None


@dataclasses.dataclass(frozen=True)
class Ratio:
    """Ratios of one side's times to another's, by round.

    Attributes:
        median: of the rounds.
        low: the smallest.
        high: the largest.
    """

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        spread = f" ({self.low:.2f}–{self.high:.2f})" if self.low < self.high else ""
        return f"{self.median:.2f}{spread}"


class Results:
    """Runs; the newest batch of each workload and side counts."""

    def __init__(self, runs: Iterable[Run] = (), machine: str = "") -> None:
        self.runs = list(runs)
        self.machine = machine

    def add(self, run: Run) -> None:
        """Adds a process."""
        self.runs.append(run)

    def of(self, workload: str, side: str) -> list[Run]:
        """Returns the newest batch's runs of a workload on a side."""
        found = [run for run in self.runs if (run.workload, run.side) == (workload, side)]
        newest = max((run.batch for run in found), default="")
        return [run for run in found if run.batch == newest]

    def values(self, workload: str, side: str, figure: str = "ms") -> list[float]:
        """Returns a number of each round."""
        found = (run.value(figure) for run in self.of(workload, side))
        return [value for value in found if value is not None]

    def median(self, workload: str, side: str, figure: str = "ms") -> float | None:
        """Returns the median of the rounds; None without any."""
        found = self.values(workload, side, figure)
        return statistics.median(found) if found else None

    def ratio(self, workload: str, side: str, base: str, figure: str = "ms") -> Ratio | None:
        """Returns the ratio of `side` to `base`: by rounds of one batch, or of both medians.

        Without `base` in the side's batch, its batch before that counts, or else the first one.
        """
        own = self.of(workload, side)
        others = [run for run in self.runs if (run.workload, run.side) == (workload, base)]
        if not own or not others:
            return None
        batches = sorted({run.batch for run in others})
        before = [batch for batch in batches if batch <= own[0].batch]
        others = [run for run in others if run.batch == (before or batches[:1])[-1]]
        beside = {(run.batch, run.round): run.value(figure) for run in others}
        pairs = [(run.value(figure), beside.get((run.batch, run.round))) for run in own]
        ratios = [a / b for a, b in pairs if a and b]
        if not ratios:
            mine, its = ([run.value(figure) for run in runs] for runs in (own, others))
            if not any(mine) or not any(its):
                return None
            ratios = [statistics.median(filter(None, mine)) / statistics.median(filter(None, its))]
        return Ratio(statistics.median(ratios), min(ratios), max(ratios))

    def error(self, workload: str, side: str) -> str | None:
        """Returns why a side has no results for a workload."""
        found = self.of(workload, side)
        return next((run.error for run in found if run.error), None)

    def newest_only(self) -> Results:
        """Removes runs that newer batches replace, but for those of `BASE` beside others."""
        newest: dict[tuple[str, str], str] = {}
        for run in self.runs:
            key = run.workload, run.side
            newest[key] = max(newest.get(key, ""), run.batch)
        used = {(workload, batch) for (workload, _), batch in newest.items()}
        kept = [
            run
            for run in self.runs
            if run.batch == newest[run.workload, run.side]
            or (run.side == BASE and (run.workload, run.batch) in used)
        ]
        return Results(kept, self.machine)


def read(path: Path) -> Results:
    """Reads results from a file; empty results without a file."""
    if not path.exists():
        return Results()
    content = json.loads(path.read_text(encoding="utf-8"))
    return Results((Run(**run) for run in content["runs"]), content["machine"])


def write(results: Results, path: Path) -> None:
    """Writes the file atomically, one run a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(_short(dataclasses.asdict(run))) for run in results.runs)
    head = json.dumps(results.machine)
    text = f'{{"machine": {head},\n"runs": [\n{lines}\n]}}\n'
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def _short(value: Any) -> Any:
    """Rounds numbers to the measured precision."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _short(inner) for key, inner in value.items()}
    if isinstance(value, list):
        # Twenty medians represent hundreds of equal intervals.
        if len(value) > 40:
            size = -(-len(value) // 20)
            value = [statistics.median(value[i : i + size]) for i in range(0, len(value), size)]
        return [_short(inner) for inner in value]
    return value


def machine() -> str:
    """Returns processor and cores as text."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return f"{len(os.sched_getaffinity(0))} logical CPUs ({model})"
