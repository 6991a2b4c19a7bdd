# SPDX-License-Identifier: Apache-2.0
"""Computes how the rows of a table are distributed over its shards; without TensorFlow.

Under both strategies each of the first `rows % shards` shards has one row more than the others:

    div   shards hold contiguous ranges, so the concatenated shards are in row order
    mod   row r is on shard r mod n, at local row r div n

    5 rows on 2 shards      shard 0       shard 1      concatenated
    div                     0, 1, 2       3, 4         0, 1, 2, 3, 4
    mod                     0, 2, 4       1, 3         0, 2, 4, 1, 3

A checkpoint holds the concatenated shards, so the rows of a mod run are permuted in it.
"""

from __future__ import annotations

import dataclasses
import operator
import re
from typing import NamedTuple

import numpy as np

from tpu_columns.checks import is_int

STRATEGIES = ("div", "mod")

# Each shard is a variable of a graph, or a slice in a checkpoint. TPU systems have 10,000 cores.
MAX_SHARDS = 1 << 16

_SHARD = re.compile(r"(.+)/part_(\d+)(?:/(.+))?")


class ShardName(NamedTuple):
    """Name of a shard of a partitioned variable, or of a shard's slot variable, in its parts.

    Attributes:
        variable: name of the partitioned variable.
        shard: number of the shard.
        slot: name of the slot variable of the shard; empty if it is the shard itself.
    """

    variable: str
    shard: int
    slot: str

    @property
    def whole(self) -> str:
        """Name of the partitioned variable or slot variable, under which a checkpoint has it."""
        return f"{self.variable}/{self.slot}" if self.slot else self.variable


def shard_name(name: str) -> ShardName | None:
    """Splits the name that TensorFlow gives to a shard; None for any other variable's name.

    >>> shard_name("dnn/kernel/part_1")
    ShardName(variable='dnn/kernel', shard=1, slot='')
    >>> shard_name("dnn/kernel/part_1/Adagrad").whole
    'dnn/kernel/Adagrad'
    """
    found = _SHARD.fullmatch(name)
    return ShardName(found[1], int(found[2]), found[3] or "") if found else None


def whole_name(name: str) -> str:
    """Returns the name under which a checkpoint has a variable, whether it is a shard or not."""
    found = shard_name(name)
    return found.whole if found else name


def unsharded_name(name: str) -> str:
    """Returns the name of a variable that isn't a slot, without that of its shard.

    Only the end of a name is that of a shard: a scope or a feature may be called `part_1`, too.

    >>> unsharded_name("dnn/kernel/part_1"), unsharded_name("tower/part_1/kernel")
    ('dnn/kernel', 'tower/part_1/kernel')
    """
    found = shard_name(name)
    return found.variable if found and not found.slot else name


def check_strategy(strategy: str) -> None:
    """Checks the name of a partition strategy.

    Raises:
        ValueError: it is neither 'div' nor 'mod'.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f'Invalid partition_strategy {strategy}. Must be one of "mod" or "div".')


@dataclasses.dataclass(frozen=True)
class RowPartition:
    """Layout of a table: how its rows are distributed over shards.

    Args:
        strategy: 'div' or 'mod'.
        num_rows: number of rows of the table, >= 0.
        num_shards: number of shards, from 1 to 65536; shards may be empty.

    Raises:
        ValueError: a value is out of range.
        TypeError: a number isn't an int.

    >>> layout = RowPartition("mod", num_rows=5, num_shards=2)
    >>> layout.shard_sizes
    (3, 2)
    >>> layout.locate([0, 1, 4])
    (array([0, 1, 0]), array([0, 0, 2]))
    >>> layout.permutation()
    array([0, 3, 1, 4, 2])
    """

    strategy: str
    num_rows: int
    num_shards: int = 1

    def __post_init__(self) -> None:
        check_strategy(self.strategy)
        for name, least in (("num_rows", 0), ("num_shards", 1)):
            value = getattr(self, name)
            if not is_int(value):
                raise TypeError(f"{name} must be an int, got {value!r}.")
            if value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}.")
            object.__setattr__(self, name, operator.index(value))
        if self.num_shards > MAX_SHARDS:
            raise ValueError(f"num_shards must be at most {MAX_SHARDS}, got {self.num_shards}.")

    @property
    def in_row_order(self) -> bool:
        """Whether the concatenated shards hold the rows in their order in the table."""
        return self.strategy == "div" or self.num_shards == 1 or self.num_rows <= self.num_shards

    @property
    def shard_sizes(self) -> tuple[int, ...]:
        """Number of rows of each shard; the same for both strategies."""
        least, extra = divmod(self.num_rows, self.num_shards)
        return (least + 1,) * extra + (least,) * (self.num_shards - extra)

    @property
    def shard_starts(self) -> tuple[int, ...]:
        """Position of the first row of each shard in the concatenated shards."""
        least, extra = divmod(self.num_rows, self.num_shards)
        return tuple(shard * least + min(shard, extra) for shard in range(self.num_shards))

    def locate(self, rows: object) -> tuple[np.ndarray, np.ndarray]:
        """Returns shard and local row of table rows.

        Args:
            rows: table rows (ids), an int or an array of ints, [...].

        Returns:
            Shards and local rows: int64, [...] each.

        Raises:
            ValueError: a row is outside of the table.
            TypeError: `rows` aren't integers.
        """
        ids = self._check_indices(rows, "row")
        if self.strategy == "mod":
            return ids % self.num_shards, ids // self.num_shards
        least, extra = divmod(self.num_rows, self.num_shards)
        # With fewer rows than shards (least == 0) all rows are on the first `extra` shards.
        longer = ids // (least + 1)
        shards = np.where(longer < extra, longer, (ids - extra) // max(least, 1))
        return shards, ids - (shards * least + np.minimum(shards, extra))

    def rows_of(self, shard: int) -> range:
        """Returns the table rows of a shard, by local row.

        >>> RowPartition("mod", 5, 2).rows_of(1), RowPartition("div", 5, 2).rows_of(1)
        (range(1, 5, 2), range(3, 5))

        Raises:
            ValueError: the shard doesn't exist.
        """
        if not 0 <= shard < self.num_shards:
            raise ValueError(f"Shard {shard} is not in [0, {self.num_shards}).")
        if self.strategy == "mod":
            return range(shard, max(self.num_rows, shard), self.num_shards)
        start = self.shard_starts[shard]
        return range(start, start + self.shard_sizes[shard])

    def positions(self, rows: object) -> np.ndarray:
        """Returns the positions of table rows in the concatenated shards.

        Args:
            rows: as in `locate`, [...].

        Returns:
            int64, [...].
        """
        shards, local = self.locate(rows)
        least, extra = divmod(self.num_rows, self.num_shards)
        return shards * least + np.minimum(shards, extra) + local

    def rows_at(self, positions: object) -> np.ndarray:
        """Returns the table rows at positions in the concatenated shards; inverts `positions`.

        Args:
            positions: ints, [...].

        Returns:
            int64, [...].
        """
        checked = self._check_indices(positions, "position")
        if self.strategy == "div":
            return checked
        shards, local = dataclasses.replace(self, strategy="div").locate(checked)
        return local * self.num_shards + shards

    def permutation(self) -> np.ndarray:
        """Returns the position of every table row: int64, [num_rows]."""
        return self.positions(np.arange(self.num_rows))

    def inverse_permutation(self) -> np.ndarray:
        """Returns the table row at every position: int64, [num_rows].

        `table = concatenated[layout.permutation()]` undoes
        `concatenated = table[layout.inverse_permutation()]`.
        """
        return self.rows_at(np.arange(self.num_rows))

    def _check_indices(self, values: object, what: str) -> np.ndarray:
        """Returns values as int64, checked to be in [0, num_rows)."""
        array = np.asarray(values)
        if array.size == 0:
            return array.astype(np.int64)
        if not np.issubdtype(array.dtype, np.integer):
            raise TypeError(f"A {what} must be an integer, got {array.dtype}.")
        outside = (array < 0) | (array >= self.num_rows)
        if outside.any():
            first = array[outside].flat[0]
            raise ValueError(f"A {what} of {first} is not in [0, {self.num_rows}).")
        return array.astype(np.int64)
