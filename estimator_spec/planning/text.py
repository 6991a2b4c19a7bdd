# SPDX-License-Identifier: Apache-2.0
"""Formats a plan as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from estimator_spec.core.common.terminal import format_size, format_table
from estimator_spec.planning.balance import Balance
from estimator_spec.planning.memory import Estimate, MemoryUse
from estimator_spec.planning.problems import Problem
from estimator_spec.planning.sparse_core import DEFAULT_LIMIT, LIMITS, SparseCoreLimits
from estimator_spec.planning.system import System
from estimator_spec.planning.tables import Lookup, Table
from tpu_columns.partition import STRATEGIES
from tpu_columns.placement import Hardware, LookupDevice

# Of longer lists only so many names are shown.
NAMES_SHOWN = 4


def system_text(system: System) -> str:
    """Returns the hardware in one sentence."""
    hosts = count(system.hosts, "host")
    memory = format_size(system.host_memory)
    if system.hardware is Hardware.CPU:
        return f"{hosts} with {memory}, without TPU cores; {system.reserved:.0%} reserved"
    return (
        f"{hosts} with {memory} and {count(system.cores, 'core')} of {format_size(system.hbm)} "
        f"each; {system.reserved:.0%} of all memory reserved"
    )


def summary_text(estimate: Estimate, problems: Sequence[Problem]) -> str:
    """Returns in one sentence whether the tables fit, and the number of problems."""
    errors = sum(problem.is_error for problem in problems)
    warnings = len(problems) - errors
    verdict = "fits" if not errors else f"doesn't work: {count(errors, 'problem')}"
    more = f", {count(warnings, 'warning')}" if warnings else ""
    rows = sum(table.rows for table in estimate.tables)
    size = format_size(sum(table.num_bytes for table in estimate.tables))
    tables = count(len(estimate.tables), "table")
    return f"{tables} of {rows:,} rows, {size}: {verdict}{more}"


def count(number: int, noun: str) -> str:
    """Returns a number with its noun.

    >>> count(1, 'host'), count(8, 'host')
    ('1 host', '8 hosts')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


TABLE_HEADER = (
    "table", "rows", "width", "size", "slots", "optimizer", "training", "serving", "variable",
    "features",
)  # fmt: skip


def table_row(table: Table) -> list[str]:
    """Returns the cells of one table, as in `TABLE_HEADER`."""
    slots = f"{table.num_slots} × {format_size(table.num_bytes)}" if table.num_slots else "none"
    shown = list(table.features[:NAMES_SHOWN])
    hidden = len(table.features) - len(shown)
    return [
        table.key,
        f"{table.rows:,}",
        str(table.width),
        format_size(table.num_bytes),
        slots,
        _optimizer(table),
        _device(table.training),
        _device(table.serving),
        table.variable,
        ", ".join([*shown, *([f"{hidden} more"] if hidden else [])]),
    ]


def reason_lines(tables: Iterable[Table]) -> list[str]:
    """Returns one line for each device and reason, with its tables."""
    users: dict[tuple[str, str, str], list[str]] = {}
    tables = list(tables)
    for table in tables:
        for mode, lookup in (("training", table.training), ("serving", table.serving)):
            users.setdefault((mode, _device(lookup), lookup.reason), []).append(table.key)
    return [
        f"{mode} on {device}, {reason}: {name_tables(keys, len(tables))}"
        for (mode, device, reason), keys in sorted(users.items(), reverse=True)
    ]


def name_tables(keys: Sequence[str], all_tables: int | None = None) -> str:
    """Returns the keys of tables as text, long lists shortened.

    Args:
        keys: keys of the tables.
        all_tables: number of all tables; so many keys are 'all tables'.
    """
    if len(keys) == all_tables:
        return "all tables"
    shown = ", ".join(keys[:NAMES_SHOWN])
    return shown if len(keys) <= NAMES_SHOWN else f"{shown} and {len(keys) - NAMES_SHOWN} more"


MEMORY_HEADER = ("place", "devices", "fullest", "emptiest", "usable", "used", "total")


def memory_row(use: MemoryUse) -> list[str]:
    """Returns the cells of one place, as in `MEMORY_HEADER`."""
    return [
        use.place.value,
        f"{use.num_devices:,}",
        format_size(use.largest),
        format_size(use.groups[-1].num_bytes),
        format_size(use.capacity),
        f"{use.largest / use.capacity:.0%}",
        format_size(use.total),
    ]


def balance_header(has_sample: bool) -> list[str]:
    """Returns the header of `balance_rows`."""
    header = ["table", "shards", "most rows", "rows: most/mean", "shards without rows"]
    return header + [f"lookups by {s}: most/mean" for s in STRATEGIES] * has_sample


def balance_rows(balances: Sequence[Balance]) -> list[list[str]]:
    """Returns the cells of each table; rows are distributed alike under both strategies."""
    by_table: dict[str, dict[str, Balance]] = {}
    for balance in balances:
        by_table.setdefault(balance.table, {})[balance.strategy] = balance
    rows = []
    for key, found in by_table.items():
        div = found[STRATEGIES[0]]
        row = [key, f"{len(div.rows):,}", f"{max(div.rows):,}", f"{div.row_imbalance:.2f}"]
        row.append(str(div.empty_shards))
        if div.lookups is not None:
            ratios = [found[strategy].lookup_imbalance for strategy in STRATEGIES]
            row += ["no ids" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
        rows.append(row)
    return rows


LIMITS_HEADER = (
    "table", "most ids", "max_ids_per_partition", "most unique ids", "max_unique_ids_per_partition",
)  # fmt: skip


def limits_row(limits: SparseCoreLimits) -> list[str]:
    """Returns the cells of one table, as in `LIMITS_HEADER`."""
    return [limits.table, *(str(getattr(limits, name)) for name in LIMITS)]


LIMITS_NOTE = (
    "Pass them to to_tpu_embedding_v2 as max_ids_per_table and max_unique_ids_per_table; "
    f"TPUEmbeddingV2 takes {DEFAULT_LIMIT} for a table that isn't named. A stack of tables needs "
    "the sum of theirs at most."
)


def format_plan(
    estimate: Estimate,
    balances: Sequence[Balance],
    limits: Sequence[SparseCoreLimits],
    problems: Sequence[Problem],
) -> str:
    """Returns the text of a plan; see `Plan` for the arguments."""
    parts = [
        f"{summary_text(estimate, problems)}\n{system_text(estimate.system)}",
        format_table(TABLE_HEADER, [table_row(table) for table in estimate.tables]),
        "\n".join(reason_lines(estimate.tables)),
        format_table(MEMORY_HEADER, [memory_row(use) for use in estimate.uses]),
    ]
    if balances:
        header = balance_header(balances[0].lookups is not None)
        parts.append(format_table(header, balance_rows(balances)))
    if limits:
        rows = [limits_row(found) for found in limits]
        parts.append(f"{format_table(LIMITS_HEADER, rows)}\n{LIMITS_NOTE}")
    parts += [f"{'PROBLEM' if problem.is_error else 'warning'}, {problem}" for problem in problems]
    return "\n\n".join(parts)


def _optimizer(table: Table) -> str:
    by_model = table.training.device not in (None, LookupDevice.TPU_EMBEDDING_CORE)
    return table.optimizer or ("the model's" if by_model else "none")


def _device(lookup: Lookup) -> str:
    return "forbidden" if lookup.device is None else lookup.device.value
