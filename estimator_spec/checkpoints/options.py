# SPDX-License-Identifier: Apache-2.0
"""Validates the options of `convert` as far as possible without a checkpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any

from estimator_spec.checkpoints.objects import ObjectCheckpoint
from estimator_spec.checkpoints.renaming import Rename
from estimator_spec.core.checkpoints import slots
from tpu_columns.checks import is_int
from tpu_columns.partition import RowPartition, check_strategy


@dataclasses.dataclass(frozen=True)
class ConversionOptions:
    """Validated options of `convert`, which documents those that aren't listed here.

    Attributes:
        objects: TF2 objects to write the tables for, in place of variables of a graph.
    """

    rename: Rename = None
    strategy: str | None = None
    shards: int | None = None
    slots: str | None = None
    grow: Mapping[str, int] | None = None
    vocabulary: Mapping[str, Any] | None = None
    initializers: Mapping[str, Callable[..., Any]] | None = None
    drop: Collection[str] = ()
    seed: int = 0
    objects: ObjectCheckpoint | None = None

    def __post_init__(self) -> None:
        if self.strategy is not None:
            check_strategy(self.strategy)
        if self.shards is not None:
            RowPartition("div", 0, self.shards)
        for table, rows in (self.grow or {}).items():
            if not is_int(rows):
                raise ValueError(
                    f"grow: the number of rows of {table!r} must be an int, got {rows!r}."
                )
        if self.slots not in (None, slots.TPU, slots.CPU):
            raise ValueError(f"slots must be 'tpu', 'cpu' or None, got {self.slots!r}.")
        if self.objects is not None:
            self._check_objects()

    def _check_objects(self) -> None:
        """Refuses options that contradict the fixed names and layout of TF2 objects."""
        if self.rename:
            raise ValueError("objects name their variables themselves: leave `rename` out.")
        if self.strategy == "mod" or (self.shards or 1) != 1:
            raise ValueError(
                "objects hold whole tables in row order: leave strategy and shards out."
            )
        if self.slots == slots.CPU:
            raise ValueError("objects have the slots of an embedding core: slots can't be 'cpu'.")
