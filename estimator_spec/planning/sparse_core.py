# SPDX-License-Identifier: Apache-2.0
"""Estimates SparseCore's limits from a sample of ids.

Each SparseCore looks up its part of a batch, in which the ids of one step are grouped by the
SparseCore that holds their row: row r is on SparseCore r mod n, whatever the spec's strategy. Two
limits of a compiled program bound the size of a group, with and without repeated ids:
`max_ids_per_partition` and `max_unique_ids_per_partition`. An id that is repeated in one example
counts once in both: its factors are added. `SparseCoreEmbeddingConfig` takes them
as `max_ids_per_table` and `max_unique_ids_per_table`. Groups that are too large are processed in
several minibatches, or lose ids.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np

from estimator_spec.planning.samples import IdSample
from estimator_spec.planning.tables import Table

# What TPUEmbeddingV2 of TensorFlow 2.21 takes for both limits of a table that isn't named.
DEFAULT_LIMIT = 256

# The attributes of `SparseCoreLimits` that are numbers.
LIMITS = ("most_ids", "max_ids_per_partition", "most_unique_ids", "max_unique_ids_per_partition")

# Batches of a training vary more than those of a sample.
MARGIN = 1.2
_MULTIPLE = 8


@dataclasses.dataclass(frozen=True)
class SparseCoreLimits:
    """Limits of one table, if it isn't stacked with others.

    A stack of tables needs the sum of their limits at most.

    Attributes:
        table: key of the table.
        most_ids: ids of the largest group in the sample, one that an example repeats counted once.
        most_unique_ids: different ids of the group that has most of them.
    """

    table: str
    most_ids: int
    most_unique_ids: int

    @property
    def max_ids_per_partition(self) -> int:
        """A fifth more than the sample has, in multiples of 8."""
        return _with_margin(self.most_ids)

    @property
    def max_unique_ids_per_partition(self) -> int:
        """A fifth more than the sample has, in multiples of 8."""
        return _with_margin(self.most_unique_ids)


def estimate_limits(
    tables: Iterable[Table], sample: IdSample | None, num_sparse_cores: int
) -> tuple[SparseCoreLimits, ...]:
    """Returns the limits of each table; none without a sample.

    Args:
        tables: the tables of the embedding core.
        sample: ids of a few steps.
        num_sparse_cores: number of SparseCores of all hosts.
    """
    if sample is None:
        return ()
    return tuple(_limits(table, sample, num_sparse_cores) for table in tables)


def _limits(table: Table, sample: IdSample, num_sparse_cores: int) -> SparseCoreLimits:
    ids = unique = 0
    for batch in sample.batches:
        own = batch.ids_of(table.features, table.rows)
        if not own.ids.size:
            continue
        assert own.steps is not None
        # An id that is twice in an example (in a step of a sequence) is looked up once.
        found = np.unique(np.stack([own.examples, own.ids, own.steps], 1), axis=0)[:, :2]
        found[:, 0] = found[:, 0] * num_sparse_cores // batch.size
        ids = max(ids, _largest_group(found, num_sparse_cores))
        unique = max(unique, _largest_group(np.unique(found, axis=0), num_sparse_cores))
    return SparseCoreLimits(table.key, ids, unique)


def _largest_group(lookups: np.ndarray, cores: int) -> int:
    """Returns the largest number of ids that one SparseCore looks up on another.

    Args:
        lookups: SparseCore and id of each lookup, int64 [n, 2].
        cores: number of SparseCores.
    """
    groups = lookups[:, 0] * cores + lookups[:, 1] % cores
    return int(np.unique(groups, return_counts=True)[1].max())


def _with_margin(count: int) -> int:
    return -(-int(np.ceil(count * MARGIN)) // _MULTIPLE) * _MULTIPLE
