# SPDX-License-Identifier: Apache-2.0
"""Draws a plan as one HTML page: problems, memory by device, balance of shards, tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from estimator_spec.core.common.html_page import Bar, Page
from estimator_spec.core.common.terminal import format_size
from estimator_spec.planning import text
from estimator_spec.planning.balance import imbalance, total_lookups
from estimator_spec.planning.memory import MemoryUse
from estimator_spec.planning.results import Plan
from estimator_spec.planning.tables import Table
from tpu_columns.partition import STRATEGIES

# More devices are drawn in groups of neighbors.
_BARS = 32
_STYLES = dict(zip(STRATEGIES, ("first", "second"), strict=True))


def make_page(plan: Plan, name: str = "") -> Page:
    """Returns the page of a plan.

    Args:
        plan: the plan.
        name: name of the spec, for the title.
    """
    page = Page(f"Plan of {name}" if name else "Plan of embedding tables")
    estimate = plan.estimate
    kind = "good" if plan.fits else "bad"
    page.add_note(text.summary_text(estimate, plan.problems), kind=kind)
    page.add_paragraph(text.system_text(estimate.system))
    for problem in plan.problems:
        page.add_note(
            f"{problem.kind.value}: {problem.text}",
            [str(fix) for fix in problem.fixes],
            "bad" if problem.is_error else "",
        )
    page.add_heading("Memory by device")
    for use in estimate.uses:
        page.add_chart(list(_memory_bars(use)), _memory_caption(use))
    page.add_table(text.MEMORY_HEADER, [text.memory_row(use) for use in estimate.uses])
    if plan.balances:
        _add_balance(page, plan)
    page.add_heading("Tables")
    largest = sorted(estimate.tables, key=lambda table: -table.num_bytes)[:_BARS]
    page.add_chart(
        [_table_bar(table) for table in largest],
        f"{len(largest)} largest of {text.count(len(estimate.tables), 'table')}, with slots:",
        key={"first": "table", "second": "slots"},
    )
    page.add_table(text.TABLE_HEADER, [text.table_row(table) for table in estimate.tables])
    page.add_list(text.reason_lines(estimate.tables))
    if plan.limits:
        page.add_heading("SparseCore's limits")
        page.add_table(text.LIMITS_HEADER, [text.limits_row(found) for found in plan.limits])
        page.add_paragraph(text.LIMITS_NOTE)
    return page


def _table_bar(table: Table) -> Bar:
    size = format_size(table.num_bytes)
    slots = f" and {format_size(table.slot_bytes)} of slots" if table.num_slots else ""
    return Bar(table.key, table.num_bytes, size + slots, rest=table.slot_bytes)


def _memory_bars(use: MemoryUse) -> Iterator[Bar]:
    """Yields the bars of memory, one for neighbouring devices that use the same amount."""
    first = 0
    for size, groups in itertools.groupby(use.groups, lambda group: format_size(group.num_bytes)):
        same = list(groups)
        last = first + sum(group.devices for group in same) - 1
        number = f"{first}" if first == last else f"{first} to {last}"
        label = use.place.device if use.num_devices == 1 else f"{use.place.device} {number}"
        largest = same[0].num_bytes
        yield Bar(label, largest, size, "over" if largest > use.capacity else "first", use.capacity)
        first = last + 1


def _memory_caption(use: MemoryUse) -> str:
    devices = text.count(use.num_devices, use.place.device)
    return f"Tables and slots on {devices}; the line is the usable {format_size(use.capacity)}"


def _add_balance(page: Page, plan: Plan) -> None:
    """Adds the charts and the table of shards."""
    page.add_heading("Balance of shards")
    found = {strategy: total_lookups(plan.balances, strategy) for strategy in STRATEGIES}
    if any(map(any, found.values())):
        busiest = max(max(lookups) for lookups in found.values())
        for strategy, lookups in found.items():
            page.add_chart(
                _shard_bars(lookups, _STYLES[strategy]),
                f"Lookups of the sample by shard, under {strategy}: the busiest has "
                f"{imbalance(lookups):.2f} times the mean, which is the line",
                scale_to=busiest,
            )
    else:
        bars = [
            Bar(balance.table, balance.row_imbalance, f"{balance.row_imbalance:.2f}", limit=1.0)
            for balance in plan.balances
            if balance.strategy == STRATEGIES[0]
        ]
        page.add_chart(
            sorted(bars, key=lambda bar: -bar.value)[:_BARS],
            "Rows of the fullest shard over the mean, alike under div and mod; the line is even",
        )
    header = text.balance_header(plan.sample is not None)
    page.add_table(header, text.balance_rows(plan.balances))


def _shard_bars(lookups: tuple[int, ...], style: str) -> list[Bar]:
    """Returns bars of shards; if there are too many, the busiest of every few shards."""
    mean = float(np.mean(lookups))
    groups = np.array_split(np.arange(len(lookups)), min(_BARS, len(lookups)))
    bars = []
    for group in groups:
        busiest = max(lookups[shard] for shard in group)
        first, last = int(group[0]), int(group[-1])
        label = f"shard {first}" if first == last else f"busiest of {first} to {last}"
        bars.append(Bar(label, busiest, f"{busiest:,}", style, mean))
    return bars
