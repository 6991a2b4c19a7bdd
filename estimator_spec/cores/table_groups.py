# SPDX-License-Identifier: Apache-2.0
"""Decides which tables of the host's embedding core are stacked: share one variable and its ops.

A table costs about fifty ops a step, which take longer than the work on a few hundred ids. Tables
of a stack share these ops, but a stack's ops run one after the other: so there are several stacks,
and tables with many ids a step stay alone. The rule counts tables, bytes and ids; it never measures
time, so that two runs of a program have the same ops.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from tpu_columns import storage

VECTOR = 8
"""Stacked tables have a multiple of this width: the CPU computes so many elements at once, and the
elements that are left at the end by other instructions, whose roots differ in the last bit."""
MAX_TABLES = 32
"""Most tables of a stack: with more, its `Unique` and sums take longer than the ops saved."""
MIN_TABLES = 64
"""Fewest tables of one kind that are stacked: with fewer, the ops saved don't make up for stacks
that wait for all their ids, and the first step is hardly shorter."""
MIN_STACKS = 8
"""Fewest stacks of the tables of one kind, so that several run at the same time."""
MAX_IDS = 1 << 13
"""Most ids a step of a table in a stack: with more, the work on them outweighs the ops."""
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
        num_ids: ids that a step looks up, at most; None: unknown.
    """

    key: str
    kind: Hashable
    width: int
    num_rows: int
    num_ids: int | None

    @property
    def num_bytes(self) -> int:
        """Size of the table without slots."""
        return storage.table_bytes(self.num_rows, self.width)

    @property
    def can_stack(self) -> bool:
        """Whether the table alone is within the limits."""
        return (
            self.width % VECTOR == 0
            and self.num_bytes <= MAX_TABLE_BYTES
            and (self.num_ids or 0) <= MAX_IDS
        )


def stacks(candidates: Sequence[Candidate]) -> list[list[str]]:
    """Returns the keys of each stack's tables; tables in none stay alone.

    >>> tables = [Candidate(f"table_{i}", "sgd", 16, 100, 512) for i in range(100)]
    >>> [len(keys) for keys in stacks(tables)]
    [12, 13, 12, 13, 12, 13, 12, 13]
    >>> stacks(tables[:MIN_TABLES - 1])
    []

    Args:
        candidates: the tables, in the order in which they are stacked.
    """
    by_kind: dict[Hashable, list[Candidate]] = {}
    for candidate in candidates:
        if candidate.can_stack:
            by_kind.setdefault((candidate.width, candidate.kind), []).append(candidate)
    found = [
        part for tables in by_kind.values() if len(tables) >= MIN_TABLES for part in _cut(tables)
    ]
    return [[candidate.key for candidate in part] for part in found if len(part) > 1]


def _cut(tables: list[Candidate]) -> list[list[Candidate]]:
    """Cuts the tables of one kind into stacks of almost equal numbers of tables."""
    count = max(MIN_STACKS, -(-len(tables) // MAX_TABLES))
    ends = [len(tables) * place // count for place in range(count + 1)]
    parts: list[list[Candidate]] = []
    for begin, end in itertools.pairwise(ends):
        parts.append([])
        num_bytes = 0
        for table in tables[begin:end]:
            num_bytes += table.num_bytes
            if num_bytes > MAX_STACK_BYTES:
                parts.append([])
                num_bytes = table.num_bytes
            parts[-1].append(table)
    return parts
