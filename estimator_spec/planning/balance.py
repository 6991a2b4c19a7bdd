# SPDX-License-Identifier: Apache-2.0
"""Computes how evenly rows and lookups are distributed over shards, under div and mod."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from estimator_spec.planning.memory import Estimate
from estimator_spec.planning.samples import IdSample
from tpu_columns.partition import STRATEGIES, RowPartition


@dataclasses.dataclass(frozen=True)
class Balance:
    """Distribution of one table over the shards of a training by one strategy.

    An imbalance is the largest shard divided by the mean: 1 if all shards are equal, the number of
    shards if one of them has everything.

    Attributes:
        table: key of the table.
        strategy: 'div' or 'mod'.
        rows: rows of each shard.
        lookups: ids of the sample that each shard looks up; None without a sample.
    """

    table: str
    strategy: str
    rows: tuple[int, ...]
    lookups: tuple[int, ...] | None

    @property
    def row_imbalance(self) -> float:
        """Rows of the fullest shard over their mean."""
        return imbalance(self.rows)

    @property
    def lookup_imbalance(self) -> float | None:
        """Lookups of the busiest shard over their mean; None without lookups in a sample."""
        return imbalance(self.lookups) if self.lookups and any(self.lookups) else None

    @property
    def empty_shards(self) -> int:
        """Number of shards without a row."""
        return self.rows.count(0)


def imbalance(amounts: Iterable[int]) -> float:
    """Returns the largest amount over the mean; 1 if there is nothing to distribute.

    >>> imbalance([3, 1, 1, 1])
    2.0
    """
    values = np.asarray(list(amounts))
    return float(values.max() / values.mean()) if values.any() else 1.0


def measure_balance(estimate: Estimate, sample: IdSample | None) -> tuple[Balance, ...]:
    """Returns the balance of each sharded table, under div and under mod.

    Args:
        estimate: the tables on their system.
        sample: ids; None for rows only.
    """
    found = []
    for table in estimate.sharded_tables:
        for strategy in STRATEGIES:
            partition = estimate.partition(table, strategy)
            lookups = _count_lookups(partition, table.features, sample)
            found.append(Balance(table.key, strategy, partition.shard_sizes, lookups))
    return tuple(found)


def _count_lookups(
    partition: RowPartition, features: Sequence[str], sample: IdSample | None
) -> tuple[int, ...] | None:
    """Returns the number of ids that each shard looks up; ids outside of the table don't count."""
    if sample is None:
        return None
    ids = sample.ids_of(features)
    shards, _ = partition.locate(ids[(ids >= 0) & (ids < partition.num_rows)])
    return tuple(np.bincount(shards, minlength=partition.num_shards).tolist())


def total_lookups(balances: Iterable[Balance], strategy: str) -> tuple[int, ...]:
    """Returns the lookups of each shard in all tables; () without a sample.

    Args:
        balances: of any tables and strategies on the same shards.
        strategy: the strategy of interest.
    """
    counts = [b.lookups for b in balances if b.strategy == strategy and b.lookups is not None]
    return tuple(np.sum(counts, axis=0).tolist()) if counts else ()
