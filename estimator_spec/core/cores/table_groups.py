# SPDX-License-Identifier: Apache-2.0
"""Decides which tables of the host's embedding core are stacked: share a variable of each kind.

A variable, its slots, its initial values and its entries in a saver cost some fifty ops, and most
of the time of a first step with hundreds of tables. The rule counts tables and bytes; it never
measures time, so that two runs of a program have the same ops.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from tpu_columns import storage

MIN_TABLES = 16
"""Fewest tables of one kind that are stacked: with fewer, steps are hardly shorter."""
MAX_TABLE_BYTES = 1 << 26
"""Largest table in a stack: a stack exists twice for a moment when it is restored."""
MAX_STACK_BYTES = 1 << 28
"""Largest stack."""


class Candidate(NamedTuple):
    """A table that may be stacked.

    Attributes:
        key: the table's key.
        kind: what else tables of a stack have in common: optimizer, learning rate and layout.
        width: elements of a row.
        num_rows: rows.
    """

    key: str
    kind: Hashable
    width: int
    num_rows: int

    @property
    def num_bytes(self) -> int:
        """Size of the table without slots."""
        return storage.table_bytes(self.num_rows, self.width)


def stacks(candidates: Sequence[Candidate]) -> list[list[str]]:
    """Returns the keys of each stack's tables; tables in none stay alone.

    >>> tables = [Candidate(f"table_{i}", "sgd", 16, 100) for i in range(100)]
    >>> [len(keys) for keys in stacks(tables)]
    [100]
    >>> stacks(tables[:MIN_TABLES - 1])
    []

    Args:
        candidates: the tables, in the order in which they are stacked.
    """
    by_kind: dict[Hashable, list[Candidate]] = {}
    for candidate in candidates:
        if candidate.num_bytes <= MAX_TABLE_BYTES:
            by_kind.setdefault((candidate.width, candidate.kind), []).append(candidate)
    found = [
        part for tables in by_kind.values() if len(tables) >= MIN_TABLES for part in _cut(tables)
    ]
    return [[candidate.key for candidate in part] for part in found if len(part) > 1]


def _cut(tables: list[Candidate]) -> list[list[Candidate]]:
    """Cuts the tables of one kind into stacks that aren't too large."""
    parts: list[list[Candidate]] = [[]]
    num_bytes = 0
    for table in tables:
        num_bytes += table.num_bytes
        if num_bytes > MAX_STACK_BYTES:
            parts.append([])
            num_bytes = table.num_bytes
        parts[-1].append(table)
    return parts
